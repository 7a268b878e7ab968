"""Tests and sums over all layers are done layer by layer: one program for every number of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, tree
from wholestep.ir.text import parse
from wholestep.passes.differential_check import find_difference
from wholestep.passes.reroll.scan_accumulators import scan_accumulators
from wholestep_tools.depth import DeepWriter, Size, loss as written_loss

WIDTH = 16
CLIPPED = ws.optim.chain(ws.optim.clip_by_global_norm(0.05), ws.optim.adamw(1e-2))
OPTIMIZERS = {"sgd": ws.optim.sgd(0.1), "adam": ws.optim.adam(1e-2), "clipped": CLIPPED}


def size_of(step: Any) -> tuple[Any, ...]:
    nodes = sum(len(graph.nodes) for graph in step.graph.family())
    return nodes, len(step.kernels), step.memory.code, step.source()


@pytest.mark.parametrize(("name", "depths"), [("sgd", (4, 512)), ("adam", (4, 64)), ("clipped", (4, 64, 512))])
def test_a_stack_is_one_program_for_every_number_of_layers(name: str, depths: tuple[int, ...]) -> None:
    text = np.zeros((2, 17), np.int32)

    def step(layers: int) -> Any:
        model = DeepWriter(Size(layers, WIDTH, 2, 16, 2), keep="inputs", key=ws.random.key(0))
        return ws.compile(written_loss, model, optimizer=OPTIMIZERS[name], batch=text)

    first, *others = [size_of(step(n)) for n in depths]
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["adam", "clipped"])
def test_so_are_layers_in_a_python_loop(name: str) -> None:
    def loss(params: Any, x: Any) -> Any:
        for p in params:
            x = x + np.tanh(x @ p["w"] + p["b"]) @ p["v"]
        return np.mean(x**2)

    def step(layers: int) -> Any:
        rng = np.random.default_rng(0)
        shapes = {"w": (WIDTH, 64), "b": (64,), "v": (64, WIDTH)}
        params = [{k: rng.normal(size=s).astype(np.float32) / 9 for k, s in shapes.items()} for _ in range(layers)]
        return ws.compile(loss, params, optimizer=OPTIMIZERS[name], batch=np.ones((4, WIDTH), np.float32))

    first, *others = [size_of(step(n)) for n in (8, 64, 128)]
    assert all(other == first for other in others)


BEFORE = """
def step(c: f32, x: f32):
    mul_1: f32 = mul(c, x)
    return mul_1, mul_1

def true(x0: f32, x1: f32[3]):
    abs_1: f32[3] = abs(x1)
    max_1: f32 = max(abs_1, axes=(0,))
    broadcast_1: f32[3] = broadcast(max_1, shape=(3,), axes=())
    div_1: f32[3] = div(x1, broadcast_1)
    sum_1: f32 = sum(div_1, axes=(0,))
    return sum_1

def false(x0: f32, x1: f32[3]):
    return x0

def f(x: f32, xs: f32[3], i: i64, low: f32):
    scan_1, scan_2 = scan(x, xs, graph=step, sizes=(0, 1), length=3, reverse=True)  # f32, f32[3]
    broadcast_1: f32[3] = broadcast(low, shape=(3,), axes=())
    less_1: bool[3] = less(broadcast_1, scan_2)
    all_1: bool = all(less_1, axes=(0,))
    cond_1, = cond(i, scan_1, scan_2, branches=(false, true))  # f32
    return all_1, cond_1
