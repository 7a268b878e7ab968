"""The mean of a per-sample loss over a data set, exact for every batch size."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import whole_number
from wholestep.errors import ShapeError, TreeError
from wholestep.frontend import outside
from wholestep.frontend.jit import jit
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.reduction import align_weights
from wholestep.train.state.batch_signature import BatchSignature


def mean_over(loss: Callable[..., Any], params: Any, data: Any, *, batch_size: int = 256) -> float:
    """The mean of a loss over a data set, as if all of it were one batch.

    `loss(params, batch)` gives the losses of the samples, any number for each, with the samples along the first axis;
    or a pair of such losses and their weights, in the shape of the losses or of their first axes (tokens that count,
    say), by whose total the mean divides. `data` is a tree like the batch whose arrays have the samples along
    their first axis; `params` any tree, a module too, in evaluation mode if it has modes.

    The program is compiled once for a function and a `batch_size`: the last batch is filled up with samples that are
    left out of the sum, which is carried out in float64.

    Shapes: data [samples, ...] of any dtypes; the loss gives floats [samples, ...]; the result is a Python float.
    Raises: TreeError for data without arrays, ShapeError for samples that differ in number, for no samples, and for a
    loss that is not one of each sample.

    >>> import numpy as np
    >>> from wholestep.train.loop.averages import mean_over
    >>> data = {"x": np.arange(5.0), "y": np.ones(5)}
    >>> mean_over(lambda w, batch: (w * batch["x"] - batch["y"]) ** 2, np.array(1.0), data, batch_size=2)
    3.0
    """
    data = outside.taken_over(data, "data", "mean_over")
    feed = BatchSignature(data, "data", "mean_over")
    rows = row_count(feed)
    size = min(whole_number("batch_size", batch_size, "mean_over"), rows)
    arrays = feed.checked(data)
    program = compile_loss(loss)
    totals: list[float] = []
    counts: list[float] = []
    for start in range(0, rows, size):
        at = np.arange(start, start + size) % rows
        out = program(params, tree.unflatten(feed.structure, [x[at] for x in arrays]))
        losses, weights = weigh_losses(out, size)
        left = min(size, rows - start)
        totals.append(float(np.sum(losses[:left] * weights[:left])))
        counts.append(float(np.sum(np.broadcast_to(weights, losses.shape)[:left])))
    count = math.fsum(counts)
    return math.fsum(totals) / count if count else math.nan


@functools.lru_cache(maxsize=32)
def compile_loss(loss: Callable[..., Any]) -> jit[..., Any]:
    """The compiled program of a function, cached for later means."""
    return jit(loss)


def row_count(feed: BatchSignature) -> int:
    """The number of samples."""
    if not feed.leaves:
        raise TreeError("mean_over: data holds no arrays")
    for leaf in feed.leaves:
        if leaf.type.ndim == 0:
            raise ShapeError(f"mean_over: {leaf.path} is {leaf.type}, which has no axis of samples")
        if leaf.type.shape[0] != feed.leaves[0].type.shape[0]:
            first = feed.leaves[0]
            raise ShapeError(
                f"mean_over: {first.path} is {first.type} and {leaf.path} {leaf.type}: they differ in rows"
            )
    rows: int = feed.leaves[0].type.shape[0]
    if rows == 0:
        raise ShapeError(f"mean_over: {feed.leaves[0].path} is {feed.leaves[0].type}: there are no samples")
    return rows


def weigh_losses(out: Any, size: int) -> tuple[NDArray, NDArray]:
    """Losses and weights in float64, the weights in a shape that broadcasts to the losses."""
    losses, weights = out if isinstance(out, tuple) and len(out) == 2 else (out, None)
    x = np.asarray(losses, np.float64)
    if x.shape[:1] != (size,):
        raise ShapeError(
            f"mean_over: the loss of a batch of {size} is {type_of(losses)}, not one for each sample",
            hint="reduction='none' keeps the losses apart",
        )
    return x, np.ones(1) if weights is None else np.asarray(align_weights("mean_over", weights, x))
