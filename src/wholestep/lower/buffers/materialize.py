"""Materialization: choose which values of a graph are stored in memory, and in which layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from wholestep.dims import SymbolicError
from wholestep.ir.graph import Graph, Value
from wholestep.kernel.index_arithmetic import row_major_strides, temporary_strides
from wholestep.lower.buffers.tasks import ProgramBuilder, TaskGraph, row_major_location
from wholestep.lower.fusion.fusion_groups import is_virtual
from wholestep.lower.kernels.scalar_codegen import Location
from wholestep.lower.program.allocation import Allocation


class Materializer(ABC):
    """The interface that lowering rules use to materialize values while a graph is lowered."""

    def __init__(self, graph: Graph, context: ProgramBuilder, locations: dict[Value, Location]) -> None:
        self.graph, self.context, self.locations = graph, context, locations
        self.pending: list[Value] = []

    @abstractmethod
    def is_floating(self, v: Value) -> bool:
        """True for a cheap value that is recomputed where it is read."""

    @abstractmethod
    def nested(self, graph: Graph, inputs: Sequence[Location], outputs: Sequence[Location]) -> TaskGraph:
        """Lower a nested graph, which has an arena of its own."""

    def materialize(self, v: Value) -> None:
        """Materialize a value in the arena unless it has a location."""
        if v not in self.locations and v.type.size:
            self.locations[v] = Location(Allocation(v.type.nbytes, value=v), temporary_strides(v.shape))
            self.pending.append(v)

    def materialize_leaves(self, v: Value, computed: bool = False) -> None:
        """Materialize the values that a value is computed from through movement operations, and, where it is
        `computed`, through cheap ones."""
        seen, waiting = {v}, [v]
        while waiting:
            x = waiting.pop()
            if x in self.locations or x.node is None:
                continue
            if not is_virtual(x.node) and not (computed and self.is_floating(x)):
                self.materialize(x)
                continue
            new = [y for y in reversed(x.node.inputs) if y not in seen]
            seen.update(new)
            waiting += new

    def materialize_strided(self, v: Value) -> None:
        """Materialize a value for a reader that knows strides but cannot read through movement."""
        by_rows = all(temporary_strides(x.shape) == row_major_strides(x.shape) for x in (v, strip_reshapes(v)))
        (self.materialize_row_major if by_rows else self.materialize)(v)

    def materialize_row_major(self, v: Value) -> None:
        """Materialize a value in row-major order for a reader that cannot read through movement."""
        base = strip_reshapes(v)
        self.materialize(base)
        if base in self.locations:
            if self.locations[base].strides != row_major_strides(base.shape):
                raise SymbolicError(f"{base.type} is wanted row by row, and its rows would be of symbolic size")
            self.locations.setdefault(v, row_major_location(v, self.locations[base].place))


def strip_reshapes(v: Value) -> Value:
    """The value whose elements, in row-major order, are those of v."""
    while v.node is not None and v.node.op.keeps_order:
        v = v.node.inputs[0]
    return v
