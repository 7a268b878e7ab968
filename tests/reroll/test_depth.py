"""Deep programs: the calls that compiling makes grow with the layers, and no faster."""

import sys

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.lower.compile import lower_program
from wholestep.passes.reroll.packs import Packs
from wholestep.passes.reroll.reroll import reroll

DEPTHS = (12, 24, 48)


def layers(count):
    rng = np.random.default_rng(2)
    return [{"w": rng.normal(size=(6, 6)).astype(np.float32) / 3, "b": np.zeros(6, np.float32)} for _ in range(count)]


def loss(params, x):
    for layer in params:
        c = x - x.mean(-1, keepdims=True)
        x = x + np.tanh(c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) @ layer["w"] + layer["b"])
    return np.mean(x * x)


BATCH = np.ones((4, 6), np.float32)


def count_calls(work):
    """The calls of Python functions while something is done."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def compiling(count, roll):
    """A function that traces, differentiates and rerolls a step of so many layers."""
    given = layers(count)
    return lambda: ws.compile(loss, given, optimizer=optim.adam(0.1), batch=BATCH, roll=roll, device="reference")


def lowering(count):
    """A function that lowers the gradient of so many layers, written out."""
    graph, target = ws.trace(ws.grad(loss))(layers(count), BATCH), machine_model(host_target())
    return lambda: lower_program(graph, target)


WORK = {
    "rolled": lambda count: compiling(count, True),
    "traced": lambda count: compiling(count, False),
    "lowered": lowering,
}


@pytest.mark.parametrize("what", WORK)
def test_calls_grow_with_the_layers_and_no_faster(what):
    count_calls(WORK[what](4))  # work that is done once for all depths
    few, some, many = [count_calls(WORK[what](depth)) for depth in DEPTHS]
    assert many - some <= 2.1 * (some - few)


def test_a_layer_takes_few_calls_to_trace_and_roll():
    few, many = [count_calls(compiling(depth, True)) for depth in (12, 24)]
    operations = len(ws.trace(loss)(layers(2), BATCH).nodes) - len(ws.trace(loss)(layers(1), BATCH).nodes)
    assert (many - few) / 12 / operations < 300


def test_as_many_packs_are_tried_for_many_layers_as_for_few(monkeypatch):
    tried = []
    given = Packs.node_pack_of
    monkeypatch.setattr(Packs, "node_pack_of", lambda self, nodes: tried.append(nodes) or given(self, nodes))
    counts = []
    for depth in (6, 24):
        tried.clear()
        compiling(depth, True)()
        counts.append(len(tried))
    assert counts[0] == counts[1] > 0


def triangle(x, levels):
    """A binomial tree, whose levels are loops of different lengths that read each other's results."""
    values = [x[j] for j in range(levels + 1)]
    for i in range(levels, 0, -1):
        values = [np.tanh(x[0] * values[j + 1] - values[j]) for j in range(i)]
    return values[0]


def test_a_loop_is_compared_again_only_with_loops_that_were_trimmed():
    few, many = [ws.trace(ws.grad(lambda x, n=n: triangle(x, n)))(np.ones(n + 1)) for n in (12, 24)]
    assert len(many.nodes) < 4 * len(few.nodes)
    assert count_calls(lambda: reroll(many, lambda _: False)) < 10 * count_calls(lambda: reroll(few, lambda _: False))
