"""Scatter by elements: each element of the result reads all indices that may be its own, in order.

for i in 256: for j in 128:
    acc = x[i, j]
    for k in 32: if any of index[32*k : 32*k + 32] is i: for l in 32: if index[32*k + l] is i: acc += u[32*k + l, j]
    out[i, j] = acc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size
from wholestep.ir.graph import Node
from wholestep.kernel import maths
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import BOOL, I32, I64, Axis, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.kernels.op_rules import counted_index
from wholestep.lower.kernels.scalar_codegen import ElementReader, ScalarValue, components_of, scalar_of
from wholestep.lower.legalize.scatter_places import own_places
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape

U32 = np.dtype(np.uint32)
ASKED = 32
"""The most indices that are tested at a time."""
EXTREMA = {"maximum": maths.maximum, "minimum": maths.minimum}


def elements_task(low: Materializer, node: Node) -> Task:
    """The task of a scatter in which each element of the result searches for its own updates."""
    x, out = node.inputs[0], node.outputs[0]
    with KernelTemplate(low, node.op.name) as reader:
        grid, place = axes_of_shape(x.shape)
        with reader.loops(grid):
            found = PlaceSearch(reader, node, place).nest(0, reader.read(x, place))
            reader.store(out, low.locations[out], place, found)
    return reader.task()


class PlaceSearch:
    """The search of one element for its updates; `at` is the position of the current index.

    Several indices at a time are tested first, without a load of an update; only if one of them is the element's own,
    their updates are applied, in order.
    """

    def __init__(self, reader: ElementReader, node: Node, place: Coordinates) -> None:
        self.reader, self.node, self.place = reader, node, place
        self.shape = node.inputs[2].shape
        own = {d: place[a] for d, a in own_places(node).items()}
        self.free = [d for d, n in enumerate(self.shape) if d not in own and n != 1]
        self.at = [own.get(d, Index()) for d in range(len(self.shape))]

    def nest(self, k: int, before: ScalarValue) -> ScalarValue:
        """An element after the updates along the free axes of the places from number k on."""
        if k == len(self.free):
            return self.taken(before)
        d = self.free[k]
        n = self.shape[d]
        part = max(m for m in range(1, ASKED + 1) if n % m == 0) if k + 1 == len(self.free) else 1
        axis = Axis(f"n{d}", n // part)
        if part == 1:
            return self.along(axis, before, d, Index(0, {axis: 1}), lambda value: self.nest(k + 1, value))
        return self.along(axis, before, d, Index(0, {axis: part}), lambda value: self.asked(d, part, value))

    def asked(self, d: int, part: int, before: ScalarValue) -> ScalarValue:
        """An element after the updates of `part` indices along an axis, if any of them is its own."""
        start, b = self.at[d], self.reader.builder
        asked, met = Axis("asked", part), Axis("met", part)
        with b.loop(asked) as loop:
            self.at[d] = start + Index(0, {asked: 1})
            hit = self.hit()
            any_ = loop.fold("or", b.constant(True, BOOL) if hit is None else hit)
        return self.along(met, before, d, start + Index(0, {met: 1}), self.taken, any_)

    def along(
        self,
        axis: Axis,
        before: ScalarValue,
        d: int,
        index: Index,
        body: Callable[[ScalarValue], ScalarValue],
        guard: Var | None = None,
    ) -> ScalarValue:
        """An element after the steps of an axis, at whose index along axis d of the places it looks."""
        with self.reader.builder.loop(axis, ordered=True, guard=guard) as loop:
            inside = [loop.carry(part) for part in components_of(before)]
            self.at[d] = index
            after = components_of(body(scalar_of(inside)))
            handed = [loop.hand(c, part) for c, part in zip(inside, after, strict=True)]
        return scalar_of(handed)

    def hit(self) -> Var | None:
        """The condition that the place is that of the element; None where it always is."""
        found: Var | None = None
        x, _, *indices = self.node.inputs
        for axis, index in zip(self.node.params["axes"], indices, strict=True):
            value = self.reader.read(index, tuple(self.at))
            found = self.reader.conjunction(found, is_at_place(self.reader, value, self.place[axis], x.shape[axis]))
        return found

    def taken(self, before: ScalarValue) -> ScalarValue:
        """An element after the update at the place, if it is its own."""
        reader, hit, u = self.reader, self.hit(), self.node.inputs[1]
        rest = [index for a, index in enumerate(self.place) if a not in self.node.params["axes"]]
        update = reader.read_guarded(u, (*self.at, *rest), hit, reader.number(0, u.dtype))
        combiner = self.node.op.joined_by
        after = combined_elements(reader, combiner, before, update) if combiner else update
        return after if hit is None else reader.choose(hit, after, before)


def is_at_place(reader: ElementReader, index: Var, place: Index, n: Size) -> Var | None:
    """Test whether an index, which may count from the end, is a place along an axis of n; None where it always is."""
    if counted_index(index, n) == place:
        return None
    b, narrow = reader.builder, index.dtype in (I32, U32) and n <= np.iinfo(index.dtype).max
    wide = index if narrow else b.convert(index, I64)
    here = b.convert(b.index(place), wide.dtype)
    found = b.op("eq", wide, here)
    if dtypes.counts_back(index.dtype):
        found = b.op("or", found, b.op("eq", wide, b.op("sub", here, b.constant(n, wide.dtype))))
    return found


def combined_elements(reader: ElementReader, combiner: str, x: ScalarValue, y: ScalarValue) -> ScalarValue:
    """Two elements joined as a scatter does."""
    parts = zip(components_of(x), components_of(y), strict=True)
    return scalar_of([combined_components(reader, combiner, *pair) for pair in parts])


def combined_components(reader: ElementReader, combiner: str, x: Any, y: Any) -> Any:
    """Two components joined; the sum of truth values is true where either is."""
    if combiner == "add":
        return reader.builder.op("add" if x.dtype.kind != "b" else "or", x, y)
    return EXTREMA[combiner](x, y)
