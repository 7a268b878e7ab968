"""Scatter by elements: each element of the result looks at all places that may be its own, in their order.

for i in 256: for j in 128: acc = x[i, j]; for k in 1024: if index[k] is i: acc += u[k, j]; out[i, j] = acc
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Size
from wholestep.ir.graph import Node
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import I32, I64, Axis, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.kernels.op_rules import counted_index
from wholestep.lower.kernels.scalar_codegen import ElementReader, ScalarValue, components_of, scalar_of
from wholestep.lower.legalize.scatter_places import own_places
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape
from wholestep.primitives.indexing import ScatterSet

U32 = np.dtype(np.uint32)


def elements_task(low: Materializer, node: Node) -> Task:
    """A task in which each element of the result looks at its places."""
    x, u, *indices = node.inputs
    out, axes = node.outputs[0], node.params["axes"]
    with KernelTemplate(low, node.op.name) as reader:
        grid, place = axes_of_shape(x.shape)
        rest = [place[a] for a in range(x.ndim) if a not in axes]
        own = {d: place[a] for d, a in own_places(node).items()}

        def take(at: Coordinates, before: ScalarValue) -> ScalarValue:
            hit: Var | None = None
            for axis, index in zip(axes, indices, strict=True):
                hit = reader.conjunction(hit, is_at_place(reader, reader.read(index, at), place[axis], x.shape[axis]))
            update = reader.read_guarded(u, (*at, *rest), hit, reader.number(0, u.dtype))
            after = update if isinstance(node.op, ScatterSet) else sum_of(reader, before, update)
            return after if hit is None else reader.choose(hit, after, before)

        with reader.loops(grid):
            found = over_places(reader, indices[0].shape, own, reader.read(x, place), take)
            reader.store(out, low.locations[out], place, found)
    return reader.task()


def over_places(
    reader: ElementReader,
    shape: Sequence[int],
    own: dict[int, Index],
    start: ScalarValue,
    take: Callable[[Coordinates, ScalarValue], ScalarValue],
) -> ScalarValue:
    """The value that `take` makes of another, place after place; along some axes an element has its own place."""
    here: list[Index] = []

    def nest(before: ScalarValue) -> ScalarValue:
        d = len(here)
        if d == len(shape):
            return take(tuple(here), before)
        if d in own or shape[d] == 1:
            here.append(own.get(d, Index()))
            found = nest(before)
            here.pop()
            return found
        axis = Axis(f"n{d}", shape[d])
        with reader.builder.loop(axis, ordered=True) as loop:
            inside = [loop.carry(part) for part in components_of(before)]
            here.append(Index(0, {axis: 1}))
            after = components_of(nest(scalar_of(inside)))
            here.pop()
            handed = [loop.hand(c, part) for c, part in zip(inside, after, strict=True)]
        return scalar_of(handed)

    return nest(start)


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


def sum_of(reader: ElementReader, x: ScalarValue, y: ScalarValue) -> ScalarValue:
    """The sum of two elements."""
    return scalar_of([added(reader, *parts) for parts in zip(components_of(x), components_of(y), strict=True)])


def added(reader: ElementReader, x: Any, y: Any) -> Any:
    """The sum of two components; that of truth values is true where either is."""
    return reader.builder.op("add" if x.dtype.kind != "b" else "or", x, y)
