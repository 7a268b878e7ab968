"""Sorts of rows by networks: against NumPy's stable sort, bit by bit, for every length that one has a case for."""

from __future__ import annotations

import numpy as np
import pytest

import wholestep as ws

LENGTHS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 257, 1000, 4097)
SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0)


def rows_with_ties(shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Numbers of which many are equal, among floats also NaN, infinities and zeros of both signs."""
    rng, span = np.random.default_rng(shape), shape[1] // 3 + 1
    x = np.asarray(rng.integers(-span, span, shape)).astype(dtype)
    if x.dtype.kind == "f" and x.size:
        x.flat[rng.integers(0, x.size, x.size // 4)] = rng.choice(np.array(SPECIAL, dtype), x.size // 4)
    return x


@pytest.mark.parametrize("rows", [1, 17])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "i2", "?"])
def test_rows_of_every_length_are_sorted_with_the_bits_of_a_stable_sort(dtype: str, rows: int) -> None:
    for n in LENGTHS:
        x = rows_with_ties((rows, n), dtype)
        order = np.argsort(x, -1, kind="stable")
        expected = np.take_along_axis(x, order, -1)
        assert np.asarray(ws.jit(lambda x: np.sort(x, -1))(x)).tobytes() == expected.tobytes(), n
        np.testing.assert_array_equal(ws.jit(lambda x: np.argsort(x, -1))(x), order)
