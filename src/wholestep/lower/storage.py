"""Storage: where the values of a graph lie, and the wish that one be stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from wholestep.dims import SymbolicError
from wholestep.ir.graph import Graph, Value
from wholestep.lower.access import Home
from wholestep.lower.clusters import virtual
from wholestep.lower.indices import memory_strides, strides_of
from wholestep.lower.plan import Place
from wholestep.lower.work import Context, Lowered, home_of


class Storage(ABC):
    """What the rules of operations may ask for while a graph is lowered."""

    def __init__(self, graph: Graph, context: Context, homes: dict[Value, Home]) -> None:
        self.graph, self.context, self.homes = graph, context, homes
        self.pending: list[Value] = []

    @abstractmethod
    def nested(self, graph: Graph, inputs: Sequence[Home], outputs: Sequence[Home]) -> Lowered:
        """A graph inside this one, with temporary places of its own."""

    def want(self, v: Value) -> None:
        """Store a value in the arena unless it has a place."""
        if v not in self.homes and v.type.size:
            self.homes[v] = Home(Place(v.type.nbytes, value=v), memory_strides(v.shape))
            self.pending.append(v)

    def want_leaves(self, v: Value) -> None:
        """Store what a value is read from through movement."""
        seen, waiting = {v}, [v]
        while waiting:
            x = waiting.pop()
            if x in self.homes or x.node is None:
                continue
            if not virtual(x.node):
                self.want(x)
                continue
            new = [y for y in reversed(x.node.inputs) if y not in seen]
            seen.update(new)
            waiting += new

    def want_steps(self, v: Value) -> None:
        """Store a value for something that knows its steps, and cannot read through movement."""
        by_rows = all(memory_strides(x.shape) == strides_of(x.shape) for x in (v, unshaped(v)))
        (self.want_whole if by_rows else self.want)(v)

    def want_whole(self, v: Value) -> None:
        """Store a value as it is, in row-major order, for something that cannot read through movement."""
        base = unshaped(v)
        self.want(base)
        if base in self.homes:
            if self.homes[base].strides != strides_of(base.shape):
                raise SymbolicError(f"{base.type} is wanted row by row, and its rows would be of symbolic size")
            self.homes.setdefault(v, home_of(v, self.homes[base].place))


UNSHAPED = frozenset(("reshape", "identity", "capture", "pin", "stop_gradient"))
"""Operations whose result has the elements of their operand, in the same row-major order."""


def unshaped(v: Value) -> Value:
    """The value whose elements, in row-major order, are those of v."""
    while v.node is not None and v.node.op.name in UNSHAPED:
        v = v.node.inputs[0]
    return v
