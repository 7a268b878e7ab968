"""Sibling reductions: those that read one array in the same places run in one kernel, all others in their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.lower.test_added_rows import kernels_of

import wholestep as ws

TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda g, x: (g.sum(0), (g * x).sum(0)),
    "rows": lambda g, x: (g.sum(1), (g * x).sum(1)),
    "all": lambda g, x: (g.sum(), (g * x).sum()),
    "three": lambda g, x: (g.max(0), (g * x).sum(0), (x * x).sum(0)),
    "transposed alike": lambda g, x: (g.T.sum(1), (g.T * x.T).sum(1)),
    "behind a reshape": lambda g, x: (g.reshape(8, 8, 24).sum((0, 1)), (g * x).reshape(8, 8, 24).sum((0, 1))),
    "one needs the other": lambda g, x: (lambda mean: (mean, ((g - mean) ** 2).sum(0)))(g.sum(0) / 64),
}
APART: dict[str, Callable[[Any, Any], Any]] = {
    "other axes": lambda g, x: (g.sum(0), (g * x).sum(1)),
    "other arrays": lambda g, x: (g.sum(0), (x * x).sum(0)),
    "other places": lambda g, x: (g.sum(0), (g.reshape(24, 64).T * x).sum(0)),
}
RNG = np.random.default_rng(3)
G, X = RNG.normal(size=(2, 64, 24)).astype(np.float32)


@pytest.mark.parametrize("name", TOGETHER)
def test_siblings_are_one_kernel(name: str) -> None:
    assert len(kernels_of(TOGETHER[name], G.shape, X.shape)) == 1


def test_a_kernel_has_registers_for_its_siblings() -> None:
    found = kernels_of(lambda g, x: [(g * k).sum(0) for k in range(2, 12)], G.shape, X.shape)
    assert [len(kernel.buffers) - 1 for kernel in found] == [4, 4, 2]


@pytest.mark.parametrize("name", APART)
def test_reductions_that_share_nothing_are_kernels_of_their_own(name: str) -> None:
    assert len(kernels_of(APART[name], G.shape, X.shape)) == 2


@pytest.mark.parametrize("name", [*TOGETHER, *APART])
def test_sums_of_siblings_are_those_of_each_alone(name: str) -> None:
    f = {**TOGETHER, **APART}[name]
    for i, y in enumerate(ws.jit(f)(G, X)):
        alone = ws.jit(lambda g, x, i=i: f(g, x)[i])(G, X)
        assert np.asarray(y).tobytes() == np.asarray(alone).tobytes()
        np.testing.assert_allclose(y, f(G.astype(float), X.astype(float))[i], rtol=1e-5, atol=1e-5)


def test_a_reduction_that_waits_for_its_sibling_stays_apart() -> None:
    """The second sum reads the result of an operation on the first one that has a kernel of its own: in one kernel they
    would wait for each other."""

    def f(g: Any, x: Any) -> Any:
        first = g.sum(0)
        return first, (g * np.linalg.inv(first[:16].reshape(4, 4))[0, 0]).sum(0)

    for y, wanted in zip(ws.jit(f)(G, X), f(G.astype(float), X), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-4)


def test_a_long_chain_behind_a_reduction_is_written_without_recursion() -> None:
    def f(x: Any) -> Any:
        total = (x * x).sum(-1)
        for _ in range(500):
            total = np.tanh(total) + 1
        return total

    (kernel,) = kernels_of(f, (64, 300))
    assert sum([getattr(s, "op", "") == "div" for loop in kernel.body for s in getattr(loop, "body", ())]) == 500
