"""scipy.signal: convolution and correlation in any number of dimensions, recursive filters, and spectra."""

from __future__ import annotations

import math
from typing import Any

import scipy.fft
import scipy.signal

from wholestep import dtypes
from wholestep.errors import ShapeError
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import inexact_array, lift, promoted, wrap
from wholestep.ir.graph import Value
from wholestep.numpy.contractions import products_summed
from wholestep.primitives.contraction import LETTERS, window
from wholestep.primitives.movement import flip, pad
from wholestep.scipy.outside import fallback, np
from wholestep.scipy.rank_filters import medfilt as medfilt, medfilt2d as medfilt2d
from wholestep.scipy.recursive_filters import (
    filtfilt as filtfilt,
    freqz as freqz,
    freqz_sos as freqz_sos,
    lfilter as lfilter,
    lfilter_zi as lfilter_zi,
    sosfilt as sosfilt,
    sosfiltfilt as sosfiltfilt,
)
from wholestep.scipy.smoothing import hilbert as hilbert, savgol_filter as savgol_filter
from wholestep.scipy.spectra import (
    coherence as coherence,
    csd as csd,
    detrend as detrend,
    istft as istft,
    periodogram as periodogram,
    spectrogram as spectrogram,
    stft as stft,
    welch as welch,
)

outside: Any = scipy.signal


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


def signals(name: str, in1: Any, in2: Any) -> tuple[Value, Value]:
    """Two operands of one dtype and rank."""
    x, y = promoted(lift(in1), lift(in2))
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: ranks differ: {x.type} and {y.type}")
    return x, y


def valid_order(name: str, x: Value, y: Value) -> tuple[Value, Value]:
    """The larger operand first; one must be at least as large along every axis."""
    if all(m >= n for m, n in zip(x.shape, y.shape, strict=True)):
        return x, y
    if all(m <= n for m, n in zip(x.shape, y.shape, strict=True)):
        return y, x
    raise ShapeError(f"{name}: for 'valid' one operand must be as large as the other everywhere: {x.type} and {y.type}")


def centred(made: Any, shape: Any) -> Any:
    """The middle of a full convolution."""
    starts = [(n - m) // 2 for n, m in zip(made.shape, shape, strict=True)]
    return made[tuple([slice(s, s + m) for s, m in zip(starts, shape, strict=True)])]


def direct(name: str, x: Value, y: Value, mode: str) -> Any:
    """A convolution as windows times the reversed second operand."""
    if x.ndim == 0:
        return wrap(x * y)
    if mode == "valid":
        x, y = valid_order(name, x, y)
    elif mode not in ("full", "same"):
        raise ValueError(f"acceptable mode flags are 'valid', 'same', or 'full', not {mode!r}")
    shape = x.shape
    if 0 in x.shape or 0 in y.shape:
        return np.empty(0, x.dtype)
    if mode != "valid":
        more = tuple([n - 1 for n in y.shape])
        x = pad(x, before=more, after=more, interior=(0,) * x.ndim)
    ones = (1,) * x.ndim
    seen = window(x, size=y.shape, stride=ones, dilation=ones)
    places, inner = LETTERS[: x.ndim], LETTERS[x.ndim : 2 * x.ndim]
    turned = flip(y, axes=tuple(range(y.ndim)))
    made: Any = wrap(products_summed(seen, turned, spec=f"{places}{inner},{inner}->{places}"))
    return centred(made, shape) if mode == "same" else made


@covers(outside.convolve)
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """scipy.signal.convolve."""
    x, y = signals("convolve", in1, in2)
    if method == "fft" or (method == "auto" and dtypes.is_inexact(x.dtype) and quicker_by_fft(x, y)):
        return fftconvolve(wrap(x), wrap(y), mode)
    return direct("convolve", x, y, mode)


def quicker_by_fft(x: Value, y: Value) -> bool:
    """Test whether the smaller operand is so large that transforms cost less than products."""
    return int(min(math.prod(x.shape), math.prod(y.shape))) > 256


@covers(outside.correlate)
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """scipy.signal.correlate: the second operand is conjugated."""
    x, y = signals("correlate", in1, in2)
    return convolve(wrap(x), np.conjugate(np.flip(wrap(y))) if y.ndim else np.conjugate(wrap(y)), mode, method)


@covers(outside.fftconvolve)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """scipy.signal.fftconvolve; along the other axes sizes are equal or 1."""
    x, y = [inexact_array(wrap(v)).value for v in signals("fftconvolve", in1, in2)]
    if x.ndim == 0:
        return wrap(x * y)
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in np.atleast_1d(axes)]
    if mode == "valid":
        x, y = valid_order("fftconvolve", x, y)
    both = zip(x.shape, y.shape, strict=True)
    shape = [m + n - 1 if i in along else max(m, n) for i, (m, n) in enumerate(both)]
    if 0 in x.shape or 0 in y.shape:
        return np.empty(0, x.dtype)
    sizes = [scipy.fft.next_fast_len(int(shape[i]), x.dtype.kind != "c") for i in along]
    forward, back = (np.fft.fftn, np.fft.ifftn) if x.dtype.kind == "c" else (np.fft.rfftn, np.fft.irfftn)
    made = back(forward(wrap(x), sizes, along) * forward(wrap(y), sizes, along), sizes, along)
    made = made[tuple([slice(0, n) for n in shape])]
    if mode == "same":
        return centred(made, [m if i in along else n for i, (m, n) in enumerate(zip(x.shape, shape, strict=True))])
    if mode == "valid":
        pairs = zip(x.shape, y.shape, shape, strict=True)
        return centred(made, [m - n + 1 if i in along else k for i, (m, n, k) in enumerate(pairs)])
    if mode != "full":
        raise ValueError(f"acceptable mode flags are 'valid', 'same', or 'full', not {mode!r}")
    return made


