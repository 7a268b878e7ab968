"""Arrays made, moved, multiplied and reduced in MIL, larger ones in views of at most five axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.coreml.arithmetic import mil_wrapped
from wholestep.export.coreml.writer import INT32, MOST_AXES, MilWriter, Var, Word, held_shape
from wholestep.export.python.vocabulary import is_half, thin_shape
from wholestep.ir.graph import Node
from wholestep.primitives.contraction import parts


def runs(marks: Sequence[Any]) -> list[tuple[int, int]]:
    """Stretches of equal marks, each by where it begins and ends.

    >>> runs([True, True, False])
    [(0, 2), (2, 3)]
    """
    ends = [0, *[i for i in range(1, len(marks)) if marks[i] != marks[i - 1]], len(marks)]
    return [(a, b) for a, b in itertools.pairwise(ends) if a < b]


def three_axes(shape: Sequence[int], first: int, last: int) -> tuple[int, int, int]:
    """The numbers of elements of the axes before `first`, from `first` to `last`, and from `last` on."""
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def mil_constant(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """An array that the program holds."""
    value = np.asarray(node.params["value"])
    return w.constant(value.reshape(held_shape(value.shape)))


def mil_full(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """One number, thin where its axes can be ones."""
    shape, value, dtype = node.params["shape"], node.params["value"], np.dtype(node.params["dtype"])
    if len(shape) > MOST_AXES:
        return w.filled(held_shape(shape), value, dtype)
    return w.constant(np.full((1,) * len(shape), value, dtype))


def mil_counted(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The numbers of places along an axis."""
    shape, axis, dtype = node.params["shape"], node.params["axis"], np.dtype(node.params["dtype"])
    line = np.arange(shape[axis]).astype(dtype)
    view = [shape[axis] if i == axis else 1 for i in range(len(shape))]
    if len(shape) > MOST_AXES:
        return w.constant(np.broadcast_to(line.reshape(view), shape).reshape(-1))
    return w.tiled(w.constant(line.reshape(view)), shape)


