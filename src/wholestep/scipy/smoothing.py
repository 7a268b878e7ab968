"""scipy.signal's polynomial smoothing, and the analytic signal."""

from __future__ import annotations

from typing import Any

import scipy.signal

from wholestep.errors import DtypeError
from wholestep.frontend.dispatch import binds
from wholestep.frontend.promotion import inexact_array
from wholestep.numpy.movement import axis_of, traced_array
from wholestep.scipy.filters import convolve1d
from wholestep.scipy.outside import np

outside: Any = scipy.signal


@binds(outside.savgol_filter)
def savgol_filter(
    x: Any,
    window_length: Any,
    polyorder: Any,
    deriv: Any = 0,
    delta: Any = 1.0,
    axis: Any = -1,
    mode: Any = "interp",
    cval: Any = 0.0,
) -> Any:
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    signal = traced_array(x)
    signal = signal if signal.dtype in (np.float32, np.float64) else signal.astype(np.float64)
    weights = outside.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    if mode != "interp":
        return convolve1d(signal, weights, axis, mode=mode, cval=cval)
    at = axis_of("savgol_filter", axis, signal.ndim)
    if window_length > signal.shape[at]:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    # The ends are values of the polynomials that fit the first and the last window, which are linear in these.
    unit = np.eye(window_length)
    ends = outside.savgol_filter(unit, window_length, polyorder, deriv, delta, axis=0).astype(signal.dtype)
    half, rows = window_length // 2, np.moveaxis(signal, at, 0)
    inner = np.moveaxis(convolve1d(signal, weights, at, mode="constant"), at, 0)[half : rows.shape[0] - half]
    first = np.tensordot(ends[:half], rows[:window_length], 1)
    last = np.tensordot(ends[window_length - half :], rows[rows.shape[0] - window_length :], 1)
    return np.moveaxis(np.concatenate([first, inner, last]), 0, at)


@binds(outside.hilbert)
def hilbert(x: Any, N: Any = None, axis: Any = -1) -> Any:
    signal = inexact_array(x)
    if signal.dtype.kind == "c":
        raise DtypeError(f"hilbert: takes real signals, not {signal.type}")
    at = axis_of("hilbert", axis, signal.ndim)
    n = signal.shape[at] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    turns = np.zeros(n)
    turns[0] = 1
    turns[1 : (n + 1) // 2] = 2
    turns[n // 2] = 1 if n % 2 == 0 else turns[n // 2]
    wide = turns.reshape([-1 if i == at else 1 for i in range(signal.ndim)]).astype(signal.dtype)
    return np.fft.ifft(np.fft.fft(signal, n, at) * wide, axis=at)
