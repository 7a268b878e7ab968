"""Every law on programs that hold programs, and on their derivatives and batches."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from tests.structure.programs import PROGRAMS
from tests.structure.written import cast, cond, literal, op, scan, stated_pullback, wrapped

from wholestep.backends.reference import interpret
from wholestep.errors import DerivativeError
from wholestep.frontend.tracing import type_of
from wholestep.ir import types
from wholestep.ir.build import build
from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.ir.verify import verify
from wholestep.testing import laws
from wholestep.transforms.forward import copied, inline_jvp
from wholestep.transforms.reverse import backward, inline_vjp, vjp
from wholestep.transforms.vmap import Batching

F64 = np.dtype(np.float64)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_law_holds(name: str) -> None:
    program = PROGRAMS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    args = program.arguments(rng)
    graph, captured = build(lambda *xs: program.function(*xs), [type_of(x) for x in args], name=name)
    assert not captured
    laws.check(graph, args, rng, smooth=program.smooth, reverse=program.reverse)
    laws.batch(graph, args, n=0, limit=1)
    laws.batch(graph, args, n=1, limit=1)


def recurrence(h: Value, xs: Value) -> list[Value]:
    return scan(lambda h, x: (op("sin", h) * x, h * x), [h], [xs])


def test_the_same_loop_is_differentiated_twice_where_it_stands() -> None:
    """The first pullback widens the forward scan in place, and the second one widens it again for other cotangents."""
    types = [array_type((2,), F64), array_type((3, 2), F64)]
    plain, _ = build(lambda h, xs: recurrence(h, xs), types)

    def both(h: Value, xs: Value, gh: Value, gys: Value) -> list[Any]:
        copy, outs = copied(plain, [h, xs])
        first = backward(copy.nodes, [(outs[0], gh)], copy.inputs)
        second = backward(copy.nodes, [(outs[0], gh), (outs[1], gys)], copy.inputs)
        third = backward(copy.nodes, [(outs[1], gys)], copy.inputs[:1])
        return [*outs, *first, *second, *third]

    graph, _ = build(both, [*types, *plain.out_types])
    verify(graph)
    laws.text(graph)
    rng = np.random.default_rng(0)
    args = [rng.normal(size=t.shape) for t in graph.in_types]
    found = interpret(graph, args)
    everything = (True, True)
    expected = interpret(plain, args[:2])
    expected += interpret(vjp(plain, everything, (True, False)), args[:3])
    expected += interpret(vjp(plain, everything, everything), args)
    expected += interpret(vjp(plain, (True, False), (False, True)), [*args[:2], args[3]])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("inside", ["scan", "cond", "checkpoint"])
def test_a_sum_over_the_mapped_axis_inside_structure(inside: str) -> None:
    def shared(x: Value) -> list[Value]:
        return [op("sin", op("psum", x, axis_name="rows")) * x]

    def program(x: Value) -> list[Value]:
        if inside == "scan":
            return scan(lambda h: shared(h), [x], length=3)
        if inside == "cond":
            return cond(literal(1, dtype=np.int64), [lambda x: [x], shared], x)
        return wrapped("checkpoint", shared, [x])

    plain, _ = build(program, [array_type((2,), F64)])
    made, marks = Batching(3, "rows").graph(plain, (True,))
    x = np.random.default_rng(1).normal(size=(3, 2))
    expected = x
    for _ in range(3 if inside == "scan" else 1):
        expected = np.sin(expected.sum(0)) * expected
    assert marks == (True,)
    np.testing.assert_allclose(interpret(made, [x])[0], expected, rtol=1e-14)
    laws.check(made, [x], np.random.default_rng(2), batched=False)


def test_a_stated_pullback_may_not_revive_what_a_cast_has_cut() -> None:
    def forward(x: Value, k: Value) -> list[Value]:
        return [x * cast(k, F64), x, k]

    def pull(x: Value, k: Value, gy: Value) -> list[Value]:
        return [gy * cast(k, F64), k]  # a cotangent for an integer is ignored

    def program(x: Value) -> list[Value]:
        k = cast(x, np.int64)
        rule = stated_pullback(forward, pull, [x, k], 1)
        return wrapped("custom_vjp", lambda x, k: [x * cast(k, F64)], [x, k], rule=rule)

    graph, _ = build(program, [array_type((2,), F64)])
    (g,) = interpret(vjp(graph, (True,), (True,)), [np.array([2.5, 3.5]), np.ones(2)])
    np.testing.assert_array_equal(g, [2.0, 3.0])


def test_a_while_loop_refuses_reverse_mode() -> None:
    program = PROGRAMS["until_small"]
    args = program.arguments(np.random.default_rng(0))
    graph, _ = build(lambda *xs: program.function(*xs), [type_of(x) for x in args])
    with pytest.raises(DerivativeError, match="while_loop"):
        vjp(graph, (True, True), (False, True))


def test_a_loop_keeps_no_more_than_its_way_back_needs() -> None:
    """The transpose of the tangents alone keeps only those carries of the primal loop that the tangents read."""

    def step(total: Value, h: Value, x: Value) -> list[Value]:
        return [total + h, op("sin", h) * x]

    types = [array_type((2,), F64), array_type((2,), F64), array_type((4, 2), F64)]
    plain, _ = build(lambda t, h, xs: scan(step, [t, h], [xs])[1:], types)
    assert [node.params["sizes"] for node in plain.nodes if node.op.name == "scan"] == [(0, 1)]


def test_a_value_given_twice_is_two_variables() -> None:
    one = array_type((2,), F64)
    product, _ = build(lambda x, y: [op("sin", x) * y], [one, one])

    def program(x: Value, g: Value) -> list[Any]:
        _, (gx,) = inline_vjp(product, [x, x], (True, False), [g])
        _, (dy,) = inline_jvp(product, [x, x], [None, g])
        return [gx, dy]

    graph, _ = build(program, [one, one])
    x = np.array([0.3, 0.7])
    gx, dy = interpret(graph, [x, np.ones(2)])
    np.testing.assert_allclose(gx, np.cos(x) * x, rtol=1e-15)
    np.testing.assert_allclose(dy, np.sin(x), rtol=1e-15)


def test_types_that_nobody_holds_are_forgotten_but_for_the_last() -> None:
    held = array_type((3, 123457), F64)
    for n in range(3 * types.RECENT):
        array_type((n, 123457, 2), F64)
    left = [key[0][0] for key in types._types if key[0][1:] == (123457, 2)]
    assert sorted(left) == list(range(2 * types.RECENT, 3 * types.RECENT))
    assert array_type((3, 123457), F64) is held
