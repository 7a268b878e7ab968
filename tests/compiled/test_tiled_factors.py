"""Triangular systems and Cholesky factors in register tiles: against float64, and the same bits for all tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wholestep as ws
from wholestep.backends.cpu.target import tiled_factors
from wholestep.backends.cpu.target.register_tiles import RegisterTile
from wholestep.runtime.cpu import thread_pool

SIZES = (32, 33, 47, 64, 101)
TILES = (RegisterTile(64, 2, 2, 6), RegisterTile(64, 4, 4, 3), RegisterTile(64, 4, 4, 1), RegisterTile(64, 8, 8, 3))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Symmetric matrices whose eigenvalues are far from 0."""
    a = rng.normal(size=(*shape, shape[-1]))
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def system(rng: np.random.Generator, n: int, columns: int) -> tuple[Any, Any]:
    """A matrix of which either triangle is regular, and a right-hand side."""
    return rng.normal(size=(n, n)) / n + np.diag(2 + rng.random(n)), rng.normal(size=(n, columns))


def factored(a: Any) -> Any:
    return np.linalg.cholesky(a)  # this line


def solved(a: Any, b: Any) -> Any:
    return scipy.linalg.solve_triangular(a, b, lower=True)  # this line


def far_from(found: Any, wanted: Any) -> float:
    """The largest difference in roundings of the largest element."""
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)) / np.finfo(found.dtype).eps)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", SIZES)
def test_factors_are_those_of_lapack_and_zero_above(n: int, dtype: str, rng: np.random.Generator) -> None:
    for shape in ((n,), (3, n)):
        a = positive(rng, shape).astype(dtype)
        found = ws.jit(factored)(a)
        assert found.dtype == a.dtype and not np.triu(found, 1).any()
        assert far_from(found, np.linalg.cholesky(a.astype("f8"))) < 10


def test_a_factor_sees_the_lower_triangle_alone(rng: np.random.Generator) -> None:
    a = positive(rng, (40,))
    np.testing.assert_array_equal(
        ws.jit(factored)(np.tril(a) + np.triu(np.full_like(a, np.nan), 1)), ws.jit(factored)(a)
    )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("lower", "trans"), [(True, 0), (True, 1), (False, 0), (False, 1)])
def test_systems_are_solved_from_either_end(
    n: int, lower: bool, trans: int, dtype: str, rng: np.random.Generator
) -> None:
    for columns, unit in ((2, True), (5, False), (16, False), (23, True), (100, False)):
        options = {"lower": lower, "trans": trans, "unit_diagonal": unit}
        a, b = (x.astype(dtype) for x in system(rng, n, columns))
        found = ws.jit(lambda a, b, options=options: scipy.linalg.solve_triangular(a, b, **options))(a, b)
        wanted = scipy.linalg.solve_triangular(a.astype("f8"), b.astype("f8"), **options)
        assert found.dtype == a.dtype
        assert far_from(found, wanted) < 10, options


def test_systems_of_a_stack_are_solved_each_for_itself(rng: np.random.Generator) -> None:
    a, b = np.stack([np.tril(system(rng, 35, 1)[0]) for _ in range(3)]), rng.normal(size=(3, 35, 20))
    found = ws.jit(ws.vmap(solved))(a, b)
    np.testing.assert_array_equal(found, [ws.jit(solved)(*one) for one in zip(a, b, strict=True)])


def test_neither_tiles_nor_threads_show(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    a, b = positive(rng, (203,)), rng.normal(size=(203, 117))
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    found = []
    for tile in TILES:
        monkeypatch.setattr(tiled_factors, "factor_tile", lambda *_, tile=tile: tile)
        monkeypatch.setattr(tiled_factors, "substitution_tile", lambda *_, tile=tile: tile)
        for threads in (1, 2, 3):
            with thread_pool.threads(threads):
                # A function of its own for each, which is compiled for it.
                found.append(ws.jit(lambda a, b: (factored(a), solved(a, b)))(a, b))
    for factor, solution in found[1:]:
        assert factor.tobytes() == found[0][0].tobytes()
        assert solution.tobytes() == found[0][1].tobytes()


@pytest.mark.parametrize("row", [0, 9, 38, 39])
def test_a_matrix_without_a_factor_or_a_solution_raises_numpys_error(row: int, rng: np.random.Generator) -> None:
    a, b = positive(rng, (2, 40)), rng.normal(size=(40, 20))
    a[1, row, row] = -1
    with pytest.raises(np.linalg.LinAlgError, match=r"^Matrix is not positive definite\n(.|\n)*# this line"):
        ws.jit(factored)(a)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        ws.jit(factored)(np.diag((np.arange(40) != row).astype(float)))
    a[0, row, row] = 0
    with pytest.raises(np.linalg.LinAlgError, match=rf"resolution failed at diagonal {row}\n(.|\n)*# this line"):
        ws.jit(solved)(np.tril(a[0]), b)


def test_a_step_that_fails_has_its_state(rng: np.random.Generator) -> None:
    a = positive(rng, (40,))
    step = ws.compile(lambda p, a: np.sum(factored(a * p)), np.ones(()), optimizer=ws.optim.sgd(1e-3), batch=a)
    step(a)
    before = np.array(step.params)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        step(-a)
    assert step.params == before and step.steps == 1
    step(a)
