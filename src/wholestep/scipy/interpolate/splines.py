"""Curves of cubic pieces through points: by slopes that are given, smooth to second order, or without new extremes."""

from __future__ import annotations

from typing import Any

import scipy.interpolate

from wholestep.errors import ParameterError, UnsupportedError
from wholestep.frontend.dispatch import is_traced
from wholestep.scipy.interpolate.piecewise import PPoly, checked_points, of_plain
from wholestep.scipy.outside import alike, np, stands_for

outside: Any = scipy.interpolate


def columns(x: Any, y: Any) -> Any:
    """A vector shaped to go along the first axis of an array."""
    return np.reshape(x, (-1,) + (1,) * (y.ndim - 1))


def hermite_pieces(x: Any, y: Any, slopes: Any) -> Any:
    """The coefficients of the cubic pieces with these values and slopes at both ends."""
    width = columns(np.diff(x), y)
    chord = np.diff(y, axis=0) / width
    bend = (slopes[:-1] + slopes[1:] - 2 * chord) / width
    return np.stack([bend / width, (chord - slopes[:-1]) / width - bend, slopes[:-1], y[:-1]])


class CubicHermiteSpline(PPoly):
    """The cubic pieces through values y with slopes dydx at places x.

    Shapes: x [n] rising, y and dydx with n values along `axis`; called as `PPoly`.
    Raises: ShapeError or ParameterError for points that do not fit.
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        at, heights = checked_points("CubicHermiteSpline", x, y, axis)
        at, heights, slopes = alike(at, heights, checked_points("CubicHermiteSpline", x, dydx, axis)[1])
        self.set_pieces(at, heights, slopes, axis, extrapolate)

    def set_pieces(self, x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> None:
        """The pieces by their values and slopes along the first axis, which was `axis` before."""
        super().__init__(hermite_pieces(x, y, slopes), x, extrapolate)
        self.axis = axis % y.ndim


class PchipInterpolator(CubicHermiteSpline):
    """The cubic pieces through points that rise and fall only where the points do.

    Shapes: x [n] rising, y real with n values along `axis`; called as `PPoly`.
    Raises: ShapeError or ParameterError for points that do not fit, UnsupportedError for complex values.
    Source: Fritsch and Butland, "A method for constructing local monotone piecewise cubic interpolants", 1984.

    >>> import numpy as np
    >>> from wholestep.scipy.interpolate import PchipInterpolator
    >>> float(PchipInterpolator(np.arange(4.0), np.array([0.0, 0.0, 1.0, 1.0]))(1.5))
    0.5
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        at, heights = checked_points("PchipInterpolator", x, y, axis)
        if heights.dtype.kind == "c":
            raise UnsupportedError("PchipInterpolator: complex values are not covered")
        self.set_pieces(at, heights, monotone_slopes(at, heights), axis, extrapolate)


def monotone_slopes(x: Any, y: Any) -> Any:
    """The slopes at points: the weighted harmonic mean of both chords, 0 where their signs differ."""
    width = columns(np.diff(x), y)
    chord = np.diff(y, axis=0) / width
    if int(x.shape[0]) == 2:
        return np.concatenate([chord, chord])
    before, after = chord[:-1], chord[1:]
    turning = (np.sign(before) != np.sign(after)) | (before == 0) | (after == 0)
    first, second = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    mean = (first / np.where(turning, 1, before) + second / np.where(turning, 1, after)) / (first + second)
    middle = np.where(turning, 0, 1 / np.where(turning, 1, mean))
    ends = [end_slope(width[i], width[j], chord[i], chord[j]) for i, j in ((0, 1), (-1, -2))]
    return np.concatenate([ends[0][None], middle, ends[1][None]])


