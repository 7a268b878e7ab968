"""NumPy's histogram: counts, or sums of weights, which are differentiated; edges that follow the data are too."""

from __future__ import annotations

from typing import Any

from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import lift
from wholestep.numpy.creation import linspace
from wholestep.numpy.movement import ravel, traced_array
from wholestep.numpy.outside import np


@covers(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """numpy.histogram, differentiable in the weights, and in edges that are traced or follow traced data.

    Which bin an element is in has no derivative. Raises UnsupportedError for a rule that chooses the number of bins
    from traced data.
    """
    values = ravel(traced_array(a))
    if values.dtype.kind == "c":
        raise DtypeError(
            f"histogram: complex numbers such as {values.type} have no order", hint="count x.real or abs(x)"
        )
    edges = lift(edges_of(a, values, bins, range))
    if edges.dtype.kind == "c":
        raise DtypeError(f"histogram: edges of complex numbers such as {edges.type} have no order")
    n = edges.shape[0] - 1
    place = np.searchsorted(edges, values, side="right") - 1
    place = np.where(values == edges[-1], n - 1, place)
    inside = (values >= edges[0]) & (values <= edges[-1])
    each = lift(np.ones(values.shape, np.int64)) if weights is None else ravel(traced_array(weights))
    if each.shape != values.shape:
        raise ShapeError(f"histogram: weights are {each.type}, and the values {values.type}")
    made = traced_array(np.zeros(n + 1, each.dtype)).copy()
    np.add.at(made, np.where(inside, place, n), each)
    counts = made[:n]
    if density:
        counts = counts / np.diff(edges) / np.sum(counts)
    return counts, edges


def edges_of(a: Any, values: Any, bins: Any, range: Any) -> Any:
    """The edges of the bins, plain where nothing that they follow is traced."""
    if not is_traced(a):
        return bins if is_traced(bins) else np.histogram_bin_edges(a, bins, range)
    if isinstance(bins, str):
        raise UnsupportedError(f"histogram: bins={bins!r} of traced data is not covered", hint="give their number")
    if np.ndim(bins):
        if not is_traced(bins) and np.any(np.diff(bins) < 0):
            raise ParameterError("histogram: bins must increase")
        return bins
    if range is not None:
        return np.histogram_bin_edges(np.zeros(0), bins, range)
    low, high = np.min(values), np.max(values)
    flat = low == high
    made = linspace(np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high), bins + 1)
    return made.astype(values.dtype if values.dtype.kind == "f" else np.float64)
