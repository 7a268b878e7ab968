"""Operators of PyTorch that read and write elements at indices, and that put elements in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.movement import along
from wholestep.interop.torch.promotion import cast
from wholestep.nn.ordering import stable_order

INDEXING = Handlers()
entry = INDEXING.entry


def places(index: Any, axis: int) -> tuple[Any, ...]:
    """Indices of all elements of an index array, its own values along one axis."""
    grid = np.indices(index.shape, sparse=True)
    return tuple(index if i == axis % index.ndim else grid[i] for i in range(index.ndim))


def cropped(x: Any, index: Any) -> Any:
    """As much of x as an index array, which may be smaller, reaches."""
    return x[tuple(slice(n) for n in index.shape)]


@entry("embedding")
def embedding(weight: Any, index: Any, padding: int = -1, by_frequency: bool = False, sparse: bool = False) -> Any:
    rows = wnp.take(weight, index, axis=0)
    if by_frequency:
        rows = divided_slope(rows, occurrences(index, weight.shape[0])[index][..., None])
    return rows if padding < 0 else wnp.where((index == padding)[..., None], stop_gradient(rows), rows)


def occurrences(index: Any, n: int) -> Any:
    """The number of times that each of n numbers is in an array of them."""
    counts = wnp.zeros(n, np.int64)
    np.add.at(counts, wnp.reshape(index, (-1,)), 1)
    return counts


def divided_slope(x: Any, count: Any) -> Any:
    """The same numbers, whose gradient is divided by another."""
    return stop_gradient(x) + (x - stop_gradient(x)) / cast(count, x.dtype)


@entry("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Any,
    index: Any,
    starts: Any,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Any = None,
    include_last: bool = False,
    padding: int = -1,
) -> tuple[Any, None, None, None]:
    """The rows of each bag as a sum, a mean or a maximum; a padding row is in none, and an empty bag gives 0."""
    if by_frequency:
        raise UnsupportedError(
            "from_torch_export: embedding_bag with scale_grad_by_freq is not covered",
            hint="Embedding with it, and a sum or a mean over the rows of each bag",
        )
    starts = starts[:-1] if include_last else starts
    rows = embedding(weight, index)
    rows = rows if factors is None else rows * factors[:, None]
    bag = wnp.searchsorted(starts, np.arange(rows.shape[0]), side="right") - 1
    kept = index != padding
    count = wnp.zeros(starts.shape, np.int64)
    np.add.at(count, bag, cast(kept, count.dtype))
    begin = cast(lowest(rows.dtype) if mode == 2 else 0, rows.dtype)
    made = wnp.full((*starts.shape, rows.shape[1]), begin, rows.dtype)
    (np.maximum if mode == 2 else np.add).at(made, bag, wnp.where(kept[:, None], rows, begin))
    made = made / cast(wnp.maximum(count, 1), rows.dtype)[:, None] if mode == 1 else made
    return wnp.where(count[:, None] > 0, made, 0), None, None, None


@entry("index_select")
def index_select(x: Any, axis: int, index: Any) -> Any:
    return wnp.take(x, wnp.reshape(index, (-1,)), axis=axis) if x.ndim else x


@entry("take")
def take(x: Any, index: Any) -> Any:
    return wnp.take(wnp.reshape(x, (-1,)), index)


@entry("gather")
def gather(x: Any, axis: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if not x.ndim:
        return wnp.broadcast_to(x, index.shape)
    axis = axis % x.ndim
    kept = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))]
    return wnp.take_along_axis(kept, index, axis=axis)


def indices(x: Any, given: Sequence[Any]) -> tuple[Any, ...]:
    """An index for NumPy from a list of arrays, None for an axis taken whole."""
    return tuple(slice(None) if i is None else i for i in given)


@entry("index", "_unsafe_index")
def index(x: Any, given: Sequence[Any]) -> Any:
    return wnp.array(x)[indices(x, given)]  # a plain table cannot be indexed by traced positions


@entry("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(x: Any, given: Sequence[Any], values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    made, at = wnp.array(x), indices(x, given)
    if accumulate:
        np.add.at(made, at, values)
    else:
        made[at] = values
    return made


@entry("index_add")
def index_add(x: Any, axis: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    made = wnp.array(x)
    np.add.at(made, along(x, axis, index), source * cast(alpha, x.dtype))
    return made


@entry("put")
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    return index_put(wnp.reshape(x, (-1,)), [index], source, accumulate).reshape(x.shape)


@entry("index_reduce")
def index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    return gathered_in(x, along(x, axis, index), cast(source, x.dtype), reduce, include_self)


@entry("index_copy")
def index_copy(x: Any, axis: int, index: Any, source: Any) -> Any:
    made = wnp.array(x)
    made[along(x, axis, index)] = source
    return made


@entry("index_fill")
def index_fill(x: Any, axis: int, index: Any, value: Any) -> Any:
    made = wnp.array(x)
    made[along(x, axis, index)] = cast(value, x.dtype)
    return made


@entry("scatter")
def scatter(x: Any, axis: int, index: Any, source: Any, *, reduce: str | None = None) -> Any:
    if reduce is not None:
        return scatter_reduce(x, axis, index, source, {"add": "sum", "multiply": "prod"}[reduce])
    made = wnp.array(x)
    made[places(index, axis)] = spread(source, index, x.dtype)
    return made


def spread(source: Any, index: Any, dtype: Any) -> Any:
    """The elements that go where an index array says, one for each."""
    found = cast(source, dtype)
    return cropped(found, index) if found.ndim else wnp.broadcast_to(found, index.shape)


@entry("scatter_add")
def scatter_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return scatter_reduce(x, axis, index, source, "sum")


ACCUMULATIONS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@entry("scatter_reduce")
def scatter_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    return gathered_in(x, places(index, axis), spread(source, index, x.dtype), reduce, include_self)


def gathered_in(x: Any, at: tuple[Any, ...], values: Any, reduce: str, include_self: bool) -> Any:
    """x with values reduced into the elements at their places, which count themselves or are replaced."""
    made = wnp.array(x)
    if not include_self:
        begin = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        if begin is None:
            begin = lowest(x.dtype) if reduce == "amax" else highest(x.dtype)
        made[at] = wnp.asarray(begin, x.dtype)
    if reduce != "mean":
        ACCUMULATIONS[reduce].at(made, at, values)
        return made
    counts = np.full(x.shape, 1 if include_self else 0, np.int64)
    counts = wnp.array(wnp.asarray(counts))
    np.add.at(counts, at, np.ones(values.shape, np.int64))
    np.add.at(made, at, values)
    counts = wnp.maximum(counts, 1)
    return made / counts.astype(x.dtype) if dtypes.is_inexact(x.dtype) else made // counts.astype(x.dtype)


def lowest(dtype: Any) -> Any:
    """The number below all others."""
    return -np.inf if dtypes.is_float(dtype) else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The number above all others."""
    return np.inf if dtypes.is_float(dtype) else np.iinfo(dtype).max


