"""Row sets: the rows of a table that gathers have read, sorted, with the gradients of each row summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.graph import OPS, Node, Value
from wholestep.ir.types import Shape, Type
from wholestep.passes.rewrite import GraphRewriter
from wholestep.passes.sparse_rows.backgrounds import Background, Uniform


@dataclass(frozen=True, eq=False)
class RowSet:
    """The rows that gradients reach, each in as many adjacent slots as the times that it was gathered."""

    lead: Shape
    """The leading axes of the tables, whose positions are the rows."""
    slots: int
    ids: Value
    """The number of the row in each slot, ascending."""
    first: Value
    """Marks of the first slot of each row."""
    sources: tuple[Node, ...]
    """The operations that would scatter the gradients into zeros."""

    @property
    def rows(self) -> int:
        """The number of rows of a table."""
        return math.prod(self.lead)

    def narrow(self, t: Type) -> Shape:
        """The shape of the rows of an array."""
        return (self.slots, *t.shape[len(self.lead) :])

    def row_axes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Axes of an array behind the rows, as axes of its rows."""
        return tuple([a - len(self.lead) + 1 for a in axes])


class RowwiseValue(NamedTuple):
    """An array that is known row by row: its rows in the slots of a set, and the background of all others."""

    set: RowSet
    value: Value
    background: Background


class GatherGradient(NamedTuple):
    """The gradient of one gather: the updates that are added to the rows at these indices."""

    source: Node
    updates: Value
    indices: tuple[Value, ...]

    @property
    def slots(self) -> int:
        """The number of indices."""
        return int(self.indices[0].type.size)


class RowEmitter(GraphRewriter):
    """A graph emitted again, with operations added at the user's line of the current node."""

    like: Node | None = None

    def op(self, name: str, *inputs: Value, **params: Any) -> Value:
        """The value of a new operation."""
        return self.add(OPS[name], inputs, params, self.like)[0]

    def reshape(self, x: Value, shape: Shape) -> Value:
        """A reshape, unless x has the shape."""
        return x if x.shape == shape else self.op("reshape", x, shape=shape)

    def full(self, number: Any, shape: Shape, dtype: Any) -> Value:
        """An array filled with one number."""
        return self.op("full", value=number, shape=shape, dtype=np.dtype(dtype))

    def concat(self, values: Sequence[Value]) -> Value:
        """The concatenation of arrays along their first axis."""
        return values[0] if len(values) == 1 else self.op("concat", *values, axis=0)

    def below(self, index: Value, size: int) -> Value:
        """An index in bounds by construction, so that it needs no check of its own."""
        return self.op("minimum", index, self.full(size - 1, index.shape, index.dtype))

    def row_numbers(self, part: GatherGradient, lead: Shape) -> Value:
        """The numbers of the rows at some indices, over all leading axes: counted from the start, refused out of
        range."""
        dtype = np.dtype(np.uint32 if math.prod(lead) < 2**32 else np.uint64)
        number: Value | None = None
        for index, size in zip(part.indices, lead, strict=True):
            along = self.op("gather", self.op("iota", shape=(size,), axis=0, dtype=dtype), index, axes=(0,))
            if number is not None:
                along = self.op("add", self.op("mul", number, self.full(size, index.shape, dtype)), along)
            number = along
        assert number is not None
        return self.reshape(number, (part.slots,))

    def sum_rows(self, parts: Sequence[GatherGradient]) -> RowwiseValue:
        """The gradients of several gathers of one table, summed row by row in the order of the gathers."""
        table = parts[0].source.outputs[0].type
        lead = table.shape[: len(parts[0].indices)]
        rest = table.shape[len(lead) :]
        slots = sum([part.slots for part in parts])
        numbers = self.concat([self.row_numbers(part, lead) for part in parts])
        updates = self.concat([self.reshape(part.updates, (part.slots, *rest)) for part in parts])
        ids, order = self.add(OPS["sort"], (numbers,), {"axis": 0}, self.like)
        first = self.full(True, (1,), bool)
        if slots > 1:
            ends = [self.op("slice", ids, start=(i,), stop=(slots - 1 + i,), step=(1,)) for i in (0, 1)]
            first = self.concat([first, self.op("not_equal", *ends)])
        count = self.op("cumsum", self.op("cast", first, dtype=ids.dtype), axis=0, reverse=False)
        segment = self.below(self.op("sub", count, self.full(1, (slots,), ids.dtype)), slots)
        sorted_updates = self.op("gather", updates, order, axes=(0,))
        empty = self.full(0, (slots, *rest), table.dtype)
        summed = self.op("scatter_add", empty, sorted_updates, segment, axes=(0,))
        value = self.op("gather", summed, segment, axes=(0,))
        found = RowSet(lead, slots, ids, first, tuple([part.source for part in parts]))
        return RowwiseValue(found, value, Uniform(np.zeros((), table.dtype)))
