"""Phases of a convolution over an array with zeros between its elements: one convolution for each set of used taps."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.convolution_gradients import through_permute
from wholestep.passes.rewrite import at_roots, defining_node, new_value, rewrite
from wholestep.passes.rules.einsum_labels import Contraction, parse_contraction
from wholestep.passes.rules.movement import permute_value

MOST_PHASES = 16
"""The most convolutions that replace one: each is a kernel of its own."""
MIN_TERMS = 8
"""The least products at each tap, mostly over channels, for which phases pay. Measured: one channel is slower."""


def convolution_phases(graph: Graph) -> Graph:
    """Convolve with every second tap for every second place, where every second element is a zero between others.

        p = pad(g, before=(0, 0), after=(0, 0), interior=(0, 1)); v = window(p, size=(3,))
        u = contract(v, w, spec="npk,k->np")
        -->
        a = contract(window(g, size=(2,)), w[0::2], spec="npk,k->np"); b = contract(window(g, size=(1,)), w[1::2], ...)
        u = pad(a, interior=(0, 1)) + pad(b, before=(0, 1), interior=(0, 1))

    Gradients of convolutions with a stride, and transposed convolutions, have such zeros. Equal but for the sign of
    zero: each sum has the same products in the same order, without those with a zero between elements, which are zeros
    where the taps are finite.
    """
    return rewrite(graph, at_roots({"contract": by_phases}))


class Tap(NamedTuple):
    """One phase along one axis: its positions, `places` in number from `start` on, and their `taps` taps, from `tap` on
    and `step` apart, over elements from `first` on.
    """

    start: int
    places: int
    tap: int
    step: int
    taps: int
    first: int


class SparseAxis(NamedTuple):
    """An axis of the windows whose elements have zeros between them: its number among these axes, the axis of the array
    before its padding, the gap between elements, its labels, and its phases that read any element.
    """

    number: int
    axis: int
    gap: int
    place: str
    inside: str
    phases: tuple[Tap, ...]


def by_phases(node: Node) -> Value | None:
    """A contraction as the sum of its phases; None where neither operand has windows over such zeros."""
    c = parse_contraction(node)
    for i in (0, 1):
        found = sparse_axes(c, i)
        if found and math.prod([axis.gap for axis in found]) <= MOST_PHASES and terms_at_a_tap(c, found) >= MIN_TERMS:
            parts = [phase(c, i, found, taps) for taps in product(*[axis.phases for axis in found])]
            zero = new_value(node, "full", value=0, shape=node.outputs[0].shape, dtype=node.outputs[0].dtype)
            return reduce(lambda x, y: new_value(node, "add", x, y), parts) if parts else zero
    return None


def terms_at_a_tap(c: Contraction, axes: list[SparseAxis]) -> int:
    """The number of products at one tap, as far as it is known."""
    taps = {axis.inside for axis in axes}
    sizes = [n for label, n in c.sizes.items() if label not in taps and label not in c.out]
    return math.prod([n for n in sizes if isinstance(n, int)])


def sparse_axes(c: Contraction, i: int) -> list[SparseAxis]:
    """The axes of an operand's windows that have zeros between elements, and places and insides of their own."""
    x, order = through_permute(c.operands[i])
    seen = defining_node(x, "window")
    y, inner = through_permute(seen.inputs[0]) if seen else (x, ())
    wide = defining_node(y, "pad") if seen else None
    if seen is None or wide is None or 0 in c.node.outputs[0].shape + wide.inputs[0].shape:
        return []
    k, other = len(seen.params["size"]), c.labels[1 - i]
    lead = x.ndim - 2 * k
    labels = dict(zip(order, c.labels[i], strict=True))
    found = []
    for t in range(k):
        axis, place, inside = inner[lead + t], labels[lead + t], labels[lead + k + t]
        gap, before = wide.params["interior"][axis] + 1, wide.params["before"][axis]
        facts = (gap, before, c.sizes[place], c.sizes[inside], seen.params["dilation"][t])
        own = place in c.out and place not in other and inside in other and inside not in c.out
        if gap == 1 or seen.params["stride"][t] != 1 or not own or not all(isinstance(n, int) for n in facts):
            continue
        found.append(SparseAxis(t, axis, gap, place, inside, phases_of(*facts)))
    return found