BOUNDARIES = {
    **dict.fromkeys(("fill", "pad"), "constant"),
    **dict.fromkeys(("wrap", "circular"), "wrap"),
    **dict.fromkeys(("symm", "symmetric"), "symmetric"),
}
"""The names of an extension beyond the edges of a plane -> the mode of `numpy.pad` that computes it."""


def planes(name: str, in1: Any, in2: Any) -> tuple[Any, Any]:
    """Two matrices of one dtype."""
    x, y = signals(name, in1, in2)
    if x.ndim != 2:
        raise ShapeError(f"{name}: takes two matrices: {x.type} and {y.type}")
    return wrap(x), wrap(y)


def over_plane(x: Any, kernel: Any, mode: str, boundary: str, fillvalue: Any, starts: Any) -> Any:
    """A convolution of a matrix that goes on beyond its edges; `same` begins at `starts` of the whole."""
    if boundary not in BOUNDARIES:
        raise ValueError(
            f"acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric', not {boundary!r}"
        )
    if mode == "valid":
        return convolve(x, kernel, "valid")
    if mode not in ("full", "same"):
        raise ValueError(f"acceptable mode flags are 'valid', 'same', or 'full', not {mode!r}")
    filled = {"constant_values": fillvalue} if BOUNDARIES[boundary] == "constant" else {}
    wide = np.pad(x, [(n - 1, n - 1) for n in kernel.shape], BOUNDARIES[boundary], **filled)
    made = convolve(wide, kernel, "valid")
    return made[tuple([slice(s, s + n) for s, n in zip(starts, x.shape, strict=True)])] if mode == "same" else made


@covers(outside.convolve2d)
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """scipy.signal.convolve2d."""
    x, kernel = planes("convolve2d", in1, in2)
    return over_plane(x, kernel, mode, boundary, fillvalue, [(n - 1) // 2 for n in kernel.shape])


@covers(outside.correlate2d)
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """scipy.signal.correlate2d: the second operand is conjugated."""
    x, kernel = planes("correlate2d", in1, in2)
    turned = np.conjugate(kernel[::-1, ::-1])
    return over_plane(x, turned, mode, boundary, fillvalue, [n // 2 for n in kernel.shape])
