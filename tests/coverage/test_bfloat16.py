"""Calls on bfloat16, which is of no kind of NumPy's own, give the numbers of float32, rounded."""

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

import wholestep as ws
from wholestep.errors import MutationError

BFLOAT16, SINGLE, DOUBLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)
PLAIN = np.array([1.5, -2.5, 4.0, 0.25])
# Python floats make float32 of bfloat16 in ml_dtypes until 0.6, and are weak from 0.7.
WITH_FLOAT = np.maximum(PLAIN.astype(BFLOAT16), -1.0).dtype
ODD = np.array([2.0, np.inf, -np.inf, np.nan, -3.0, np.nan, 2.0])


def filled(x):
    y = np.zeros(4, x.dtype)
    y[1:] += x[1:] * x[1:]
    y[0] = x[0]
    return y


def scaled(x):
    y = np.ones(4, x.dtype)
    back = y[::-1]
    back *= x
    return y


CALLS = [
    (np.reciprocal, PLAIN, BFLOAT16),
    (np.isposinf, ODD, np.dtype(bool)),
    (np.isneginf, ODD, np.dtype(bool)),
    (np.nan_to_num, np.array([2.0, np.nan]), BFLOAT16),
    (lambda x: np.round(x, 1), PLAIN, BFLOAT16),
    (lambda x: np.clip(x, -1, 2), PLAIN, BFLOAT16),
    (lambda x: np.clip(x, -1.0, 2.0), PLAIN, WITH_FLOAT),
    (lambda x: np.fmax.reduce(x, initial=3.0), PLAIN, BFLOAT16),
    (lambda x: x @ np.arange(4), PLAIN, DOUBLE),
    (lambda x: np.concatenate([x, np.arange(2, dtype=np.int16)]), PLAIN, SINGLE),
    (lambda x: np.array([x[0], 2]), PLAIN, DOUBLE),
    (lambda x: np.digitize(x, np.arange(3)), PLAIN, np.dtype(int)),
    (filled, PLAIN, BFLOAT16),
    (scaled, PLAIN, BFLOAT16),
    (lambda x: special.logsumexp(x), PLAIN, BFLOAT16),
    (lambda x: stats.zscore(x), PLAIN, BFLOAT16),
    (lambda x: np.percentile(x, 50, weights=np.ones(4), method="inverted_cdf"), PLAIN, BFLOAT16),
]


@pytest.mark.parametrize(("f", "point", "dtype"), CALLS)
def test_values_and_dtypes(f, point, dtype):
    x = point.astype(BFLOAT16)
    expected = np.asarray(f(x.astype(np.float32)), np.float64)
    for found in (ws.vjp(f, x)[0], ws.jit(f)(x)):
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=2e-2)


def test_repeated_numbers_are_found_among_missing_ones():
    found = ws.vjp(np.unique, ODD.astype(BFLOAT16))[0]
    np.testing.assert_array_equal(found.astype(np.float32), np.unique(ODD.astype(np.float32)))


def test_degrees_of_float16_are_rounded_once():
    x = np.linspace(-9, 9, 50).astype(np.float16)
    assert ws.vjp(np.degrees, x)[0].tolist() == np.degrees(x).tolist()


def test_gaps_of_negative_numbers_are_negative():
    assert ws.vjp(np.spacing, np.array([-1.0, 1.0], BFLOAT16))[0].tolist() == [-(2.0**-7), 2.0**-7]


def test_a_changed_array_that_only_its_name_reads_is_noticed():
    table = np.array([1.0, 2.0], BFLOAT16)
    scaled_by = ws.jit(lambda x: x * table.max())
    scaled_by(PLAIN)
    table[0] = 9.0
    with pytest.raises(MutationError):
        scaled_by(PLAIN)
