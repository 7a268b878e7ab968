"""Arrays that programs do not hold or search: few elements far apart are written into zeros, and large triangles are
comparisons of rows with columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.lower.test_lowering import planned

import wholestep as ws
from wholestep.kernel.lang import Var, walk

N = 160
X = np.random.default_rng(0).normal(size=(N, N))


@pytest.mark.parametrize("offset", [-3, 0, 7])
def test_the_gradient_of_a_diagonal_is_written_into_zeros(offset: int) -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.diag(x, offset) ** 2) + np.trace(x)

    np.testing.assert_array_equal(ws.jit(ws.grad(loss))(X), 2 * np.diag(np.diag(X, offset), offset) + np.eye(N))
    kernels = planned(ws.grad(loss), X).kernels()
    assert "update_slice" in [kernel.name for kernel in kernels]
    assert not [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Var) and s.op == "quotient"]


def test_elements_that_lie_close_stay_a_pad() -> None:
    slope = ws.jit(ws.grad(lambda x: np.sum(x[::2, 1::3] ** 3)))(X)
    want = np.zeros_like(X)
    want[::2, 1::3] = 3 * X[::2, 1::3] ** 2
    np.testing.assert_allclose(slope, want, rtol=1e-15)
    assert "update_slice" not in [k.name for k in planned(ws.grad(lambda x: np.sum(x[::2, 1::3] ** 3)), X).kernels()]


@pytest.mark.parametrize("diagonal", [-N, -5, 0, 1, 9, N - 1])
@pytest.mark.parametrize("corners", [(True, False), (False, True), (1.5, -2.0), (np.inf, 0.0)])
@pytest.mark.parametrize("columns", [N, N + 30, N - 30])
def test_triangles_are_compared(diagonal: int, corners: tuple[Any, Any], columns: int) -> None:
    mask = np.where(np.tri(N, columns, diagonal, dtype=bool), *corners)
    x = np.arange(1.0, N * columns + 1).reshape(N, columns)

    def masked(x: Any) -> Any:
        return np.where(np.broadcast_to(mask, x.shape), x, -x) if mask.dtype == bool else np.maximum(x, mask)

    np.testing.assert_array_equal(ws.jit(masked)(x), masked(x))


def test_a_mask_takes_no_memory_unless_an_element_differs() -> None:
    def buffers(mask: Any) -> int:
        (kernel,) = planned(lambda x: np.where(mask, x, 1), X).kernels()
        return len(kernel.buffers)

    mask = np.tri(N, dtype=bool)
    other = mask.copy()
    other[5, 60] = True
    assert [buffers(mask), buffers(mask.T), buffers(other)] == [2, 2, 3]


def test_zeros_of_both_signs_are_not_one_number() -> None:
    mask = np.tri(N)
    mask[3, 90] = -0.0
    found = ws.jit(lambda x: mask / x)(np.ones((N, N)))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(mask))
