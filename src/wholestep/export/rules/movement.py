"""Movement in graph words: sliding windows as reads, their duals as sums, and updates of slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.export.core import Rule
from wholestep.ir.graph import Value
from wholestep.primitives.creation import constant
from wholestep.primitives.indexing import gather, scatter
from wholestep.primitives.movement import concat, pad, permute, reshape, slice_along, spread

Ints = tuple[Any, ...]


def windows_read(x: Value, *, size: Ints, stride: Ints, dilation: Ints) -> Value:
    """Windows axis by axis, as a read at `place * stride + offset * dilation`.

    y = window(x, size=(3,), stride=(1,), dilation=(1,))
    -->
    y = permute(gather(x, [[0, 1, 2], [1, 2, 3], …], axes=(k,)))
    """
    lead = x.ndim - len(size)
    for i, (m, s, d) in enumerate(zip(size, stride, dilation, strict=True)):
        axis = lead + i
        places = (x.shape[axis] - spread(m, d)) // s + 1
        at = np.add.outer(np.arange(places) * s, np.arange(m) * d).astype(np.int64)
        read: Value = gather(x, constant(value=at), axes=(axis,))
        order = (*range(2, 2 + axis), 0, *range(2 + axis, read.ndim), 1)
        x = permute(read, axes=order)
    return x


def windows_added(y: Value, *, sizes: Ints, stride: Ints, dilation: Ints) -> Value:
    """Windows added back, offset by offset along one axis after the other, each as a padded array.

    The sums go along one axis at a time, so that there are as many as a window's sizes added up, not multiplied.
    """
    k = len(sizes)
    lead = y.ndim - 2 * k
    for i in reversed(range(k)):
        y = added_along(y, lead + i, y.ndim - 1, sizes[i], stride[i], dilation[i])
    return y


def added_along(y: Value, axis: int, inside: int, size: int, stride: int, dilation: int) -> Value:
    """The windows of one axis, with their offsets along axis `inside`, added at their places; `inside` is removed."""
    places, total = y.shape[axis], None
    rest = tuple([n for i, n in enumerate(y.shape) if i != inside])
    for offset in range(y.shape[inside]):
        part = reshape(slice_along(y, inside, offset, offset + 1), shape=rest)
        before = offset * dilation
        nothing = [0] * len(rest)
        first, last, between = nothing.copy(), nothing.copy(), nothing.copy()
        first[axis], last[axis], between[axis] = before, size - before - spread(places, stride), stride - 1
        moved: Value = pad(part, before=tuple(first), after=tuple(last), interior=tuple(between))
        total = moved if total is None else total + moved
    assert total is not None
    return total


def slice_written(x: Value, u: Value, *, start: Ints, step: Ints) -> Value | None:
    """A written slice joined with the slices before and after it, where only one axis is partial; else a scatter."""
    if u.type.size == 0:
        return x
    partial = [a for a, (m, n) in enumerate(zip(u.shape, x.shape, strict=True)) if m != n]
    if not partial:
        return u
    if len(partial) == 1 and step[partial[0]] == 1:
        (axis,) = partial
        first, last = start[axis], start[axis] + u.shape[axis]
        pieces = [slice_along(x, axis, 0, first), u, slice_along(x, axis, last, x.shape[axis])]
        joined: Value = concat(*[p for p in pieces if p.shape[axis] != 0], axis=axis)
        return joined
    spans = [a + s * np.arange(m) for a, s, m in zip(start, step, u.shape, strict=True)]
    places = [constant(value=at.astype(np.int64)) for at in np.meshgrid(*spans, indexing="ij")]
    written: Value = scatter(x, u, *places, axes=tuple(range(x.ndim)))
    return written


MOVEMENT_RULES: dict[str, Rule] = {
    "window": windows_read,
    "unwindow": windows_added,
    "update_slice": slice_written,
}
"""Rules of movement."""