def end_slope(near: Any, far: Any, chord: Any, next_chord: Any) -> Any:
    """The slope at an end by three points, kept from overshooting."""
    made = ((2 * near + far) * chord - near * next_chord) / (near + far)
    steep = (np.sign(chord) != np.sign(next_chord)) & (np.abs(made) > 3 * np.abs(chord))
    return np.where(np.sign(made) != np.sign(chord), 0, np.where(steep, 3 * chord, made))


class Akima1DInterpolator(CubicHermiteSpline):
    """The cubic pieces through points with Akima's slopes, which a single point off a line does not bend far around.

    Slopes of the method "makima" stay level beside level points.

    Shapes: x [n] rising, y with n values along `axis`; called as `PPoly`, by default with nan outside.
    Raises: ShapeError or ParameterError for points that do not fit, or a method that is neither.
    Source: Akima, "A new method of interpolation and smooth curve fitting based on local procedures", 1970.
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None) -> None:
        if method not in ("akima", "makima"):
            raise ParameterError(f"Akima1DInterpolator: method={method!r} is neither 'akima' nor 'makima'")
        at, heights = checked_points("Akima1DInterpolator", x, y, axis)
        slopes = akima_slopes(at, heights, method == "makima")
        self.set_pieces(at, heights, slopes, axis, False if extrapolate is None else extrapolate)


def akima_slopes(x: Any, y: Any, modified: bool) -> Any:
    """The slopes at points: the mean of two chords, weighted by how much those beyond them bend.

    The `modified` weight counts half of how much the two chords there rise, too.
    """
    chord = np.diff(y, axis=0) / columns(np.diff(x), y)
    if int(x.shape[0]) == 2:
        return np.concatenate([chord, chord])
    low = [2 * chord[:1] - chord[1:2], 3 * chord[:1] - 2 * chord[1:2]]
    high = [2 * chord[-1:] - chord[-2:-1], 3 * chord[-1:] - 2 * chord[-2:-1]]
    whole = np.concatenate([low[1], low[0], chord, *high])
    bends = np.abs(np.diff(whole, axis=0))
    if modified:
        bends = bends + 0.5 * np.abs(whole[1:] + whole[:-1])
    before, after = bends[:-2], bends[2:]
    both = before + after
    straight = both <= 1e-9 * np.max(both)
    share = np.where(straight, 0, before / np.where(straight, 1, both))
    mean = 0.5 * (whole[3:] + whole[:-3])
    return np.where(straight, mean, whole[1:-2] + share * (whole[2:-1] - whole[1:-2]))


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through points: cubic pieces with a continuous second derivative.

    `bc_type` is the condition at the ends: "not-a-knot", "clamped", "natural", or "periodic", where the first and last
    values are taken to be equal; or a pair of these, or of `(order, value)` of a derivative. The slopes are a solution
    of a dense system of n equations. Differentiable in x, y, the values of `bc_type` and the points.

    Shapes: x [n] rising, y with n values along `axis`, real or complex; called as `PPoly`.
    Raises: ShapeError or ParameterError for points or conditions that do not fit.
    Source: de Boor, "A practical guide to splines", 1978, chapter IV.

    >>> import numpy as np
    >>> from wholestep.scipy.interpolate import CubicSpline
    >>> x = np.linspace(0.0, 6.0, 30)
    >>> round(float(CubicSpline(x, np.sin(x), bc_type=((1, 1.0), (1, np.cos(6.0))))(0.7) - np.sin(0.7)), 5)
    0.0
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None) -> None:
        at, heights = checked_points("CubicSpline", x, y, axis)
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        if periodic:
            slopes = periodic_slopes(at, heights)
        else:
            pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
            if len(pair) != 2:
                raise ParameterError(f"CubicSpline: bc_type has {len(pair)} conditions for two ends")
            slopes = smooth_slopes(at, heights, *[condition(bc, heights.shape[1:]) for bc in pair])
        self.set_pieces(at, heights, slopes, axis, "periodic" if periodic and extrapolate is None else extrapolate)


def condition(bc: Any, shape: Any) -> Any:
    """The condition at an end: None for not-a-knot, or the order and value of a derivative."""
    if isinstance(bc, str):
        if bc not in ("not-a-knot", "clamped", "natural"):
            raise ParameterError(f"CubicSpline: bc_type={bc} is not allowed")
        return None if bc == "not-a-knot" else (1 if bc == "clamped" else 2, np.zeros(shape))
    order, value = bc
    if order not in (1, 2) or np.shape(value) != shape:
        raise ParameterError(f"CubicSpline: a condition is a derivative of order 1 or 2 of shape {shape}, not {bc}")
    return order, value if is_traced(value) else np.asarray(value)


def smooth_slopes(x: Any, y: Any, first: Any, last: Any) -> Any:
    """The slopes at points with which second derivatives have no steps, by conditions at both ends."""
    n = int(x.shape[0])
    width = np.diff(x)
    chord = np.diff(y, axis=0) / columns(width, y)
    if n == 2:
        first, last = [(1, chord[0]) if end is None else end for end in (first, last)]
    elif n == 3 and first is None and last is None:
        bend = (chord[1] - chord[0]) / (width[0] + width[1])
        start = chord[0] - bend * width[0]
        return np.stack([start, start + 2 * bend * width[0], start + 2 * bend * (width[0] + width[1])])
    top, top_right = end_row(first, width, chord, 1)
    bottom, bottom_right = end_row(last, width[::-1], chord[::-1], -1)
    lower = np.concatenate([width[1:], bottom[1:]])
    upper = np.concatenate([top[1:], width[:-1]])
    middle = np.concatenate([top[:1], 2 * (width[:-1] + width[1:]), bottom[:1]])
    inner = 3 * (columns(width[1:], y) * chord[:-1] + columns(width[:-1], y) * chord[1:])
    system = np.diag(middle) + np.diag(upper, 1) + np.diag(lower, -1)
    return solved(system, np.concatenate([top_right[None], inner, bottom_right[None]]))


def end_row(end: Any, width: Any, chord: Any, way: int) -> tuple[Any, Any]:
    """The two coefficients of the equation at an end, and its right side; widths and chords go inwards from it."""
    if end is None:
        both = width[0] + width[1]
        right = ((width[0] + 2 * both) * width[1] * chord[0] + width[0] ** 2 * chord[1]) / both
        return np.stack([width[1], both]), right
    order, value = end
    if order == 1:
        return np.stack([width[0] * 0 + 1, width[0] * 0]), chord[0] * 0 + value
    return np.stack([2 * width[0], width[0]]), 3 * chord[0] * width[0] - way * 0.5 * value * width[0] ** 2


def periodic_slopes(x: Any, y: Any) -> Any:
    """The slopes at points of a curve that goes on at its last point as at the first."""
    n = int(x.shape[0]) - 1
    width = np.diff(x)
    chord = np.diff(y, axis=0) / columns(width, y)
    if n == 1:
        return np.concatenate([chord, chord])
    before, chord_before = np.roll(width, 1), np.roll(chord, 1, axis=0)
    right = 3 * (columns(width, y) * chord_before + columns(before, y) * chord)
    one = np.eye(n)
    system = np.diag(2 * (before + width)) + width[:, None] * np.roll(one, -1, 1) + before[:, None] * np.roll(one, 1, 1)
    made = solved(system, right)
    return np.concatenate([made, made[:1]])


def solved(system: Any, right: Any) -> Any:
    """The solution of a system for the columns of an array of any number of axes."""
    n = int(right.shape[0])
    if right.ndim > 1 and 0 in right.shape:
        return right
    return np.reshape(np.linalg.solve(system, np.reshape(right, (n, -1))), right.shape)


for known in (CubicHermiteSpline, PchipInterpolator, Akima1DInterpolator, CubicSpline):
    stands_for(getattr(outside, known.__name__), known, of_plain)
