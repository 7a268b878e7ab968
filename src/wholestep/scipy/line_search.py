"""A line search for the strong Wolfe conditions as one loop: it goes on until a minimum is enclosed, then encloses it.

Source: Nocedal and Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wholestep import dtypes
from wholestep.frontend.control import while_loop
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import np, ratio

Slope = Callable[[Any], tuple[Any, Any]]
"""A function of a point that gives value and gradient."""

ROUNDING = 10
"""The units in the last place by which values that are the same may differ."""


class LinePlace(NamedTuple):
    """A place on a line, the value there, the slope along the line, and the gradient."""

    at: Any
    value: Any
    slope: Any
    gradient: Any


def wolfe_step(
    slope_at: Slope, x: Any, start: LinePlace, toward: Any, first: Any, search: Any
) -> tuple[LinePlace, Any]:
    """The place on the line from x `toward` where both conditions hold, and the number of evaluations.

    Where there are too many, it is the lowest place that was found, the start itself if none was low enough. A place
    whose value differs from that of the start by rounding alone is judged by its slope.
    """
    level = start.value + ROUNDING * dtypes.limits(start.value.dtype).eps * np.abs(start.value)

    def going(carry: Any) -> Any:
        *_, done, count = carry
        return ~done & (count < search.line_search_maxiter)

    def body(carry: Any) -> Any:
        trial, low, high, enclosed, _, count = carry
        value, gradient = slope_at(x + trial * toward)
        here = LinePlace(trial, value, gradient @ toward, gradient)
        flat = np.abs(here.slope) <= -search.c2 * start.slope
        lower = (value <= start.value + search.c1 * trial * start.slope) & (value < low.value)
        low_enough = lower | ((value <= level) & flat)
        turned = np.where(enclosed, here.slope * (high.at - low.at), here.slope) >= 0
        high = either(low_enough, either(turned, low, high), here)
        low = either(low_enough, here, low)
        enclosed = enclosed | ~low_enough | turned
        after = np.where(enclosed, between(low, high), 2 * trial)
        return after, low, high, enclosed, low_enough & flat, count + 1

    no = lift(np.bool_(False))
    _, low, _, _, _, count = while_loop(going, body, (first, start, start, no, no, lift(np.int64(0))))
    return low, count


def either(choice: Any, a: LinePlace, b: LinePlace) -> LinePlace:
    """One of two places."""
    return LinePlace(*[np.where(choice, x, y) for x, y in zip(a, b, strict=True)])


def between(low: LinePlace, high: LinePlace) -> Any:
    """A place between two: the minimum of the cubic through both, (3.59), where it is well inside, else the middle."""
    width = high.at - low.at
    bend = low.slope + high.slope - 3 * ratio(high.value - low.value, width)
    square = bend * bend - low.slope * high.slope
    root = np.sign(width) * np.sqrt(np.maximum(square, 0))
    share = 1 - ratio(high.slope + root - bend, high.slope - low.slope + 2 * root)
    inside = (square >= 0) & (share >= 0.1) & (share <= 0.9)
    return low.at + width * np.where(inside, share, 0.5)
