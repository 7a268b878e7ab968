"""Value, Node, Graph: a typed straight-line program as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wholestep.errors import Where
from wholestep.ir.types import Shape, Type

NDArray = npt.NDArray[Any]


class Operation(Protocol):
    """What the language needs to know of a primitive: its name, its type rule, and that calling it emits a node."""

    name: str
    multiple: bool
    alias: bool
    collective: bool
    nested: bool
    literal: bool

    def type(self, *args: Any, **kwargs: Any) -> Any: ...

    def __call__(self, *inputs: Value, **params: Any) -> Value: ...


OPS: dict[str, Operation] = {}
"""Every primitive by name. Primitives enter themselves; the language itself imports none."""


class Value:
    """One array of a program: a type, the node that makes it, and its data where it is already known."""

    __slots__ = ("builder", "data", "node", "type")

    def __init__(self, type: Type, node: Node | None, builder: Any, data: Any = None) -> None:
        self.type = type
        self.node = node
        self.builder = builder
        """The builder that the value belongs to; None in a graph that was parsed."""
        self.data = data

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<{self.type}>"

    # Operators find their primitive by name, so that rules read as mathematics and nothing here looks upward.
    def _lift(self, other: Any) -> Value:
        if isinstance(other, Value):
            return other
        lifted: Value = OPS["full"](value=other, shape=self.type.shape, dtype=self.type.dtype)
        return lifted

    def __add__(self, other: Any) -> Value:
        return OPS["add"](self, self._lift(other))

    def __radd__(self, other: Any) -> Value:
        return OPS["add"](self._lift(other), self)

    def __sub__(self, other: Any) -> Value:
        return OPS["sub"](self, self._lift(other))

    def __rsub__(self, other: Any) -> Value:
        return OPS["sub"](self._lift(other), self)

    def __mul__(self, other: Any) -> Value:
        return OPS["mul"](self, self._lift(other))

    def __rmul__(self, other: Any) -> Value:
        return OPS["mul"](self._lift(other), self)

    def __truediv__(self, other: Any) -> Value:
        return OPS["div"](self, self._lift(other))

    def __rtruediv__(self, other: Any) -> Value:
        return OPS["div"](self._lift(other), self)

    def __pow__(self, other: Any) -> Value:
        return OPS["pow"](self, self._lift(other))

    def __neg__(self) -> Value:
        return OPS["neg"](self)

    def __lt__(self, other: Any) -> Value:
        return OPS["less"](self, self._lift(other))

    def __le__(self, other: Any) -> Value:
        return OPS["less_equal"](self, self._lift(other))

    def __gt__(self, other: Any) -> Value:
        return OPS["less"](self._lift(other), self)

    def __ge__(self, other: Any) -> Value:
        return OPS["less_equal"](self._lift(other), self)

    def equals(self, other: Any) -> Value:
        """Elementwise equality; `==` itself stays identity, so values can be keys."""
        return OPS["equal"](self, self._lift(other))

    def __and__(self, other: Value) -> Value:
        return OPS["bitwise_and"](self, other)

    def __or__(self, other: Value) -> Value:
        return OPS["bitwise_or"](self, other)

    def __invert__(self) -> Value:
        return OPS["bitwise_not"](self)


class Node:
    """One application of a primitive: `outputs = op(*inputs, **params)`, with the user's line it came from."""

    __slots__ = ("inputs", "op", "outputs", "params", "where")

    def __init__(self, op: Any, inputs: tuple[Value, ...], params: dict[str, Any], where: Where) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        self.where = where
        self.outputs: tuple[Value, ...] = ()

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.inputs)


class Graph:
    """A program: inputs, nodes in order, outputs. Never changed after it is made.

    `constants` are the arrays captured from outside, in the order they were met.
    """

    __slots__ = ("cache", "input_names", "inputs", "name", "nodes", "outputs")

    def __init__(
        self,
        inputs: tuple[Value, ...],
        nodes: tuple[Node, ...],
        outputs: tuple[Value, ...],
        name: str = "graph",
        input_names: tuple[str, ...] = (),
    ) -> None:
        self.inputs = inputs
        self.nodes = nodes
        self.outputs = outputs
        self.name = name
        self.input_names = input_names
        self.cache: dict[Any, Any] = {}

    @property
    def constants(self) -> list[NDArray]:
        return [n.params["value"] for n in self.nodes if n.op.literal]

    @property
    def in_types(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.inputs)

    @property
    def out_types(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.outputs)

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """What a transform made of this graph, made once: graphs do not change, so neither do their derivatives."""
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = make()
        return found

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs nested directly in this one's nodes."""
        for node in self.nodes:
            yield from subgraphs(node)

    def types(self) -> Iterator[Type]:
        """The types of its inputs and of what its nodes make."""
        yield from self.in_types
        for node in self.nodes:
            yield from [v.type for v in node.outputs]

    def family(self) -> Iterator[Graph]:
        """This graph, then every graph inside it, however deep."""
        yield self
        for inner in self.subgraphs():
            yield from inner.family()

    def __str__(self) -> str:
        # The printer knows graphs, not the reverse; it enters itself here when the language is imported.
        return PRINTER[0](self)

    __repr__ = __str__


PRINTER: list[Callable[[Graph], str]] = []


def subgraphs(node: Node) -> Iterator[Graph]:
    """The graphs among a node's parameters, in the order of the parameters."""
    for param in node.params.values():
        if isinstance(param, Graph):
            yield param
        elif isinstance(param, tuple):
            for item in param:
                if isinstance(item, Graph):
                    yield item
