"""Mel spectrograms and cepstral coefficients are those of formulas written out sample by sample."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.nn.spectrograms import hertz_of, mels_of

RNG = np.random.default_rng(11)
RATE = 8000
SOUND = RNG.normal(size=(2, 900))


def triangles(rate, size, mels, low, high, scale, unit_area):
    """The filters one number at a time."""
    ends = mels_of([low, high], scale)
    marks = [float(hertz_of(ends[0] + (ends[1] - ends[0]) * i / (mels + 1), scale)) for i in range(mels + 2)]
    made = np.zeros((size // 2 + 1, mels))
    for k, f in enumerate(np.fft.rfftfreq(size, 1 / rate)):
        for m in range(mels):
            left, middle, right = marks[m : m + 3]
            if left < f < right:
                made[k, m] = (f - left) / (middle - left) if f < middle else (right - f) / (right - middle)
                made[k, m] *= 2 / (right - left) if unit_area else 1
    return made


def bands(x, size, hop, window, filters, power, centered):
    """The filtered energies of each window, computed window by window."""
    if centered:
        x = np.concatenate([x[size // 2 : 0 : -1], x, x[-2 : -size // 2 - 2 : -1]])
    starts = range(0, len(x) - size + 1, hop)
    return np.stack([np.abs(np.fft.rfft(x[s : s + size] * window)) ** power @ filters for s in starts], axis=-1)


def test_the_scales_are_the_published_ones():
    np.testing.assert_allclose(mels_of([0, 700, 1000, 6300], "htk"), [0, 781.1728, 999.9855, 2595.0], atol=1e-3)
    np.testing.assert_allclose(mels_of([0, 500, 1000, 6400], "slaney"), [0, 7.5, 15, 42], rtol=1e-14)
    for scale in ("htk", "slaney"):
        f = np.linspace(0, 20000, 501)
        np.testing.assert_allclose(hertz_of(mels_of(f, scale), scale), f, atol=1e-9)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("unit_area", [False, True])
@pytest.mark.parametrize(("size", "mels", "low", "high"), [(256, 20, 0.0, None), (255, 12, 80.0, 3500.0)])
def test_the_filters_are_triangles(scale, unit_area, size, mels, low, high):
    found = nn.mel_filterbank(RATE, size, mels, low=low, high=high, scale=scale, unit_area=unit_area, dtype="float64")
    expected = triangles(RATE, size, mels, low, RATE / 2 if high is None else high, scale, unit_area)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert nn.mel_filterbank(RATE, size, mels).dtype == np.float32
    if unit_area:  # each filter is a density over the frequencies, up to their resolution
        np.testing.assert_allclose(found.sum(axis=0)[-4:] * RATE / size, 1.0, rtol=0.03)


@pytest.mark.parametrize("power", [2.0, 1.0, 0.5])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(("size", "hop"), [(128, None), (101, 40)])
def test_a_spectrogram_is_that_of_each_window(power, centered, size, hop):
    options = {"size": size, "hop": hop, "mels": 10, "power": power, "centered": centered, "scale": "slaney"}
    found = nn.mel_spectrogram(SOUND, RATE, **options)
    filters = triangles(RATE, size, 10, 0.0, RATE / 2, "slaney", False)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    expected = [bands(x, size, size // 2 if hop is None else hop, window, filters, power, centered) for x in SOUND]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_array_equal(nn.mel_spectrogram(SOUND[0], RATE, **options), found[0])


def test_a_spectrogram_with_a_window_of_one_s_own():
    window = RNG.uniform(0.5, 1.0, 64)
    filters = triangles(RATE, 64, 8, 100.0, 3000.0, "htk", True)
    found = nn.mel_spectrogram(SOUND[0], RATE, size=64, window=window, mels=8, low=100, high=3000, unit_area=True)
    np.testing.assert_allclose(found, bands(SOUND[0], 64, 32, window, filters, 2.0, True), rtol=1e-10)
    named = nn.mel_spectrogram(SOUND[0], RATE, size=64, mels=8, window=("kaiser", 5.0))
    kaiser = scipy.signal.get_window(("kaiser", 5.0), 64)
    np.testing.assert_array_equal(named, nn.mel_spectrogram(SOUND[0], RATE, size=64, mels=8, window=kaiser))


@pytest.mark.parametrize("range_db", [80.0, 12.0])
def test_cepstral_coefficients_are_the_cosine_transform_of_decibels(range_db):
    x = SOUND * np.linspace(0, 1, 900) ** 8
    energies = nn.mel_spectrogram(x, RATE, size=128, mels=16)
    decibels = 10 * np.log10(np.maximum(energies, 1e-10))
    decibels = np.maximum(decibels, decibels.max(axis=(1, 2), keepdims=True) - range_db)
    expected = scipy.fft.dct(decibels, axis=1, norm="ortho")[:, :12]
    found = nn.mfcc(x, RATE, 12, range_db=range_db, size=128, mels=16)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(nn.mfcc(np.zeros(300), RATE, 4, size=128, mels=16)[0], -400.0)


def test_they_differentiate_and_compile():
    x = SOUND[0, :200]
    for f in (
        lambda x: nn.mel_spectrogram(x, RATE, size=64, mels=6),
        lambda x: nn.mel_spectrogram(x, RATE, size=64, mels=6, power=1.0),
        lambda x: nn.mfcc(x, RATE, 5, size=64, mels=6),
    ):
        ws.gradcheck(lambda x, f=f: f(x), x, order=1)
        small = ws.jit(f)(x.astype(np.float32))
        assert small.dtype == np.float32
        np.testing.assert_allclose(small, f(x), rtol=2e-4, atol=1e-4)
    silence = ws.grad(lambda x: np.sum(nn.mel_spectrogram(x, RATE, size=64, mels=6, power=1.0)))(np.zeros(200))
    assert not silence.any()
    half = nn.mfcc(x.astype(np.float16), RATE, 5, size=64, mels=6)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, nn.mfcc(x, RATE, 5, size=64, mels=6), atol=0.3)


def test_what_makes_no_spectrogram_is_refused():
    for give, error, says in (
        (lambda: nn.mel_filterbank(RATE, 0), ParameterError, "mel_filterbank: size is 0"),
        (
            lambda: nn.mel_filterbank(RATE, 64, 4, high=4001),
            ParameterError,
            "mel_filterbank: frequencies from 0 to 4001",
        ),
        (lambda: nn.mel_filterbank(RATE, 64, 4, low=300, high=200), ParameterError, "mel_filterbank: frequencies from"),
        (lambda: nn.mel_filterbank(RATE, 64, 4, scale="bark"), ParameterError, "mel_filterbank: scale is 'bark'"),
        (lambda: nn.mel_spectrogram(SOUND, RATE, hop=0), ParameterError, "mel_spectrogram: hop is 0"),
        (lambda: nn.mel_spectrogram(SOUND, RATE, power=0), ParameterError, "mel_spectrogram: power is 0"),
        (lambda: nn.mel_spectrogram(SOUND[:, :200], RATE), ShapeError, "mel_spectrogram: x is .* 201 samples or more"),
        (lambda: nn.mel_spectrogram(SOUND, RATE, window=np.ones(3)), ShapeError, "mel_spectrogram: the window is"),
        (lambda: nn.mel_spectrogram(SOUND, RATE, window=()), ParameterError, r"mel_spectrogram: window is \(\)"),
        (lambda: nn.mel_spectrogram(SOUND, RATE, window="hat"), ParameterError, "mel_spectrogram: window is 'hat'"),
        (lambda: nn.mel_spectrogram(np.arange(900), RATE), DtypeError, "mel_spectrogram: samples are"),
        (lambda: nn.mfcc(SOUND, RATE, 50, mels=40), ParameterError, "mfcc: 50 coefficients of 40 bands"),
        (lambda: nn.mfcc(SOUND, RATE, 5, range_db=0), ParameterError, "mfcc: 5 coefficients of 128 bands, and a range"),
    ):
        with pytest.raises(error, match=says):
            give()
