"""Spectrograms of sound on the mel scale, and their cepstral coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.linears import sized
from wholestep.nn.reduction import narrow, real_floating
from wholestep.nn.windows import type_text

SCALES = ("htk", "slaney")
"""The two mel scales: a logarithm throughout, and one that is linear below 1000 Hz."""
FAINTEST = 1e-10
"""The least energy whose decibels are taken."""


def mel_filterbank(
    sample_rate: float,
    size: int,
    mels: int = 128,
    *,
    low: float = 0.0,
    high: float | None = None,
    scale: str = "htk",
    unit_area: bool = False,
    dtype: Any = np.float32,
) -> NDArray:
    """Triangles over the frequencies of a transform of `size` samples, equally wide on the mel scale.

    They lie between `low` and `high` Hz, by default half of `sample_rate`; each rises from the middle of the one before
    to 1 at its own and falls to that of the next, and with `unit_area` is divided by half its width in Hz. One that is
    narrower than the steps of the transform may be zero. The `scale` "htk" is 2595 log10(1 + f / 700); "slaney" is 3 f
    / 200 up to 1000 Hz, and 15 + 27 log(f / 1000) / log(6.4) above.

    Shapes: floats [size // 2 + 1, mels] of `dtype`.
    Raises: ParameterError for counts that are no positive integers, another scale, and frequencies that do not rise.
    Source: O'Shaughnessy, "Speech communication: human and machine", 1987, and Young et al., "The HTK book"; Slaney,
    "Auditory toolbox", 1998; torchaudio.functional.melscale_fbanks.

    >>> import wholestep as ws
    >>> filters = ws.nn.mel_filterbank(16000, 400, 40)
    >>> filters.shape, bool((filters >= 0).all() and (filters <= 1).all())
    ((201, 40), True)
    """
    name = "mel_filterbank"
    sized(name, size=size, mels=mels)
    top = sample_rate / 2 if high is None else high
    if not 0 <= low < top <= sample_rate / 2:
        raise ParameterError(
            f"{name}: frequencies from {low:g} to {top:g} Hz at a sample rate of {sample_rate:g}",
            hint="low is less than high, and high at most half the sample rate",
        )
    if scale not in SCALES:
        raise ParameterError(f"{name}: scale is {scale!r}; it is one of {', '.join(SCALES)}")
    marks = hertz_of(np.linspace(mels_of(low, scale), mels_of(top, scale), mels + 2), scale)
    heard = np.linspace(0, (size // 2) * sample_rate / size, size // 2 + 1)[:, None]
    rising = (heard - marks[:-2]) / (marks[1:-1] - marks[:-2])
    falling = (marks[2:] - heard) / (marks[2:] - marks[1:-1])
    filters = np.maximum(0, np.minimum(rising, falling))
    if unit_area:
        filters *= 2 / (marks[2:] - marks[:-2])
    return filters.astype(dtypes.check(dtype))


def mels_of(frequency: Any, scale: str) -> Any:
    """Frequencies in Hz as mels."""
    f = np.asarray(frequency, np.float64)
    if scale == "htk":
        return 2595 * np.log10(1 + f / 700)
    return np.where(f < 1000, 3 * f / 200, 15 + 27 * np.log(np.maximum(f, 1000) / 1000) / np.log(6.4))


def hertz_of(mels: Any, scale: str) -> Any:
    """Mels as frequencies in Hz."""
    m = np.asarray(mels, np.float64)
    if scale == "htk":
        return 700 * (10 ** (m / 2595) - 1)
    return np.where(m < 15, 200 * m / 3, 1000 * 6.4 ** ((np.maximum(m, 15) - 15) / 27))


def mel_spectrogram(
    x: Any,
    sample_rate: float,
    *,
    size: int = 400,
    hop: int | None = None,
    window: Any = "hann",
    mels: int = 128,
    power: float = 2.0,
    low: float = 0.0,
    high: float | None = None,
    scale: str = "htk",
    unit_area: bool = False,
    centered: bool = True,
) -> NDArray:
    """The energy of a sound in each of `mels` bands, in windows of `size` samples that begin every `hop` of them.

    `hop` is half of `size` if not given. `window` is a name that `scipy.signal.get_window` knows, or numbers. With
    `centered` the first window has its middle on the first sample, and the sound is reflected at both ends. `power` is
    that of the absolute values of the transform: 2 for energies, 1 for amplitudes. There are `sample_rate` samples a
    second; `low`, `high`, `scale` and `unit_area` are those of `mel_filterbank`.

    Shapes: x floats [..., samples]; [..., mels, windows] of the same dtype, where half precisions compute in float32.
    Raises: ParameterError for counts that are no positive integers, a power that is not positive, and as
    `mel_filterbank` does; ShapeError for a sound shorter than a window, and a window of another length; DtypeError for
    operands other than real floats.
    Source: as `mel_filterbank`; torchaudio.transforms.MelSpectrogram.

    >>> import numpy as np, wholestep as ws
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 16000)
    >>> loud = ws.nn.mel_spectrogram(tone, 16000, mels=40)
    >>> loud.shape, int(loud.mean(axis=1).argmax())
    ((40, 41), 7)
    """
    name = "mel_spectrogram"
    step = size // 2 if hop is None else hop
    sized(name, size=size, hop=step)
    if not power > 0:
        raise ParameterError(f"{name}: power is {power}; it must be more than 0")
    filters = mel_filterbank(
        sample_rate, size, mels, low=low, high=high, scale=scale, unit_area=unit_area, dtype=np.float64
    )
    sound: Any = real_floating(name, x, "samples")
    least = size // 2 + 1 if centered else size
    if sound.ndim == 0 or sound.shape[-1] < least:
        raise ShapeError(f"{name}: x is {type_text(sound)}; a sound must have {least} samples or more")
    if centered:
        sound = wnp.pad(sound, [(0, 0)] * (sound.ndim - 1) + [(size // 2, size // 2)], mode="reflect")
    rows = wnp.lib.stride_tricks.sliding_window_view(sound, size, axis=-1)[..., ::step, :]
    heard = wnp.fft.rfft(rows * window_of(name, window, size).astype(sound.dtype), axis=-1)
    energy = heard.real * heard.real + heard.imag * heard.imag
    if power != 2:
        silent = energy == 0
        energy = wnp.where(silent, 0, wnp.where(silent, 1, energy) ** (power / 2))
    made = energy.astype(sound.dtype) @ filters.astype(sound.dtype)
    bands: Any = wnp.swapaxes(made, -1, -2)
    return bands.astype(narrow(x, made), copy=False)


def window_of(name: str, window: Any, size: int) -> Any:
    """The numbers of a window, periodic where it is given by name."""
    import scipy.signal

    named = isinstance(window, str | tuple)
    try:
        found = np.asarray(scipy.signal.get_window(window, size) if named else window)
    except (ValueError, TypeError, IndexError) as error:
        raise ParameterError(
            f"{name}: window is {window!r}: {error}", hint='a name that scipy.signal.get_window knows, such as "hann"'
        ) from None
    if found.shape != (size,):
        raise ShapeError(f"{name}: the window is {type_text(found)}; it must have {size} numbers")
    return found


def mfcc(x: Any, sample_rate: float, count: int = 40, *, range_db: float = 80.0, **options: Any) -> NDArray:
    """The first `count` mel-frequency cepstral coefficients of a sound in each window.

    They are the orthonormal discrete cosine transform of the decibels of `mel_spectrogram`, whose `sample_rate` and
    `options` are taken; levels more than `range_db` below the loudest band of the sound are raised to that limit.

    Shapes: x floats [..., samples]; [..., count, windows] of the same dtype, where half precisions compute in float32.
    Raises: ParameterError for more coefficients than bands and for a range that is not positive, and as
    `mel_spectrogram` does.
    Source: Davis and Mermelstein, "Comparison of parametric representations for monosyllabic word recognition in
    continuously spoken sentences", 1980; torchaudio.transforms.MFCC.

    >>> import numpy as np, wholestep as ws
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 16000)
    >>> ws.nn.mfcc(tone, 16000, 13, mels=40).shape
    (13, 41)
    """
    bands = mel_spectrogram(wnp.asarray(x).astype(real_floating("mfcc", x, "samples").dtype), sample_rate, **options)
    mels = int(bands.shape[-2])
    sized("mfcc", count=count)
    if count > mels or not range_db > 0:
        raise ParameterError(
            f"mfcc: {count} coefficients of {mels} bands, and a range of {range_db} dB",
            hint="mels= is the number of bands, and count at most that",
        )
    decibels = 10 * wnp.log10(wnp.maximum(bands, FAINTEST))
    decibels = wnp.maximum(decibels, wnp.max(decibels, axis=(-2, -1), keepdims=True) - range_db)
    turns = np.cos(np.pi / mels * (np.arange(mels) + 0.5) * np.arange(count)[:, None]) * np.sqrt(2 / mels)
    turns[0] /= np.sqrt(2)
    made: Any = turns.astype(decibels.dtype) @ decibels
    return made.astype(narrow(x, made), copy=False)
