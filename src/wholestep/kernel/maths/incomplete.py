"""The derivative of the incomplete gamma function P(a, x) in its order a, in float64.

Up to x = a + 1 the power series in x is differentiated term by term, beyond it the continued fraction of 1 - P. Both
run in blocks of steps, until no lane of a vector needs another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wholestep.kernel.build import builder
from wholestep.kernel.lang import Axis, Var
from wholestep.kernel.maths.coefficients import F64
from wholestep.kernel.maths.exponentials import exp
from wholestep.kernel.maths.float_bits import isfinite, isinf, magnitude, number, select
from wholestep.kernel.maths.logarithms import log

BLOCKS, STEPS = 160, 64
State = tuple[Var, ...]


def gammainc_order(a: Var, x: Var) -> Var:
    """dP/da; 0 at x = 0 and at infinity, NaN outside a > 0, x >= 0."""
    b = builder()
    order, at = b.convert(a, F64), b.convert(x, F64)
    inside = (order > 0) & (at > 0) & isfinite(at) & isfinite(order)
    one = number(at, 1.0)
    order_inside, at_inside = select(inside, order, one), select(inside, at, one)
    near = at_inside <= order_inside + 1
    found = select(near, series(order_inside, at_inside, near), fraction(order_inside, at_inside, ~near))
    at_end = (order > 0) & (b.op("eq", at, 0.0) | isinf(at) & (at > 0))
    found = select(inside, found, select(at_end, number(at, 0.0), number(at, math.nan)))
    return b.convert(found, a.dtype)


def repeated(start: State, wanted: Var, step: Callable[[State], State], goes_on: Callable[[State], Var]) -> State:
    """The state after as many steps as `goes_on` demands, where `wanted`; elsewhere the initial state."""
    b = builder()
    with b.loop(Axis("blocks", BLOCKS), ordered=True) as outer:
        held = [outer.carry(v) for v in start]
        with b.loop(Axis("steps", STEPS), ordered=True, guard=wanted & goes_on(tuple(held))) as inner:
            inside = [inner.carry(v) for v in held]
            after = [inner.hand(v, w) for v, w in zip(inside, step(tuple(inside)), strict=True)]
        return tuple([outer.hand(v, w) for v, w in zip(held, after, strict=True)])


def scale(a: Var, x: Var) -> Var:
    """x**a exp(-x) / gamma(a)."""
    return exp(a * log(x) - x - builder().call("special.gammaln:dd", a))


def series(a: Var, x: Var, wanted: Var) -> Var:
    """By the power series."""

    def step(state: State) -> State:
        n, term, slope, sums, slopes = state
        ratio = x / (a + n)
        following = ratio * (slope - term / (a + n))
        term = ratio * term
        return n + 1, term, following, sums + term, slopes + following

    def goes_on(state: State) -> Var:
        _, term, slope, sums, slopes = state
        return (term > 1e-17 * sums) | (magnitude(slope) > 1e-17 * magnitude(slopes))

    first = 1 / a
    start = (number(a, 1.0), first, -first * first, first, -first * first)
    _, _, _, sums, slopes = repeated(start, wanted, step, goes_on)
    return scale(a, x) * (slopes + (log(x) - builder().call("special.psi:dd", a)) * sums)


def fraction(a: Var, x: Var, wanted: Var) -> Var:
    """By the continued fraction and its derivative (Lentz)."""

    def step(state: State) -> State:
        i, c, dc, d, dd, h, dh, _, _ = state
        up, down = -i * (i - a), x + 1 - a + 2 * i
        slope = i * d + up * dd - 1
        dc = -1 + i / c - (up / c) * (dc / c)
        c = down + up / c
        d = 1 / (up * d + down)
        dd = -d * d * slope
        ratio, change = c * d, dc * d + c * dd
        return i + 1, c, dc, d, dd, h * ratio, dh * ratio + h * change, ratio, change

    def goes_on(state: State) -> Var:
        h, dh, ratio, change = state[5:]
        return (magnitude(ratio - 1) > 1e-16) | (magnitude(h * change) > 1e-16 * magnitude(dh))

    d = 1 / (x + 1 - a)
    zero, one = number(a, 0.0), number(a, 1.0)
    start = (one, number(a, 1e300), zero, d, d * d, d, d * d, zero, one)
    h, dh = repeated(start, wanted, step, goes_on)[5:7]
    return -scale(a, x) * (dh + (log(x) - builder().call("special.psi:dd", a)) * h)
