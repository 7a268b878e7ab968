"""Long loops of Python in functions of `jit` are loops of the program, and give the numbers that they gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler import devices
from wholestep.frontend.traced_function import LONG, with_loops
from wholestep.passes.pipeline import ALL_PASSES, run_passes

ROUNDS = 240


def recurrent(w: Any, x: Any) -> Any:
    h = 0 * x[0]
    for row in x:
        h = np.tanh(row @ w + h @ w.T)
    return np.sum(h * h)


def in_two_layers(w: Any, x: Any) -> Any:
    """Two recurrences over the second axis, the outer one over the states of the inner one."""
    x = np.transpose(x, (1, 0, 2)) * w[0]
    inner, h = [], x[:, 0]
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w + h)
        inner.append(h)
    outer, g = [], h
    for h in inner:
        g = np.tanh(h @ w - g)
        outer.append(g)
    return np.sum(np.stack(outer, 1) ** 2)


def pendulum(s: Any, rounds: Any) -> Any:
    for _ in range(rounds):
        angle, speed = s[0], s[1]
        s = s + 0.01 * np.array([speed, -np.sin(angle) - 0.1 * speed * np.cos(2 * angle) * abs(speed)])
    return np.sum(s * s)


def drawn() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 8)) / 3, rng.standard_normal((ROUNDS, 4, 8))


def test_a_recurrence_in_jit_is_a_loop_with_its_gradient() -> None:
    w, x = drawn()
    for f in (recurrent, ws.grad(recurrent, (0, 1)), ws.grad(in_two_layers, (0, 1))):
        graph = ws.trace(f)(w, x)
        loops = run_passes(with_loops(graph, "cpu"), ALL_PASSES)
        assert len(graph.nodes) > LONG > 10 * len(loops.nodes)
        found, wanted = ws.jit(f)(w, x), ws.jit(f, device="reference")(w, x)
        for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_elementwise_rounds_on_small_arrays_are_a_loop_and_on_large_ones_one_kernel() -> None:
    graph, large = (ws.trace(lambda s: pendulum(s, ROUNDS))(s) for s in (np.array([1.0, 0.5]), np.ones((2, 10_000))))
    assert len(with_loops(graph, "cpu").nodes) < 200
    assert with_loops(large, "cpu") is large
    s = np.array([1.0, 0.5])
    for f in (pendulum, ws.grad(pendulum)):
        found = ws.jit(lambda s, f=f: f(s, ROUNDS))(s)
        np.testing.assert_allclose(found, f(s, ROUNDS), rtol=1e-10)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_short_graphs_symbolic_ones_and_those_of_the_interpreter_stay(device: str) -> None:
    w, x = drawn()
    short = ws.trace(recurrent)(w, x[: LONG // 10])
    symbolic = ws.trace(recurrent)(w, ws.ShapeDtype((ROUNDS, ws.Dim("n"), 8), float)) if device == "cpu" else short
    assert with_loops(short, device) is short
    assert with_loops(symbolic, device) is symbolic
    whole = ws.trace(recurrent)(w, x)
    assert (with_loops(whole, device) is whole) == (device == "reference")


def test_an_attached_function_has_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, sizes = devices.compile_for_device, []

    def noted(graph: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(graph.nodes))
        return compiled(graph, *rest, **options)

    w, x = drawn()
    step = ws.compile(recurrent, w, optimizer=ws.optim.sgd(0.1), batch=x)
    monkeypatch.setattr(devices, "compile_for_device", noted)
    np.testing.assert_allclose(step.attach(recurrent)(x), recurrent(w, x), rtol=1e-10)
    assert len(ws.trace(recurrent)(w, x).nodes) > LONG > 10 * sizes[0]
