"""Powers among the factors of a density: by their logarithms, but at their zeros, where a logarithm has no slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wholestep.frontend.marks import stop_gradient
from wholestep.scipy.outside import np, special

Power = tuple[Any, Any, float]
"""(exponent, x, shift) for (shift + x) ** exponent; the shift is 0, or 1 for a small x to keep its digits."""


def log_of_powers(powers: list[Power], log_rest: Any) -> Any:
    """The logarithm of a density from its powers and the logarithm of its other factors."""
    logs = [special.xlog1py(e, x) if shift else special.xlogy(e, x) for e, x, shift in powers]
    return sum(logs, log_rest)


def product_of_powers(powers: list[Power], log_rest: Any) -> Any:
    """A density from its powers and the logarithm of its other factors."""
    if not powers:
        return np.exp(log_rest)
    parts = [power_parts(*power) for power in powers]
    return density(sum([log for log, _ in parts], log_rest), math.prod([factor for _, factor in parts]))


def density_at(parts: Callable[[Any], tuple[list[Power], Any]], z: Any, middle: Any) -> Any:
    """A density at z; `parts` gives its powers and the logarithm of its other factors, `middle` is inside its support.

    At the zero of a power that is not whole, every derivative in z is that of the power times the other factors: it is
    0, or larger by order than all other terms. The others are held there, so that none of them is 0 times infinity.
    """
    powers, log_rest = parts(z)
    if not powers:
        return np.exp(log_rest)
    anywhere: Any = np.False_
    end: Any = 1.0
    for e, x, shift in powers:
        broken = (x == -shift) & (np.floor(e) != e)
        anywhere = anywhere | broken
        end = np.where(broken, np.where(broken, x + shift, 1.0) ** e, end)
    held, log_held = parts(stop_gradient(z))
    log_at_end = sum([power_parts(*power)[0] for power in held], log_held)
    inside = product_of_powers(*parts(np.where(anywhere, middle, z)))
    return np.where(anywhere, density(log_at_end, end), inside)


def power_parts(exponent: Any, x: Any, shift: float = 0.0) -> tuple[Any, Any]:
    """The logarithm of a power, 0 where its base is 0; and the power itself there, 1 elsewhere."""
    zero = x == -shift
    log = log_of_powers([(exponent, np.where(zero, 1.0 - shift, x), shift)], 0.0)
    return log, (np.where(zero, x, 1.0 - shift) + shift) ** exponent


def density(log: Any, factor: Any) -> Any:
    """exp(log) * factor, where a factor of 0 counts for more than an exponential that is too large for a number."""
    return np.exp(np.where(factor == 1, log, np.minimum(log, 700.0))) * factor