def phases_of(gap: int, before: int, places: int, taps: int, dilation: int) -> tuple[Tap, ...]:
    """The phases along an axis that read elements; these are `gap` apart from `before` on.

    >>> phases_of(2, 1, 16, 3, 1)
    (Tap(start=0, places=8, tap=1, step=2, taps=1, first=0), Tap(start=1, places=8, tap=0, step=2, taps=2, first=0))
    """
    step = gap // math.gcd(gap, dilation)
    found = []
    for start in range(min(gap, places)):
        met = [m for m in range(min(step, taps)) if (start + dilation * m - before) % gap == 0]
        for m in met:
            first = (start + dilation * m - before) // gap
            found.append(Tap(start, -(-(places - start) // gap), m, step, -(-(taps - m) // step), first))
    return tuple(found)


def phase(c: Contraction, i: int, axes: list[SparseAxis], taps: tuple[Tap, ...]) -> Value:
    """The result of one phase, with zeros at the positions of all others."""
    own, other = windows_of_phase(c, i, axes, taps), kernel_of_phase(c, i, axes, taps)
    sizes = dict(c.sizes)
    for axis, tap in zip(axes, taps, strict=True):
        sizes |= {axis.place: tap.places, axis.inside: tap.taps}
    made = c._replace(sizes=sizes).with_operand(i, own, c.labels[i]).with_operand(1 - i, other, c.labels[1 - i])
    before, after, interior = [dict.fromkeys(c.out, 0) for _ in range(3)]
    for axis, tap in zip(axes, taps, strict=True):
        before[axis.place], interior[axis.place] = tap.start, axis.gap - 1
        after[axis.place] = c.sizes[axis.place] - tap.start - (tap.places - 1) * axis.gap - 1
    widths = [tuple(w.values()) for w in (before, after, interior)]
    return new_value(c.node, "pad", made.value(), before=widths[0], after=widths[1], interior=widths[2])


def windows_of_phase(c: Contraction, i: int, axes: list[SparseAxis], taps: tuple[Tap, ...]) -> Value:
    """The windows over the elements alone."""
    x, order = through_permute(c.operands[i])
    seen = x.node
    assert seen is not None
    y, inner = through_permute(seen.inputs[0])
    wide = y.node
    assert wide is not None
    g = wide.inputs[0]
    start, stop = [0] * g.ndim, list(g.shape)
    widths: dict[str, list[Any]] = {key: list(wide.params[key]) for key in ("before", "after", "interior")}
    size, dilation = list(seen.params["size"]), list(seen.params["dilation"])
    for axis, tap in zip(axes, taps, strict=True):
        at, every = axis.axis, dilation[axis.number] * tap.step // axis.gap
        first, n, end = tap.first, g.shape[at], tap.first + tap.places + every * (tap.taps - 1)
        start[at] = min(max(first, 0), n)
        stop[at] = max(min(end, n), start[at])
        own = max(min(end, 0) - first, 0), max(end - max(first, n), 0), 0
        widths["before"][at], widths["after"][at], widths["interior"][at] = own
        size[axis.number], dilation[axis.number] = tap.taps, every
    part = new_value(c.node, "slice", g, start=tuple(start), stop=tuple(stop), step=(1,) * g.ndim)
    padded = new_value(c.node, "pad", part, **{key: tuple(w) for key, w in widths.items()})
    turned = permute_value(c.node, padded, inner)
    stride = seen.params["stride"]
    windows = new_value(c.node, "window", turned, size=tuple(size), stride=stride, dilation=tuple(dilation))
    return permute_value(c.node, windows, order)


def kernel_of_phase(c: Contraction, i: int, axes: list[SparseAxis], taps: tuple[Tap, ...]) -> Value:
    """The taps of a kernel that a phase uses."""
    w, labels = c.operands[1 - i], c.labels[1 - i]
    start, step = [0] * w.ndim, [1] * w.ndim
    for axis, tap in zip(axes, taps, strict=True):
        start[labels.index(axis.inside)], step[labels.index(axis.inside)] = tap.tap, tap.step
    return new_value(c.node, "slice", w, start=tuple(start), stop=w.shape, step=tuple(step))
