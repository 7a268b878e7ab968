"""scipy.interpolate.interp1d: lines between points, or the value of a neighbour."""

from __future__ import annotations

from typing import Any

import scipy.interpolate

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array, data_of
from wholestep.frontend.dispatch import is_traced
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.scipy.interpolate.piecewise import of_plain, piece_of
from wholestep.scipy.outside import np, stands_for

outside: Any = scipy.interpolate
KINDS = ("linear", "slinear", "nearest", "nearest-up", "previous", "next", "zero")


def together(*xs: Any) -> list[Any]:
    """Operands with their own dtypes, integers as float64, all traced where one is."""
    if is_traced(xs):
        return [inexact_array(x) for x in xs]
    made = [np.asarray(x) for x in xs]
    return [x if x.dtype.kind in "fc" else x.astype(np.float64) for x in made]


def refuse_outside(name: str, outside_: Any) -> None:
    """Raise ParameterError where a point is known to be outside; in a compiled program none is."""
    known = data_of(outside_.value) if isinstance(outside_, Array) else outside_
    if known is not None and np.any(known):
        raise ParameterError(f"{name}: a point is outside of the range of the interpolation")


class interp1d:
    """A function through points: lines between them, or steps.

    `kind` is "linear" or "slinear", "nearest" or "nearest-up", which differ half way between points, "previous" or
    "zero", or "next". Outside it is `fill_value`, a number or array or a pair of them for below and above, or goes on
    where that is "extrapolate". With `bounds_error`, as it is by default, a point outside raises ParameterError where
    it is known, and is nan in a compiled program. At a point the slope of the line on its right is taken.
    Differentiable in x, y, the fill values and the points.

    Shapes: x [n], y with n values along `axis`; called at points of any shape.
    Raises: ShapeError for points that do not fit, UnsupportedError for splines of other kinds.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.interpolate import interp1d
    >>> line = interp1d(np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 0.0]))
    >>> float(line(2.0)), float(ws.grad(line)(2.0))
    (1.0, -1.0)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise UnsupportedError(
                f"interp1d: kind={kind!r} is not covered for traced arrays", hint=f"{', '.join(KINDS)}; or CubicSpline"
            )
        self.kind = {"slinear": "linear", "zero": "previous"}.get(kind, kind)
        self.x, self.y = together(x, y)
        if self.x.ndim != 1 or self.y.ndim < 1 or self.y.shape[axis] != self.x.shape[0]:
            raise ShapeError(f"interp1d: y of shape {self.y.shape} has not the {self.x.shape} values of x along {axis}")
        self.axis = axis % self.y.ndim
        if not assume_sorted:
            order = np.argsort(self.x, kind="stable")
            self.x, self.y = self.x[order], np.take(self.y, order, axis=axis)
        self.fill_value = fill_value
        self.outward = isinstance(fill_value, str) and fill_value == "extrapolate"
        if self.outward and bounds_error:
            raise ParameterError("interp1d: cannot extrapolate and raise at the same time")
        self.bounds_error = not self.outward if bounds_error is None else bounds_error

    def __call__(self, x: Any) -> Any:
        """The values at points."""
        knots, y, at = together(self.x, self.y, x)
        rows = np.moveaxis(y, self.axis, 0)
        wide = (*at.shape, *(1,) * (rows.ndim - 1))
        made = self.between(knots, rows, at, wide)
        below, above = at < knots[0], at > knots[-1]
        if self.bounds_error:
            refuse_outside("interp1d", below | above)
        low, high = self.fills(rows)
        for there, value in ((below, low), (above, high)):
            if value is not None:
                made = np.where(np.reshape(there, wide), value, made).astype(made.dtype)
        axes = [*range(at.ndim, made.ndim)]
        return np.transpose(made, [*axes[: self.axis], *range(at.ndim), *axes[self.axis :]])

    def fills(self, rows: Any) -> tuple[Any, Any]:
        """The values below and above, None where the function goes on."""
        if self.outward:
            return np.nan if self.kind == "previous" else None, np.nan if self.kind == "next" else None
        if self.bounds_error:
            return np.nan, np.nan
        pair = isinstance(self.fill_value, tuple) and len(self.fill_value) == 2
        low, high = self.fill_value if pair else (self.fill_value, self.fill_value)
        return (lift(low), lift(high)) if is_traced((low, high)) else (np.asarray(low), np.asarray(high))

    def between(self, knots: Any, rows: Any, at: Any, wide: Any) -> Any:
        """The values at points, as if there were lines or steps beyond the ends, too."""
        last = int(knots.shape[0]) - 1
        if self.kind == "linear":
            place = piece_of(knots, at)
            slope = (rows[place + 1] - rows[place]) / np.reshape(knots[place + 1] - knots[place], wide)
            return slope * np.reshape(at - knots[place], wide) + rows[place]
        if self.kind == "previous":
            return rows[np.clip(np.searchsorted(knots, at, side="right") - 1, 0, last)]
        if self.kind == "next":
            return rows[np.clip(np.searchsorted(knots, at, side="left"), 0, last)]
        middles = knots / 2.0
        side = "left" if self.kind == "nearest" else "right"
        return rows[np.searchsorted(middles[1:] + middles[:-1], at, side=side)]


def of_scipys(plain: Any) -> Any:
    """An object of SciPy's as one of ours, its splines as piecewise polynomials."""
    kind = plain._kind
    if kind != "spline":
        return interp1d(plain.x, plain.y, kind, plain.axis, True, plain.bounds_error, plain.fill_value, True)
    if plain.bounds_error or not plain._extrapolate:
        raise UnsupportedError(
            "interp1d: a spline with bounds is not covered for traced points", hint="fill_value='extrapolate'"
        )
    made = of_plain(plain._spline)
    flat = made.c.shape[:2]
    shape = plain.y.shape[: plain.axis] + plain.y.shape[plain.axis + 1 :]
    made.c, made.axis = np.reshape(made.c, (*flat, *shape)), plain.axis
    return made


stands_for(outside.interp1d, interp1d, of_scipys)
