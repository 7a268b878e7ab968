"""Small programs that between them use every part of the structural primitives, each with the reason it is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.structure.written import (
    cast,
    checkpoint,
    cond,
    dot,
    literal,
    op,
    scan,
    stated_batch,
    stated_pullback,
    stated_tangent,
    total,
    while_loop,
    wrapped,
)

from wholestep.ir.graph import Value

Values = Sequence[Value]


@dataclass
class Program:
    """A function on values, the shapes of its float inputs, its integer inputs, and properties of its derivatives."""

    function: Callable[..., Values]
    shapes: tuple[tuple[int, ...], ...]
    integers: tuple[Any, ...] = ()
    reverse: bool = True
    smooth: bool = True
    dtype: Any = field(default=np.float64)

    def arguments(self, rng: np.random.Generator) -> list[np.ndarray]:
        floats = [np.asarray(rng.uniform(-0.9, 0.9, shape)) for shape in self.shapes]
        if np.dtype(self.dtype).kind == "c":
            floats = [x + 1j * rng.uniform(-0.9, 0.9, x.shape) for x in floats]
        return [*[x.astype(self.dtype) for x in floats], *[np.asarray(i) for i in self.integers]]


PROGRAMS: dict[str, Program] = {}


def program(*shapes: tuple[int, ...], integers: Sequence[Any] = (), **options: Any) -> Callable[[Any], Any]:
    """A decorator that enters a function into the table under its name."""

    def enter(function: Callable[..., Values]) -> Callable[..., Values]:
        PROGRAMS[function.__name__] = Program(function, shapes, tuple(integers), **options)
        return function

    return enter


def cell(h: Value, x: Value, w: Value) -> Value:
    return op("tanh", dot(h, w) + x)


@program((3,), (3, 3), (4, 3))
def recurrent_net(h: Value, w: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        new = cell(h, x, w)
        return new, new * x

    return scan(step, [h], [xs])


@program((3,), (3, 3), (4, 3))
def backwards_in_time(h: Value, w: Value, xs: Value) -> Values:
    return scan(lambda h, x: (cell(h, x, w), op("sin", h)), [h], [xs], reverse=True)


@program((3,), (3, 3), (0, 3))
def no_steps(h: Value, w: Value, xs: Value) -> Values:
    return scan(lambda h, x: (cell(h, x, w), h * x), [h], [xs])


@program((3,), (3, 3), (1, 3))
def one_step(h: Value, w: Value, xs: Value) -> Values:
    return scan(lambda h, x: (cell(h, x, w), h * x), [h], [xs], reverse=True)


@program((2,))
def nothing_scanned(x: Value) -> Values:
    return scan(lambda h: (op("sin", h) * x,), [x], length=3)


@program((3, 2), (2,))
def nothing_carried(xs: Value, w: Value) -> Values:
    return scan(lambda x: (op("sin", x) * w, total(x * x)), [], [xs])


@program((2,), integers=[np.int64(1)])
def integer_carry(h: Value, i: Value) -> Values:
    def step(i: Value, h: Value) -> Values:
        factor = op("broadcast", cast(i, np.float64), shape=(2,), axes=())
        return i + 1, op("sin", h * factor), i * 2, h

    return scan(step, [i, h], length=3)


@program((5,), (3, 2), integers=[np.array([4, 0, 4])])
def integer_rows_pick_from_a_constant(table: Value, xs: Value, which: Value) -> Values:
    def step(acc: Value, x: Value, i: Value) -> Values:
        picked = op("gather", table, i, axes=(0,))
        return acc + picked * total(x), picked * picked, i

    return scan(step, [literal(0.0)], [xs, which])


@program((2,), (3, 2))
def rows_that_are_copies(h: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        new = op("sin", h) * x
        return new, h, x, new, new

    return scan(step, [h], [xs])


@program((2,), (2,), (2,))
def carries_trade_places(a: Value, b: Value, c: Value) -> Values:
    return scan(lambda a, b, c: (b, c, op("sin", a * b)), [a, b, c], length=4)


@program((2,), (3, 2))
def a_carry_wakes_up(w: Value, xs: Value) -> Values:
    def step(still: Value, late: Value, x: Value) -> Values:
        return still * 0.5, late + op("sin", x * w) * still, late * late

    return scan(step, [literal(1.0, (2,)), literal(0.0, (2,))], [xs])


@program((2,), (3, 2))
def a_chain_of_wakings(w: Value, xs: Value) -> Values:
    def step(a: Value, b: Value, c: Value, x: Value) -> Values:
        return op("cos", b), op("sin", c), c + x * w

    return scan(step, [literal(0.1, (2,)), literal(0.2, (2,)), literal(0.3, (2,))], [xs])[:1]


@program((2,), (3, 2))
def unused_outputs(h: Value, xs: Value) -> Values:
    outs = scan(lambda h, g, x: (op("sin", h) + x, g * x, x * 2, total(h * h)), [h, h], [xs])
    return outs[3:]


@program((2,))
def the_same_value_everywhere(x: Value) -> Values:
    xs = op("broadcast", x, shape=(3, 2), axes=(1,))
    return scan(lambda c, h, g, y: (op("sin", h) * c, h * g, y * h), [x, x], [xs], constants=[x])


@program((2,), (3, 2))
def carry_replaced_by_row_and_by_constant(h: Value, xs: Value) -> Values:
    return scan(lambda h, g, x: (x, literal(2.0, (2,)), h * g), [h, h], [xs])


@program((2,), (3, 2), smooth=False)
def stopped_inside(h: Value, xs: Value) -> Values:
    return scan(lambda h, x: (op("stop_gradient", h) * x + op("sin", h), h), [h], [xs])


@program((2,), (2, 2), (3, 4, 2))
def loop_in_loop(h: Value, w: Value, xs: Value) -> Values:
    def outer(h: Value, rows: Value) -> Values:
        new, kept = scan(lambda g, x: (cell(g, x, w) * h, total(g)), [h], [rows], reverse=True)
        return new, kept

    return scan(outer, [h], [xs])


@program((2,), (4, 2))
def branch_in_loop(h: Value, xs: Value) -> Values:
    def step(i: Value, h: Value, x: Value) -> Values:
        which = op("remainder", i, literal(3, dtype=np.int64))
        (new,) = cond(which, [lambda h, x: (h * x,), lambda h, x: (op("sin", h),), lambda h, x: (x,)], h, x)
        return i + 1, new, new

    return scan(step, [literal(0, dtype=np.int64), h], [xs])


@program((2,), (2, 2), (3, 2))
def checkpoint_in_loop(h: Value, w: Value, xs: Value) -> Values:
    return scan(lambda h, x: (*checkpoint(lambda h, x: (cell(h, x, w),), h, x), h), [h], [xs])


@program((2,), (2, 2), (3, 2))
def contractions_kept_in_loop(h: Value, w: Value, xs: Value) -> Values:
    def inner(h: Value, x: Value) -> Values:
        (composed,) = wrapped("composite", lambda h, x: (cell(h, x, w),), [h, x], label="cell", rule=None)
        return composed, h * x

    return scan(lambda h, x: checkpoint(inner, h, x, policy="contractions"), [h], [xs])


@program((2,), (3, 2))
def everything_kept_of_a_loop(h: Value, xs: Value) -> Values:
    body = lambda h, xs: scan(lambda h, x: (op("sin", h) * x, h), [h], [xs])  # noqa: E731
    return checkpoint(body, h, xs, policy="everything")


@program((2,), (2,))
def named_values_kept(x: Value, w: Value) -> Values:
    return checkpoint(lambda x, w: (op("sin", op("capture", op("sin", x) * w, label="h")),), x, w, policy=("h",))


@program((2,), (3, 2))
def loop_in_checkpoint(h: Value, xs: Value) -> Values:
    return checkpoint(lambda h, xs: scan(lambda h, x: (op("sin", h) * x, h), [h], [xs]), h, xs)


@program((2,), (3, 2), integers=[np.int64(1)])
def loop_in_branch(h: Value, xs: Value, i: Value) -> Values:
    def looping(h: Value, xs: Value) -> Values:
        return scan(lambda h, x: (op("sin", h) * x, h), [h], [xs])

    return cond(i, [lambda h, xs: (h, xs * 2), looping], h, xs)


@program((2,), (2,), integers=[np.int64(7), np.int64(3)])
def branches_that_use_different_operands(a: Value, b: Value, i: Value, k: Value) -> Values:
    first, second, kept = cond(
        i, [lambda a, b, k: (op("sin", a), b, k), lambda a, b, k: (b * b, literal(1.0, (2,)), k + 1)], a, b, k
    )
    return first, second * op("broadcast", cast(kept, np.float64), shape=(2,), axes=()), kept


@program((2,), (2,), integers=[np.int64(-1)])
def an_index_that_depends_on_values(a: Value, b: Value, i: Value) -> Values:
    index = cast(literal(0.0) < total(a), np.int64) + i
    return cond(index, [lambda a, b: (op("sin", a) * b,), lambda a, b: (op("cos", b),)], a, b)


@program((2,), (3, 2), dtype=np.complex128)
def complex_recurrence(h: Value, xs: Value) -> Values:
    return scan(lambda h, x: (op("sin", h) * x, op("conj", h) * x), [h], [xs])


@program((3,), (3, 3), (4, 3), dtype=np.float32)
def single_precision(h: Value, w: Value, xs: Value) -> Values:
    return scan(lambda h, x: (cell(h, x, w), h * x), [h], [xs])


@program((2,), (2,), reverse=False)
def until_small(x: Value, rate: Value) -> Values:
    def going(i: Value, x: Value) -> Values:
        return ((total(x * x) > literal(0.05)) & (i < literal(20, dtype=np.int64)),)

    return while_loop(going, lambda i, x: (i + 1, x * 0.5 + op("sin", rate * x) * 0.1), [literal(0, dtype=np.int64), x])


@program((2,), (2,), reverse=False, integers=[np.int64(3)])
def a_counted_while(x: Value, y: Value, n: Value) -> Values:
    start = [literal(0, dtype=np.int64), x, y, literal(1.0, (2,))]
    return while_loop(lambda i, *rest: (i < n,), lambda i, x, y, still: (i + 1, op("sin", y), x * still, still), start)


@program((2,), (3, 2), reverse=False)
def while_in_scan(h: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        (new,) = while_loop(lambda g: (total(g * g) > literal(0.1),), lambda g: (op("sin", g) * 0.7,), [h + x])
        return new, new * x

    return scan(step, [h], [xs])


@program((2,), (3, 2), reverse=False)
def scan_in_while(h: Value, xs: Value) -> Values:
    def body(i: Value, h: Value) -> Values:
        return i + 1, scan(lambda h, x: (op("sin", h + x),), [h], [xs])[0]

    return while_loop(lambda i, h: (i < literal(2, dtype=np.int64),), body, [literal(0, dtype=np.int64), h])


def softplus(x: Value, w: Value) -> Values:
    y = op("logaddexp", x * w, literal(0.0, x.shape))
    return (y,)


def softplus_forward(x: Value, w: Value) -> Values:
    return *softplus(x, w), op("expit", x * w), x, w


def softplus_backward(share: Value, x: Value, w: Value, gy: Value) -> Values:
    return gy * share * w, gy * share * x


def softplus_tangent(x: Value, w: Value, dx: Value, dw: Value) -> Values:
    return (op("expit", x * w) * (dx * w + x * dw),)


@program((2,), (2,))
def composite_by_its_body(x: Value, w: Value) -> Values:
    return wrapped("composite", softplus, [x, w], label="softplus", rule=None)


@program((2,), (2,))
def composite_by_its_rule(x: Value, w: Value) -> Values:
    rule = stated_pullback(softplus_forward, softplus_backward, [x, w], 1)
    return wrapped("composite", softplus, [x, w], label="softplus", rule=rule)


@program((2,), (2,))
def own_pullback(x: Value, w: Value) -> Values:
    rule = stated_pullback(softplus_forward, softplus_backward, [x, w], 1)
    return wrapped("custom_vjp", softplus, [x, w], rule=rule)


@program((2,), (2,))
def own_tangent(x: Value, w: Value) -> Values:
    return wrapped("custom_jvp", softplus, [x, w], rule=stated_tangent(softplus_tangent, [x, w]))


def softplus_apart(x: Value, w: Value) -> Values:
    return (op("log1p", op("exp", -op("abs", x * w))) + op("maximum", x * w, literal(0.0, (2,))),)


@program((2,), (2,))
def own_batch(x: Value, w: Value) -> Values:
    return wrapped("custom_vmap", softplus, [x, w], rule=stated_batch(softplus_apart, [x, w]))


@program((2,), (3, 2))
def own_batch_in_a_loop(h: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        (a,) = wrapped("custom_vmap", softplus, [h, x], rule=stated_batch(softplus_apart, [h, x]))
        return op("sin", a), a * x

    return scan(step, [h], [xs])


@program((2,), (2,), (3, 2))
def own_rules_in_a_loop(h: Value, w: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        (a,) = wrapped("custom_jvp", softplus, [h, w], rule=stated_tangent(softplus_tangent, [h, w]))
        pull = stated_pullback(softplus_forward, softplus_backward, [a, x], 1)
        (b,) = wrapped("custom_vjp", softplus, [a, x], rule=pull)
        (c,) = wrapped("composite", softplus, [b, h], label="softplus", rule=pull)
        return b, c

    return scan(step, [h], [xs])


@program((2,), (3, 2))
def own_pullback_that_loops(h: Value, xs: Value) -> Values:
    def body(h: Value, xs: Value) -> Values:
        return (scan(lambda h, x: (h * op("sin", x),), [h], [xs])[0],)

    def forward(h: Value, xs: Value) -> Values:
        return *body(h, xs), h, xs

    def backward(h: Value, xs: Value, gy: Value) -> Values:
        _, befores = scan(lambda h, x: (h * op("sin", x), h), [h], [xs])
        return scan(lambda g, x, b: (g * op("sin", x), g * b * op("cos", x)), [gy], [xs, befores], reverse=True)

    return wrapped("custom_vjp", body, [h, xs], rule=stated_pullback(forward, backward, [h, xs], 1))


@program((2,), (3, 2))
def own_tangent_that_loops(h: Value, xs: Value) -> Values:
    def body(h: Value, xs: Value) -> Values:
        return (scan(lambda h, x: (op("sin", h) * x,), [h], [xs])[0],)

    def tangent(h: Value, xs: Value, dh: Value, dxs: Value) -> Values:
        def step(h: Value, dh: Value, x: Value, dx: Value) -> Values:
            return op("sin", h) * x, op("cos", h) * dh * x + op("sin", h) * dx

        return (scan(step, [h, dh], [xs, dxs])[1],)

    return wrapped("custom_jvp", body, [h, xs], rule=stated_tangent(tangent, [h, xs]))


@program((2,), (2,), integers=[np.int64(1)])
def own_tangent_with_structure_inside(x: Value, w: Value, i: Value) -> Values:
    def tangent(x: Value, w: Value, i: Value, dx: Value, dw: Value, di: Value) -> Values:
        (dz,) = cond(i, [lambda x, w, dx, dw: (dx,), lambda x, w, dx, dw: (dx * w + x * dw,)], x, w, dx, dw)
        return checkpoint(lambda x, w, dz: (op("expit", x * w) * dz,), x, w, dz)

    return wrapped("custom_jvp", lambda x, w, i: softplus(x, w), [x, w, i], rule=stated_tangent(tangent, [x, w, i]))


def first(i: Value) -> Value:
    return op("reshape", op("slice", i, start=(0,), stop=(1,), step=(1,)), shape=())


@program((4,), (2,), integers=[np.array([4, 1])])
def a_branch_that_guards_an_index(table: Value, x: Value, starts: Value) -> Values:
    i = first(starts)
    inside = cast(i < literal(4, dtype=np.int64), np.int64)
    return cond(
        inside,
        [lambda t, x, i: (total(x),), lambda t, x, i: (op("gather", t, i, axes=(0,)) * total(x * x),)],
        *(table, x, i),
    )


@program((4,), integers=[np.array([4, 1])], reverse=False)
def a_walk_from_where_it_may_have_ended(table: Value, starts: Value) -> Values:
    def body(i: Value, so_far: Value) -> Values:
        return i + 1, op("sin", so_far) + op("gather", table, i, axes=(0,))

    return while_loop(lambda i, s: (i < literal(4, dtype=np.int64),), body, [first(starts), literal(0.5)])


@program((2,), (3, 2), smooth=False)
def own_pullback_with_a_zero_made_of_a_row(h: Value, xs: Value) -> Values:
    def step(h: Value, x: Value) -> Values:
        rule = stated_pullback(
            lambda h, x: (op("sin", h) * x, h, x), lambda h, x, g: (op("cos", h) * x * g, h * 0), [h, x], 1
        )
        return wrapped("custom_vjp", lambda h, x: (op("sin", h) * x,), [h, x], rule=rule)

    return scan(step, [h], [xs])
