"""Exact peephole rules of movement: neighbours that cancel or merge, by the name of the primitive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.graph import NDArray, Node, Value
from wholestep.passes.rewrite import defining_node, new_value
from wholestep.passes.rules.arithmetic import Rule, is_positive_zero, output_full_of, same_op_input
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import spread, steps_between

Ints = tuple[Any, ...]


def equal_but_ones(a: Ints, b: Ints) -> bool:
    """Test whether two shapes differ by axes of size 1 alone."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def inverse_permutation(axes: Ints) -> Ints:
    """The inverse of an order of axes."""
    back = [0] * len(axes)
    for i, a in enumerate(axes):
        back[a] = i
    return tuple(back)


def reshape_value(node: Node, x: Value, shape: Ints) -> Value:
    """x in another shape, without a node where it has that shape."""
    inner = defining_node(x, "reshape")
    x = inner.inputs[0] if inner else x
    return x if x.shape == shape else new_value(node, "reshape", x, shape=shape)


def permute_value(node: Node, x: Value, axes: Ints) -> Value:
    """x with its axes in another order, merged with a permute, a number or a broadcast that makes it."""
    inner = defining_node(x, "permute")
    if inner:
        x, axes = inner.inputs[0], tuple([inner.params["axes"][a] for a in axes])
    if axes == tuple(range(len(axes))):
        return x
    shape = tuple([x.shape[a] for a in axes])
    number = number_of(x)
    if number is not None:
        return new_value(node, "full", value=number, shape=shape, dtype=x.dtype)
    repeated = defining_node(x, "broadcast")
    if repeated is None:
        return new_value(node, "permute", x, axes=axes)
    old = repeated.params["axes"]
    source = permute_value(node, repeated.inputs[0], tuple([old.index(a) for a in axes if a in old]))
    return new_value(node, "broadcast", source, shape=shape, axes=tuple([i for i, a in enumerate(axes) if a in old]))


def _simplify_reshape(node: Node) -> Value | None:
    x, shape = node.inputs[0], node.outputs[0].shape
    if x.shape == shape:
        return x
    if same_op_input(node):
        return reshape_value(node, x, shape)
    if not equal_but_ones(x.shape, shape):
        return None
    there = [i for i, n in enumerate(shape) if n != 1]
    places = dict(zip([i for i, n in enumerate(x.shape) if n != 1], there, strict=True))
    counter = defining_node(x, "iota")
    if counter and counter.params["axis"] in places:
        return new_value(node, "iota", shape=shape, axis=places[counter.params["axis"]], dtype=x.dtype)
    repeated = defining_node(x, "broadcast")
    if repeated and 1 not in repeated.inputs[0].shape:
        axes = tuple([places[a] for a in repeated.params["axes"]])
        return new_value(node, "broadcast", repeated.inputs[0], shape=shape, axes=axes)
    return None


