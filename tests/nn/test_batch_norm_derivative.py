"""The stated derivative of batch_norm: that of its formula, in every mode and order, with any of its parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.passes.inline_bodies import inline_bodies, share_composites
from wholestep.passes.pipeline import ALL_PASSES, run_passes

EPS = 1e-3


def by_formula(x: Any, gain: Any, bias: Any) -> Any:
    axes = (0, *range(2, x.ndim))
    mean = np.mean(x, axis=axes, keepdims=True)
    unit = (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + EPS)
    each = [None if v is None else v.reshape(-1, *[1] * (x.ndim - 2)) for v in (gain, bias)]
    y = unit if each[0] is None else unit * each[0]
    return y if each[1] is None else y + each[1]


def stated(x: Any, gain: Any, bias: Any) -> Any:
    return nn.batch_norm(x, gain, bias, eps=EPS)


def arguments(shape: tuple[int, ...], gained: bool, biased: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape[1]) if on else None for on in (gained, biased)]
    return rng.normal(size=shape) + 3.0, *parts


CASES = [(shape, *on) for shape in ((6, 3), (4, 3, 2, 5)) for on in itertools.product((False, True), repeat=2)]


@pytest.mark.parametrize(("shape", "gained", "biased"), CASES)
def test_every_mode_and_order_is_that_of_the_formula(shape: Any, gained: bool, biased: bool) -> None:
    args = arguments(shape, gained, biased)
    given = [a for a in args if a is not None]
    rng = np.random.default_rng(1)
    weights, along = rng.normal(size=shape), [rng.normal(size=a.shape) for a in given]

    def loss(f: Any) -> Any:
        def whole(*parts: Any) -> Any:
            rest = iter(parts)
            return np.sum(np.sin(f(*[None if a is None else next(rest) for a in args])) * weights)

        return whole

    numbers = tuple(range(len(given)))
    for derivative in (
        lambda f: ws.grad(f, numbers)(*given),
        lambda f: ws.jit(ws.grad(f, numbers))(*given),
        lambda f: ws.jvp(f, tuple(given), tuple(along)),
        lambda f: ws.hvp(f, tuple(given), tuple(along)),
        lambda f: ws.jit(lambda *xs: ws.hvp(f, xs, tuple(along)))(*given),
        lambda f: ws.vmap(ws.grad(f, numbers))(*[np.stack([a, 2 * a]) for a in given]),
    ):
        found, wanted = [ws.tree.leaves(derivative(loss(f))) for f in (stated, by_formula)]
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_two_sums_over_the_places_are_all_that_the_way_back_takes() -> None:
    args = [a.astype("f") for a in arguments((4, 3, 2, 5), True, True)]

    def loss(x: Any, gain: Any, bias: Any) -> Any:
        return np.sum(stated(x, gain, bias) ** 3)

    graph = ws.trace(ws.grad(loss, (0, 1, 2)))(*args)
    found = run_passes(inline_bodies(graph), ALL_PASSES)
    sums = [n for n in found.nodes if n.op.name == "sum" and n.inputs[0].ndim == 4]
    assert len(sums) == 2 + 2  # mean and variance of the forward pass


def test_the_compiled_way_back_has_the_mean_and_the_variance_of_the_way_there() -> None:
    args = [a.astype("f") for a in arguments((4, 3, 2, 5), True, True)]
    graph = ws.trace(ws.value_and_grad(lambda *xs: np.sum(stated(*xs) ** 3), (0, 1, 2)))(*args)

    def sums(found: Any) -> int:
        return len([n for n in found.nodes if n.op.name == "sum" and n.inputs[0].ndim == 4])

    loss, forward, backward = 1, 2, 2
    optimized = run_passes(graph, ALL_PASSES)
    assert sums(inline_bodies(optimized)) == loss + 2 * forward + backward
    assert sums(share_composites(optimized)) == loss + forward + backward
