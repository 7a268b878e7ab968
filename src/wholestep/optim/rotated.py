"""SOAP: Adam in the eigenbasis of Shampoo's sums of products."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.control import cond
from wholestep.frontend.custom import custom_jvp
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import decay_parameter, increment_count
from wholestep.optim.moments import WithMoments
from wholestep.optim.paths import Choice
from wholestep.optim.preconditioned import multiplied_along, products_along, with_checked_counts
from wholestep.optim.protocol import root_of_squares, running_mean, scalar_like, working_zeros


class Soap(WithMoments):
    """SOAP: Adam, whose second moment is that of gradients rotated into the eigenbasis of Shampoo's products.

    For a matrix g the bases are eigenvectors of running means of g @ g.T and g.T @ g with decay `b2`; axes longer than
    `largest`, vectors and scalars are not rotated. The first gradient only initializes the eigenvectors and updates no
    parameter; every `every`-th update after it improves them by one step of power iteration, q of qr(mean @ q). The
    sign of each eigenvector makes its largest element positive. `lr`, `b1` and `eps` are those of `adam`, and `b2` is
    the decay rate of the second moment too. `weight_decay` is decoupled, as in `adamw`, for the parameters that `decay`
    selects.

    Shapes: trees of real floating arrays; the state has two arrays like each and, for each rotated axis of n, two of n
    by n.
    Raises: as `adamw` does; ParameterError for an `every` or `largest` below 1, UnsupportedError for complex ones and
    where an update is differentiated: eigenvectors of equal eigenvalues have no derivative.
    Source: Vyas et al., "SOAP: improving and stabilizing Shampoo using Adam", 2024, algorithms 3 and 4.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p, g = ws.optim.soap(0.5, weight_decay=0.0), np.zeros((2, 2)), np.array([[3.0, 4.0], [-8.0, 6.0]])
    >>> state = optimizer.init(p)
    >>> for _ in range(2):
    ...     p, state = optimizer.update(g, state, p)
    >>> p.round(3).tolist()
    [[-0.3, -0.4], [0.4, -0.3]]
    """

    b1: float = field(default=0.95, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.95, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-8, metadata=number_in(strictly=True))
    _: KW_ONLY
    every: int = 10
    largest: int = 10_000
    weight_decay: float | None = field(default=0.01, metadata=number_in(off=0.0))
    decay: Choice = None

    def resolved(self) -> Soap:
        """The same object with checked counts."""
        return with_checked_counts(self)

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the number of updates so far, the rate, and Adam's two corrections, which begin after the first update)."""
        count = common["count"]
        counted = wnp.maximum(count, 1)
        rate = wnp.where(count > 0, rate_at(self.lr, count), 0.0)
        corrections = rate / (1 - self.b1**counted), 1 / wnp.sqrt(1 - self.b2**counted)
        return (count, rate, *corrections), increment_count(common)

    def turned(self, shape: tuple[int, ...]) -> list[int]:
        """The axes that are rotated."""
        return [axis for axis, n in enumerate(shape) if n <= self.largest] if len(shape) > 1 else []

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments, and for each rotated axis the mean of products and its eigenvectors."""
        zeros = working_zeros(p)
        if dtypes.is_complex(zeros.dtype):
            raise UnsupportedError("soap: complex parameters are not covered", hint="give real and imaginary parts")
        sizes = [zeros.shape[axis] for axis in self.turned(zeros.shape)]
        means = tuple([wnp.zeros((n, n), zeros.dtype) for n in sizes])
        return {**super().kept(p), "means": means, "bases": tuple([wnp.eye(n, dtype=zeros.dtype) for n in sizes])}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        count, rate, size, shrink = numbers
        axes, bases = self.turned(p.shape), kept["bases"]
        used = wnp.where(count > 0, g, 0)
        m = running_mean(kept["m"], used, self.b1)
        inside, seen = [turned_by([q.T for q in bases], x, axes) for x in (m, used)]
        v = running_mean(kept["v"], seen * seen, self.b2)
        root = root_of_squares(v) * scalar_like(shrink, v) + scalar_like(self.eps, v)
        step = turned_by(bases, scalar_like(size, v) * inside / root, axes)
        along = [products_along(g, axis, False) for axis in axes]
        means = tuple([running_mean(x, new, self.b2) for x, new in zip(kept["means"], along, strict=True)])
        if axes:
            own = tuple([without_derivative(x) for x in means])
            bases = cond(count % self.every == 0, lambda x, q: found_bases(count, x, q), lambda x, q: q, own, bases)
        return decay_parameter(p, rate, decay) - step, {"m": m, "v": v, "means": means, "bases": bases}


@custom_jvp
def without_derivative(mean: Any) -> Any:
    """The mean itself, without a derivative, since its eigenvectors are computed."""
    return mean


def refuse_derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """Raise UnsupportedError for a derivative through an update."""
    raise UnsupportedError(
        "soap: its updates have no derivative, as eigenvectors of equal eigenvalues have none",
        hint="shampoo and adam have derivatives; ws.unroll and ws.grad take them",
    )


without_derivative.defjvp(refuse_derivative)


def turned_by(bases: Any, x: Any, axes: list[int]) -> Any:
    """An array multiplied along some of its axes by one matrix each."""
    for axis, q in zip(axes, bases, strict=True):
        x = multiplied_along(q, x, axis)
    return x


def found_bases(count: Any, means: tuple[Any, ...], bases: tuple[Any, ...]) -> tuple[Any, ...]:
    """Eigenvectors of symmetric matrices: all of them for the first gradient, one power iteration from then on."""
    # Power iteration keeps the order of columns only if those of the largest eigenvalues come first.
    return cond(
        count == 0,
        lambda means, _: tuple([with_fixed_signs(wnp.linalg.eigh(x)[1][:, ::-1]) for x in means]),
        lambda means, bases: tuple(
            [with_fixed_signs(wnp.linalg.qr(x @ q)[0]) for x, q in zip(means, bases, strict=True)]
        ),
        means,
        bases,
    )


def with_fixed_signs(q: Any) -> Any:
    """Columns with the sign that makes the largest of their elements positive.

    Updates do not depend on the signs, which differ between libraries, but the state of an exported step would.

    >>> import numpy as np
    >>> with_fixed_signs(np.array([[0.6, -0.8], [-0.8, -0.6]])).tolist()
    [[-0.6, 0.8], [0.8, 0.6]]
    """
    return wnp.where(wnp.max(q, axis=0) < -wnp.min(q, axis=0), -q, q)
