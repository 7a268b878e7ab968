"""NumPy's histograms: counts, or sums of weights, which are differentiated; edges that follow the data are too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep import dtypes
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import lift
from wholestep.numpy.conditions import where_holds
from wholestep.numpy.creation import linspace, ones
from wholestep.numpy.movement import ravel, traced_array
from wholestep.numpy.outside import np


@covers(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """numpy.histogram, differentiable in the weights, and in edges that are traced or follow traced data.

    Which bin an element is in has no derivative. Raises UnsupportedError for a rule that chooses the number of bins
    from traced data.
    """
    values = ordered_values("histogram", a)
    edges = ordered_edges("histogram", a, values, bins, range)
    each = lift(ones(values.shape, np.int64)) if weights is None else ravel(traced_array(weights))
    counts = sums_in_bins("histogram", [values], [edges], each)
    if density:
        counts = counts / np.diff(edges) / np.sum(counts)
    return counts, edges


@covers(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """numpy.histogram_bin_edges, differentiable in the data; weights choose nothing where the number is given."""
    return ordered_edges("histogram", a, ordered_values("histogram", a), bins, range)


@covers(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, list[Any]]:
    """numpy.histogramdd, differentiable as histogram is; counts are floats."""
    columns = columns_of_sample(sample)
    count = len(columns)
    several = list(bins) if has_items(bins) else [bins] * count
    ranges = [None] * count if range is None else list(range)
    if len(several) != count or len(ranges) != count:
        raise ValueError(f"there are {count} variables, bins for {len(several)} and ranges for {len(ranges)}")
    if any(isinstance(each, str) for each in several):
        raise TypeError("bins are their number, or edges")
    values = [ordered_values("histogramdd", column) for column in columns]
    given = zip(columns, values, several, ranges, strict=True)
    edges = [ordered_edges("histogramdd", *each) for each in given]
    each = lift(ones(values[0].shape)) if weights is None else ravel(traced_array(weights))
    if each.dtype.kind == "c":
        raise DtypeError(f"histogramdd: weights are {each.type}, and counts are real")
    counts = sums_in_bins("histogramdd", values, edges, each.astype(np.float64))
    if density:
        total = np.sum(counts)
        for axis, x in enumerate(edges):
            counts = counts / np.diff(x).reshape(-1, *[1] * (count - 1 - axis))
        counts = counts / total
    return counts, edges


@covers(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """numpy.histogram2d, differentiable as histogram is; counts are floats."""
    if np.shape(x)[:1] != np.shape(y)[:1]:
        raise ValueError("x and y must have the same length")
    shared = has_items(bins) and len(bins) not in (1, 2)
    counts, (xedges, yedges) = histogramdd([x, y], [bins, bins] if shared else bins, range, density, weights)
    return counts, xedges, yedges


def columns_of_sample(sample: Any) -> list[Any]:
    """The variables of a sample: the columns of a matrix, the vectors of a list, or one vector."""
    if not isinstance(sample, list | tuple):
        return list(sample.T) if np.ndim(sample) == 2 else [sample]
    return list(sample) if has_items(sample[0]) else [sample]


def has_items(x: Any) -> bool:
    """Test whether something is a list, which may be ragged, or an array with axes."""
    return isinstance(x, list | tuple) or bool(np.ndim(x))


def ordered_values(name: str, a: Any) -> Any:
    """Values in a row; raises DtypeError for complex ones."""
    values = ravel(traced_array(a))
    if values.dtype.kind == "c":
        raise DtypeError(f"{name}: complex numbers such as {values.type} have no order", hint="count x.real or abs(x)")
    return values


def ordered_edges(name: str, a: Any, values: Any, bins: Any, range: Any) -> Any:
    """The edges of the bins as an array; raises DtypeError for complex ones."""
    edges = lift(edges_of(name, a, values, bins, range))
    if edges.dtype.kind == "c":
        raise DtypeError(f"{name}: edges of complex numbers such as {edges.type} have no order")
    return edges


def sums_in_bins(name: str, values: Sequence[Any], edges: Sequence[Any], weights: Any) -> Any:
    """The sum of the weights in each bin of a grid; values outside of it are left out."""
    if weights.shape != values[0].shape:
        raise ShapeError(f"{name}: weights are {weights.type}, and the values {values[0].type}")
    shape = tuple([int(x.shape[0]) - 1 for x in edges])
    flat, inside = 0, True
    for x, marks, n in zip(values, edges, shape, strict=True):
        place = np.searchsorted(marks, x, side="right") - 1
        flat = flat * n + np.where(x == marks[-1], n - 1, place)
        inside = inside & (x >= marks[0]) & (x <= marks[-1])
    total = math.prod(shape)
    made = traced_array(np.zeros(total + 1, weights.dtype)).copy()
    np.add.at(made, np.where(inside, flat, total), weights)
    return made[:total].reshape(shape)


def edges_of(name: str, a: Any, values: Any, bins: Any, range: Any) -> Any:
    """The edges of the bins, plain where they depend on no traced value."""
    if not is_traced(a):
        return bins if is_traced(bins) else np.histogram_bin_edges(a, bins, range)
    if isinstance(bins, str):
        raise UnsupportedError(f"{name}: bins={bins!r} of traced data is not covered", hint="give their number")
    if np.ndim(bins):
        if not is_traced(bins) and np.any(np.diff(bins) < 0):
            raise ParameterError(f"{name}: bins must increase")
        return bins
    if bins < 1:
        raise ParameterError(f"{name}: bins={bins} is not positive")
    dtype = values.dtype if dtypes.is_float(values.dtype) else np.float64
    if range is not None or 0 in values.shape:
        return np.histogram_bin_edges(np.zeros(0, dtype if name == "histogram" else np.float64), bins, range)
    low, high = np.min(values), np.max(values)
    if values.dtype.kind == "f":
        finite = np.isfinite(low) & np.isfinite(high)
        low = where_holds(low, finite, f"{name}: the range of data with nan or inf is not finite")
    flat = low == high
    made = linspace(np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high), bins + 1)
    return made.astype(dtype)