@entry("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    flags = wnp.broadcast_to(mask, x.shape).reshape(-1)
    turn = wnp.maximum(wnp.cumsum(flags.astype(np.int64)) - 1, 0)
    taken = wnp.take(source.reshape(-1), wnp.minimum(turn, source.size - 1))
    return wnp.where(flags, taken, x.reshape(-1)).reshape(x.shape)


@entry("sort")
def sort(x: Any, axis: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Any, Any]:
    if not wnp.ndim(x):
        return x, wnp.zeros((), np.int64)
    order = stable_order(x, axis, descending)
    return wnp.take_along_axis(x, order, axis=axis), order


@entry("sort.stable")
def stable_sort(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    return sort(x, dim, descending)


@entry("argsort")
def argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return sort(x, axis, descending)[1]


@entry("argsort.stable")
def stable_argsort(x: Any, *, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    return sort(x, dim, descending)[1]


@entry("topk")
def topk(x: Any, k: int, axis: int = -1, largest: bool = True, ordered: bool = True) -> tuple[Any, Any]:
    values, order = sort(x, axis, largest)
    if not wnp.ndim(x):
        return values, order
    first = along(x, axis, slice(k))
    return values[first], order[first]


@entry("kthvalue")
def kthvalue(x: Any, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    values, order = sort(x, axis)
    if not wnp.ndim(x):
        return values, order
    at = along(x, axis, slice(k - 1, k) if keepdim else k - 1)
    return values[at], order[at]


@entry("median.dim")
def median(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    if not x.ndim:
        return x, wnp.zeros((), np.int64)
    count = wnp.sum(~wnp.isnan(x), axis=axis)  # where the first nan stands among sorted numbers
    return ordered(x, wnp.where(count < x.shape[axis], count, (x.shape[axis] - 1) // 2), axis, keepdim)


@entry("nanmedian.dim")
def nanmedian(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    if not x.ndim:
        return x, wnp.zeros((), np.int64)
    count = wnp.sum(~wnp.isnan(x), axis=axis)
    return ordered(x, wnp.maximum(count - 1, 0) // 2, axis, keepdim)


def ordered(x: Any, turn: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at their turn in each sorted line along an axis, and where these stand."""
    values, order = sort(x, axis)
    at = wnp.expand_dims(turn, axis)
    found = [wnp.take_along_axis(a, at, axis=axis) for a in (values, order)]
    return (found[0], found[1]) if keepdim else (wnp.squeeze(found[0], axis=axis), wnp.squeeze(found[1], axis=axis))


@entry("median")
def whole_median(x: Any) -> Any:
    return shared(x, median(stop_gradient(wnp.reshape(x, (-1,))), 0)[0])


@entry("nanmedian")
def whole_nanmedian(x: Any) -> Any:
    return shared(x, nanmedian(stop_gradient(wnp.reshape(x, (-1,))), 0)[0])


def shared(x: Any, value: Any) -> Any:
    """An element by its value, whose gradient all elements that equal it share."""
    same = wnp.max(wnp.where(x == value, x, cast(lowest(x.dtype), x.dtype)))
    return wnp.where(wnp.isnan(value), value, same)


@entry("mode")
def mode(x: Any, axis: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The most frequent number of each line, the smallest of equally frequent ones, and where it stands last."""
    if not x.ndim:
        return x, wnp.zeros((), np.int64)
    values = sort(stop_gradient(x), axis)[0]
    turn = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    fresh = wnp.concatenate(
        [wnp.ones_like(values[along(x, axis, slice(1))], np.bool_), wnp.diff(values, axis=axis) != 0], axis=axis
    )
    run = turn - np.maximum.accumulate(wnp.where(fresh, turn, 0), axis=axis)
    return ordered(x, wnp.argmax(run, axis=axis), axis, keepdim)


@entry("searchsorted")
def searchsorted(
    x: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    if x.ndim != 1 or sorter is not None:
        raise UnsupportedError("searchsorted: from PyTorch only one sorted array without axes of its own is covered")
    found = wnp.searchsorted(x, values, side=side or ("right" if right else "left"))
    return found.astype(np.int32 if out_int32 else np.int64)


@entry("bucketize")
def bucketize(values: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(edges, wnp.asarray(values), out_int32=out_int32, right=right)


@entry("bincount")
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    return wnp.bincount(x, weights, minlength)


@entry("nonzero")
def nonzero(x: Any) -> Any:
    return wnp.stack(wnp.nonzero(x), axis=-1)


@entry("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    return wnp.compress(wnp.broadcast_to(mask, x.shape).reshape(-1), wnp.reshape(x, (-1,)))
