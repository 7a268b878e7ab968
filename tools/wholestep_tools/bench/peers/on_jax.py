"""The operations of models of real size in JAX, with the channels of images last, as XLA runs them fastest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jax import lax

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.real.operations import LAST

NORMALIZED = (0, 1, 2)
"""The axes over which a channel of images is normalized."""


class JaxOperations:
    """Operations over arrays of JAX."""

    image = LAST
    relu = staticmethod(jax.nn.relu)
    tanh = staticmethod(jnp.tanh)
    sigmoid = staticmethod(jax.nn.sigmoid)
    exp = staticmethod(jnp.exp)
    log = staticmethod(jnp.log)
    concatenate = staticmethod(jnp.concatenate)
    broadcast_to = staticmethod(jnp.broadcast_to)
    mean = staticmethod(jnp.mean)
    cholesky = staticmethod(jnp.linalg.cholesky)
    diagonal = staticmethod(jnp.diagonal)

    def prepared(self, params: Arrays, batch: Arrays) -> tuple[Any, Any]:
        kernels = {name: x.transpose(2, 3, 1, 0) if x.ndim == 4 else x for name, x in params.items()}
        images = {name: x.transpose(0, 2, 3, 1) if x.ndim == 4 else x for name, x in batch.items()}
        return kernels, images

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=True)

    def layer_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        return normalized(x, (-1,)) * gain + bias

    def batch_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        return normalized(x, NORMALIZED) * gain + bias

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = jnp.matmul(q, k.swapaxes(-1, -2)) * q.shape[-1] ** -0.5
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
        return jnp.matmul(jax.nn.softmax(scores, -1), v)

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        found = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1)
        return -jnp.mean(found)

    def conv2d(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        strides, around = (stride, stride), [(padding, padding)] * 2
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, kernel, strides, around, dimension_numbers=layout, feature_group_count=groups
        )

    def causal_conv1d(self, x: Any, kernel: Any, dilation: int) -> Any:
        past, layout = (kernel.shape[-1] - 1) * dilation, ("NCH", "OIH", "NCH")
        return lax.conv_general_dilated(
            x, kernel, (1,), [(past, 0)], rhs_dilation=(dilation,), dimension_numbers=layout
        )

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        return lax.reduce_window(x, -np.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), around)

    def upsample2d(self, x: Any) -> Any:
        return x.repeat(2, 1).repeat(2, 2)

    def embedding(self, table: Any, ids: Any) -> Any:
        return table[ids]

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def lstm(self, x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(z + h @ wh, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((len(x), x.shape[-1]), jnp.float32)
        _, hidden = lax.scan(step, (start, start), (x @ wx + bias).transpose(1, 0, 2))
        return hidden.transpose(1, 0, 2)

    def solve_lower(self, lower: Any, y: Any) -> Any:
        return jax.scipy.linalg.solve_triangular(lower, y, lower=True)


def normalized(x: Any, axes: tuple[int, ...]) -> Any:
    """Zero mean and unit variance over axes."""
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)
