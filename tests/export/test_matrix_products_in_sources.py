"""Products in sources of PyTorch and NumPy: of two matrices by `@`, in every order of axes, and others by `einsum`."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.reference import interpret
from wholestep.export.python.numpy import NUMPY
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH

SIZES = {"i": 2, "j": 3, "k": 4}
MATRICES = [
    f"{a},{b}->{out}"
    for x, y, z in (("ij", "jk", "ik"), ("jk", "ij", "ik"))
    for a in map("".join, permutations(x))
    for b in map("".join, permutations(y))
    for out in map("".join, permutations(z))
]
OTHERS = [
    "ij,ij->ij",
    "ij,ij->ji",
    "ij,jk->i",
    "ij,k->ijk",
    "ij,ij->i",
    "ij,j->i",
    "ijk,jk->ij",
    "i,j->ij",
    "ij,kj->ijk",
]


@pytest.mark.parametrize("spec", [*MATRICES, *OTHERS])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_products_are_those_of_numpy(spec: str, dtype: type) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    rng = np.random.default_rng(len(spec))
    operands = spec.split("->")[0].split(",")
    args = [rng.integers(-4, 5, [SIZES[c] for c in letters]).astype(dtype) for letters in operands]
    graph = ws.trace(lambda x, y: np.einsum(spec, x, y))(*args)
    for target, given in ((TORCH, torch.tensor), (NUMPY, np.asarray)):
        np.testing.assert_array_equal(python_function(graph, target)(*map(given, args))[0], np.einsum(spec, *args))
        if spec in MATRICES and dtype is np.float32:
            source = function_source(graph, target)[0]
            assert " @ " in source and "einsum" not in source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("spec", ["ij,jk->ik", "gij,gjk->gik"])
def test_products_of_half_precision_add_up_in_float32(spec: str, dtype: str) -> None:
    x, y = (
        np.ones([{"i": 2, "j": 5000, "k": 3, "g": 4}[c] for c in part], dtype)
        for part in spec.partition("-")[0].split(",")
    )
    x = x * x.dtype.type(0.5)
    graph = ws.trace(lambda x, y: np.einsum(spec, x, y))(x, y)
    (found,) = python_function(graph, NUMPY)(x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.full(found.shape, 2500, dtype))


def test_numbers_beside_bfloat16_keep_its_dtype() -> None:
    x = np.linspace(-1, 1, 9).astype("bfloat16")
    one = x.dtype.type(1)
    graph = ws.trace(lambda x: (np.where(x > 0, x, one), x * one / (x + one + one)))(x)
    for found, wanted in zip(python_function(graph, NUMPY)(x), interpret(graph, [x]), strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, wanted)
