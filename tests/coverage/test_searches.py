"""Searches in sorted arrays that are too long for a comparison with every element."""

from __future__ import annotations

import numpy as np
import pytest

import wholestep as ws
from wholestep.numpy.sorting import COMPARED

SIZES = (1, COMPARED, COMPARED + 1, 511, 512, 513, 1000, 4095, 4096)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u1"])
@pytest.mark.parametrize("n", SIZES)
def test_places_in_a_sorted_array_are_those_of_numpy(n: int, dtype: str, side: str) -> None:
    rng = np.random.default_rng(n)
    rows = np.sort(rng.integers(0, 200, n)).astype(dtype)  # many are equal
    wanted = np.concatenate([rng.integers(0, 200, 40), [0, 199, 250]]).astype(dtype)
    if rows.dtype.kind == "f":
        rows[len(rows) // 2 + 1 :] = np.nan
        wanted[:3] = np.nan, -np.inf, np.inf
    found = ws.jit(lambda rows, wanted: np.searchsorted(rows, wanted, side=side))(rows, wanted)
    expected = np.searchsorted(rows, wanted, side=side)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
    order = rng.permutation(n)
    sorter = np.argsort(order)
    found = ws.jit(lambda rows, y: np.searchsorted(rows[order], y, side, sorter))(rows, wanted.reshape(1, -1))
    assert np.array_equal(found, expected.reshape(1, -1))


def test_gradients_pass_by_a_long_search() -> None:
    knots, heights = np.linspace(0, 1, 1001), np.linspace(0, 1, 1001) ** 2
    slopes = ws.jit(ws.grad(lambda x: np.sum(np.interp(x, knots, heights))))(np.array([0.1234, 0.5005]))
    assert np.allclose(slopes, [0.247, 1.001], atol=2e-3)
