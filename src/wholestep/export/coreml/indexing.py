"""Elements of arrays read, written, found and sorted in MIL: several indices are one place in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.coreml.arithmetic import mil_choice, mil_wrapped
from wholestep.export.coreml.arrays import from_numbers, mil_permuted, three_axes
from wholestep.export.coreml.writer import INT32, MilWriter, Var, Word
from wholestep.export.python.vocabulary import front_order
from wholestep.ir.graph import Node


def flat_places(w: MilWriter, indices: Sequence[Var], sizes: Sequence[int]) -> Var:
    """Indices of several axes as one, negative ones counted from the end, in one row."""
    found: Var = None
    for index, n in zip(indices, sizes, strict=True):
        at = w.view(index, (math.prod(index.shape),))
        at = mil_choice(w, w.op("less", x=at, y=w.number(0, INT32)), w.op("add", x=at, y=w.number(n, INT32)), at)
        found = at if found is None else w.op("add", x=w.op("mul", x=found, y=w.number(n, INT32)), y=at)
    return found


def in_front(w: MilWriter, x: Var, shape: Sequence[int], axes: Sequence[int]) -> Var:
    """An array as rows: some of its axes as the first, the others as the second."""
    rows = math.prod([shape[a] for a in axes])
    return w.view(mil_permuted(w, x, shape, front_order(axes, len(shape))), (rows, math.prod(shape) // rows))


def mil_gather(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Rows read at places."""
    axes, t = node.params["axes"], node.types[0]
    x = w.cast(xs[0], INT32) if dtypes.is_bool(t.dtype) else xs[0]
    at = flat_places(w, xs[1:], [t.shape[a] for a in axes])
    made = w.op("gather", x=in_front(w, x, t.shape, axes), indices=at, axis=0, validate_indices=False)
    return from_numbers(w, w.held(made, node.outputs[0].shape), t.dtype)


def mil_scatter(mode: str) -> Word:
    """Rows written, or added, at places."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        axes, t = node.params["axes"], node.types[0]
        x, u = (w.cast(v, INT32) if dtypes.is_bool(t.dtype) else v for v in xs[:2])
        at = flat_places(w, xs[2:], [t.shape[a] for a in axes])
        data = in_front(w, x, t.shape, axes)
        updates = w.view(u, (at.shape[0], data.shape[1]))
        made = w.op("scatter", data=data, indices=at, updates=updates, axis=0, mode=mode, validate_indices=False)
        order = front_order(axes, t.ndim)
        moved = mil_permuted(w, made, [t.shape[a] for a in order], np.argsort(order).tolist())
        return from_numbers(w, mil_wrapped(w, moved, t.dtype), t.dtype)

    return word


def as_numbers(w: MilWriter, x: Var, dtype: Any) -> Var:
    """An array that can be ordered: of truths numbers."""
    return w.cast(x, INT32) if dtypes.is_bool(dtype) else x


def mil_extreme_place(kind: str) -> Word:
    """The place of the largest or the smallest along an axis."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        axis, t = node.params["axis"], node.types[0]
        view = w.view(as_numbers(w, xs[0], t.dtype), three_axes(t.shape, axis, axis + 1))
        return w.held(w.op(kind, x=view, axis=1, keep_dims=False), node.outputs[0].shape)

    return word


def mil_sorted(largest: bool) -> Word:
    """Elements in order and their places."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Sequence[Var]:
        axis, t = node.params["axis"], node.types[0]
        count = node.params["k"] if largest else t.shape[axis]
        view = w.view(as_numbers(w, xs[0], t.dtype), three_axes(t.shape, axis, axis + 1))
        made, at = w.op("topk", x=view, k=count, axis=1, ascending=not largest, sort=True, return_indices=True)
        shape = node.outputs[-1].shape
        found = [from_numbers(w, w.held(made, shape), t.dtype), w.held(at, shape)]
        return found[-len(node.outputs) :]

    return word
