"""scipy.interpolate on grids: arrays read between their elements, at places along each axis."""

from __future__ import annotations

import itertools
import math
from typing import Any

import scipy.interpolate

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.scipy.interpolate.lines import refuse_outside, together
from wholestep.scipy.interpolate.piecewise import piece_of
from wholestep.scipy.outside import alike, np, stands_for

outside: Any = scipy.interpolate
METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function of several numbers through the elements of an array on a grid: linear along each axis, or the nearest.

    `points` are the places along the first axes of `values`, rising or falling; the other axes are results. Outside it
    is `fill_value`, or goes on where that is None. With `bounds_error`, as it is by default, a point outside raises
    ParameterError where it is known, and is nan in a compiled program. Differentiable in all numbers; at a place of the
    grid the derivative is that on its right.

    Shapes: points d vectors [n_i], values [n_1, ..., n_d, ...]; called at points [..., d], or a tuple of d arrays that
    broadcast: [..., ...].
    Raises: ShapeError for arrays that do not fit, UnsupportedError for the methods of splines.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.interpolate import RegularGridInterpolator
    >>> plane = RegularGridInterpolator((np.arange(3.0), np.arange(2.0)), np.arange(6.0).reshape(3, 2))
    >>> plane([0.5, 0.5]).tolist(), ws.grad(lambda x: plane(x)[0])(np.array([0.5, 0.5])).tolist()
    ([1.5], [2.0, 1.0])
    """

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        self.method = checked_method(method)
        if solver is not None or solver_args:
            raise ParameterError(f"RegularGridInterpolator: method={method!r} takes no solver")
        (self.values,) = together(values)
        self.grid: list[Any] = list(alike(*points))
        if len(self.grid) > self.values.ndim:
            raise ShapeError(f"RegularGridInterpolator: {len(self.grid)} axes of an array of shape {self.values.shape}")
        for i, places in enumerate(self.grid):
            if places.ndim != 1 or places.shape[0] != self.values.shape[i] or places.shape[0] < 2:
                raise ShapeError(
                    f"RegularGridInterpolator: places of shape {places.shape} along axis {i} of {self.values.shape}"
                )
            if not is_traced(places) and places[0] > places[-1]:
                self.grid[i], self.values = places[::-1], np.flip(self.values, i)
        self.bounds_error, self.fill_value = bounds_error, fill_value

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """The values at points."""
        if nu is not None:
            raise UnsupportedError("RegularGridInterpolator: nu= is not covered", hint="ws.grad gives derivatives")
        method = self.method if method is None else checked_method(method)
        axes = list(np.broadcast_arrays(*alike(*xi))) if isinstance(xi, tuple) else self.columns(*alike(xi))
        if len(axes) != len(self.grid):
            raise ShapeError(f"RegularGridInterpolator: points of {len(axes)} numbers on a grid of {len(self.grid)}")
        grid = alike(*axes, *self.grid)
        axes, places = [*grid[: len(axes)]], grid[len(axes) :]
        values = together(self.values, axes[0])[0]
        wide = (*axes[0].shape, *(1,) * (values.ndim - len(axes)))
        beyond, unknown = np.zeros(axes[0].shape, bool), np.zeros(axes[0].shape, bool)
        for at, knots in zip(axes, places, strict=True):
            beyond = beyond | (at < knots[0]) | (at > knots[-1])
            unknown = unknown | np.isnan(at)
        if self.bounds_error:
            refuse_outside("RegularGridInterpolator", beyond | unknown)
        made = read(values, places, axes, wide, method)
        fill = np.nan if self.bounds_error else self.fill_value
        if fill is not None:
            made = np.where(np.reshape(beyond, wide), fill, made).astype(made.dtype)
        return np.where(np.reshape(unknown, wide), np.nan, made).astype(made.dtype)

    def columns(self, points: Any) -> list[Any]:
        """The numbers of points [..., d], of one axis more where the points have one alone."""
        if points.ndim == 0 or (points.ndim == 1 and len(self.grid) == 1):
            points = np.reshape(points, (-1, 1))
        if points.ndim == 1:
            points = points[None]
        return [points[..., i] for i in range(int(points.shape[-1]))]


def checked_method(method: str) -> str:
    """A method that is covered; "slinear" is another name of "linear"."""
    if method not in (*METHODS, "slinear"):
        raise UnsupportedError(
            f"RegularGridInterpolator: method={method!r} is not covered for traced arrays",
            hint=f"these are: {', '.join(METHODS)}",
        )
    return "nearest" if method == "nearest" else "linear"


def read(values: Any, grid: Any, axes: Any, wide: Any, method: str) -> Any:
    """The elements around points, weighted by nearness, or the nearest one."""
    corners: list[Any] = []
    for at, knots in zip(axes, grid, strict=True):
        place = piece_of(knots, at)
        share = (at - knots[place]) / (knots[place + 1] - knots[place])
        if method == "nearest":
            corners.append([(np.where(share <= 0.5, place, place + 1), None)])
        else:
            corners.append([(place, 1 - share), (place + 1, share)])
    total: Any = 0
    for chosen in itertools.product(*corners):
        found = values[tuple([place for place, _ in chosen])]
        weights = [weight for _, weight in chosen if weight is not None]
        total = total + (np.reshape(math.prod(weights[1:], start=weights[0]), wide) * found if weights else found)
    return total


def of_scipys_grid(plain: Any) -> RegularGridInterpolator:
    """An object of SciPy's as one of ours."""
    return RegularGridInterpolator(plain.grid, plain.values, plain.method, plain.bounds_error, plain.fill_value)


@covers(outside.interpn)
def interpn(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """scipy.interpolate.interpn: methods "linear" and "nearest"."""
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


stands_for(outside.RegularGridInterpolator, RegularGridInterpolator, of_scipys_grid)
