"""Debye's expansions of Bessel functions, which hold for all orders beside large arguments.

Abramowitz and Stegun, "Handbook of mathematical functions", 9.3.7 to 9.3.15 and 9.7.7 to 9.7.10.
"""

from __future__ import annotations

from functools import cache

from wholestep.export.rules.special import polynomial_in
from wholestep.ir.graph import Value

TERMS = 14
"""The terms of an expansion, the first of which is 1."""


@cache
def debye_polynomials() -> tuple[tuple[float, ...], ...]:
    """The coefficients of u_k(t) / t**k as a polynomial in t**2, for each k.

    u' = t**2 (1 - t**2) / 2 times the derivative of u, and the integral of (1 - 5 t**2) / 8 u.
    """
    found: list[tuple[float, ...]] = [(1.0,)]
    for k in range(TERMS - 1):
        after = [0.0] * (k + 2)
        for i, c in enumerate(found[-1]):
            power = k + 2 * i
            after[i] += c * (power / 2 + 1 / (8 * (power + 1)))
            after[i + 1] -= c * (power / 2 + 5 / (8 * (power + 3)))
        found.append(tuple(after))
    return tuple(found)


def debye_terms(size: Value, square: Value) -> list[Value]:
    """u_k(t) / v**k for each k, where t = v / size and square = t**2."""
    found, power = [], 1 / size
    for k, coefficients in enumerate(debye_polynomials()):
        term = polynomial_in(square, coefficients)
        found.append(term * power if k else term)
        power = power / size if k else power
    return found
