"""scipy.ndimage: arrays read at places between their elements, and their filters."""

from __future__ import annotations

import itertools
import math
from typing import Any

import scipy.ndimage

from wholestep import dtypes
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.dispatch import binds
from wholestep.numpy.movement import traced_array
from wholestep.scipy.filters import (
    convolve as convolve,
    convolve1d as convolve1d,
    correlate as correlate,
    correlate1d as correlate1d,
    gaussian_filter as gaussian_filter,
    gaussian_filter1d as gaussian_filter1d,
    laplace as laplace,
    prewitt as prewitt,
    sobel as sobel,
    uniform_filter as uniform_filter,
    uniform_filter1d as uniform_filter1d,
)
from wholestep.scipy.outside import fallback, np
from wholestep.scipy.rank_filters import (
    maximum_filter as maximum_filter,
    maximum_filter1d as maximum_filter1d,
    median_filter as median_filter,
    minimum_filter as minimum_filter,
    minimum_filter1d as minimum_filter1d,
    percentile_filter as percentile_filter,
    rank_filter as rank_filter,
)

outside: Any = scipy.ndimage

INDEX_MODES = {
    "constant": "mirror",
    "nearest": "nearest",
    "wrap": "mirror",
    "mirror": "mirror",
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "grid-wrap": "grid-wrap",
    "grid-constant": "grid-constant",
}
"""The modes, and how each reads whole places beyond an edge once a place is mapped."""


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


@binds(outside.map_coordinates, ignored="prefilter")
def map_coordinates(
    input: Any, coordinates: Any, output: Any = None, order: int = 3, mode: str = "constant", cval: Any = 0.0
) -> Any:
    """scipy.ndimage.map_coordinates: orders 0 and 1, in the precision of the coordinates."""
    x, places = traced_array(input), traced_array(coordinates)
    if order not in (0, 1):
        raise UnsupportedError(
            f"map_coordinates: splines of order {order} are not covered for traced arrays",
            hint="order=1 interpolates linearly, order=0 takes the nearest element",
        )
    if mode not in INDEX_MODES:
        raise ValueError(f"boundary mode {mode!r} not supported")
    if places.ndim < 1 or places.shape[0] != x.ndim:
        raise ShapeError(f"map_coordinates: coordinates are {places.type}, and {x.type} has {x.ndim} axes")
    if output is not None and not isinstance(output, str | type | np.dtype):
        raise UnsupportedError("map_coordinates: output= is a dtype for traced arrays")
    wanted = x.dtype if output is None else np.dtype(output)
    if places.dtype.kind not in "f":
        places = places.astype(np.float64)
    places = places.astype(dtypes.compute_dtype(places.dtype), copy=False)
    corners, inside = [], np.ones(places.shape[1:], bool)
    for size, at in zip(x.shape, places, strict=True):
        if mode == "constant":
            inside = inside & (at >= 0) & (at <= size - 1)
        corners.append(corners_of(mapped_place(at, size, mode), size, order, INDEX_MODES[mode]))
    made = np.where(inside, blended(x, corners, cval), cval)
    return rounded_like_c(made, wanted) if wanted.kind in "iu" else made.astype(wanted)


def mapped_place(at: Any, size: int, mode: str) -> Any:
    """A place beyond the edges as the place inside that is read for it."""
    if size == 1 and mode not in ("constant", "grid-constant"):
        return np.zeros_like(at)
    last = size - 1
    if mode == "nearest":
        return np.clip(at, 0, last)
    if mode == "mirror":
        turned = at % (2 * last)
        # Past the right edge SciPy leaves the first step as it is, which decides the nearest element of its middle.
        return np.where(np.where(at < 0, turned > last, turned >= size), 2 * last - turned, turned)
    if mode in ("reflect", "grid-mirror"):
        turned = (at + 0.5) % (2 * size)
        return np.where(turned > size, 2 * size - turned, turned) - 0.5
    if mode == "wrap":
        turned = at % last
        # SciPy's whole turns to the left end at the last element, and those to the right at the first.
        turned = np.where((at < 0) & (turned == 0), turned + last, turned)
        return np.where((at < 0) | (at > last), turned, at)
    return at % size if mode == "grid-wrap" else at


def corners_of(at: Any, size: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """The indices around places along an axis, each with its weight, and True where it is an element."""
    low = np.floor(at + 0.5 if order == 0 else at)
    found = [(low, None)] if order == 0 else [(low, 1 - (at - low)), (low + 1, at - low)]
    return [(*element_index(i.astype(np.int64), size, mode), weight) for i, weight in found]


def element_index(i: Any, size: int, mode: str) -> tuple[Any, Any]:
    """The index of the element that is read at a whole place, and True where there is one."""
    if mode == "grid-constant":
        return np.clip(i, 0, size - 1), (i >= 0) & (i < size)
    if mode == "mirror" and size > 1:
        turned = i % (2 * size - 2)
        return np.minimum(turned, 2 * size - 2 - turned), True
    if mode == "reflect":
        turned = i % (2 * size)
        return np.minimum(turned, 2 * size - 1 - turned), True
    return (i % size if mode == "grid-wrap" else np.clip(i, 0, size - 1)), True


def blended(x: Any, corners: list[list[tuple[Any, Any, Any]]], cval: Any) -> Any:
    """The sum of the elements at all corners, each times its weights."""
    total: Any = 0
    for chosen in itertools.product(*corners):
        found = x[tuple([i for i, _, _ in chosen])]
        for there in [there for _, there, _ in chosen if there is not True]:
            found = np.where(there, found, cval)
        weights = [weight for _, _, weight in chosen if weight is not None]
        total = total + (math.prod(weights[1:], start=weights[0]) * found if weights else found)
    return total


def rounded_like_c(x: Any, dtype: Any) -> Any:
    """Numbers as integers of a dtype: the nearest, halves away from 0, and unsigned ones not below 0."""
    nearest = np.trunc(x + np.where(x > 0, 0.5, -0.5))
    return (np.maximum(nearest, 0) if dtype.kind == "u" else nearest).astype(dtype)
