"""numpy.fft: transforms of one axis or several, cropped or padded, normalised as asked."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.fft import fftfreq as fftfreq, rfftfreq as rfftfreq

from wholestep.dims import Dim
from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, bound
from wholestep.frontend.promotion import cast_to, lift, wrap
from wholestep.ir.graph import Value
from wholestep.numpy.movement import axis_of, normalized_axes
from wholestep.primitives import fft as primitives
from wholestep.primitives.arithmetic import conj, imag, make_complex, real
from wholestep.primitives.movement import concat, flip, pad, slice_, slice_along

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@lru_cache(maxsize=64)
def dtype_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype that NumPy transforms a dtype in."""
    return np.fft.fft(np.zeros(1, dtype)).dtype


def complex_value(x: Array) -> Value:
    """An operand as the complex numbers that are transformed."""
    return cast_to(x.value, dtype_of(x.dtype))


def real_value(name: str, x: Array) -> Value:
    """A real operand in the precision of the transform."""
    if x.dtype.kind == "c":
        raise TypeError(f"{name}: takes real numbers, not {x.type}")
    return cast_to(x.value, np.zeros(0, dtype_of(x.dtype)).real.dtype)


def checked_length(n: Any, size: Any) -> Any:
    """The number of points; raises ValueError where it is below 1, TypeError for a value that is no integer."""
    n = size if n is None else n if isinstance(n, Dim) else operator.index(n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def resize_axis(v: Value, axis: int, n: Any) -> Value:
    """An axis cropped, or padded with zeros at its end, to a size."""
    size = v.shape[axis]
    if n < size:
        stop = tuple([n if i == axis else m for i, m in enumerate(v.shape)])
        v = slice_(v, start=(0,) * v.ndim, stop=stop, step=(1,) * v.ndim)
    elif n > size:
        nothing = (0,) * v.ndim
        after = tuple([n - size if i == axis else 0 for i in range(v.ndim)])
        v = pad(v, before=nothing, after=after, interior=nothing)
    return v


def normalised(v: Value, norm: Any, n: Any, inverse: bool) -> Value:
    """A transform of n points, which comes without a factor, times the factor that `norm` asks for."""
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        return scale_value(v, 1 / math.sqrt(n))
    return scale_value(v, 1 / n) if (norm == "forward") is not inverse else v


def scale_value(v: Value, factor: float) -> Value:
    """A value times a real number, part by part."""
    if v.dtype.kind != "c":
        return v * factor
    made: Value = make_complex(real(v) * factor, imag(v) * factor)
    return made


def real_fft(v: Value, axes: tuple[int, ...], inverse: bool) -> Value:
    """The complex transform of real numbers: half of its terms, and the others, which are their conjugates."""
    *others, last = axes
    n = v.shape[last]
    half = primitives.rfft(v, axis=last)
    if others:
        half = primitives.fft(half, axes=tuple(others), inverse=False)
    rest = flip(slice_along(half, last, 1, (n + 1) // 2), axes=(last,))
    for axis in others:
        first, more = slice_along(rest, axis, 0, 1), slice_along(rest, axis, 1, rest.shape[axis])
        rest = concat(first, flip(more, axes=(axis,)), axis=axis)
    whole: Value = concat(half, conj(rest), axis=last)
    return conj(whole) if inverse else whole


def transformed(x: Array, sizes: Sequence[Any], axes: Sequence[int], norm: Any, inverse: bool) -> Array:
    """The complex transform along axes; that of real numbers has half of the work."""
    lengths = [checked_length(n, n) for n in sizes]
    if x.dtype.kind == "c" or len(set(axes)) < len(axes) or not all(isinstance(n, int) for n in (*lengths, *x.shape)):
        return wrap(fft_over_axes(complex_value(x), sizes, axes, norm, inverse))
    v = real_value("fft", x)
    for n, axis in zip(lengths, axes, strict=True):
        v = resize_axis(v, axis, n)
    return wrap(normalised(real_fft(v, tuple(axes), inverse), norm, math.prod(lengths), inverse))


def along_one_axis(name: str, inverse: bool, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """The complex transform along one axis."""
    x = lift(a)
    place = axis_of(name, axis, x.ndim)
    return transformed(x, [x.shape[place] if n is None else n], [place], norm, inverse)


fft = bound(np.fft.fft, "", along_one_axis, "fft", False, casting="exact")
ifft = bound(np.fft.ifft, "", along_one_axis, "ifft", True, casting="exact")


@binds(np.fft.rfft, casting="exact")
def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """numpy.fft.rfft."""
    x = lift(a)
    place = axis_of("rfft", axis, x.ndim)
    n = checked_length(n, x.shape[place])
    v = primitives.rfft(resize_axis(real_value("rfft", x), place, n), axis=place)
    return wrap(normalised(v, norm, n, False))


@binds(np.fft.irfft, casting="exact")
def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """numpy.fft.irfft."""
    x = lift(a)
    place = axis_of("irfft", axis, x.ndim)
    n = checked_length(n, (x.shape[place] - 1) * 2)
    v = primitives.irfft(resize_axis(complex_value(x), place, n // 2 + 1), axis=place, n=n)
    made = normalised(v, norm, n, True)
    return wrap(cast_to(made, x.dtype) if x.dtype == np.float16 else made)


@binds(np.fft.hfft, casting="exact")
def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """numpy.fft.hfft."""
    x = lift(a)
    return irfft(x if x.dtype.kind != "c" else wrap(conj(x.value)), n, axis, _SWAPPED.get(norm, norm))


@binds(np.fft.ihfft, casting="exact")
def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
    """numpy.fft.ihfft."""
    return wrap(conj(rfft(a, n, axis, _SWAPPED.get(norm, norm)).value))


def sizes_and_axes(name: str, x: Array, s: Any, axes: Any, real_inverse: bool = False) -> tuple[list[Any], list[int]]:
    """The number of points along each axis to transform, and the axes, which may repeat."""
    if axes is None:
        places = list(range(x.ndim)) if s is None else list(range(x.ndim - len(s), x.ndim))
    else:
        places = [axis_of(name, a, x.ndim) for a in axes]
    sizes = [x.shape[p] for p in places] if s is None else list(s)
    if len(sizes) != len(places):
        raise ShapeError(f"{name}: {len(sizes)} sizes for {len(places)} axes of {x.type}")
    sizes = [x.shape[p] if n is None or n == -1 else n for n, p in zip(sizes, places, strict=True)]
    if real_inverse and s is None:
        sizes[-1] = (x.shape[places[-1]] - 1) * 2
    return sizes, places


def fft_over_axes(v: Value, sizes: Sequence[Any], axes: Sequence[int], norm: Any, inverse: bool) -> Value:
    """The complex transform along several axes, the last one first where one is repeated."""
    if len(set(axes)) < len(axes):
        for n, axis in zip(reversed(sizes), reversed(axes), strict=True):
            v = fft_over_axes(v, [n], [axis], norm, inverse)
        return v
    for n, axis in zip(sizes, axes, strict=True):
        v = resize_axis(v, axis, checked_length(n, n))
    if axes:
        v = primitives.fft(v, axes=tuple(axes), inverse=inverse)
    return normalised(v, norm, math.prod(sizes), inverse)


def along_axes(name: str, inverse: bool, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """The complex transform along several axes; along none it is the operand itself, as in NumPy."""
    x = lift(a)
    sizes, places = sizes_and_axes(name, x, s, axes)
    if not places:
        return x
    return transformed(x, sizes, places, norm, inverse)


fftn = bound(np.fft.fftn, "", along_axes, "fftn", False, casting="exact")
ifftn = bound(np.fft.ifftn, "", along_axes, "ifftn", True, casting="exact")


@binds(np.fft.rfftn, casting="exact")
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """numpy.fft.rfftn: real along the last axis."""
    x = lift(a)
    sizes, places = sizes_and_axes("rfftn", x, s, axes)
    v = rfft(x, sizes[-1], places[-1], norm).value
    return wrap(fft_over_axes(v, sizes[:-1], places[:-1], norm, inverse=False))


@binds(np.fft.irfftn, casting="exact")
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Any:
    """numpy.fft.irfftn: real along the last axis."""
    x = lift(a)
    sizes, places = sizes_and_axes("irfftn", x, s, axes, real_inverse=True)
    if len(places) > 1:
        x = wrap(fft_over_axes(complex_value(x), sizes[:-1], places[:-1], norm, inverse=True))
    return irfft(x, sizes[-1], places[-1], norm)


def along_two(along: Any, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """A transform along the last two axes."""
    return along(a, s, axes, norm)


fft2 = bound(np.fft.fft2, "", along_two, fftn, casting="exact")
ifft2 = bound(np.fft.ifft2, "", along_two, ifftn, casting="exact")
rfft2 = bound(np.fft.rfft2, "", along_two, rfftn, casting="exact")
irfft2 = bound(np.fft.irfft2, "", along_two, irfftn, casting="exact")


def roll_by_half(name: str, sign: int, x: Any, axes: Any = None) -> Any:
    """An array rolled along axes by half of their sizes."""
    x = lift(x)
    places = normalized_axes(name, tuple(axes) if isinstance(axes, list) else axes, x.ndim)
    return np.roll(x, tuple([sign * (int(x.shape[i]) // 2) for i in places]), places)


fftshift = bound(np.fft.fftshift, "", roll_by_half, "fftshift", 1)
ifftshift = bound(np.fft.ifftshift, "", roll_by_half, "ifftshift", -1)


globals().update(__all__=[name for name in np.fft.__all__ if name in globals()])
