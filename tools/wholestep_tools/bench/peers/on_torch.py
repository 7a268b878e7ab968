"""The operations of models of real size in PyTorch: its fused functions, with images stored channels last."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.real.operations import FIRST


class TorchOperations:
    """Operations over tensors."""

    image = FIRST
    relu = staticmethod(torch.relu)
    tanh = staticmethod(torch.tanh)
    sigmoid = staticmethod(torch.sigmoid)
    exp = staticmethod(torch.exp)
    log = staticmethod(torch.log)
    concatenate = staticmethod(torch.cat)
    broadcast_to = staticmethod(torch.broadcast_to)
    mean = staticmethod(torch.mean)
    cholesky = staticmethod(torch.linalg.cholesky)
    diagonal = staticmethod(torch.diagonal)

    def __init__(self, lazy: bool = False) -> None:
        self.lazy = lazy
        """True where gradients of tables are sparse."""

    def prepared(self, params: Arrays, batch: Arrays) -> tuple[Any, Any]:
        return tensors(params), tensors(batch)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x, approximate="tanh")

    def layer_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], gain, bias)

    def batch_norm(self, x: Any, gain: Any, bias: Any) -> Any:
        return F.batch_norm(x, None, None, gain, bias, training=True)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        return F.cross_entropy(scores.flatten(0, -2), labels.flatten())

    def conv2d(self, x: Any, kernel: Any, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        return F.conv2d(x, kernel, stride=stride, padding=padding, groups=groups)

    def causal_conv1d(self, x: Any, kernel: Any, dilation: int) -> Any:
        return F.conv1d(F.pad(x, ((kernel.shape[-1] - 1) * dilation, 0)), kernel, dilation=dilation)

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int = 0) -> Any:
        return F.max_pool2d(x, size, stride, padding)

    def upsample2d(self, x: Any) -> Any:
        return F.interpolate(x, scale_factor=2)

    def embedding(self, table: Any, ids: Any) -> Any:
        return F.embedding(ids, table, sparse=self.lazy)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.permute(axes)

    def lstm(self, x: Any, wx: Any, wh: Any, bias: Any) -> Any:
        start = x.new_zeros(1, len(x), x.shape[-1])
        weights = [wx.T.contiguous(), wh.T.contiguous(), bias, torch.zeros_like(bias)]
        return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]

    def solve_lower(self, lower: Any, y: Any) -> Any:
        return torch.linalg.solve_triangular(lower, y, upper=False)


def tensors(arrays: Arrays) -> dict[str, Any]:
    """Arrays as tensors: integers as int64, images and kernels with the channels last in memory, half as fast again."""
    found = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name, tensor in found.items():
        if not tensor.is_floating_point():
            found[name] = tensor.long()
        elif tensor.ndim == 4:
            found[name] = tensor.to(memory_format=torch.channels_last)
    return found
