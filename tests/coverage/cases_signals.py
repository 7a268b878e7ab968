"""Calls of scipy.signal's and scipy.ndimage's filters by order and in turn, and of smoothing, for coverage tests."""

from typing import Any

import numpy as np
import scipy.signal
from tests.coverage.cases import Case

from wholestep.scipy import ndimage, signal

rng = np.random.default_rng(47)
APART = rng.permutation(20).reshape(4, 5) / 3.0 + 0.1
"""Numbers whose order no small step changes."""
CUBE = rng.permutation(24).reshape(2, 4, 3) / 3.0
WHOLE = rng.permutation(30).reshape(5, 6) - 11
WAVE = rng.normal(size=16)
CROSS = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
B, A = scipy.signal.butter(2, 0.3)
SOS = scipy.signal.butter(3, 0.3, output="sos")


def ranked(name: str, *args: Any) -> list[Case]:
    """Filters by order over several axes: modes, footprints, origins and axes."""
    f = getattr(ndimage, name)
    given = [({"size": 3, "mode": m, "cval": 2.2}, APART) for m in ("reflect", "constant", "nearest", "mirror", "wrap")]
    given += [({"footprint": CROSS, "origin": (0, -1)}, APART), ({"size": (2, 3), "axes": (0, 2)}, CUBE)]
    made = [Case(lambda x, o=options: f(x, *args, **o), x) for options, x in given]
    plain = [WHOLE, WHOLE.astype(np.uint8), APART.astype("f4")]
    made += [Case(lambda x: f(x, *args, size=(3, 2)), x, grad=False) for x in plain]
    return [*made, Case(lambda x: f(x, *args, (3, 2), axes=(2, 0)), CUBE, grad=False)]


def in_line(name: str) -> list[Case]:
    """Filters by order along one axis."""
    f = getattr(ndimage, name)
    made = [Case(lambda x, m=m: f(x, 4, axis=0, mode=m, origin=1), APART) for m in ("reflect", "grid-constant")]
    return [*made, Case(lambda x: f(x, 3), WHOLE, grad=False)]


CASES: dict[str, list[Case]] = {
    **{f"scipy.ndimage.{name}": ranked(name) for name in ("maximum_filter", "minimum_filter", "median_filter")},
    **{f"scipy.ndimage.{name}": in_line(name) for name in ("maximum_filter1d", "minimum_filter1d")},
    "scipy.ndimage.rank_filter": [*ranked("rank_filter", 1), *ranked("rank_filter", -2)],
    "scipy.ndimage.percentile_filter": [*ranked("percentile_filter", 30), *ranked("percentile_filter", -100)],
    "scipy.signal.medfilt": [
        Case(lambda x: signal.medfilt(x), APART),
        Case(lambda x: signal.medfilt(x, (1, 5)), APART),
        Case(lambda x: signal.medfilt(x, 3), APART.astype("f4"), grad=False),
    ],
    "scipy.signal.medfilt2d": [Case(lambda x: signal.medfilt2d(x, (3, 5)), APART)],
    "scipy.signal.savgol_filter": [
        *[
            Case(lambda x, m=m: signal.savgol_filter(x, 5, 2, 1, 0.5, mode=m, cval=0.3), WAVE, rtol=1e-11)
            for m in ("interp", "mirror", "constant", "nearest", "wrap")
        ],
        Case(lambda x: signal.savgol_filter(x, 4, 2, axis=0), APART, rtol=1e-11),
        Case(lambda x: signal.savgol_filter(x, 3, 1), WHOLE, rtol=1e-11, grad=False),
        Case(lambda x: signal.savgol_filter(x, 5, 2), WAVE.astype("f4"), rtol=1e-5, grad=False),
    ],
    "scipy.signal.hilbert": [
        *[Case(lambda x, n=n: signal.hilbert(x, n), WAVE, rtol=1e-11) for n in (None, 9, 20)],
        Case(lambda x: signal.hilbert(x, axis=0), APART, rtol=1e-11),
        Case(lambda x: signal.hilbert(x), WHOLE, rtol=1e-11, grad=False),
    ],
    "scipy.signal.lfilter_zi": [Case(lambda b, a: signal.lfilter_zi(b, a), B, A, rtol=1e-11)],
    "scipy.signal.freqz": [
        *[
            Case(lambda b, a, o=options: signal.freqz(b, a, **o)[1], B, A, rtol=1e-10)
            for options in ({"worN": 9}, {"worN": [0.1, 2.0], "fs": 5.0}, {"worN": 8, "include_nyquist": True})
        ],
        Case(lambda b: signal.freqz(b, worN=8, whole=True), B, rtol=1e-11),
        Case(lambda b, a: signal.freqz(b, a, 8), B.astype("f4"), A.astype("f4"), rtol=1e-5, grad=False),
    ],
    "scipy.signal.freqz_sos": [
        Case(lambda b: signal.freqz_sos(np.concatenate([b, SOS[:, 3:]], 1), 9)[1], SOS[:, :3], rtol=1e-10)
    ],
    "scipy.signal.sosfilt": [
        Case(lambda x: signal.sosfilt(SOS, x), WAVE, rtol=1e-11),
        Case(lambda x, z: signal.sosfilt(SOS, x, 0, z), APART, rng.normal(size=(2, 2, 5)), rtol=1e-11),
        Case(lambda b: signal.sosfilt(np.concatenate([b, SOS[:, 3:]], 1), WAVE), SOS[:, :3], rtol=1e-10),
    ],
    "scipy.signal.filtfilt": [
        Case(lambda x: signal.filtfilt(B, A, x), WAVE, rtol=1e-10),
        Case(lambda x: signal.filtfilt(B, A, x, axis=0, padlen=2), APART, rtol=1e-10),
        Case(lambda b, a: signal.filtfilt(b, a, WAVE), B, A, rtol=1e-9),
        *[Case(lambda x, p=p: signal.filtfilt(B, A, x, padtype=p), WAVE, rtol=1e-10) for p in ("even", None)],
        Case(lambda x: signal.filtfilt([0.5, 0.5], [1.0], x, padtype="constant"), WAVE, rtol=1e-10),
    ],
    "scipy.signal.sosfiltfilt": [
        Case(lambda x: signal.sosfiltfilt(SOS, x), WAVE, rtol=1e-10),
        Case(lambda b: signal.sosfiltfilt(np.concatenate([b, SOS[:, 3:]], 1), WAVE, padlen=4), SOS[:, :3], rtol=1e-9),
    ],
}
