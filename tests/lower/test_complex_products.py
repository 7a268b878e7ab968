"""Complex numbers in vectors, and large products of them by four of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.kernel.lang import axes_of
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.complex_products import LEAST_PRODUCTS
from wholestep.lower.legalize.expand_ops import expand_ops

SPECS = ["ij,jk->ik", "ji,kj->ik", "bij,bjk->bik", "ij,kj->ki", "aij,jia->a", "ijk,jkl->il", "ij,ij->"]
SIZES = {"a": 3, "b": 5, "i": 33, "j": 40, "k": 37, "l": 19}


def operands(spec: str, dtype: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(len(spec))
    shapes = [tuple([SIZES[c] for c in labels]) for labels in spec.split("->")[0].split(",")]
    return [(rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype) for n in shapes]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("spec", SPECS)
def test_products_are_those_of_numpy(spec: str, dtype: str) -> None:
    x, y = operands(spec, dtype)
    found, wanted = ws.jit(lambda x, y: np.einsum(spec, x, y))(x, y), np.einsum(spec, x.astype("c16"), y.astype("c16"))
    size = np.einsum(spec, abs(x), abs(y))
    assert found.dtype == x.dtype and found.shape == wanted.shape
    assert np.max(abs(found - wanted) / size) < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_are_those_of_the_interpreter(spec: str) -> None:
    x, y = operands(spec, "c16")
    gradient = ws.grad(lambda x, y: np.sum(abs(np.einsum(spec, x, y)) ** 2), argnums=(0, 1))
    for found, wanted in zip(ws.jit(gradient)(x, y), gradient(x, y), strict=True):
        assert np.allclose(found, wanted, rtol=1e-11, atol=1e-11 * abs(wanted).max())


@pytest.mark.parametrize("shapes", [((16, 16), (16, 16)), ((4, 4), (4, 300))], ids=["a square", "few terms"])
def test_many_products_become_real_ones(shapes: tuple[tuple[int, ...], ...]) -> None:
    graph = expand_ops(ws.trace(lambda x, y: x @ y)(*[np.ones(n, "c8") for n in shapes]))
    made = [node for node in graph.nodes if node.op.name == "contract"]
    assert [node.inputs[0].dtype.kind for node in made] == ["f"] * 4


@pytest.mark.parametrize("shapes", [((3, LEAST_PRODUCTS), (LEAST_PRODUCTS, 0)), ((2, 2), (2, 9999)), ((8, 8), (8, 8))])
def test_few_products_stay(shapes: tuple[tuple[int, ...], ...]) -> None:
    graph = expand_ops(ws.trace(lambda x, y: x @ y)(*[np.ones(n, "c8") for n in shapes]))
    assert [node.inputs[0].dtype.kind for node in graph.nodes if node.op.name == "contract"] == ["c"]


@pytest.mark.parametrize("f", [np.abs, np.exp, lambda x: x * x, lambda x: x.sum(0), lambda x: x.sum(1), np.angle])
def test_complex_numbers_lie_along_vectors(f: Callable[[Any], Any]) -> None:
    """Real and imaginary parts are separated after vector loads, and interleaved before vector stores."""
    kernels = lower_program(ws.trace(f)(np.ones((40, 50), "c8")), machine_model(named_target("x86-64-v3"))).kernels()
    assert all(max(axis.lanes for axis in axes_of(kernel)) == 8 for kernel in kernels)
