"""Small matrices: factorizations and solutions that are unrolled are those of LAPACK, and fail where it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.lower.test_added_rows import kernels_of

import wholestep as ws
from wholestep.kernel.lang import axes_of
from wholestep.lower.legalize.small_matrices import LARGEST_UNROLLED

SIZES = range(1, LARGEST_UNROLLED + 2)
LEADS = ((), (3,), (2, 64))


def draw(n: int, lead: tuple[int, ...], columns: int = 0) -> Any:
    """Matrices whose first pivots are often small, or right-hand sides."""
    rng = np.random.default_rng(n + len(lead))
    a = rng.standard_normal((*lead, n, columns or n))
    return a if columns else a * rng.choice([1e-9, 1.0], a.shape, p=[0.2, 0.8]) + 0.3 * np.eye(n)


def positive(n: int, lead: tuple[int, ...]) -> Any:
    """Positive definite matrices, with other numbers above the diagonal."""
    a = draw(n, lead)
    return a @ np.swapaxes(a, -1, -2) + np.eye(n) + np.triu(np.ones((n, n)), 1)


def triangular(lower: bool, trans: int, unit: bool) -> Callable[[Any, Any], Any]:
    return lambda a, b: scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, ...]]]] = {
    "det": (np.linalg.det, lambda n, lead: (draw(n, lead),)),
    "sign": (lambda a: np.linalg.slogdet(a)[0], lambda n, lead: (draw(n, lead),)),
    "logabsdet": (lambda a: np.linalg.slogdet(a)[1], lambda n, lead: (draw(n, lead),)),
    "inv": (np.linalg.inv, lambda n, lead: (draw(n, lead),)),
    "solve": (np.linalg.solve, lambda n, lead: (draw(n, lead), draw(n, lead, 3))),
    "cholesky": (np.linalg.cholesky, lambda n, lead: (positive(n, lead),)),
    **{
        f"solve_triangular {lower} {trans} {unit}": (
            triangular(lower, trans, unit),
            lambda n, lead: (draw(n, lead) + 3 * np.eye(n), draw(n, lead, 2)),
        )
        for lower in (False, True)
        for trans in (0, 1)
        for unit in (False, True)
    },
}


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_matrices_are_those_of_lapack(name: str, n: int, lead: tuple[int, ...]) -> None:
    f, drawn = FUNCTIONS[name]
    given = drawn(n, lead)
    expected = f(*given)
    # Backward stable: the error is bounded by the condition of the worst matrix.
    bound = 1e-14 * float(np.max(np.linalg.cond(given[0]))) * np.max(np.abs(expected))
    np.testing.assert_allclose(np.asarray(ws.jit(f)(*given)), expected, rtol=0, atol=max(bound, 1e-13))


@pytest.mark.parametrize("name", ["det", "logabsdet", "inv", "cholesky"])
@pytest.mark.parametrize("n", [2, 3, LARGEST_UNROLLED])
def test_gradients_of_small_matrices(name: str, n: int) -> None:
    """Those of the interpreter, whose operations are NumPy's."""
    f, drawn = FUNCTIONS[name]
    (a,) = drawn(n, (64,))
    g = ws.grad(lambda a: np.sum(f(a) ** 2))
    expected = np.asarray(ws.jit(g, device="reference")(a))
    np.testing.assert_allclose(np.asarray(ws.jit(g)(a)), expected, rtol=1e-6, atol=1e-9 * np.max(np.abs(expected)))


def one_of(n: int, bad: Any) -> Any:
    """A stack of unit matrices, one of them another matrix."""
    stack = np.broadcast_to(np.eye(n), (5, n, n)).copy()
    stack[3] = bad
    return stack


@pytest.mark.parametrize("n", [2, 3, LARGEST_UNROLLED])
def test_matrices_without_a_solution_are_errors(n: int) -> None:
    last = np.diag([1.0] * (n - 1) + [0.0])
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        ws.jit(np.linalg.inv)(one_of(n, last))
    for bad in (np.diag([1.0] * (n - 1) + [-1.0]), last, np.diag([1.0] * (n - 1) + [np.nan])):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            ws.jit(np.linalg.cholesky)(one_of(n, bad))
    for k in range(n):
        diagonal = np.where(np.arange(n) == k, 0.0, 1.0)
        with pytest.raises(np.linalg.LinAlgError, match=f"resolution failed at diagonal {k}\n"):
            ws.jit(scipy.linalg.solve_triangular)(np.diag(diagonal), np.ones((n, 1)))


@pytest.mark.parametrize("n", [1, 2, 3, LARGEST_UNROLLED])
def test_determinants_of_singular_matrices(n: int) -> None:
    for a in (np.zeros((n, n)), np.outer(np.arange(n), np.arange(n)) * 1.0, np.diag([np.inf] * n)):
        found, expected = ws.jit(np.linalg.slogdet)(a), np.linalg.slogdet(a)
        np.testing.assert_array_equal(np.stack([*map(np.asarray, found)]), np.stack(expected))
    assert np.isnan(ws.jit(np.linalg.det)(np.full((n, n), np.nan)))


def test_small_matrices_are_computed_in_vectors() -> None:
    """No routine is called, and the vectors lie along the stack."""
    kernels = kernels_of(np.linalg.inv, (1000, 3, 3))
    assert any([axis.lanes > 1 and axis.extent >= 1000 for k in kernels for axis in axes_of(k)])
