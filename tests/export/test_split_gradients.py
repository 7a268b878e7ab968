"""Gradients of pooled images in PyTorch: slice by slice, with the bits of the reference where elements are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.reference import interpret
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH

torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")

SHAPES = {
    "pooled": ((2, 3, 4, 2, 3, 2), (3, 5)),
    "first": ((3, 5), (0,)),
    "all": ((2, 4), (0, 1)),
    "last": ((6, 4), (1,)),
    "apart": ((2, 5, 3, 4), (0, 2, 3)),
    "one": ((4, 1), (1,)),
    "channels last": ((2, 4, 2, 3, 2, 5), (2, 4)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("largest", [True, False])
def test_equal_elements_share_a_gradient(name: str, dtype: str, largest: bool) -> None:
    shape, axes = SHAPES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, shape).astype(dtype)
    x.flat[0] = np.nan
    weights = rng.normal(size=[n for i, n in enumerate(shape) if i not in axes]).astype(dtype)

    def f(x: Any) -> Any:
        return np.sum(weights * (np.max(x, axis=axes) if largest else np.min(x, axis=axes)))

    graph = ws.trace(ws.grad(f))(x)
    source, _ = function_source(graph, TORCH)
    assert "split_among_equal(" in source.split("def program(")[-1]
    with np.errstate(divide="ignore", invalid="ignore"):  # no element is equal to NaN
        want = interpret(graph, [x])
    got = python_function(graph, TORCH)(torch.tensor(x))
    np.testing.assert_array_equal(np.asarray(got[0]), want[0])


@pytest.mark.parametrize("shape", [(4, 5), (2, 2, 5)])
def test_long_axes_are_reduced_whole(shape: tuple[int, ...]) -> None:
    x, weights = np.zeros(shape, np.float32), np.ones(shape[:-1], np.float32) * 3
    graph = ws.trace(ws.grad(lambda x: np.sum(weights * np.max(x, axis=-1))))(x)
    assert "split_among_equal(" not in function_source(graph, TORCH)[0].split("def program(")[-1]


def test_what_else_reads_the_elements_stays() -> None:
    x = np.array([[1.0, 2.0, 2.0], [3.0, 1.0, 0.0]])

    def f(x: Any) -> Any:
        y, pullback = ws.vjp(lambda x: np.max(x, axis=1), x)
        (gx,) = pullback(np.ones(2))
        return gx, np.sum((x == y[:, None]).astype(float), axis=1)

    graph = ws.trace(f)(x)
    got, want = python_function(graph, TORCH)(torch.tensor(x)), interpret(graph, [x])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)
