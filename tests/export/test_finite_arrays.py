"""Tests of whole arrays for finite elements: their pattern in a graph, and their source in PyTorch and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.export.finite_arrays import finite_arrays_in
from wholestep.export.python.jax import JAX
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH

F32 = np.zeros((3, 4), np.float32)
TESTED = {
    "a matrix": (lambda x: np.all(np.isfinite(x)), F32, 1),
    "a number": (lambda x: np.all(np.isfinite(x)), F32[0, 0], 0),
    "rows": (lambda x: np.all(np.isfinite(x), axis=1), F32, 0),
    "no element": (lambda x: np.all(np.isfinite(x)), F32[:0], 0),
    "half precision": (lambda x: np.all(np.isfinite(x)), F32.astype(np.float16), 0),
    "complex numbers": (lambda x: np.all(np.isfinite(x)), F32.astype(np.complex64), 0),
    "another test": (lambda x: np.all(np.isnan(x)), F32, 0),
    "two arrays": (lambda x: np.all(np.isfinite(x)) & np.all(np.isfinite(2 * x)), F32, 3),
    "an array and a number": (lambda x: np.all(np.isfinite(x)) & np.isfinite(x[0, 0]), F32, 2),
    "an array and rows": (lambda x: np.all(np.isfinite(x)) & np.all(np.isfinite(x), axis=1), F32, 1),
    "two dtypes": (lambda x: np.all(np.isfinite(x)) & np.all(np.isfinite(x.astype(np.float64) / 3)), F32, 2),
}


@pytest.mark.parametrize("name", TESTED)
def test_whole_arrays_are_found(name: str) -> None:
    f, x, wanted = TESTED[name]
    assert len(finite_arrays_in(ws.trace(f)(x))) == wanted


@pytest.mark.parametrize("wrong", [None, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_is_seen_in_pytorch(wrong: float | None, dtype: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(dtype)
    if wrong is not None:
        x[3, 2] = wrong
    graph = ws.trace(lambda x: (np.all(np.isfinite(x)), np.sum(np.isfinite(x))))(x)
    assert "all_finite(" in function_source(graph, TORCH)[0].split("def program(")[-1]
    found, count = python_function(graph, TORCH)(torch.tensor(x))
    assert bool(found) == (wrong is None) and int(count) == 35 - (wrong is not None)


def all_three(x: Any, y: Any, z: Any) -> Any:
    """True where a number, a small array and a large one are finite."""
    return np.isfinite(x) & np.all(np.isfinite(y)) & np.all(np.isfinite(z))


@pytest.mark.parametrize("place", [None, 0, 1, 2])
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_are_tested_together(place: int | None, library: str) -> None:
    module: Any = pytest.importorskip(library, reason=f"{library} is an outside oracle; not installed")
    array = module.tensor if library == "torch" else module.numpy.asarray
    given = [np.ones((), np.float32), np.ones(7, np.float32), np.ones((40, 50), np.float32)]
    if place is not None:
        given[place].flat[-1] = np.nan
    target, graph = {"torch": TORCH, "jax": JAX}[library], ws.trace(all_three)(*given)
    source = function_source(graph, target)[0].split("def program(")[-1]
    assert source.count("all_finite(") == 1 and "&" not in source
    assert bool(python_function(graph, target)(*map(array, given))[0]) == (place is None)
