"""Exact rules of movement: what undoes, repeats or merges with its neighbour, by the name of the primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.graph import Node, Value
from wholestep.passes.algebra import Rule, full_like, is_zero, nested_in
from wholestep.passes.rewrite import made_by, make
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import spread, steps_between

Ints = tuple[Any, ...]


def ones_apart(a: Ints, b: Ints) -> bool:
    """Whether two shapes differ by axes of size 1 alone."""
    return [n for n in a if n != 1] == [n for n in b if n != 1]


def inverse(axes: Ints) -> Ints:
    """The order that undoes an order of axes."""
    back = [0] * len(axes)
    for i, a in enumerate(axes):
        back[a] = i
    return tuple(back)


def reshaped(node: Node, x: Value, shape: Ints) -> Value:
    """x in another shape; nothing where it has that shape."""
    inner = made_by(x, "reshape")
    x = inner.inputs[0] if inner else x
    return x if x.shape == shape else make(node, "reshape", x, shape=shape)


def permuted(node: Node, x: Value, axes: Ints) -> Value:
    """x with its axes in another order; a number has none, and of what is repeated only its own axes move."""
    inner = made_by(x, "permute")
    if inner:
        x, axes = inner.inputs[0], tuple([inner.params["axes"][a] for a in axes])
    if axes == tuple(range(len(axes))):
        return x
    shape = tuple([x.shape[a] for a in axes])
    number = number_of(x)
    if number is not None:
        return make(node, "full", value=number, shape=shape, dtype=x.dtype)
    repeated = made_by(x, "broadcast")
    if repeated is None:
        return make(node, "permute", x, axes=axes)
    old = repeated.params["axes"]
    source = permuted(node, repeated.inputs[0], tuple([old.index(a) for a in axes if a in old]))
    return make(node, "broadcast", source, shape=shape, axes=tuple([i for i, a in enumerate(axes) if a in old]))


def _reshape(node: Node) -> Value | None:
    x, shape = node.inputs[0], node.outputs[0].shape
    if x.shape == shape:
        return x
    if nested_in(node):
        return reshaped(node, x, shape)
    if not ones_apart(x.shape, shape):
        return None
    repeated = made_by(x, "broadcast")
    if repeated and 1 not in repeated.inputs[0].shape:
        there = [i for i, n in enumerate(shape) if n != 1]
        places = dict(zip([i for i, n in enumerate(x.shape) if n != 1], there, strict=True))
        axes = tuple([places[a] for a in repeated.params["axes"]])
        return make(node, "broadcast", repeated.inputs[0], shape=shape, axes=axes)
    return None


def _permute(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    if axes == tuple(range(len(axes))):
        return x
    return permuted(node, x, axes) if nested_in(node) or made_by(x, "broadcast") else None


def _broadcast(node: Node) -> Value | None:
    x, shape, axes = node.inputs[0], node.params["shape"], node.params["axes"]
    if x.shape == shape:
        return x
    inner = nested_in(node)
    if inner:
        merged = tuple([axes[a] for a in inner.params["axes"]])
        return make(node, "broadcast", inner.inputs[0], shape=shape, axes=merged)
    reshape = made_by(x, "reshape")
    if reshape and ones_apart(reshape.inputs[0].shape, x.shape):
        source = reshape.inputs[0]
        places = dict(enumerate([a for a in axes if shape[a] != 1]))
        if 1 in source.shape:
            return None
        return make(node, "broadcast", source, shape=shape, axes=tuple(places.values()))
    return None


def _flip(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    left = tuple([a for a in axes if x.shape[a] != 1])
    inner = nested_in(node)
    if inner:
        left = tuple(sorted(set(left) ^ set(inner.params["axes"])))
        x = inner.inputs[0]
    repeated = made_by(x, "broadcast")
    if repeated:
        left = tuple([a for a in left if a in repeated.params["axes"]])
    if not left:
        return x
    return make(node, "flip", x, axes=left) if left != axes else None


def _slice(node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    start, stop, step = node.params["start"], node.params["stop"], node.params["step"]
    if 0 in node.outputs[0].shape:
        return None
    inner = nested_in(node)
    if inner:
        starts, steps = inner.params["start"], inner.params["step"]
        first = tuple([b + a * t for a, b, t in zip(start, starts, steps, strict=True)])
        both = tuple([s * t for s, t in zip(step, steps, strict=True)])
        ends = zip(first, both, node.outputs[0].shape, strict=True)
        last = tuple([a + spread(n, s) for a, s, n in ends])
        return make(node, "slice", inner.inputs[0], start=first, stop=last, step=both)
    rule = SLICED.get(x.node.op.name) if x.node is not None else None
    return rule(node, x.node, start, stop, step) if rule is not None else None


def _slice_of_broadcast(node: Node, repeated: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    axes = repeated.params["axes"]
    own = [tuple([p[a] for a in axes]) for p in (start, stop, step)]
    part = make(node, "slice", repeated.inputs[0], start=own[0], stop=own[1], step=own[2])
    return make(node, "broadcast", part, shape=node.outputs[0].shape, axes=axes)


class Cut(NamedTuple):
    """A slice of one padded axis as a padded slice: where it begins and ends in what was padded, and what is left."""

    start: Any
    stop: Any
    step: Any
    before: Any
    after: Any
    interior: Any


def cut(size: Any, before: Any, interior: Any, start: Any, stop: Any, step: Any) -> Cut | None:
    """A slice of an axis of `size` elements among zeros; None where it takes some of the zeros between them."""
    gap, end = interior + 1, before + spread(size, interior + 1)
    if step == 1:
        first = max(0, -((before - start) // gap))
        last = min(size - 1, (stop - 1 - before) // gap)
        low, high = before + first * gap - start, stop - 1 - before - last * gap
        return Cut(first, last + 1, 1, max(low, 0), max(high, 0), interior)
    count = steps_between(start, stop, step)
    if (start - before) % gap or (step % gap and count > 1) or start < before or start + spread(count, step) > end:
        return None
    first, every = (start - before) // gap, max(step // gap, 1)
    return Cut(first, first + spread(count, every), every, 0, 0, 0)


def _slice_of_pad(node: Node, wide: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    """Less padding of fewer elements."""
    x = wide.inputs[0]
    if 0 in x.shape:
        return None
    own = zip(x.shape, wide.params["before"], wide.params["interior"], start, stop, step, strict=True)
    cuts = []
    for axis in own:
        found = cut(*axis)
        if found is None:
            return None
        cuts.append(found)
    if any(c.start >= c.stop for c in cuts):
        return full_like(node, 0)
    first, last, every, before, after, interior = zip(*cuts, strict=True)
    part = make(node, "slice", x, start=first, stop=last, step=every)
    return make(node, "pad", part, before=before, after=after, interior=interior)


def _slice_of_concat(node: Node, joined: Any, start: Ints, stop: Ints, step: Ints) -> Value | None:
    """A slice that reads one part alone."""
    axis, at = joined.params["axis"], 0
    for part in joined.inputs:
        end = at + part.shape[axis]
        if at <= start[axis] and stop[axis] <= end and start[axis] < end:
            first = (*start[:axis], start[axis] - at, *start[axis + 1 :])
            last = (*stop[:axis], stop[axis] - at, *stop[axis + 1 :])
            return make(node, "slice", part, start=first, stop=last, step=step)
        at = end
    return None


SLICED: dict[str, Callable[[Node, Any, Ints, Ints, Ints], Value | None]] = {
    "broadcast": _slice_of_broadcast,
    "pad": _slice_of_pad,
    "concat": _slice_of_concat,
}


def _pad(node: Node) -> Value | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    inner = nested_in(node)
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
    return make(node, "pad", inner.inputs[0], before=before, after=after, interior=interior)


def _concat(node: Node) -> Value | None:
    axis = node.params["axis"]
    parts = joined_parts(node, flat_parts(node), axis)
    if len(parts) == 1:
        return parts[0]
    numbers = {repr(number_of(v)) for v in parts}
    if len(numbers) == 1 and number_of(parts[0]) is not None:
        return full_like(node, number_of(parts[0]))
    inner = [v for v in parts if not is_zero(v)]
    if len(inner) == 1:
        at = parts.index(inner[0])
        return padded(node, inner[0], axis, [sum([v.shape[axis] for v in p]) for p in (parts[:at], parts[at + 1 :])])
    return make(node, "concat", *parts, axis=axis) if len(parts) != len(node.inputs) else None


def padded(node: Node, x: Value, axis: int, widths: Sequence[Any]) -> Value:
    """x between zeros along one axis."""
    before, after = [tuple([w if i == axis else 0 for i in range(x.ndim)]) for w in widths]
    return make(node, "pad", x, before=before, after=after, interior=(0,) * x.ndim)


def flat_parts(node: Node) -> list[Value]:
    """The parts of a concat, those of its concat parts among them, and none that is empty."""
    axis = node.params["axis"]
    found: list[Value] = []
    for v in node.inputs:
        inner = made_by(v, "concat")
        found += list(inner.inputs) if inner and inner.params["axis"] == axis else [v]
    return [v for v in found if v.shape[axis] != 0] or found[:1]


def joined_parts(node: Node, parts: Sequence[Value], axis: int) -> list[Value]:
    """The parts, with neighbours that were neighbours in one array before it was sliced taken together."""
    found: list[Value] = []
    for v in parts:
        both = joined(node, found[-1], v, axis) if found else None
        if both is None:
            found.append(v)
        else:
            found[-1] = both
    return found


def joined(node: Node, left: Value, right: Value, axis: int) -> Value | None:
    """The one slice that two slices beside each other make, or None."""
    a, b = made_by(left, "slice"), made_by(right, "slice")
    if a is None or b is None or a.inputs != b.inputs or a.params["step"] != b.params["step"]:
        return None
    step = a.params["step"]
    for i in range(left.ndim):
        first, second = (a.params["start"][i], a.params["stop"][i]), (b.params["start"][i], b.params["stop"][i])
        if first != second if i != axis else step[i] != 1 or first[1] != second[0]:
            return None
    stop = tuple([(b if i == axis else a).params["stop"][i] for i in range(left.ndim)])
    return make(node, "slice", a.inputs[0], start=a.params["start"], stop=stop, step=step)


def _reduce(node: Node) -> Value | None:
    """A maximum and its kin: what is repeated along the axes counts once, and an order of axes moves behind it."""
    x, axes = node.inputs[0], node.params["axes"]
    if not axes:
        return x
    repeated = made_by(x, "broadcast")
    if repeated is None or 0 in x.shape:
        return None
    own = repeated.params["axes"]
    inner = make(node, node.op.name, repeated.inputs[0], axes=tuple([i for i, a in enumerate(own) if a in axes]))
    kept = [a for a in range(x.ndim) if a not in axes]
    places = tuple([kept.index(a) for a in own if a in kept])
    shape = node.outputs[0].shape
    return inner if inner.shape == shape else make(node, "broadcast", inner, shape=shape, axes=places)


def _sum(node: Node) -> Value | None:
    x, axes = node.inputs[0], node.params["axes"]
    if not axes and x.dtype.kind in "biu":
        return x  # a sum begins at 0.0, to which -0.0 is added
    if is_zero(x):
        return full_like(node, 0)
    number = number_of(x)
    count = math.prod([x.shape[a] for a in axes])
    exact = isinstance(count, int) and count and sums_exactly(number, count, x.dtype)
    return full_like(node, number * count) if exact else None


def sums_exactly(number: Any, count: int, dtype: Any) -> bool:
    """Whether adding a number to itself is exact in every order: all its multiples have few bits."""
    if not isinstance(number, int | float) or dtype.kind != "f" or not abs(number) < 2.0**15 / count:
        return False
    bits = 11 if dtype.itemsize == 2 else 24
    scaled = float(number) * 2.0**10
    return scaled != 0 and scaled == int(scaled) and abs(scaled) * count < 2.0**bits


def _constant(node: Node) -> Value | None:
    """An array that holds one number, or counts from 0, need not be stored."""
    value = node.params["value"]
    if value.size == 0 or value.dtype.kind not in "biuf":
        return None
    number = value.flat[0].item()
    if value.flat[-1].item() == number and _uniform(value):
        return full_like(node, number)
    if value.ndim == 1 and number == 0 and value.dtype.kind in "iu" and value[-1] == value.size - 1:
        if bool((value[1:] - value[:-1] == 1).all()):
            return make(node, "iota", shape=value.shape, axis=0, dtype=value.dtype)
    return None


def _uniform(value: Any) -> bool:
    """Whether every element has the same bits."""
    flat = value.reshape(-1)
    if not (flat == flat[0]).all():
        return False
    return value.dtype.kind != "f" or bool(np.signbit(flat).all() or not np.signbit(flat).any())


PLACES: dict[str, Rule] = {
    "reshape": _reshape,
    "permute": _permute,
    "broadcast": _broadcast,
    "flip": _flip,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "max": _reduce,
    "min": _reduce,
    "any": _reduce,
    "all": _reduce,
    "sum": _sum,
    "constant": _constant,
}