"""


def test_what_becomes_of_a_small_program() -> None:
    before = parse(BEFORE)
    after = scan_accumulators(before)
    said = str(after)
    assert "reverse=True)  # f32, bool, f32[3]" in said and "bitwise_and" in said
    names = [node.op.name for graph in after.family() for node in graph.nodes]
    assert not {"all", "sum", "max"}.intersection(names) and names.count("scan") == 3
    assert find_difference(before, after, exact=False) == ""
    assert scan_accumulators(after) is after


def test_a_sum_that_nobody_clips_by_stays_as_it_is() -> None:
    plain = BEFORE.replace("all_1: bool = all(less_1, axes=(0,))", "all_1: f32 = sum(scan_2, axes=(0,))")
    said = str(scan_accumulators(parse(plain)))
    assert "sum(scan_2, axes=(0,))" in said


def test_long_ways_from_a_stack_to_a_number_stay_outside() -> None:
    def program(links: int) -> Any:
        def f(x: Any, xs: Any) -> Any:
            _, ys = ws.scan(lambda h, x: (h * x, h * x), x, xs)
            for _ in range(links):
                ys = ys * ys  # both operands are one value: the walk may not fork at every link
            return (ys < 1).all()

        return ws.trace(f)(np.float32(1), np.ones(3, np.float32))

    short, long = program(20), program(200)
    assert scan_accumulators(short) is not short
    assert scan_accumulators(long) is long


def trained(device: str, keep: Any, large: float, **options: Any) -> tuple[list[Any], Any]:
    stack = nn.Stack(lambda key: nn.Linear(4, 4, key=key), 6, key=ws.random.key(1), keep=keep)
    x = np.random.default_rng(2).normal(size=(options.get("steps_per_call", 1), 5, 4)).astype(np.float32)
    x = x if "steps_per_call" in options else x[0]

    def loss(model: Any, x: Any) -> Any:
        return np.mean(np.tanh(model(x)) ** 2) * np.float32(large)

    step = ws.compile(loss, stack, optimizer=CLIPPED, batch=x, device=device, **options)
    results = [step(x) for _ in range(3)]
    return [(result.losses, result.finite) for result in results], step.params


@pytest.mark.parametrize("keep", ["all", "inputs", 2, 4])
@pytest.mark.parametrize("large", [1.0, 1e30, np.inf])
def test_training_is_that_of_the_interpreter(keep: Any, large: float) -> None:
    # At 1e30 the squares overflow, and the norm is computed after a division; at inf no state may change.
    (said, params), (expected, reference) = [trained(device, keep, large) for device in ("cpu", "reference")]
    for (a, fine), (b, right) in zip(said, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
        assert np.all(fine == right)
    for a, b in zip(tree.leaves(params), tree.leaves(reference), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_many_steps_a_call_are_the_steps_one_by_one() -> None:
    (a, params), (b, again) = (
        trained("cpu", "inputs", 1.0, steps_per_call=2),
        trained("reference", "inputs", 1.0, steps_per_call=2),
    )
    for (x, _), (y, _) in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4)
    for x, y in zip(tree.leaves(params), tree.leaves(again), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


class Root(nn.Module):
    """A layer whose gradient is infinite where its parameter is zero."""

    def __init__(self, *, key: Any) -> None:
        self.w = np.ones(3, np.float32)

    def __call__(self, x: Any) -> Any:
        return x + np.sqrt(self.w)


@pytest.mark.parametrize("layer", [None, 0, 2, 5])
def test_one_layer_that_is_not_finite_is_enough(layer: int | None) -> None:
    stack = nn.Stack(lambda key: Root(key=key), 6, key=ws.random.key(0))
    x = np.zeros(3, np.float32)
    step = ws.compile(lambda stack, x: np.mean(stack(x)), stack, optimizer=ws.optim.sgd(0.1), batch=x)
    params = step.params
    if layer is not None:
        params["w"][layer, 1] = 0
    step.set(params=params)
    result = step(x)
    assert np.isfinite(result.loss) and bool(result.finite) == (layer is None)
    assert bool((step.params["w"] == params["w"]).all()) == (layer is not None)


@pytest.mark.parametrize("optimizer", [CLIPPED, ws.optim.adafactor(1e-2)], ids=["clipped", "adafactor"])
@pytest.mark.parametrize(("layers", "keep"), [(9, "sqrt"), (7, 2), (5, 3), (2, 3)])
def test_sums_over_a_stack_have_one_order_in_every_mode(optimizer: Any, layers: int, keep: Any) -> None:
    """Group sizes that divide the number of layers, leave a remainder, or exceed it."""
    stack = nn.Stack(lambda key: nn.Linear(16, 16, key=key), layers, key=0)
    x = np.random.default_rng(0).normal(size=(6, 16)).astype(np.float32)

    def trained(model: Any) -> list[bytes]:
        step = ws.compile(lambda model, x: np.mean(model(x) ** 2), model, optimizer=optimizer, batch=x)
        losses = [step(x).losses.tobytes() for _ in range(4)]
        return [*losses, *[np.asarray(v).tobytes() for v in tree.leaves(step.state)]]

    assert trained(stack.keeping(keep)) == trained(stack)
