"""Micro-batches: a batch taken a few rows at a time, so that only those rows' values are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wholestep import numpy as wnp, random, tree
from wholestep.boundary.counts import is_integer
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.argument_kinds import kind_of
from wholestep.frontend.control import scan

Differentiated = tuple[Any, Any, Any, Any]
"""The type of (loss, gradient or None, new buffers, aux)."""


def check_microbatch(rows: Any, has_aux: bool, captures: bool) -> None:
    """Raise for an invalid number of rows, and for `has_aux` and `captures`, which need a whole batch."""
    if rows is None or rows == "auto":
        return
    if not is_integer(rows):
        raise DtypeError(f"compile: microbatch is {rows!r}, not a number of rows or 'auto'")
    if rows < 1:
        raise ParameterError(f"compile: microbatch is {rows}; it must be 1 row or more")
    if has_aux or captures:
        raise UnsupportedError(
            "compile: microbatch goes with neither has_aux nor captures, which are of the whole batch",
            hint="attach a function that computes them: step.attach(f, batch=...)",
        )


def count_parts(rows: int, most: int) -> int:
    """The least number of equal parts of at most so many rows into which a batch can be divided."""
    return next(n for n in range(1, rows + 1) if rows % n == 0 and rows // n <= most)


def part_sizes(rows: int) -> Iterator[int]:
    """The sizes of the equal parts of so many rows, from the largest."""
    return (rows // n for n in range(2, rows + 1) if rows % n == 0)


def count_rows(batch: Any, axis: int = 0) -> int:
    """The rows that the arrays of a batch share; raises ShapeError where they do not."""
    found = {path: kind_of(x).shape for path, x in zip(tree.paths(batch, "batch"), tree.leaves(batch), strict=True)}
    sizes = {path: shape[axis] for path, shape in found.items() if len(shape) > axis}
    if len(set(sizes.values())) != 1:
        said = ", ".join(f"{n} in {path}" for path, n in sizes.items()) or "no array has any"
        raise ShapeError(
            f"compile: micro-batches are rows of the whole batch, and its arrays differ: {said}",
            hint="give every array of the batch one first axis, or leave microbatch out",
        )
    (rows,) = set(sizes.values())
    if isinstance(rows, Dim):
        raise UnsupportedError(
            f"compile: microbatch takes a batch in equal parts, and the number of its rows is symbolic: {rows}",
            hint="give the batch with numbers for its sizes, or leave microbatch out",
        )
    return int(rows)


def average_over_parts(
    differentiated: Callable[[dict[str, Any], Any], Differentiated],
    state: dict[str, Any],
    batch: Any,
    most: int,
    trained: bool,
) -> Differentiated:
    """The mean loss and gradient over equal parts of a batch; buffers are carried from part to part.

    Both equal those of the whole batch, to rounding, where the loss is a mean over rows. Each part has a random key of
    its own.
    """
    count = count_parts(count_rows(batch), most)
    if count == 1:
        return differentiated(state, batch)
    counters = state["counters"]
    split = tree.map(
        # The number of rows is explicit, since -1 is ambiguous for an empty array.
        lambda x: x.reshape(count, x.shape[0] // count, *x.shape[1:]) if x.ndim else wnp.broadcast_to(x, (count,)),
        batch,
    )
    start = tree.map(lambda x: wnp.zeros(x.shape, x.dtype), state["params"]) if trained else None

    def part(carry: Any, x: Any) -> Any:
        (sums, buffers), (i, rows) = carry, x
        given = {**state, "buffers": buffers, "counters": {**counters, "key": random.fold_in(counters["key"], i)}}
        value, grads, buffers, _ = differentiated(given, rows)
        return (tree.map(lambda a, g: a + g, sums, grads) if trained else None, buffers), value

    (sums, buffers), values = scan(part, (start, state["buffers"]), (np.arange(count), split))
    # Losses are added one after the other, as gradients are, and as the processes of a mesh add, for the same bits.
    total, _ = scan(lambda total, value: (total + value, None), wnp.zeros((), values.dtype), values)
    return total / count, tree.map(lambda g: g / count, sums) if trained else None, buffers, None