def _simplify_permute(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    if axes == tuple(range(len(axes))):
        return x
    return permute_value(node, x, axes) if same_op_input(node) or defining_node(x, "broadcast") else None


def _simplify_broadcast(node: Node) -> Value | None:
    x, shape, axes = node.inputs[0], node.params["shape"], node.params["axes"]
    if x.shape == shape:
        return x
    inner = same_op_input(node)
    if inner:
        merged = tuple([axes[a] for a in inner.params["axes"]])
        return new_value(node, "broadcast", inner.inputs[0], shape=shape, axes=merged)
    reshape = defining_node(x, "reshape")
    if reshape and equal_but_ones(reshape.inputs[0].shape, x.shape):
        source = reshape.inputs[0]
        places = dict(enumerate([a for a in axes if shape[a] != 1]))
        if 1 in source.shape:
            return None
        return new_value(node, "broadcast", source, shape=shape, axes=tuple(places.values()))
    return None


def _simplify_flip(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    left = tuple([a for a in axes if x.shape[a] != 1])
    inner = same_op_input(node)
    if inner:
        left = tuple(sorted(set(left) ^ set(inner.params["axes"])))
        x = inner.inputs[0]
    repeated = defining_node(x, "broadcast")
    if repeated:
        left = tuple([a for a in left if a in repeated.params["axes"]])
    if not left:
        return x
    return new_value(node, "flip", x, axes=left) if left != axes else None


def _simplify_slice(node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    start, stop, step = node.params["start"], node.params["stop"], node.params["step"]
    if 0 in node.outputs[0].shape:
        return None
    inner = same_op_input(node)
    if inner:
        starts, steps = inner.params["start"], inner.params["step"]
        first = tuple([b + a * t for a, b, t in zip(start, starts, steps, strict=True)])
        both = tuple([s * t for s, t in zip(step, steps, strict=True)])
        ends = zip(first, both, node.outputs[0].shape, strict=True)
        last = tuple([a + spread(n, s) for a, s, n in ends])
        return new_value(node, "slice", inner.inputs[0], start=first, stop=last, step=both)
    moved = defining_node(x, *SLICE_RULES)
    return None if moved is None else SLICE_RULES[moved.op.name](node, moved, start, stop, step)


def _slice_of_broadcast(node: Node, repeated: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    axes = repeated.params["axes"]
    own = [tuple([p[a] for a in axes]) for p in (start, stop, step)]
    part = new_value(node, "slice", repeated.inputs[0], start=own[0], stop=own[1], step=own[2])
    return new_value(node, "broadcast", part, shape=node.outputs[0].shape, axes=axes)


class PaddedSlice(NamedTuple):
    """A slice of one padded axis as a padded slice: its bounds in the operand, and the padding that is left."""

    start: Any
    stop: Any
    step: Any
    before: Any
    after: Any
    interior: Any


def slice_padded_axis(size: Any, before: Any, interior: Any, start: Any, stop: Any, step: Any) -> PaddedSlice | None:
    """A slice of a padded axis of `size` elements; None where it takes some of the zeros between them."""
    gap, end = interior + 1, before + spread(size, interior + 1)
    if step == 1:
        first = max(0, -((before - start) // gap))
        last = min(size - 1, (stop - 1 - before) // gap)
        low, high = before + first * gap - start, stop - 1 - before - last * gap
        return PaddedSlice(first, last + 1, 1, max(low, 0), max(high, 0), interior)
    count = steps_between(start, stop, step)
    if (start - before) % gap or (step % gap and count > 1) or start < before or start + spread(count, step) > end:
        return None
    first, every = (start - before) // gap, max(step // gap, 1)
    return PaddedSlice(first, first + spread(count, every), every, 0, 0, 0)


def _slice_of_pad(node: Node, wide: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    """A slice of a pad as a smaller pad of a slice."""
    x = wide.inputs[0]
    if 0 in x.shape:
        return None
    own = zip(x.shape, wide.params["before"], wide.params["interior"], start, stop, step, strict=True)
    cuts = []
    for axis in own:
        found = slice_padded_axis(*axis)
        if found is None:
            return None
        cuts.append(found)
    if any(c.start >= c.stop for c in cuts):
        return output_full_of(node, 0)
    first, last, every, before, after, interior = zip(*cuts, strict=True)
    part = new_value(node, "slice", x, start=first, stop=last, step=every)
    return new_value(node, "pad", part, before=before, after=after, interior=interior)


def _slice_of_concat(node: Node, joined: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    """A slice of a concat that reads one part alone, as a slice of that part."""
    axis, at = joined.params["axis"], 0
    for part in joined.inputs:
        end = at + part.shape[axis]
        if at <= start[axis] and stop[axis] <= end and start[axis] < end:
            first = (*start[:axis], start[axis] - at, *start[axis + 1 :])
            last = (*stop[:axis], stop[axis] - at, *stop[axis + 1 :])
            return new_value(node, "slice", part, start=first, stop=last, step=step)
        at = end
    return None


SLICE_RULES: dict[str, Callable[[Node, Any, Ints, Ints, Ints], Value | None]] = {
    "broadcast": _slice_of_broadcast,
    "pad": _slice_of_pad,
    "concat": _slice_of_concat,
}


def _simplify_pad(node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    inner = same_op_input(node)
    if inner is None:
        return None
    merged = []
    outer = zip(node.params["before"], node.params["after"], node.params["interior"], strict=True)
    deep = zip(inner.params["before"], inner.params["after"], inner.params["interior"], strict=True)
    for (b, a, i), (c, d, j) in zip(outer, deep, strict=True):
        if i and (c or d):
            return None
        merged.append((b + c, a + d, (i + 1) * (j + 1) - 1))
    before, after, interior = zip(*merged, strict=True)
    return new_value(node, "pad", inner.inputs[0], before=before, after=after, interior=interior)


def _simplify_extremum(node: Node) -> Value | None:
    """A maximum, minimum, any or all of a broadcast as that of its operand."""
    x, axes = node.inputs[0], node.params["axes"]
    if not axes:
        return x
    repeated = defining_node(x, "broadcast")
    if repeated is None or 0 in x.shape:
        return None
    own = repeated.params["axes"]
    inner = new_value(node, node.op.name, repeated.inputs[0], axes=tuple([i for i, a in enumerate(own) if a in axes]))
    return broadcast_reduced(node, inner, own)


def broadcast_reduced(node: Node, inner: Value, own: Ints) -> Value:
    """The reduction of a broadcast, from that of its operand, whose axes were `own` before."""
    axes, shape = node.params["axes"], node.outputs[0].shape
    kept = [a for a in range(node.inputs[0].ndim) if a not in axes]
    places = tuple([kept.index(a) for a in own if a in kept])
    return inner if inner.shape == shape else new_value(node, "broadcast", inner, shape=shape, axes=places)


def _simplify_exact_sum(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    if not axes and x.dtype.kind in "biu":
        return x  # a sum begins at 0.0, to which -0.0 is added
    if is_positive_zero(x):
        return output_full_of(node, 0)
    number = number_of(x)
    count = math.prod([x.shape[a] for a in axes])
    exact = isinstance(count, int) and count and sums_exactly(number, count, x.dtype)
    return output_full_of(node, number * count) if exact else None


def sums_exactly(number: Any, count: int, dtype: Any) -> bool:
    """Test whether adding a number to itself is exact in every order: all its multiples have few bits."""
    if not isinstance(number, int | float) or dtype.kind != "f" or not abs(number) < 2.0**15 / count:
        return False
    bits = 11 if dtype.itemsize == 2 else 24
    scaled = float(number) * 2.0**10
    return scaled != 0 and scaled == int(scaled) and abs(scaled) * count < 2.0**bits


def _simplify_constant(node: Node) -> Value | None:
    """An array that holds one number, or counts from 0, need not be stored."""
    value = node.params["value"]
    if value.size == 0 or value.dtype.kind not in "biuf":
        return None
    number = value.flat[0].item()
    if value.flat[-1].item() == number and _is_uniform(value):
        return output_full_of(node, number)
    axis = counted_axis(value) if value.dtype.kind in "iu" else None
    return None if axis is None else new_value(node, "iota", shape=value.shape, axis=axis, dtype=value.dtype)


def counted_axis(value: NDArray) -> int | None:
    """The axis along which an array of integers counts from 0, the same along all others; None where there is none."""
    first, last = value.flat[0], value.flat[-1]
    for axis, n in enumerate(value.shape):
        if first == 0 and last == n - 1 > 0:
            line = np.arange(n).reshape([-1 if i == axis else 1 for i in range(value.ndim)])
            if bool((value == line).all()):
                return axis
    return None


def _is_uniform(value: Any) -> bool:
    """Test whether every element has the same bits."""
    flat = value.reshape(-1)
    if not (flat == flat[0]).all():
        return False
    return value.dtype.kind != "f" or bool(np.signbit(flat).all() or not np.signbit(flat).any())


MOVEMENT_RULES: dict[str, Rule] = {
    "reshape": _simplify_reshape,
    "permute": _simplify_permute,
    "broadcast": _simplify_broadcast,
    "flip": _simplify_flip,
    "slice": _simplify_slice,
    "pad": _simplify_pad,
    "max": _simplify_extremum,
    "min": _simplify_extremum,
    "any": _simplify_extremum,
    "all": _simplify_extremum,
    "sum": _simplify_exact_sum,
    "constant": _simplify_constant,
}
