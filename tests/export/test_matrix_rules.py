"""Factorizations as scans over columns satisfy their defining equations, for matrices of more than a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from wholestep.backends.reference import interpret
from wholestep.export.rules.matrices import MATRIX_RULES
from wholestep.ir.build import build
from wholestep.ir.types import array_type

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 9, 9))
POSITIVE = SQUARE @ SQUARE.swapaxes(1, 2) + 0.1 * np.eye(9)


def computed(name: str, *xs: Any, **params: Any) -> list[Any]:
    def write(*vs: Any) -> Any:
        found: Any = MATRIX_RULES[name](*vs, **params)
        return list(found) if isinstance(found, tuple | list) else [found]

    return interpret(build(write, [array_type(x.shape, x.dtype) for x in xs], name=name)[0], list(xs))


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, atol=1e-9)


def test_cholesky() -> None:
    read = np.where(np.tri(9, dtype=bool), POSITIVE, 7.0)  # of the upper triangle nothing is
    (factor,) = computed("cholesky", read)
    close(factor, np.linalg.cholesky(POSITIVE))


def test_elimination_exchanges_rows_as_lapack_does() -> None:
    packed, pivots, order = computed("lu", SQUARE)
    lower, upper = np.tril(packed, -1) + np.eye(9), np.triu(packed)
    close(lower @ upper, np.take_along_axis(SQUARE, order[..., None], 1))
    assert np.abs(lower).max() <= 1 and pivots.dtype == np.int32
    assert sorted(order[0]) == list(range(9))


def test_systems_are_solved() -> None:
    right = RNG.normal(size=(2, 9, 3))
    close(computed("solve", SQUARE, right)[0], np.linalg.solve(SQUARE, right))
    swapped = np.array([[[0.0, 1.0], [1.0, 0.0]]])  # the first pivot is 0
    close(computed("solve", swapped, np.ones((1, 2, 1)))[0], np.ones((1, 2, 1)))


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (1, 1)])
def test_orthogonal_and_triangular_factors(shape: tuple[int, int], mode: str) -> None:
    a = RNG.normal(size=shape)
    q, r = computed("qr", a, mode=mode)
    close(q @ r, a)
    close(q.T @ q, np.eye(q.shape[1]))
    close(np.tril(r, -1), 0)
    want = np.linalg.qr(a, "complete" if mode == "complete" else "reduced")
    assert (q.shape, r.shape) == (want[0].shape, want[1].shape)


@pytest.mark.parametrize("lower", [True, False])
def test_eigenvalues_and_vectors(lower: bool) -> None:
    a = POSITIVE.copy()
    a[:, 3] = a[:, :, 3] = 0  # a row that is done, and an eigenvalue of 0
    values, vectors = computed("eigh", a, lower=lower)
    close(values, np.linalg.eigvalsh(a))
    close(a @ vectors, vectors * values[:, None])
    close(vectors.swapaxes(1, 2) @ vectors, np.broadcast_to(np.eye(9), a.shape))


COMPLEX = SQUARE + 1j * RNG.normal(size=SQUARE.shape)
HERMITIAN = COMPLEX @ COMPLEX.conj().swapaxes(1, 2) + 0.1 * np.eye(9)


def test_factors_of_complex_matrices() -> None:
    read = np.where(np.tri(9, dtype=bool), HERMITIAN + 3j * np.eye(9), 7.0)  # nor are imaginary parts of the diagonal
    close(computed("cholesky", read)[0], np.linalg.cholesky(HERMITIAN))
    close(computed("solve", COMPLEX, HERMITIAN)[0], np.linalg.solve(COMPLEX, HERMITIAN))
    packed, pivots, order = computed("lu", COMPLEX)
    wanted, exchanges = zip(*[scipy.linalg.lu_factor(a) for a in COMPLEX], strict=True)
    close(packed, np.stack(wanted))
    assert np.array_equal(pivots, exchanges) and order.dtype == np.int64
    values, vectors = computed("eigh", HERMITIAN, lower=True)
    close(values, np.linalg.eigvalsh(HERMITIAN))
    close(HERMITIAN @ vectors, vectors * values[:, None, :])


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
def test_a_complex_triangular_factor_has_the_diagonal_that_lapack_gives_it(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    q, r = computed("qr", a, mode="reduced")
    wanted = np.linalg.qr(a)
    close(q, wanted[0])
    close(r, wanted[1])
