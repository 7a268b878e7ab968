"""Compiled linear algebra of matrices with NaN and infinities, and without elements: no numbers that seem right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws


@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_eigenvalues_of_a_matrix_with_nan_are_nan(n: int, dtype: Any, UPLO: str) -> None:
    a = np.stack([np.eye(n, dtype=dtype)] * 2)
    a[(1, n - 1, 0) if UPLO == "L" else (1, 0, n - 1)] = np.nan
    values = ws.jit(lambda a: np.linalg.eigvalsh(a, UPLO))(a)
    assert np.array_equal(values[0], np.ones(n)) and np.isnan(values[1]).all()


def test_eigenvalues_do_not_see_the_triangle_that_is_not_read() -> None:
    a = np.array([[1.0, np.nan], [0.0, 2.0]])
    np.testing.assert_array_equal(ws.jit(np.linalg.eigvalsh)(a), [1.0, 2.0])


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_singular_values_of_what_is_not_finite_are_an_error(dtype: Any, value: float) -> None:
    a = np.stack([np.eye(3, dtype=dtype)] * 2)
    a[1, 0, 0] = value
    for function in (np.linalg.svd, np.linalg.svdvals, np.linalg.pinv, lambda a: np.linalg.lstsq(a[1], a[1])):
        with pytest.raises(np.linalg.LinAlgError, match="SVD did not converge"):
            ws.jit(function)(a)


def test_the_condition_of_nothing_is_refused_as_in_numpy() -> None:
    for p in (None, 1):
        with pytest.raises(np.linalg.LinAlgError, match="cond is not defined on empty arrays"):
            ws.jit(lambda a, p=p: np.linalg.cond(a, p))(np.zeros((2, 0, 0)))
