"""Tests of whole arrays for finite elements: where one is found in a graph, and what it says in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.export.finite_arrays import finite_arrays_in
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
    assert "is_finite_array(" in function_source(graph, TORCH)[0].split("def program(")[-1]
    found, count = python_function(graph, TORCH)(torch.tensor(x))
    assert bool(found) == (wrong is None) and int(count) == 35 - (wrong is not None)
