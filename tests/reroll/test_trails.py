"""A loop that keeps its carry at each step writes it there once, for all readers of its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wholestep.backends.reference import interpret
from wholestep.compiler.driver import compile_graph
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph, Value
from wholestep.ir.types import array_type
from wholestep.lower.program.steps import ForLoop, RoutineCall, walk_steps

ARGS = [np.linspace(-1, 1, n).reshape(shape).astype(np.float32) for n, shape in ((12, (3, 4)), (16, (4, 4)))]
XS = np.linspace(0, 1, 60).reshape(5, 3, 4).astype(np.float32)


def layer(w: Value, h: Value, x: Value) -> list[Value]:
    """The next carry cannot be written over the last one: it is a matrix product of it."""
    return [OPS["tanh"](OPS["contract"](h, w, spec="ij,jk->ik") + x), h]


def looped(reverse: bool, then: Any) -> Graph:
    def made(h: Value, w: Value, xs: Value) -> list[Value]:
        body, _ = build(layer, [w.type, h.type, array_type(h.shape, h.dtype)], name="body")
        last, rows = OPS["scan"](w, h, xs, graph=body, sizes=(1, 1), length=5, reverse=reverse)
        return list(then(last, rows))

    return build(made, [array_type(x.shape, x.dtype) for x in (*ARGS, XS)])[0]


THEN = {
    "read inside": lambda last, rows: [last * 2.0 + OPS["sum"](rows, axes=(0,))],
    "both results": lambda last, rows: [last, rows],
    "the rows alone": lambda last, rows: [rows * 2.0],
    "one result, one inside": lambda last, rows: [last, rows * rows],
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", THEN)
def test_it_gives_what_the_interpreter_gives(name: str, reverse: bool) -> None:
    graph = looped(reverse, THEN[name])
    program = compile_graph(graph)
    for a, b in zip(interpret(graph, [*ARGS, XS]), program([*ARGS, XS]), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def test_nothing_is_copied_inside() -> None:
    plan = compile_graph(looped(True, THEN["read inside"])).plan
    loops = [step for step in plan.steps if isinstance(step, ForLoop)]
    assert len(loops) == 1
    assert not [s for s in walk_steps(loops[0].body) if isinstance(s, RoutineCall)] and len(loops[0].body) == 1


def test_two_loops_in_one_another_keep_their_own() -> None:
    def made(h: Value, w: Value, xs: Value) -> list[Value]:
        inner, _ = build(layer, [w.type, h.type, array_type(h.shape, h.dtype)], name="inner")

        def outer(w: Value, xs: Value, h: Value, n: Value) -> list[Value]:
            last, rows = OPS["scan"](w, h, xs, graph=inner, sizes=(1, 1), length=5, reverse=True)
            return [last + OPS["sum"](rows, axes=(0,)) * 0.1, h * n]

        body, _ = build(outer, [w.type, xs.type, h.type, h.type], name="outer")
        last, rows = OPS["scan"](w, xs, h, xs, graph=body, sizes=(2, 1), length=5, reverse=False)
        return [last * 1.0, rows]

    graph = build(made, [array_type(x.shape, x.dtype) for x in (*ARGS, XS)])[0]
    for a, b in zip(interpret(graph, [*ARGS, XS]), compile_graph(graph)([*ARGS, XS]), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
