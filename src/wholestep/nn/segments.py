"""Reductions of the rows that belong together, those with the same number: the edges of each node of a graph, say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.scans import associative_scan
from wholestep.ir.graph import NDArray
from wholestep.nn.cross_entropies import checked_index, index_called
from wholestep.nn.exponentials import integer_index
from wholestep.nn.windows import type_text


def segment_sum(x: Any, segments: Any, count: int) -> NDArray:
    """The sum of the rows of x with each number: `made[k]` is that of the rows i whose `segments[i]` is k.

    A segment without rows has 0.

    Shapes: x [n, ...] of any numeric dtype, segments integers [n] of 0 to count - 1; [count, ...] of the dtype of x.
    Raises: ShapeError for arrays that do not fit, DtypeError for numbers that are no integers, ParameterError for a
    count that is none, BoundsError for a number outside of the segments, in a compiled program too.
    Source: its definition; `jax.ops.segment_sum`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_sum(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 5.0]
    """
    rows, at = rows_and_segments("segment_sum", x, segments, count)
    made = wnp.zeros((count, *rows.shape[1:]), rows.dtype)
    np.add.at(made, at, rows)
    return made


def segment_mean(x: Any, segments: Any, count: int) -> NDArray:
    """The mean of the rows of x with each number, 0 for a segment without rows.

    Shapes: as `segment_sum`, with x of floats.
    Raises: as `segment_sum` does.
    Source: as `segment_sum`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_mean(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 2.5]
    """
    rows, at = rows_and_segments("segment_mean", x, segments, count)
    number = wnp.maximum(segment_sum(wnp.ones(rows.shape[:1], rows.dtype), at, count), 1)
    return segment_sum(rows, at, count) / number.reshape(-1, *[1] * (rows.ndim - 1))


def segment_max(x: Any, segments: Any, count: int) -> NDArray:
    """The largest elements of the rows of x with each number; rows that tie share the gradient evenly.

    A segment without rows has -inf, or the least number of an integer dtype. nan is larger than anything.

    Shapes: as `segment_sum`, with x real.
    Raises: as `segment_sum` does, and DtypeError for a complex x.
    Source: as `segment_sum`; `jax.ops.segment_max`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_max(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).tolist()
    [2.0, -inf, 4.0]
    """
    return extreme("segment_max", x, segments, count, np.maximum)


def segment_min(x: Any, segments: Any, count: int) -> NDArray:
    """The smallest elements of the rows of x with each number; rows that tie share the gradient evenly.

    A segment without rows has inf, or the largest number of an integer dtype. nan is smaller than anything.

    Shapes: as `segment_sum`, with x real.
    Raises: as `segment_max` does.
    Source: as `segment_sum`; `jax.ops.segment_min`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_min(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).tolist()
    [2.0, inf, 1.0]
    """
    return extreme("segment_min", x, segments, count, np.minimum)


def segment_prod(x: Any, segments: Any, count: int) -> NDArray:
    """The product of the rows of x with each number, 1 for a segment without rows.

    The rows are sorted by their segments and joined in about 2 log2(n) passes, where a sum takes one: it costs many
    times a sum.

    Shapes: as `segment_sum`.
    Raises: as `segment_sum` does.
    Source: as `segment_sum`; `jax.ops.segment_prod`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_prod(np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).tolist()
    [2.0, 1.0, 4.0]
    """
    rows, at = rows_and_segments("segment_prod", x, segments, count)
    return join_segments(rows, at, count, wnp.multiply, 1)


def segment_softmax(x: Any, segments: Any, count: int) -> NDArray:
    """exp(x) over the sum of it in the same segment, for each row: the attention of a node to its edges.

    Shapes: x floats [n, ...], segments integers [n] of 0 to count - 1; the shape and dtype of x.
    Raises: as `segment_max` does.
    Source: Velickovic et al., "Graph attention networks", 2018.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.segment_softmax(np.array([0.0, 7.0, 0.0]), np.array([2, 0, 2]), 3).tolist()
    [0.5, 1.0, 0.5]
    """
    rows, at = rows_and_segments("segment_softmax", x, segments, count)
    top = stop_gradient(extreme("segment_softmax", rows, at, count, np.maximum))
    raised = wnp.exp(rows - wnp.take(top, at, axis=0))
    return raised / wnp.take(segment_sum(raised, at, count), at, axis=0)


def rows_and_segments(name: str, x: Any, segments: Any, count: Any) -> tuple[Any, Any]:
    """The rows and the checked numbers of their segments; raises for operands that do not fit."""
    rows, at = wnp.asarray(x), integer_index(name, segments)
    if not isinstance(count, Dim) and (not is_integer(count) or count < 1):
        raise ParameterError(f"{name}: count is {count!r}; it must be a positive integer")
    if rows.ndim < 1 or at.shape != rows.shape[:1]:
        raise ShapeError(
            f"{name}: x is {type_text(rows)} and the segments {type_text(at)}", hint="one number for each row of x"
        )
    at = checked_index(name, at, count, "segment")
    with index_called(f"{name}: segment"):
        return rows, wnp.take(wnp.arange(count), at)


def extreme(name: str, x: Any, segments: Any, count: int, better: np.ufunc) -> Any:
    """The largest or smallest elements of each segment."""
    rows, at = rows_and_segments(name, x, segments, count)
    if dtypes.is_complex(rows.dtype):
        raise DtypeError(f"{name}: x is {type_text(rows)}, which has no order")
    low, high = least_and_largest(rows.dtype)
    made = wnp.full((count, *rows.shape[1:]), low if better is np.maximum else high, rows.dtype)
    with np.errstate(invalid="ignore"):  # NumPy reports nan as invalid
        better.at(made, at, rows)
    return made


def least_and_largest(dtype: Any) -> tuple[Any, Any]:
    """The least and the largest number of a dtype."""
    if dtypes.is_float(dtype):
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def join_segments(rows: Any, at: Any, count: int, f: Callable[[Any, Any], Any], nothing: Any) -> Any:
    """The rows of each segment joined by an associative function, in their order."""
    if not rows.shape[0]:
        return wnp.full((count, *rows.shape[1:]), nothing, rows.dtype)
    order = wnp.argsort(at, kind="stable")
    numbers, ordered = wnp.take(at, order), wnp.take(rows, order, axis=0)
    begins = wnp.concatenate([wnp.ones(1, bool), numbers[1:] != numbers[:-1]])
    begins = begins.reshape(-1, *[1] * (rows.ndim - 1))

    def joined(a: Any, b: Any) -> Any:
        return a[0] | b[0], wnp.where(b[0], b[1], f(a[1], b[1]))

    running = associative_scan(joined, (begins, ordered))[1]
    last = wnp.searchsorted(numbers, wnp.arange(count), side="right") - 1
    there = (last >= 0) & (wnp.take(numbers, wnp.maximum(last, 0)) == wnp.arange(count))
    found = wnp.take(running, wnp.maximum(last, 0), axis=0)
    empty = wnp.asarray(nothing).astype(rows.dtype)
    return wnp.where(there.reshape(-1, *[1] * (rows.ndim - 1)), found, empty)