def mil_broadcast(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Axes of one element where new ones are; of many axes, run by run repeated."""
    shape, axes, inner = node.params["shape"], node.params["axes"], node.types[0].shape
    thin = thin_shape(shape, axes, inner)
    if len(shape) <= MOST_AXES:
        return w.view(xs[0], thin)
    x = w.view(xs[0], (math.prod(thin),))
    for first, last in runs([m == n for m, n in zip(thin, shape, strict=True)]):
        if thin[first:last] != tuple(shape[first:last]):
            before, _, after = math.prod(shape[:first]), 1, math.prod(thin[last:])
            many = math.prod(shape[first:last])
            x = w.view(w.tiled(w.view(x, (before, 1, after)), (before, many, after)), (before * many * after,))
    return x


def mil_reshape(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """The same elements in another shape."""
    return w.held(xs[0], node.params["shape"])


def mil_permuted(w: MilWriter, x: Var, shape: Sequence[int], order: Sequence[int]) -> Var:
    """A permutation of axes; axes that stay adjacent move as one."""
    sizes, groups = [shape[i] for i in order], [[i] for i in order[:1]]
    for i in order[1:]:
        if groups[-1][-1] + 1 == i:
            groups[-1].append(i)
        else:
            groups.append([i])
    if len(groups) <= 1:
        return w.held(x, sizes)
    if len(groups) <= MOST_AXES:
        ranked = sorted(groups)
        x = w.view(x, [math.prod([shape[i] for i in group]) for group in ranked])
        return w.held(w.op("transpose", x=x, perm=[ranked.index(group) for group in groups]), sizes)
    left, done = list(range(len(shape))), 1
    for i in order:  # move one axis after the other behind the axes in place
        at = left.index(i)
        before, here, after = (math.prod([shape[j] for j in part]) for part in (left[:at], [i], left[at + 1 :]))
        x = w.op("transpose", x=w.view(x, (done, before, here, after)), perm=[0, 2, 1, 3])
        left.remove(i)
        done *= here
    return w.held(x, sizes)


def mil_permute(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Operation `permute`."""
    return mil_permuted(w, xs[0], node.types[0].shape, node.params["axes"])


def mil_flip(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Axes backwards."""
    x, shape, dtype = xs[0], node.types[0].shape, node.types[0].dtype
    x = w.cast(x, INT32) if dtypes.is_bool(dtype) else x
    for axis in node.params["axes"]:
        x = w.op("reverse", x=w.view(x, three_axes(shape, axis, axis + 1)), axes=[1])
    return from_numbers(w, w.held(x, shape), dtype)


def from_numbers(w: MilWriter, x: Var, dtype: Any) -> Var:
    """Truths that were held as integers; other numbers are let be."""
    return w.op("not_equal", x=x, y=w.number(0, INT32)) if dtypes.is_bool(dtype) else x


def cut_along(w: MilWriter, x: Var, shape: list[int], axis: int, first: int, last: int, step: int = 1) -> Var:
    """A part of an axis; the sizes are brought up to date."""
    before, n, after = three_axes(shape, axis, axis + 1)
    if (first, last, step) == (0, n, 1):
        return x
    view = w.view(x, (before, n, after))
    shape[axis] = len(range(first, last, step))
    stops = [before, last, after]
    return w.op("slice_by_index", x=view, begin=[0, first, 0], end=stops, stride=[1, step, 1])


def mil_slice(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Parts of axes, one axis after the other."""
    p, sizes, x = node.params, list(node.types[0].shape), xs[0]
    for axis, part in enumerate(zip(p["start"], p["stop"], p["step"], strict=True)):
        x = cut_along(w, x, sizes, axis, *part)
    return w.held(x, sizes)


def joined_along(w: MilWriter, pieces: Sequence[Var], shapes: Sequence[Sequence[int]], axis: int) -> Var:
    """Arrays one behind the other along an axis."""
    views = [w.view(x, three_axes(shape, axis, axis + 1)) for x, shape in zip(pieces, shapes, strict=True)]
    return views[0] if len(views) == 1 else w.op("concat", values=views, axis=1)


def mil_concat(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Operation `concat`."""
    made = joined_along(w, xs, [t.shape for t in node.types], node.params["axis"])
    return w.held(made, node.outputs[0].shape)


def mil_pad(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Zeros around, and between: a new axis, padded and merged again, whose tail is cut off."""
    x, sizes, dtype, p = xs[0], list(node.types[0].shape), node.types[0].dtype, node.params
    for axis, more in enumerate(p["interior"]):
        if more and sizes[axis] > 1:
            before, n, after = three_axes(sizes, axis, axis + 1)
            shapes = [(before * n, 1, after), (before * n, more, after)]
            x = joined_along(w, [w.view(x, shapes[0]), w.filled(shapes[1], 0, dtype)], shapes, 1)
            sizes[axis] = n * (more + 1)
            x = cut_along(w, x, sizes, axis, 0, sizes[axis] - more)
    for axis, (first, last) in enumerate(zip(p["before"], p["after"], strict=True)):
        x = cut_along(w, x, sizes, axis, max(0, -first), sizes[axis] - max(0, -last))
        before, n, after = three_axes(sizes, axis, axis + 1)
        shapes = [(before, k, after) for k in (max(0, first), n, max(0, last)) if k]
        ends = [w.filled((before, k, after), 0, dtype) if k > 0 else None for k in (first, last)]
        pieces = [v for v in (ends[0], w.view(x, (before, n, after)), ends[1]) if v is not None]
        x = joined_along(w, pieces, shapes, 1)
        sizes[axis] = n + max(0, first) + max(0, last)
    return w.held(x, sizes)


def mil_contract(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """A product summed over shared axes, as a product of matrices."""
    a, b, out = parts(node.params["spec"])
    types, dtype = node.types, node.types[0].dtype
    sizes = dict(zip(a + b, types[0].shape + types[1].shape, strict=True))
    both = [c for c in a if c in b and c in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    summed = [c for c in a if c in b and c not in out]
    x = mil_permuted(w, xs[0], types[0].shape, [a.index(c) for c in (*both, *rows, *summed)])
    y = mil_permuted(w, xs[1], types[1].shape, [b.index(c) for c in (*both, *summed, *columns)])
    n, m, k, o = (math.prod([sizes[c] for c in part]) for part in (both, rows, summed, columns))
    lead = [n] if both else []
    if dtypes.is_integer(dtype):  # MIL multiplies matrices of floats alone
        made = w.op("mul", x=w.view(x, [n, m, k, 1]), y=w.view(y, [n, 1, k, o]))
        made = mil_wrapped(w, w.op("reduce_sum", x=made, axes=[2], keep_dims=False), dtype)
    elif summed:
        made = w.op("matmul", x=w.view(x, [*lead, m, k]), y=w.view(y, [*lead, k, o]))
    else:
        made = w.op("mul", x=w.view(x, [n, m, 1]), y=w.view(y, [n, 1, o]))
    order = [*both, *rows, *columns]
    return mil_permuted(w, made, [sizes[c] for c in order], [order.index(c) for c in out])


def mil_reduced(w: MilWriter, kind: str, x: Var, shape: Sequence[int], axes: Sequence[int]) -> Var:
    """A reduction over axes, by runs of adjacent axes, the last run first."""
    sizes = list(shape)
    for first, last in reversed(runs([i in axes for i in range(len(shape))])):
        if first in axes:
            x = w.op(kind, x=w.view(x, three_axes(sizes, first, last)), axes=[1], keep_dims=False)
            del sizes[first:last]
    return w.held(x, sizes)


def mil_reduction(kind: str) -> Word:
    """A reduction; sums of halves are taken in float32."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        dtype, axes, x = node.types[0].dtype, node.params["axes"], xs[0]
        if not axes:
            return x
        wide = is_half(dtype) and kind in ("reduce_sum", "reduce_prod")
        made = mil_reduced(w, kind, w.cast(x, np.float32) if wide else x, node.types[0].shape, axes)
        return w.cast(made, dtype) if wide else mil_wrapped(w, made, dtype)

    return word


def mil_truths(kind: str) -> Word:
    """any and all as the largest and the smallest of numbers."""

    def word(w: MilWriter, node: Node, xs: list[Var]) -> Var:
        if not node.params["axes"]:
            return xs[0]
        made = mil_reduced(w, kind, w.cast(xs[0], INT32), node.types[0].shape, node.params["axes"])
        return from_numbers(w, made, np.dtype(bool))

    return word


def mil_running_sum(w: MilWriter, node: Node, xs: list[Var]) -> Var:
    """Sums so far along an axis; of halves in float32."""
    p, shape, dtype = node.params, node.types[0].shape, node.types[0].dtype
    x = w.cast(xs[0], np.float32) if is_half(dtype) else xs[0]
    view = w.view(x, three_axes(shape, p["axis"], p["axis"] + 1))
    made = w.op("cumsum", x=view, axis=1, reverse=bool(p["reverse"]), exclusive=False)
    made = w.held(made, shape)
    return w.cast(made, dtype) if is_half(dtype) else mil_wrapped(w, made, dtype)
