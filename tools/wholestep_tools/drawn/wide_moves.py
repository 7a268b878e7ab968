"""The moves of training programs beyond those of random programs: wide layers, rows, convolutions, tables, halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wholestep import dtypes
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep_tools.drawn.draw import APART, F32, I64, data_of
from wholestep_tools.drawn.learner import Learner

WIDE_MOVES: list[Callable[[Learner], None]] = []
F16, C64 = np.dtype(np.float16), np.dtype(np.complex64)


def move(function: Callable[[Learner], None]) -> Callable[[Learner], None]:
    """Enter a way into the table."""
    WIDE_MOVES.append(function)
    return function


def sum_over(d: Learner, x: Value, axis: int) -> Value:
    """A sum that keeps its axis."""
    total = d.op("sum", x, axes=(axis,))
    return spread(d, total, x, axis)


def spread(d: Learner, x: Value, like: Value, axis: int) -> Value:
    """x, which lacks one axis, as a broadcast to the shape of another value."""
    made: Value = d.op("broadcast", x, shape=like.shape, axes=tuple(i for i in range(like.ndim) if i != axis))
    return made


def weights(d: Learner, *shape: int) -> Value:
    """A parameter, of the size at which a layer keeps its scale."""
    scale = 1.0 / np.sqrt(max(shape[0], 1))
    return d.parameter(d.rng.uniform(-scale, scale, shape))


@move
def dense_layer(d: Learner) -> None:
    x = d.pick(1)
    x = x if x.ndim == 2 else d.op("reshape", x, shape=(x.type.size // x.shape[-1] if x.shape[-1] else 0, x.shape[-1]))
    if x.dtype != F32:
        x = d.op("cast", x, dtype=F32)
    m = d.width()
    h = d.op("contract", x, weights(d, x.shape[1], m), spec="ij,jk->ik")
    h = h + d.op("broadcast", d.parameter(d.rng.uniform(-1, 1, m)), shape=h.shape, axes=(1,))
    if d.chance(0.5) and (np.abs(data_of(h)) > 1e-3).all():
        h = d.op("maximum", h, d.op("full", value=0.0, shape=h.shape, dtype=h.dtype))
    else:
        h = d.op("tanh", h)
    d.keep(h)


@move
def softmax(d: Learner) -> None:
    x = d.pick(1)
    axis = x.ndim - 1 if d.chance(0.7) else d.below(x.ndim)
    if x.shape[axis] == 0:
        return
    top = d.op("stop_gradient", d.op("max", x, axes=(axis,)))
    e = d.op("exp", x - spread(d, top, x, axis))
    total = d.op("sum", e, axes=(axis,))
    if d.chance(0.3):
        d.keep(d.op("log", total) + top)
    if d.chance(0.8):
        d.keep(e / spread(d, total, x, axis))


@move
def norm(d: Learner) -> None:
    x = d.pick(1)
    axis = x.ndim - 1 if d.chance(0.7) else d.below(x.ndim)
    n = x.shape[axis]
    if n == 0:
        return
    c = x - sum_over(d, x, axis) * (1.0 / n)
    v = sum_over(d, c * c, axis) * (1.0 / n)
    y = c / d.op("sqrt", v + 0.1)
    if d.chance(0.5):
        gain = d.op("cast", d.parameter(d.rng.uniform(0.5, 1.5, n)), dtype=x.dtype)
        y = y * d.op("broadcast", gain, shape=x.shape, axes=(axis,))
    d.keep(y)


@move
def make_long(d: Learner) -> None:
    """Rows of every length: in one vector, in a few, in many."""
    n = d.width(300)
    rows = 1 + d.below(5)
    x = d.op("sin", d.parameter(d.rng.uniform(-2, 2, (rows, n))))
    d.keep(x)


@move
def convolve(d: Learner) -> None:
    """A small convolution, by a sliding window."""
    n, c, size, o = 1 + d.below(2), 1 + d.below(3), 3 + d.below(6), 1 + d.below(6)
    k, stride, pad = 1 + d.below(3), 1 + d.below(2), d.below(2)
    x = d.fit(d.pick(), (n, c, size, size), F32)
    x = d.op("mul", x, d.parameter(d.rng.uniform(0.5, 1.5, (n, c, size, size))))
    if pad:
        edge = (0, 0, pad, pad)
        x = d.op("pad", x, before=edge, after=edge, interior=(0,) * 4)
    if x.shape[2] < k:
        return
    windows = d.op("window", x, size=(k, k), stride=(stride, stride), dilation=(1, 1))
    w = weights(d, c * k * k, o)
    kernel = d.op("reshape", d.op("permute", w, axes=(1, 0)), shape=(o, c, k, k))
    h = d.op("contract", windows, kernel, spec="nchwij,ocij->nohw")
    h = h + d.op("broadcast", d.parameter(d.rng.uniform(-1, 1, o)), shape=h.shape, axes=(1,))
    h = d.op("tanh", h)
    d.keep(h)
    if d.chance(0.4) and h.shape[2] % 2 == 0:
        n, o, a, b = h.shape
        pooled = d.op("sum", d.op("reshape", h, shape=(n, o, a // 2, 2, b // 2, 2)), axes=(3, 5))
        d.keep(pooled * 0.25)


@move
def look_up_rows(d: Learner) -> None:
    """Rows of a table, by numbers that are known only when the program runs."""
    rows, width, count = 1 + d.below(6), d.width(), 1 + d.below(7)
    labels = d.data(d.rng.integers(-rows, rows, count))
    x = d.op("gather", weights(d, rows, width), labels, axes=(0,))
    d.keep(x)


@move
def counted(d: Learner) -> None:
    """Integers made from floats, away from where they jump."""
    x = d.pick(1)
    scaled = d.op("sin", x) * 2.0 + 2.0
    known = data_of(scaled)
    if known.size and (np.abs(known - np.round(known)) > APART).all():
        number = d.op("cast", scaled, dtype=I64)
        d.keep(d.op("gather", d.fit(d.pick(), (5,)), number, axes=(0,)))
        d.keep(x * d.op("cast", number, dtype=x.dtype))


@move
def stored_as_half(d: Learner) -> None:
    x = d.pick()
    half = F16 if d.chance(0.5) else dtypes.from_short("bf16")
    d.keep(d.op("cast", d.op("cast", x, dtype=half), dtype=x.dtype))


@move
def turn(d: Learner) -> None:
    """Complex numbers, and back."""
    x = d.pick()
    x = x if x.dtype == F32 else d.op("cast", x, dtype=F32)
    z = d.op("make_complex", d.op("cos", x), d.op("sin", x))
    d.keep(d.op("imag", z * z) + d.op("real", z))


@move
def choose_a_branch(d: Learner) -> None:
    x = d.pick()
    y = d.fit(d.pick(), x.shape, x.dtype)

    def first(a: Value, b: Value) -> list[Value]:
        return [OPS["sin"](a) * b]

    def second(a: Value, b: Value) -> list[Value]:
        return [OPS["tanh"](a + b)]

    branches = tuple([build(f, [x.type, y.type], name=f.__name__)[0] for f in (first, second)])
    which = d.data(np.asarray(d.below(4) - 1))
    d.keep(d.op("cond", which, x, y, branches=branches)[0])


@move
def recur(d: Learner) -> None:
    """A loop over the rows of a value."""
    xs = d.pick(2)
    length, row = xs.shape[0], xs.shape[1:]
    start = d.fit(d.pick(), row, xs.dtype)

    def step(h: Value, x: Value) -> list[Value]:
        h = OPS["tanh"](h * 0.5 + x)
        return [h, h * x]

    graph, _ = build(step, [start.type, start.type], name="step")
    made = d.op("scan", start, xs, graph=graph, sizes=(0, 1), length=length, reverse=d.chance(0.5))
    d.keep(made[d.below(2)])
