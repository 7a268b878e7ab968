"""Probabilities of boxes under normal distributions: sums over fixed points, differentiable in all operands."""

from __future__ import annotations

import math
from typing import Any

from wholestep.boundary.counts import checked_count
from wholestep.dims import Dim
from wholestep.errors import UnsupportedError
from wholestep.frontend.marks import stop_gradient
from wholestep.scipy.outside import np, special

FAR = 40.0
"""The number of deviations beyond which a limit counts as infinite: the tail left out is below every double."""
LEAST = 1e-300
"""The smallest probability whose quantile is taken."""
POINTS = 2**14
"""The number of points of a sum in three dimensions or more, where none is given."""
NODES = 64
"""The number of nodes of the quadrature over the correlation."""


def box_probability(name: str, low: Any, high: Any, spread: Any, maxpts: Any = None) -> Any:
    """The probability of boxes [m, n] under a normal distribution of mean zero; negative for limits that are swapped.

    In one dimension that is a difference of distribution functions, in two an integral over the correlation by
    Gauss and Legendre's quadrature, and in more a mean over `maxpts` points of Richtmyer's sequence, folded. Rounding
    is relative to one, not to the probability.
    Source: Genz, "Numerical computation of multivariate normal probabilities", 1992; Drezner and Wesolowsky, "On the
    computation of the bivariate normal integral", 1990.
    """
    n = low.shape[-1]
    if isinstance(n, Dim):
        raise UnsupportedError(f"{name}: the number of components is symbolic", hint="give it a size")
    count = POINTS if maxpts is None else checked_count("maxpts", maxpts, name)
    deviation = np.sqrt(np.diagonal(spread))
    far = stop_gradient(FAR * deviation)
    sign = np.prod(np.where(high < low, -1.0, 1.0), axis=-1)
    low, high = [np.clip(x, -far, far) for x in (np.minimum(low, high), np.maximum(low, high))]
    if n == 1:
        made = special.ndtr(high / deviation) - special.ndtr(low / deviation)
        return sign * made[:, 0]
    if n == 2:
        return sign * rectangle(low / deviation, high / deviation, spread[1, 0] / (deviation[0] * deviation[1]))
    return sign * mean_over_points(low, high, np.linalg.cholesky(spread), count)


def rectangle(low: Any, high: Any, correlation: Any) -> Any:
    """The probability of rectangles [m, 2] for two standard normal numbers of this correlation."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.arcsin(correlation) / 2
    angles = half * (nodes + 1)
    sines, cosines = np.sin(angles), np.cos(angles)
    total: Any = 0.0
    for first, second, sign in ((high, high, 1), (low, high, -1), (high, low, -1), (low, low, 1)):
        h, k = first[:, :1], second[:, 1:]
        powers = np.exp(-(h * h + k * k - 2 * h * k * sines) / (2 * cosines * cosines))
        total = total + sign * half / (2 * math.pi) * (powers @ weights)
    alone = special.ndtr(high) - special.ndtr(low)
    # The parts cancel where the probability is less than their rounding, which may leave it below zero.
    return np.maximum(alone[:, 0] * alone[:, 1] + total, 0.0)


def mean_over_points(low: Any, high: Any, factor: Any, count: int) -> Any:
    """The mean of Genz's integrand, whose variables make one component after another fall into the box."""
    n = low.shape[-1]
    steps = np.sqrt(np.array(primes(n - 1), np.float64))
    points = np.abs(2 * np.mod(np.outer(steps, np.arange(1, count + 1)), 1.0) - 1)
    made: Any = 1.0
    drawn: list[Any] = []
    for i in range(n):
        moved = sum([factor[i, j] * y for j, y in enumerate(drawn)], 0.0)
        least, most = [special.ndtr((x[:, i : i + 1] - moved) / factor[i, i]) for x in (low, high)]
        made = made * (most - least)
        if i < n - 1:
            inside = least + points[i] * (most - least)
            drawn.append(special.ndtri(np.clip(inside, LEAST, 1 - 2.0**-53)))
    return np.mean(made, axis=-1)


def primes(count: int) -> list[int]:
    """The first prime numbers.

    >>> primes(5)
    [2, 3, 5, 7, 11]
    """
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return found
