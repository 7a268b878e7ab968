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
    """The facts that the language needs of a primitive: its name, its type rule, and that calling it emits a node."""

    name: str
    multiple: bool
    alias: bool
    named: bool
    collective: bool
    nested: bool
    literal: bool

    def type(self, *args: Any, **kwargs: Any) -> Any: ...

    def __call__(self, *inputs: Value, **params: Any) -> Value: ...


OPS: dict[str, Operation] = {}
"""Every primitive by name. Primitives enter themselves; the language itself imports none."""


def infix(name: str, swapped: bool = False) -> Callable[[Value, Any], Value]:
    """An operator of values, which finds its primitive by name; numbers take the type of the value beside them."""

    def apply(x: Value, y: Any) -> Value:
        pair = (x._lift(y), x) if swapped else (x, x._lift(y))
        return OPS[name](*pair)

    return apply


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

    __add__, __radd__ = infix("add"), infix("add", swapped=True)
    __sub__, __rsub__ = infix("sub"), infix("sub", swapped=True)
    __mul__, __rmul__ = infix("mul"), infix("mul", swapped=True)
    __truediv__, __rtruediv__ = infix("div"), infix("div", swapped=True)
    __pow__ = infix("pow")
    __lt__, __gt__ = infix("less"), infix("less", swapped=True)
    __le__, __ge__ = infix("less_equal"), infix("less_equal", swapped=True)
    __and__, __or__ = infix("bitwise_and"), infix("bitwise_or")

    def __neg__(self) -> Value:
        return OPS["neg"](self)

    def __invert__(self) -> Value:
        return OPS["bitwise_not"](self)

    def equals(self, other: Any) -> Value:
        """Elementwise equality; `==` itself stays identity, so values can be keys."""
        return OPS["equal"](self, self._lift(other))


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
        """The result of a transform of this graph, made once: graphs do not change, so neither do their derivatives."""
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = make()
        return found

    def subgraphs(self) -> Iterator[Graph]:
        """The graphs nested directly in this one's nodes."""
        for node in self.nodes:
            if node.op.nested:
                yield from subgraphs(node)

    def types(self) -> Iterator[Type]:
        """The types of its inputs and of the outputs of its nodes."""
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
