"""scipy.signal: transforms of a signal's overlapping segments, their inverse, and the spectra that are their means.

Welch, "The use of fast Fourier transform for the estimation of power spectra", 1967; Griffin and Lim, "Signal
estimation from modified short-time Fourier transform", 1984.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import scipy.signal

from wholestep import dtypes
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import binds, bound, is_traced
from wholestep.frontend.promotion import lift, wrap
from wholestep.primitives.contraction import unwindow
from wholestep.scipy.outside import np

outside: Any = scipy.signal

USUAL = 256
"""The length of a segment where none is given."""


class Segments(NamedTuple):
    """The cutting of a signal into segments: their window, the steps from one to the next, the transform's length."""

    window: Any
    step: int
    nfft: int

    @property
    def length(self) -> int:
        """The elements of a segment."""
        return len(self.window)


def segments(name: str, n: int, window: Any, nperseg: Any, noverlap: Any, nfft: Any) -> Segments:
    """The segments of a signal of n elements; raises ParameterError for lengths that do not fit each other."""
    if n == 0:
        raise ShapeError(f"{name}: the signal has no elements along its axis")
    if is_traced(window):
        raise UnsupportedError(f"{name}: a traced window is not covered", hint="give a name, or an array of numbers")
    if isinstance(window, str | tuple):
        length = USUAL if nperseg is None else int(nperseg)
        if length < 1:
            raise ParameterError(f"{name}: nperseg={nperseg} is no length of segments")
        if length > n:
            warnings.warn(f"{name}: nperseg={length} is longer than the signal, and {n} is used", stacklevel=2)
            length = n
        found = outside.get_window(window, length)
    else:
        found = np.asarray(window)
        if found.ndim != 1 or nperseg not in (None, len(found)) or len(found) > n:
            raise ShapeError(f"{name}: a window {list(found.shape)} does not fit nperseg={nperseg} and {n} elements")
    length = len(found)
    size, overlap = length if nfft is None else int(nfft), length // 2 if noverlap is None else int(noverlap)
    if size < length or not 0 <= overlap < length:
        raise ParameterError(f"{name}: segments of {length} elements overlap by {overlap}, and nfft is {size}")
    return Segments(found, length - overlap, size)


def working(x: Any) -> Any:
    """A traced array of at least one axis, in the precision that SciPy transforms in."""
    value = lift(x)
    return value.astype(np.result_type(value.dtype, np.complex64) if dtypes.is_complex(value.dtype) else real_of(value))


def real_of(x: Any) -> Any:
    """The real dtype of the precision in which SciPy computes."""
    return dtypes.real_of(np.result_type(x.dtype, np.complex64))


def extended(name: str, x: Any, kind: Any, n: int) -> Any:
    """A signal with n elements more at both ends of its last axis."""
    if kind is None or n == 0:
        return x
    if kind == "zeros":
        return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)])
    if kind == "constant":
        ends = [np.repeat(x[..., at : at + 1 or None], n, axis=-1) for at in (0, -1)]
    elif kind in ("even", "odd"):
        if n > x.shape[-1] - 1:
            raise ShapeError(f"{name}: boundary={kind!r} needs more than {n} elements, and there are {x.shape[-1]}")
        ends = [x[..., n:0:-1], x[..., -2 : -n - 2 : -1]]
        if kind == "odd":
            ends = [2 * x[..., :1] - ends[0], 2 * x[..., -1:] - ends[1]]
    else:
        raise ParameterError(f"{name}: boundary={kind!r} is none of 'even', 'odd', 'constant', 'zeros' and None")
    return np.concatenate([ends[0], x, ends[1]], axis=-1)


def without_trend(name: str, x: Any, kind: Any) -> Any:
    """Rows less their mean, or less the straight line nearest to them."""
    if kind is False or kind is None:
        return x
    if callable(kind):
        return kind(x)
    if kind in ("constant", "c"):
        return x - np.mean(x, axis=-1, keepdims=True)
    if kind not in ("linear", "l"):
        raise ParameterError(f"{name}: {kind!r} is no trend; 'linear' and 'constant' are")
    n = x.shape[-1]
    along = (np.arange(n) - (n - 1) / 2).astype(dtypes.real_of(x.dtype))
    slope = np.sum(x * along, axis=-1, keepdims=True) / max(n * (n * n - 1) / 12, 1)
    return x - np.mean(x, axis=-1, keepdims=True) - slope * along


@binds(outside.detrend, "in one piece: `bp=0` alone", ignored="overwrite_data")
def detrend(data: Any, axis: Any = -1, type: Any = "linear", bp: Any = 0) -> Any:
    if np.any(np.asarray(bp) != 0):
        raise UnsupportedError("detrend: break points are not covered for traced arrays", hint="detrend each piece")
    x = lift(data)
    x = x if dtypes.is_inexact(x.dtype) else x.astype(np.float64)
    return np.moveaxis(without_trend("detrend", np.moveaxis(x, axis, -1), type), -1, axis)


