"""Calls of scipy.signal on segments for the coverage tests: transforms, their inverse, spectra and trends."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import signal

rng = np.random.default_rng(34)
X, Y = rng.normal(size=(2, 2, 40))
SHORT, SINGLE, Z = Y[:, :30], X.astype(np.float32), X + 1j * Y
WINDOW = rng.uniform(0.5, 1.0, 12)

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "stft": [
        {"nperseg": 16},
        {"nperseg": 16, "fs": 8.0, "return_onesided": False, "boundary": "constant"},
        {"nperseg": 9, "noverlap": 6, "nfft": 15, "window": "hamming", "boundary": "odd", "detrend": "linear"},
        {"nperseg": 9, "boundary": "even", "padded": False, "scaling": "psd", "detrend": "constant"},
        {"window": WINDOW, "nperseg": None, "boundary": None, "axis": 1},
    ],
    "welch": [
        {"nperseg": 40},
        {"nperseg": 9, "average": "median", "scaling": "spectrum"},
        {"nperseg": 16, "detrend": False, "fs": 3.0, "return_onesided": False},
        {"window": WINDOW},
    ],
    "spectrogram": [
        {"nperseg": 16},
        {"nperseg": 12, "mode": "complex", "noverlap": 5},
        {"nperseg": 12, "mode": "magnitude", "scaling": "spectrum"},
    ],
    "periodogram": [{}, {"nfft": 50, "window": "hann"}, {"nfft": 30, "scaling": "spectrum"}, {"detrend": "linear"}],
    "detrend": [{}, {"type": "constant"}, {"axis": 0, "type": "constant"}],
}
PAIRS: dict[str, list[dict[str, Any]]] = {
    "csd": [{"nperseg": 16}, {"nperseg": 9, "average": "median"}, {"nperseg": 15, "scaling": "spectrum"}],
    "coherence": [{"nperseg": 16}, {"nperseg": 10, "detrend": False}],
}
BACK: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"nperseg": 16}, {}),
    ({"nperseg": 16, "noverlap": 12, "scaling": "psd", "fs": 4.0}, {}),
    ({"nperseg": 9}, {"nperseg": 9}),
    ({"nperseg": 16, "boundary": None}, {"boundary": False, "window": "boxcar"}),
]


def called(name: str, options: dict[str, Any]) -> Any:
    """A call with options."""
    return lambda *xs: getattr(signal, name)(*xs, **options)


def cases() -> dict[str, list[Case]]:
    """The cases of each function."""
    made: dict[str, list[Case]] = {}
    for name, options in OPTIONS.items():
        made[name] = [Case(called(name, each), X, rtol=1e-10) for each in options]
        made[name] += [Case(called(name, options[0]), SINGLE, rtol=1e-4, grad=False)]
        made[name] += [Case(called(name, options[0]), np.arange(80).reshape(2, 40) % 7, rtol=1e-10)]
    made["stft"] += [
        Case(called("stft", {"nperseg": 16, "axis": 0}), X.T, rtol=1e-10),
        Case(called("stft", {"nperseg": 16, "return_onesided": False}), Z, rtol=1e-10),
    ]
    made["welch"] += [Case(called("welch", {"nperseg": 9, "axis": 0}), X.T, rtol=1e-10)]
    for name, options in PAIRS.items():
        made[name] = [Case(called(name, each), X, Y, rtol=1e-9) for each in options]
    made["csd"] += [Case(called("csd", {"nperseg": 16}), X, SHORT, rtol=1e-10)]
    made["istft"] = [
        Case(
            called("istft", {**there, **back} if "boundary" not in there else back),
            signal.stft(X, **there)[2],
            rtol=1e-10,
        )
        for there, back in BACK
    ]
    two = signal.stft(Z, nperseg=16, return_onesided=False)[2]
    turned = np.moveaxis(signal.stft(X, nperseg=16)[2], (-1, -2), (0, 1))
    made["istft"] += [
        Case(called("istft", {"input_onesided": False}), two, rtol=1e-10),
        Case(called("istft", {"time_axis": 0, "freq_axis": 1}), turned, rtol=1e-10),
    ]
    return made


CASES: dict[str, list[Case]] = {f"scipy.signal.{name}": found for name, found in cases().items()}
