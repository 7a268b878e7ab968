"""Piecewise polynomials: their values and derivatives at points, and the polynomials that they are the slopes of."""

from __future__ import annotations

import math
from typing import Any

import scipy.interpolate

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import is_traced
from wholestep.scipy.outside import alike, np, stands_for

outside: Any = scipy.interpolate


def piece_of(x: Any, at: Any) -> Any:
    """The piece of breakpoints that each point is in, the first or last one beyond them."""
    return np.clip(np.searchsorted(x, at, side="right") - 1, 0, int(x.shape[0]) - 2)


class PPoly:
    """A piecewise polynomial: sum over j of `c[j, i] * (t - x[i]) ** (k - 1 - j)` between x[i] and x[i + 1].

    It is called as SciPy's: at points of any shape, with an order of derivative `nu` and `extrapolate`, True, False for
    nan outside, or "periodic". At a breakpoint the piece on its right is taken. Differentiable in c, x and the points.

    Shapes: c [k, m, ...] real or complex, x [m + 1] rising; in float64; points [...], and the result [..., ...].
    Raises: ShapeError for coefficients that do not fit, UnsupportedError for `solve` and `roots`.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.interpolate import PPoly
    >>> bent = PPoly(np.array([[1.0, -1.0], [0.0, 2.0], [0.0, 1.0]]), np.array([0.0, 1.0, 2.0]))
    >>> bent([0.5, 1.5]).tolist(), float(ws.grad(bent)(1.5)), float(bent.integrate(0.0, 1.0)) * 3
    ([0.25, 1.75], 1.0, 1.0)
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        coefficients, self.x = alike(c, x)
        if coefficients.ndim < 2 or not 0 <= axis < coefficients.ndim - 1:
            raise ShapeError(f"PPoly: coefficients of shape {coefficients.shape} have no pieces along axis {axis}")
        self.c: Any = np.moveaxis(coefficients, (axis, axis + 1), (0, 1))
        if self.x.ndim != 1 or self.c.shape[1] != self.x.shape[0] - 1:
            raise ShapeError(f"PPoly: {self.c.shape[1]} pieces between breakpoints of shape {self.x.shape}")
        self.extrapolate: Any = True if extrapolate is None else extrapolate
        self.axis = axis

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The values, or derivatives of order nu, at points."""
        c, knots, at = alike(self.c, self.x, x)
        outward = self.extrapolate if extrapolate is None else extrapolate
        if isinstance(outward, str) and outward == "periodic":
            at = knots[0] + (at - knots[0]) % (knots[-1] - knots[0])
        place = piece_of(knots, at)
        beyond = (1,) * (c.ndim - 2)
        step = np.reshape(at - knots[place], (*at.shape, *beyond))
        made: Any = np.zeros((*at.shape, *c.shape[2:]), c.dtype)
        for j in range(int(c.shape[0]) - nu):
            power = int(c.shape[0]) - 1 - j
            made = made * step + c[j][place] * (math.factorial(power) // math.factorial(power - nu))
        if not outward:
            inside = (at >= knots[0]) & (at <= knots[-1])
            made = np.where(np.reshape(inside, (*at.shape, *beyond)), made, np.nan)
        axes = [*range(at.ndim, made.ndim)]
        order = [*axes[: self.axis], *range(at.ndim), *axes[self.axis :]]
        return np.transpose(made, order) if order != sorted(order) else made

    def derivative(self, nu: int = 1) -> PPoly:
        """The derivative of order nu, or the antiderivative for a negative one."""
        if nu < 0:
            return self.antiderivative(-nu)
        k = int(self.c.shape[0])
        kept = self.c[: k - nu] if nu < k else np.zeros_like(self.c[:1])
        factors = [math.factorial(k - 1 - j) // math.factorial(k - 1 - j - nu) for j in range(k - nu)] or [0]
        return self.like(kept * np.reshape(np.array(factors, np.float64), (-1,) + (1,) * (self.c.ndim - 1)))

    def antiderivative(self, nu: int = 1) -> PPoly:
        """The continuous antiderivative of order nu, a piecewise polynomial that is 0 at the first breakpoint."""
        made = self
        for _ in range(nu):
            k = int(made.c.shape[0])
            powers = np.reshape(np.arange(k, 0, -1.0), (-1,) + (1,) * (made.c.ndim - 1))
            raised = made.c / powers
            width = np.reshape(np.diff(made.x), (-1,) + (1,) * (made.c.ndim - 2))
            total = sum([raised[j] * width ** (k - j) for j in range(1, k)], start=raised[0] * width**k)
            starts = np.concatenate([np.zeros_like(total[:1]), np.cumsum(total, axis=0)[:-1]])
            made = made.like(np.concatenate([raised, starts[None]]))
        return made

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        outward = self.extrapolate if extrapolate is None else extrapolate
        if isinstance(outward, str):
            raise UnsupportedError(f"integrate: extrapolate={outward!r} is not covered for traced arrays")
        raised = self.antiderivative()
        return raised(b, extrapolate=outward) - raised(a, extrapolate=outward)

    def like(self, c: Any) -> PPoly:
        """The piecewise polynomial with the same breakpoints and other coefficients, [k, m, ...]."""
        made = PPoly(c, self.x, False if isinstance(self.extrapolate, str) else self.extrapolate)
        made.extrapolate, made.axis = self.extrapolate, self.axis
        return made

    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: how many places there are depends on values. Raises UnsupportedError."""
        raise UnsupportedError("PPoly.solve: not covered", hint="ws.scipy.optimize.brentq finds a place in a bracket")

    roots = solve


def of_plain(spline: Any) -> PPoly:
    """A piecewise polynomial of SciPy's, or a spline of its, as one of ours."""
    if isinstance(spline, outside.PPoly):
        made = PPoly(spline.c, spline.x)
        made.axis, made.extrapolate = spline.axis, spline.extrapolate
        return made
    if not isinstance(spline, outside.BSpline):
        if getattr(spline, "ext", 0) not in (0, "extrapolate"):
            raise UnsupportedError(f"{type(spline).__name__}: ext={spline.ext!r} is not covered for traced arrays")
        spline = outside.BSpline(*spline._eval_args)
    columns = np.reshape(spline.c, (spline.c.shape[0], -1)).T
    pieces = [outside.PPoly.from_spline((spline.t, column, spline.k)) for column in columns]
    made = PPoly(np.stack([piece.c for piece in pieces], axis=-1), pieces[0].x)
    made.c = np.reshape(made.c, (*made.c.shape[:2], *spline.c.shape[1:]))
    made.extrapolate, made.axis = spline.extrapolate, spline.axis
    return made


def checked_points(name: str, x: Any, y: Any, axis: int) -> tuple[Any, Any]:
    """Places and values of a curve, along the first axis; places that are known to rise must."""
    at, heights = alike(x, y)
    if at.ndim != 1 or at.shape[0] < 2:
        raise ShapeError(f"{name}: x is a vector of two places or more, and not of shape {at.shape}")
    if heights.ndim < 1 or heights.shape[axis] != at.shape[0]:
        raise ShapeError(f"{name}: y of shape {heights.shape} has not {at.shape[0]} values along axis {axis}")
    if not is_traced(x) and np.any(np.diff(np.asarray(x)) <= 0):
        raise ParameterError(f"{name}: x must be a rising sequence")
    return at, np.moveaxis(heights, axis, 0)


stands_for(outside.PPoly, PPoly, of_plain)
for name in ("BSpline", "UnivariateSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline"):
    stands_for(getattr(outside, name), getattr(outside, name), of_plain)
