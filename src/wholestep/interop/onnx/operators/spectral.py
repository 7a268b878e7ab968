"""Fourier transforms of ONNX; complex numbers are a last axis of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axis_within, integer, within_limits


def as_complex(x: Any) -> Any:
    """A last axis of one real number, or of two parts, as complex numbers."""
    if x.shape[-1] not in (1, 2):
        raise ModelError(f"the last axis has {x.shape[-1]} parts, and a number has one or two")
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def as_parts(x: Any, dtype: Any) -> Any:
    """Complex numbers as a last axis of two parts."""
    return wnp.stack([wnp.real(x), wnp.imag(x)], axis=-1).astype(dtype, copy=False)


def dft(node: OnnxNode, x: Any, length: Any = None, axis: Any = None) -> Any:
    """The discrete Fourier transform of an axis, or its inverse; `onesided` keeps one of each pair of conjugates."""
    along = integer(axis, "the axis") if axis is not None else node.get("axis", 1 if node.opset < 20 else -2)
    place = axis_within(along, x.ndim)
    size = None if length is None else within_limits([integer(length, "the length")])[0]
    numbers, onesided = as_complex(x), node.get("onesided", 0)
    if node.get("inverse", 0):
        if onesided:
            count = 2 * (numbers.shape[place] - 1) if size is None else size
            return wnp.fft.irfft(numbers, n=count, axis=place).astype(x.dtype, copy=False)[..., None]
        return as_parts(wnp.fft.ifft(numbers, n=size, axis=place), x.dtype)
    made = wnp.fft.fft(numbers, n=size, axis=place)
    if onesided:
        made = made[(*[slice(None)] * place, slice(0, made.shape[place] // 2 + 1))]
    return as_parts(made, x.dtype)


def stft(node: OnnxNode, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """Fourier transforms of frames at a distance of a number of steps: [batch, frames, frequencies, 2]."""
    by = integer(step, "the step")
    if length is None:
        size = x.shape[1] if window is None else window.shape[0]
    else:
        size = integer(length, "the length")
    count = (x.shape[1] - size) // by + 1 if by > 0 else 0
    if count < 1 or size < 1:
        raise ModelError(f"frames of {size} of a signal of {x.shape[1]} by {by}")
    index = np.arange(count)[:, None] * by + np.arange(size)
    frames = as_complex(x)[:, index]
    made = wnp.fft.fft(frames if window is None else frames * window, axis=-1)
    return as_parts(made[..., : size // 2 + 1] if node.get("onesided", 1) else made, x.dtype)


TABLE: Mapping[str, Handler] = {"DFT": dft, "STFT": stft}
