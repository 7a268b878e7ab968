"""Elimination with partial pivoting in register tiles: against LAPACK, and the same bits for all tiles and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wholestep as ws
from wholestep.backends.cpu.target import tiled_factors
from wholestep.backends.cpu.target.register_tiles import RegisterTile, elimination_tile
from wholestep.runtime.cpu import thread_pool

SHAPES = ((32, 32), (33, 33), (64, 64), (101, 101), (203, 203), (57, 101), (101, 57), (32, 71), (290, 34), (3, 50, 50))
TILES = (RegisterTile(64, 2, 4, 2), RegisterTile(64, 2, 4, 6), RegisterTile(64, 4, 4, 3), RegisterTile(64, 8, 8, 1))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def eliminated(a: Any) -> Any:
    return scipy.linalg.lu(a, p_indices=True)


def factored(a: Any) -> Any:
    return scipy.linalg.lu_factor(a)


def solved(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)  # this line


def graded(rng: np.random.Generator, n: int) -> Any:
    """A matrix whose rows go down to 1e-12."""
    return rng.normal(size=(n, n)) * np.logspace(0, -12, n)[:, None]


def with_ties(rng: np.random.Generator, n: int) -> Any:
    """A matrix with few different elements, many of them 0."""
    return rng.integers(-1, 2, (n, n)).astype(float)


def of_low_rank(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, n))


KINDS = {
    "random": lambda rng, n: rng.normal(size=(n, n)),
    "graded": graded,
    "ties": with_ties,
    "rank": of_low_rank,
    "hilbert": lambda _, n: scipy.linalg.hilbert(n),
    "zeros": lambda _, n: np.zeros((n, n)),
    "equal": lambda _, n: np.ones((n, n)),
    "columns": lambda rng, n: rng.normal(size=(n, n)) * (np.arange(n) % 3 > 0),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_those_of_lapack(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=shape).astype(dtype)
    (rows, lower, upper), wanted = ws.jit(eliminated)(a), scipy.linalg.lu(a, p_indices=True)
    near = np.finfo(dtype).eps * 4000
    assert lower.dtype == a.dtype
    np.testing.assert_array_equal(rows, wanted[0])
    np.testing.assert_allclose(lower, wanted[1], atol=near)
    np.testing.assert_allclose(upper, wanted[2], atol=near * np.max(np.abs(wanted[2])))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [32, 45, 130])
@pytest.mark.parametrize("kind", KINDS)
def test_factors_make_the_matrix(kind: str, n: int, dtype: str, rng: np.random.Generator) -> None:
    a = KINDS[kind](rng, n).astype(dtype)
    rows, lower, upper = (x.astype("f8") for x in ws.jit(eliminated)(a))
    assert np.max(np.abs(lower)) <= 1
    assert sorted(rows) == list(range(n))
    # Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, theorem 9.3.
    bound = n * np.finfo(dtype).eps * (np.abs(lower) @ np.abs(upper))
    assert np.all(np.abs(lower @ upper - a[np.argsort(rows)]) <= bound + 1e-300)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_pivot_is_the_first_of_the_largest(dtype: str) -> None:
    for n in (32, 70):
        for rows in ((0, n - 1), (3, 9, 20), (17, 18), (n - 2, n - 1)):
            a = np.eye(n, dtype=dtype)
            a[list(rows), 0] = [(-1) ** i * 5 for i in range(len(rows))]
            assert ws.jit(factored)(a)[1][0] == rows[0]


def test_nothing_is_divided_by_a_pivot_of_zero(rng: np.random.Generator) -> None:
    a = rng.normal(size=(40, 40))
    a[:, 7] = 0
    packed, pivots = ws.jit(factored)(a)
    assert np.all(np.isfinite(packed))
    assert packed[7, 7] == 0 and pivots[7] == 7
    assert np.linalg.det(a) == ws.jit(np.linalg.det)(a) == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (5, 0), (39, 0), (12, 30), (39, 39)])
def test_what_is_not_finite_spreads_as_in_lapack(value: float, row: int, column: int, rng: np.random.Generator) -> None:
    a = rng.normal(size=(40, 40))
    a[row, column] = value
    packed, pivots = ws.jit(lambda a: scipy.linalg.lu_factor(a, check_finite=False))(a)
    # The unblocked elimination of LAPACK's reference, in which a comparison with NaN selects no pivot.
    wanted, rows = a.copy(), np.zeros(40, int)
    with np.errstate(all="ignore"):
        for j in range(40):
            sizes = np.abs(wanted[j:, j])
            rows[j] = j + (0 if np.isnan(sizes[0]) else int(np.nanargmax(sizes)))
            wanted[[j, rows[j]]] = wanted[[rows[j], j]]
            wanted[j + 1 :, j] /= wanted[j, j] or 1
            wanted[j + 1 :, j + 1 :] -= wanted[j + 1 :, j, None] * wanted[j, j + 1 :]
    np.testing.assert_array_equal(pivots, rows)
    np.testing.assert_allclose(packed, wanted, atol=1e-11)


@pytest.mark.parametrize("count", [2, 5, 37])
def test_a_stack_is_its_matrices(count: int, rng: np.random.Generator) -> None:
    a = rng.normal(size=(count, 41, 41))
    packed, pivots = ws.jit(ws.vmap(factored))(a)
    for i in range(count):
        one = ws.jit(factored)(a[i])
        np.testing.assert_array_equal(packed[i], one[0])
        np.testing.assert_array_equal(pivots[i], one[1])


def test_neither_tiles_nor_panels_nor_threads_show(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 211, 211))
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    found = []
    for tile in TILES:
        monkeypatch.setattr(tiled_factors, "elimination_tile", lambda *_, tile=tile: tile)
        for panel in (8, 24, 1000):
            monkeypatch.setattr(tiled_factors, "NARROW_PANEL", panel)
            for threads, small in ((1, 0), (2, 0), (3, 1 << 60), (4, 0)):
                monkeypatch.setattr(tiled_factors, "SMALL", small)
                with thread_pool.threads(threads):
                    # A new function for each setting, so that it is compiled again.
                    found.append(ws.jit(lambda a: factored(a))(a))
    for packed, pivots in found[1:]:
        assert packed.tobytes() == found[0][0].tobytes()
        assert pivots.tobytes() == found[0][1].tobytes()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("vector", "registers"), [(16, 16), (16, 32), (32, 16), (64, 32)])
def test_a_tile_fits_into_registers_and_is_as_wide_as_rows_go(bits: int, vector: int, registers: int) -> None:
    tile = elimination_tile(bits, vector, registers)
    assert tile.width % tile.rows == 0
    assert tile.rows * tile.vectors + tile.vectors < registers


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [None, 1, 2, 7, 100])
def test_systems_are_solved_as_in_numpy(columns: int | None, dtype: str, rng: np.random.Generator) -> None:
    for n in (32, 61, 150):
        a = rng.permutation(rng.normal(size=(n, n)) / np.sqrt(n) + 3 * np.eye(n))
        b = rng.normal(size=n if columns is None else (n, columns))
        a, b = a.astype(dtype), b.astype(dtype)
        found = ws.jit(solved)(a, b)
        assert found.dtype == a.dtype
        wanted = np.linalg.solve(a.astype("f8"), b.astype("f8"))
        assert np.max(np.abs(found - wanted)) <= 20 * np.finfo(dtype).eps * np.max(np.abs(wanted))


def test_inverses_and_determinants_are_those_of_numpy(rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 47, 47))
    np.testing.assert_allclose(ws.jit(np.linalg.inv)(a), np.linalg.inv(a), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ws.jit(np.linalg.det)(a), np.linalg.det(a), rtol=1e-11)
    sign, size = ws.jit(np.linalg.slogdet)(a)
    np.testing.assert_array_equal(sign, np.linalg.slogdet(a).sign)
    np.testing.assert_allclose(size, np.linalg.slogdet(a).logabsdet, rtol=1e-12)


@pytest.mark.parametrize("columns", [1, 20])
def test_a_singular_matrix_raises_numpys_error(columns: int, rng: np.random.Generator) -> None:
    a = rng.normal(size=(40, 40))
    a[:, 33] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"^Singular matrix\n(.|\n)*# this line"):
        ws.jit(solved)(a, rng.normal(size=(40, columns)))