def transformed(name: str, x: Any, cut: Segments, trend: Any, onesided: bool) -> Any:
    """The transform of each segment: [..., segments, frequencies]."""
    rows = np.lib.stride_tricks.sliding_window_view(x, cut.length, axis=-1)[..., :: cut.step, :]
    rows = without_trend(name, rows, trend) * cut.window.astype(x.dtype)
    return (np.fft.rfft if onesided else np.fft.fft)(rows, cut.nfft, axis=-1)


def padded_to_segments(x: Any, cut: Segments) -> Any:
    """A signal with zeros at its end, until its segments cover it."""
    more = (-(x.shape[-1] - cut.length) % cut.step) % cut.length
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])


def places(name: str, n: int, fs: Any, cut: Segments, onesided: bool, centred: bool) -> tuple[Any, Any]:
    """The frequencies of a transform, and the times of the middles of segments."""
    frequencies = (np.fft.rfftfreq if onesided else np.fft.fftfreq)(cut.nfft, 1 / fs)
    times = np.arange(cut.length / 2, n - cut.length / 2 + 1, cut.step) / float(fs)
    return frequencies, times - (cut.length / 2) / fs if centred else times


def scale_of(name: str, scaling: Any, known: dict[str, float]) -> float:
    """The factor of a scaling; raises ParameterError for one that is not known."""
    if scaling not in known:
        raise ParameterError(f"{name}: scaling={scaling!r} is none of {', '.join(map(repr, known))}")
    return float(known[scaling])


def frequencies_first(made: Any, axis: int) -> Any:
    """[..., segments, frequencies] with the frequencies where the signal's axis was, and segments last."""
    return np.moveaxis(made, -1, axis - 1 if axis < 0 else axis)


