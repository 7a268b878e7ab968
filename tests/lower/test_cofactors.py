"""Adjugates of small matrices: those of the reference, at singular matrices too, without a factorization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.ir.graph import OPS
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.cofactors import LARGEST

MACHINE = machine_model(named_target("x86-64-v3"))
SIZES = range(1, LARGEST + 2)


def gradient(a: Any) -> Any:
    """The gradient of a sum of determinants."""
    return ws.grad(lambda a: np.linalg.det(a).sum())(a)


@pytest.mark.parametrize("n", SIZES)
def test_adjugates_and_their_derivatives_are_those_of_the_reference(n: int) -> None:
    rng = np.random.default_rng(n)
    a = np.concatenate([rng.normal(size=(5, n, n)), np.ones((1, n, n)) * np.arange(n)])
    e = rng.normal(size=a.shape)
    found, tangent = ws.jit(lambda a, e: ws.jvp(gradient, (a,), (e,)))(a, e)
    np.testing.assert_allclose(found.mT, OPS["adjugate"].ref(a), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tangent.mT, OPS["adjugate_tangent"].ref(a, e), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", SIZES)
def test_only_larger_matrices_are_factorized(n: int) -> None:
    program = lower_program(ws.trace(gradient)(np.ones((8, n, n))), MACHINE)
    assert ("gesdd" in str(program)) == (n > LARGEST)


@pytest.mark.parametrize("n", [4, 5, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_gradients_are_exact_beside_singular_matrices_and_without_them(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    a = (rng.normal(size=(3, n, n)) + 1j * rng.normal(size=(3, n, n))) / n**0.5
    a = (a if np.dtype(dtype).kind == "c" else a.real).astype(dtype)
    singular = a.copy()
    singular[1, :, 0] = singular[1, :, 1]
    wide = np.result_type(dtype, np.float64)
    derivative = ws.jit(ws.grad(lambda a: np.linalg.det(a).sum(), holomorphic=wide.kind == "c"))
    for matrices in (a, singular):
        want = OPS["adjugate"].ref(matrices.astype(wide)).mT
        found = derivative(matrices)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found, want, rtol=0, atol=np.abs(want).max() * (1e-5 if dtype == np.float32 else 1e-11)
        )


def test_gradients_of_large_determinants_are_solved_where_they_are_regular() -> None:
    text = str(lower_program(ws.trace(gradient)(np.ones((8, 9, 9))), MACHINE))
    assert text.index("gesv") < text.index("gesdd")
