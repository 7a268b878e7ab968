"""Shampoo: gradients preconditioned along each axis by inverse roots of the sums of their products."""

from __future__ import annotations

from dataclasses import KW_ONLY, field, replace
from typing import Any, TypeVar

from wholestep import dtypes, numpy as wnp
from wholestep.boundary.counts import checked_count
from wholestep.errors import UnsupportedError
from wholestep.frontend.control import cond
from wholestep.frontend.custom import custom_jvp
from wholestep.frontend.marks import stop_gradient
from wholestep.optim.hyper import label, number_in, rate_at
from wholestep.optim.leafwise import Leafwise, add_weight_decay, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import scalar_like, working_zeros

T = TypeVar("T", bound=Leafwise)

BELOW = 0.9999
"""The lower bound of eigenvalues as a fraction of eps, against rounding errors."""
NEAR = 1e-3
"""The relative difference of eigenvalues below which the slope at their mean replaces their divided difference."""


class Shampoo(Leafwise):
    """Shampoo: gradients multiplied along each of their k axes by the -1/(2k)-th power of the sum of their products.

    For a matrix g the direction is l**-1/4 @ g @ r**-1/4, with l and r the sums of g @ g.T and g.T @ g, which begin
    with `eps` on their diagonals. For an axis longer than `largest` only the diagonal is used. The directions are
    accumulated in a velocity, which is multiplied by `momentum` in each update. The powers are recomputed by
    eigenvectors in the first update and every `every`-th after it. `lr` is as in `adam`, and `weight_decay * p` is
    added to the gradient of the parameters p that `decay` selects.

    Shapes: trees of real floating arrays; the state has an array like each and, for each axis of n, two of n by n, or
    of n where that is longer than `largest`.
    Raises: as `sgd` does; ParameterError for an `every` or `largest` below 1, UnsupportedError for complex parameters.
    Source: Gupta, Koren and Singer, "Shampoo: preconditioned stochastic tensor optimization", 2018, algorithm 2.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.shampoo(0.5, momentum=0.0, eps=1e-12), np.zeros((2, 2))
    >>> optimizer.update(np.diag([4.0, 9.0]), optimizer.init(p), p)[0].round(6).tolist()
    [[-0.5, 0.0], [0.0, -0.5]]
    """

    momentum: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-4, metadata=number_in(strictly=True))
    _: KW_ONLY
    every: int = 1
    largest: int = 1024
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def resolved(self) -> Shampoo:
        """The same object with checked counts."""
        return with_checked_counts(self)

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate, True if the powers are recomputed)."""
        return (rate_at(self.lr, common["count"]), common["count"] % self.every == 0), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """A velocity, and for each axis the sum of products and its power."""
        zeros = working_zeros(p)
        if dtypes.is_complex(zeros.dtype):
            raise UnsupportedError("shampoo: complex parameters are not covered", hint="give real and imaginary parts")
        make = [wnp.eye if n <= self.largest else wnp.ones for n in zeros.shape]
        each = tuple([f(n, dtype=zeros.dtype) for f, n in zip(make, zeros.shape, strict=True)])
        return {"velocity": zeros, "sums": tuple([x * scalar_like(self.eps, x) for x in each]), "powers": each}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, turn = numbers
        g = add_weight_decay(p, g, decay)
        sums = tuple([x + products_along(g, axis, x.ndim == 1) for axis, x in enumerate(kept["sums"])])
        powers = kept["powers"]
        if sums:
            powers = cond(turn, lambda sums, old: inverse_roots(sums, self.eps), lambda sums, old: old, sums, powers)
        direction = g if sums else wnp.sign(g)
        for axis, power in enumerate(powers):
            direction = multiplied_along(power, direction, axis)
        v = scalar_like(self.momentum, p) * kept["velocity"] + direction
        return p - scalar_like(rate, p) * v, {"velocity": v, "sums": sums, "powers": powers}


def with_checked_counts(optimizer: T) -> T:
    """An optimizer whose `every` and `largest` are checked counts."""
    counts = {x: checked_count(x, getattr(optimizer, x), label(optimizer)) for x in ("every", "largest")}
    return replace(optimizer, **counts)


def products_along(g: Any, axis: int, alone: bool) -> Any:
    """The inner products of the slices of an array along one axis, or only those of each slice with itself."""
    rows = wnp.moveaxis(g, axis, 0).reshape((g.shape[axis], -1))
    return wnp.sum(rows * rows, axis=1) if alone else rows @ rows.T


def multiplied_along(power: Any, x: Any, axis: int) -> Any:
    """A matrix, or a diagonal, times an array along one of its axes."""
    if power.ndim == 1:
        return x * power.reshape((-1, *[1] * (x.ndim - axis - 1)))
    return wnp.moveaxis(wnp.tensordot(power, x, axes=(1, axis)), 0, axis)


def inverse_roots(sums: tuple[Any, ...], eps: Any) -> tuple[Any, ...]:
    """The -1/(2k)-th powers of k positive definite matrices or diagonals, whose eigenvalues are eps or more."""
    power = -0.5 / len(sums)
    return tuple([diagonal_power(x, eps, power) if x.ndim == 1 else symmetric_power(x, eps, power) for x in sums])


def diagonal_power(w: Any, eps: Any, power: float) -> Any:
    """The powers of eigenvalues, which are first bounded from below by `BELOW` * eps, against rounding errors."""
    return wnp.maximum(w, scalar_like(stop_gradient(eps) * BELOW, w)) ** scalar_like(power, w)


def symmetric_power(x: Any, eps: Any, power: float) -> Any:
    """A power of a symmetric matrix, with the derivative of Daleckii and Krein, also for equal eigenvalues.

    Source: Higham, "Functions of matrices", 2008, 3.10 and 3.11.
    """

    @custom_jvp
    def found(x: Any, eps: Any) -> Any:
        w, v = wnp.linalg.eigh(x)
        return (v * diagonal_power(w, eps, power)) @ v.T

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        x, eps = primals
        w, v = wnp.linalg.eigh(x)
        y = diagonal_power(w, eps, power)
        apart, middle = w[:, None] - w, (w[:, None] + w) / 2
        near = wnp.abs(apart) < NEAR * middle
        quotient = (y[:, None] - y) / wnp.where(near, 1, apart)
        slope = power * wnp.where(near, middle, 1) ** scalar_like(power - 1, w)
        moved = wnp.where(near, slope, quotient) * (v.T @ tangents[0] @ v)
        return (v * y) @ v.T, v @ moved @ v.T

    found.defjvp(rule)
    return found(x, eps)
