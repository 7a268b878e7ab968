"""Line searches: step lengths tried until the objective has fallen enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.frontend.control import while_loop

SUFFICIENT = 1e-4
"""The fraction of the decrease predicted by the slope that is sufficient."""

FLATTER = 0.9
"""The largest slope at the end, as a fraction of the first slope."""

Objective = Callable[[Any], tuple[Any, Any]]
"""The type of a function from a step length to the value there and the slope along the direction, both scalars."""


def backtracking(at: Objective, first: Any, value: Any, slope: Any, tries: int) -> Any:
    """`first` halved until the value is lower by 1e-4 of the decrease predicted by the slope; 0 if no try succeeds.

    Armijo, Minimization of functions having Lipschitz continuous first partial derivatives (1966).

    >>> import numpy as np
    >>> float(backtracking(lambda t: ((t - 1.0) ** 2, 2 * (t - 1.0)), np.float64(8.0), 1.0, -2.0, 10))
    1.0
    """

    def high(state: Any) -> Any:
        t, found, tried = state
        return ~sufficient_decrease(found, t, value, slope) & (tried < tries)

    def shorter(state: Any) -> Any:
        t, _, tried = state
        return t / 2, at(t / 2)[0], tried + 1

    t, found, _ = while_loop(high, shorter, (first, at(first)[0], np.ones((), np.int64)))
    return wnp.where(sufficient_decrease(found, t, value, slope), t, wnp.zeros_like(t))


def strong_wolfe(at: Objective, first: Any, value: Any, slope: Any, tries: int) -> Any:
    """A length that meets Armijo's condition, with a slope of at most 0.9 of the first one, in absolute value.

    The length is doubled until an interval contains such a point, and the interval is then halved: at its lower end the
    value is low enough and the slope steep, at its upper end one of the two does not hold. If no try succeeds, the
    result is the longest length whose value was low enough, which may be 0. Nocedal and Wright, Numerical optimization
    (2006), section 3.1.

    >>> import numpy as np
    >>> float(strong_wolfe(lambda t: ((t - 3.0) ** 2, 2 * (t - 3.0)), np.float64(0.1), 9.0, -6.0, 20))
    0.4
    """

    def unmet(state: Any) -> Any:
        t, found, steep, _, _, tried = state
        fine = sufficient_decrease(found, t, value, slope) & (abs(steep) <= -FLATTER * slope)
        return ~fine & (tried < tries)

    def narrower(state: Any) -> Any:
        t, found, steep, low, high, tried = state
        far = ~sufficient_decrease(found, t, value, slope) | (steep > 0)
        low, high = wnp.where(far, low, t), wnp.where(far, t, high)
        t = wnp.where(wnp.isinf(high), 2 * low, (low + wnp.where(wnp.isinf(high), 0, high)) / 2)
        return (t, *at(t), low, high, tried + 1)

    start = (first, *at(first), wnp.zeros_like(first), wnp.full_like(first, np.inf), np.ones((), np.int64))
    t, found, _, low, _, _ = while_loop(unmet, narrower, start)
    return wnp.where(sufficient_decrease(found, t, value, slope), t, low)


def sufficient_decrease(found: Any, t: Any, value: Any, slope: Any) -> Any:
    """Test whether a value has decreased enough for the length of its step; False for a value that is not finite."""
    return wnp.isfinite(found) & (found <= value + SUFFICIENT * t * slope)
