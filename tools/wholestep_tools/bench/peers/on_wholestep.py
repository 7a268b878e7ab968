"""The operations of models of real size in Wholestep, as a user writes them: NumPy, and layers of `ws.nn`."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.scipy import linalg
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.real.operations import FIRST


class WholestepOperations:
    """Operations over plain arrays."""

    image = FIRST
    relu = staticmethod(nn.relu)
    tanh = staticmethod(np.tanh)
    sigmoid = staticmethod(nn.sigmoid)
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    layer_norm = staticmethod(nn.layer_norm)
    cross_entropy = staticmethod(nn.cross_entropy)
    max_pool2d = staticmethod(nn.max_pool2d)
    embedding = staticmethod(nn.embedding)
    concatenate = staticmethod(np.concatenate)
    broadcast_to = staticmethod(np.broadcast_to)
    cholesky = staticmethod(np.linalg.cholesky)
    diagonal = staticmethod(np.diagonal)

    def prepared(self, params: Arrays, batch: Arrays) -> tuple[Any, Any]:
        return params, batch

    def gelu(self, x: Any) -> Any:
        return nn.gelu(x, "tanh")

    def batch_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        return nn.batch_norm(x, gain, bias)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return nn.scaled_dot_product_attention(q, k, v, causal=causal)

    def conv2d(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return nn.conv2d(x, kernel, stride=stride, padding=padding, groups=groups)

    def causal_conv1d(self, x: Any, kernel: Any, dilation: int) -> Any:
        return nn.causal_conv1d(x, kernel, dilation=dilation)

    def upsample2d(self, x: Any) -> Any:
        return nn.upsample(x, 2)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def lstm(self, x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = np.split(z + h @ wh, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
            h = nn.sigmoid(o) * np.tanh(c)
            return (h, c), h

        n, _, width = x.shape
        start = np.zeros((n, width), np.float32)
        _, hidden = ws.scan(step, (start, start), (x @ wx + bias).transpose(1, 0, 2))
        return hidden.transpose(1, 0, 2)

    def solve_lower(self, lower: Any, y: Any) -> Any:
        return linalg.solve_triangular(lower, y, lower=True)
