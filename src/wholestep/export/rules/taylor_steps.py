"""Solutions of hypergeometric differential equations in graph words, as Taylor series carried from point to point.

z (1 + bend z) w'' + (first + slope z) w' + last w = 0. A step is so short that no term of its series is large beside
their sum: Gil, Segura and Temme, "Numerical methods for special functions" (2007), 9.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.export.rules.incomplete import ENOUGH, state_of_counted_steps, state_where_done
from wholestep.export.rules.special import where_else
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, copysign, maximum, minimum
from wholestep.primitives.creation import like
from wholestep.primitives.functions import sqrt
from wholestep.primitives.logic import floor, isfinite, not_equal

TERMS = 38
"""The terms of a step, each at most a third of the one before it in the end."""
GENTLE = 3.0
"""The terms of a power series that lose no digits."""
MOST_STEPS = 200_000
"""The steps after which a solution is given up."""


class Equation(NamedTuple):
    """The coefficients of an equation; of `bend` -1 it has a singular point at 1."""

    bend: int
    first: Value
    slope: Value
    last: Value

    def factor(self, k: Value | float) -> Value:
        """slope k + last + bend k (k - 1), the factor of coefficient k of a power series in its recurrence."""
        return self.slope * k + self.last + k * (k - 1) * float(self.bend)


class Solution(NamedTuple):
    """A solution at a point, and its derivative there."""

    value: Value
    slope: Value


def growth(e: Equation, k: float) -> Value:
    """The share by which coefficient k + 1 of the power series at 0 is larger than coefficient k."""
    return -e.factor(k) / ((e.first + k) * (k + 1))


def series_at_zero(e: Equation, z: Value) -> Solution:
    """The solution that is 1 at 0, by its power series there."""

    def step(n: Value, first: Value, slope: Value, last: Value, z: Value, *state: Value) -> Sequence[Value]:
        term, total, weighted, size = state
        k = n - 1
        term = term * (-Equation(e.bend, first, slope, last).factor(k) / ((first + k) * n) * z)
        return term, total + term, weighted + term * n, size + absolute(term)

    one, zero = like(z, 1.0), like(z, 0.0)
    found = state_where_done(
        (*e[1:], z), (one, one, zero, one), step, lambda term, t, w, size: absolute(term) > size * (ENOUGH * 0.01)
    )
    some = not_equal(z, zero)
    slope = where_else(some, found[2] / where_else(some, z, 1.0), -e.last / e.first)
    return Solution(found[1], slope)


def taylor_step(e: Equation, z: Value, w: Solution, h: Value) -> Solution:
    """The solution h further on."""
    p = h / (z * (1 + z * float(e.bend)))
    q = p * h
    linear, constant = 1 + z * (2.0 * e.bend), e.first + e.slope * z
    now, after = w.value, w.slope * h
    value, weighted = now + after, after
    for k in range(TERMS):
        up = p * (linear * (k / (k + 2)) + constant * (1 / (k + 2)))
        down = q * e.factor(k) * (1 / ((k + 1) * (k + 2)))
        now, after = after, -(up * after + down * now)
        value, weighted = value + after, weighted + after * (k + 2.0)
    return Solution(value, weighted / h)


def step_length(e: Equation, z: Value, left: Value) -> Value:
    """The length of a step: a third of the way to a singular point, and about a turn of an oscillation."""
    at = z * (1 + z * float(e.bend))
    room = absolute(z) / 3
    if e.bend:
        room = minimum(room, (1 - z) / 3)
    rate = absolute((e.first + e.slope * z) / at) + like(z, 1e-300)
    turn = sqrt(absolute(e.last / at)) + like(z, 1e-300)
    return minimum(minimum(left, room), minimum(2 / rate, 1.5 / turn))


def carried_on(e: Equation, z: Value, target: Value, start: Solution) -> Solution:
    """A solution from a point other than 0 to another one on the same side of it."""

    def step(n: Value, first: Value, slope: Value, last: Value, target: Value, *state: Value) -> Sequence[Value]:
        z, value, derivative = state[:3]
        here = Equation(e.bend, first, slope, last)
        left = absolute(target - z)
        h = step_length(here, z, left)
        ends = h >= left
        moved = where_else(ends, target - z, copysign(h, target - z))
        moved = where_else(not_equal(moved, like(z, 0.0)), moved, 1e-300)
        found = taylor_step(here, z, Solution(value, derivative), moved)
        safe = isfinite(found.value)
        unsafe = copysign(like(z, math.inf), derivative * moved)
        after = where_else(ends, target, z + moved)
        return after, where_else(safe, found.value, unsafe), found.slope, where_else(ends | ~safe, like(z, 0.0), 1.0)

    begun = where_else(not_equal(z, target), like(z, 1.0), 0.0)
    found = state_of_counted_steps((*e[1:], target), (z, *start, begun), step, MOST_STEPS)
    return Solution(found[1], found[2])


class Raised(NamedTuple):
    """An equation whose `first` is moved up by a count, and where no term of its power series is large."""

    equation: Equation
    added: Value
    gentle: Value


def steepness(e: Equation) -> Value:
    """The largest share by which one of the first coefficients at 0 is larger than that before it."""
    return maximum(absolute(growth(e, 0)), maximum(absolute(growth(e, 1)), absolute(growth(e, 2))))


def raised(e: Equation, target: Value) -> Raised:
    """An equation whose regular solution is the largest one near 0, unless that is a power series of small terms."""
    below = e.first < 1
    gentle = below & (steepness(e) * absolute(target) < GENTLE)
    count = where_else(below & ~gentle, -floor(e.first - 1), 0.0)
    return Raised(e._replace(first=e.first + count), count, gentle)


def regular_solution(r: Raised, target: Value) -> Solution:
    """The solution that is 1 at 0: by its power series, then in steps."""
    e = r.equation
    reach = minimum(0.7 / maximum(steepness(e), like(target, 1e-300)), like(target, 0.3 if e.bend else 1.5))
    size = absolute(target)
    near = copysign(where_else(r.gentle, size, minimum(size, reach)), target)
    return carried_on(e, other_than_zero(near), other_than_zero(target), series_at_zero(e, near))


def other_than_zero(target: Value) -> Value:
    """A target, and for 0 the point where no step is taken."""
    return where_else(not_equal(target, like(target, 0.0)), target, 1.0)


def lowered(r: Raised, z: Value, w: Solution) -> Solution:
    """The regular solution before `first` was moved up; Abramowitz and Stegun, 13.4.13 and 15.2.6.

    The derivative of z**(c - 1) w is (c - 1) z**(c - 2) times that of c - 1.
    """

    e = r.equation

    def step(n: Value, slope: Value, last: Value, z: Value, *state: Value) -> Sequence[Value]:
        value, derivative, first, left = state
        second = -((first + slope * z) * derivative + last * value) / (1 + z * float(e.bend))
        below = first - 1
        moved = z * derivative / below
        total = where_else(isfinite(derivative), value + moved, moved)
        change = (first * derivative + second) / below
        return total, where_else(isfinite(change), change, total), below, left - 1

    start = (*w, e.first, r.added)
    found = state_of_counted_steps((e.slope, e.last, z), start, step)
    return Solution(found[0], found[1])