@binds(outside.stft, "the window a name or plain numbers")
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = USUAL,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: Any = True,
    boundary: Any = "zeros",
    padded: Any = True,
    axis: Any = -1,
    scaling: Any = "spectrum",
) -> Any:
    rows = np.moveaxis(working(x), axis, -1)
    cut = segments("stft", rows.shape[-1], window, nperseg, noverlap, nfft)
    onesided = bool(return_onesided) and not dtypes.is_complex(rows.dtype)
    total = {"spectrum": 1 / abs(cut.window.sum()), "psd": (fs * (cut.window**2).sum()) ** -0.5}
    rows = extended("stft", rows, boundary, cut.length // 2)
    rows = padded_to_segments(rows, cut) if padded else rows
    made = transformed("stft", rows, cut, detrend, onesided) * scale_of("stft", scaling, total)
    frequencies, times = places("stft", rows.shape[-1], fs, cut, onesided, boundary is not None)
    return frequencies, times, frequencies_first(made, axis)


@binds(outside.istft, "the window a name or plain numbers")
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: Any = True,
    boundary: Any = True,
    time_axis: Any = -1,
    freq_axis: Any = -2,
    scaling: Any = "spectrum",
) -> Any:
    z = lift(Zxx)
    if z.ndim < 2 or time_axis % z.ndim == freq_axis % z.ndim:
        raise ShapeError(f"istft: {z.type} has no axis of frequencies beside one of times")
    z = np.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    count, whole = z.shape[-2], 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = whole if nperseg is None else int(nperseg)
    odd = input_onesided and length == whole + 1
    size = (length if odd else whole) if nfft is None else nfft
    cut = segments("istft", length, window, length, noverlap, size)
    parts = (np.fft.irfft if input_onesided else np.fft.ifft)(z, cut.nfft, axis=-1)[..., :length]
    total = {"spectrum": cut.window.sum(), "psd": (fs * (cut.window**2).sum()) ** 0.5}
    parts = parts * (cut.window * scale_of("istft", scaling, total)).astype(parts.dtype)
    n = length + (count - 1) * cut.step
    x = wrap(unwindow(lift(parts).value, sizes=(n,), stride=(cut.step,), dilation=(1,)))
    weight = np.zeros(n)
    for k in range(count):
        weight[k * cut.step : k * cut.step + length] += cut.window**2
    kept = slice(length // 2, n - length // 2) if boundary else slice(0, n)
    x, weight = x[..., kept], weight[kept]
    if not np.all(weight > 1e-10):
        warnings.warn("istft: some places are in no segment, and stay 0", stacklevel=2)
    x = x / np.where(weight > 1e-10, weight, 1).astype(dtypes.real_of(x.dtype))
    x = np.moveaxis(x, -1, time_axis % z.ndim - (freq_axis % z.ndim < time_axis % z.ndim))
    return np.arange(x.shape[0]) / float(fs), x  # as SciPy has it: of the first axis


def powers(
    name: str, x: Any, y: Any, fs: Any, cut: Any, trend: Any, onesided: Any, scaling: Any, axis: int
) -> tuple[Any, Any, Any]:
    """Frequencies, times, and the products of both transforms of each segment; y is None for the signal's own."""
    rows = [np.moveaxis(working(each), axis, -1) for each in (x, y) if each is not None]
    longest = max(each.shape[-1] for each in rows)
    rows = [np.pad(each, [(0, 0)] * (each.ndim - 1) + [(0, longest - each.shape[-1])]) for each in rows]
    cut = segments(name, longest, *cut)
    sided = bool(onesided) and not any(dtypes.is_complex(each.dtype) for each in rows)
    total = {"density": 1 / (fs * (cut.window**2).sum()), "spectrum": 1 / cut.window.sum() ** 2}
    first, *others = [transformed(name, each, cut, trend, sided) for each in rows]
    made = np.conjugate(first) * others[0] if others else first.real**2 + first.imag**2
    factor = np.full(made.shape[-1], scale_of(name, scaling, total))
    if sided:
        factor[1 : None if cut.nfft % 2 else -1] *= 2
    made = made * factor.astype(dtypes.real_of(made.dtype))
    return (*places(name, longest, fs, cut, sided, False), frequencies_first(made, axis))


def averaged(name: str, made: Any, average: Any) -> Any:
    """The mean over segments, or their median less its bias."""
    if average == "mean":
        return np.mean(made, axis=-1)
    if average != "median":
        raise ParameterError(f"{name}: average={average!r} is neither 'mean' nor 'median'")
    even = 2 * np.arange(1.0, (made.shape[-1] - 1) // 2 + 1)
    bias = 1 + np.sum(1 / (even + 1) - 1 / even)
    parts = (made.real, made.imag) if dtypes.is_complex(made.dtype) else (made,)
    found = [np.median(part, axis=-1) / bias for part in parts]
    return found[0] if len(found) == 1 else found[0] + 1j * found[1]


def mean_powers(
    name: str,
    x: Any,
    y: Any = None,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
    average: Any = "mean",
) -> Any:
    """Frequencies, and the spectrum of two signals over all segments; of one signal where y is None."""
    cut = (window, nperseg, noverlap, nfft)
    frequencies, _, made = powers(name, x, y, fs, cut, detrend, return_onesided, scaling, axis)
    return frequencies, averaged(name, made, average)


WINDOWS = "the window a name or plain numbers"
csd = bound(outside.csd, WINDOWS, mean_powers, "csd")
welch = bound(outside.welch, WINDOWS, mean_powers, "welch")


@binds(outside.coherence, "the window a name or plain numbers")
def coherence(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    axis: Any = -1,
) -> Any:
    how = (fs, window, nperseg, noverlap, nfft, detrend)
    frequencies, both = mean_powers("coherence", x, y, *how, axis=axis)
    own, other = [mean_powers("coherence", each, None, *how, axis=axis)[1] for each in (x, y)]
    return frequencies, abs(both) ** 2 / own / other


@binds(outside.spectrogram, "the modes 'psd', 'complex' and 'magnitude'; the window a name or plain numbers")
def spectrogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = ("tukey", 0.25),
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
    mode: Any = "psd",
) -> Any:
    n = np.shape(x)[axis]
    cut = segments("spectrogram", n, window, nperseg, 0, nfft)
    how = (cut.window, cut.length, cut.length // 8 if noverlap is None else noverlap, nfft)
    if mode == "psd":
        return powers("spectrogram", x, None, fs, how, detrend, return_onesided, scaling, axis)
    if mode not in ("complex", "magnitude"):
        raise UnsupportedError(f"spectrogram: mode={mode!r} is not covered for traced arrays", hint="'complex' is")
    kind = {"density": "psd", "spectrum": "spectrum"}.get(scaling, scaling)
    found = stft(x, fs, *how, detrend, return_onesided, None, False, axis, kind)
    return found if mode == "complex" else (*found[:2], abs(found[2]))


@binds(outside.periodogram, "the window a name or plain numbers")
def periodogram(
    x: Any,
    fs: Any = 1.0,
    window: Any = "boxcar",
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: Any = True,
    scaling: Any = "density",
    axis: Any = -1,
) -> Any:
    rows = np.moveaxis(lift(x), axis, -1)
    n = rows.shape[-1] if nfft is None else min(int(nfft), rows.shape[-1])
    how = ("boxcar" if window is None else window, n, 0, nfft)
    rows = np.moveaxis(rows[..., :n], -1, axis)
    frequencies, _, made = powers("periodogram", rows, None, fs, how, detrend, return_onesided, scaling, axis)
    return frequencies, averaged("periodogram", made, "mean")
