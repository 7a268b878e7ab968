"""The reference semantics of graphs: NumPy, node by node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import BoundsError, Indexed, Where
from wholestep.ir.graph import Graph, NDArray, Node, Value


def broadcast_thin(data: Any, shape: tuple[Any, ...]) -> Any:
    """Broadcast a thin array to its full shape; see `Primitive.thin`."""
    return data if data.shape == shape else np.broadcast_to(data, shape)


def evaluate_node(op: Any, inputs: Sequence[Value], params: dict[str, Any]) -> Any:
    """Compute one node from the data of its inputs."""
    if op.thin:
        args = [v.data for v in inputs]
    else:
        args = [broadcast_thin(v.data, v.type.shape) for v in inputs]
    if op.nested:
        return apply_primitive(op, args, params, None)
    try:
        return op.ref(*args, **params)
    except IndexError:
        return apply_primitive(op, args, params, None)


def apply_primitive(op: Any, args: Sequence[Any], params: dict[str, Any], where: Where) -> Any:
    """Run one primitive on arrays; an index out of range names the user's line."""
    try:
        if op.nested:
            return op.ref(*args, run=interpret, **params)
        return op.ref(*args, **params)
    except IndexError as error:
        if isinstance(error, BoundsError):
            raise
        numbers = re.match(r"index (-?\d+) is out of bounds for axis \d+ with size (\d+)", str(error))
        if isinstance(where, Indexed) and numbers is not None:
            text = where.outside(int(numbers[1]), int(numbers[2]))
            raise BoundsError(text, where=where, hint=where.hint) from None
        raise BoundsError(f"indexing: {error}", where=where) from None


class PreparedNode(NamedTuple):
    """A node ready to run, without the arrays that its values may hold."""

    op: Any
    shapes: tuple[Any, ...]
    params: dict[str, Any]
    where: Where

    @classmethod
    def of(cls, node: Node) -> PreparedNode:
        """The node, ready to run."""
        return cls(node.op, tuple([t.shape for t in node.types]), node.params, node.where)

    def __call__(self, *args: Any) -> Any:
        """The data of the results for arrays that may be thin."""
        thin = self.op.thin
        whole = args if thin else [broadcast_thin(x, shape) for x, shape in zip(args, self.shapes, strict=True)]
        return apply_primitive(self.op, whole, self.params, self.where)


class GraphInterpreter:
    """A graph prepared for interpretation: values are slots of a list, freed after their last use."""

    __slots__ = ("inputs", "outputs", "size", "steps")

    def __init__(self, graph: Graph) -> None:
        slots: dict[Value, int] = {}
        for v in graph.inputs:
            slots.setdefault(v, len(slots))
        for node in graph.nodes:
            for v in node.outputs:
                slots[v] = len(slots)
        last: dict[int, int] = {}
        for at, node in enumerate(graph.nodes):
            for v in (*node.inputs, *node.outputs):
                last[slots[v]] = at
        for v in graph.outputs:
            last.pop(slots[v], None)
        dying: dict[int, list[int]] = {}
        for slot, at in last.items():
            dying.setdefault(at, []).append(slot)
        self.steps = [
            (
                node.op.exact_ufunc(*node.types) or PreparedNode.of(node),
                node.op.multiple,
                [slots[v] for v in node.inputs],
                [slots[v] for v in node.outputs],
                dying.get(at, ()),
            )
            for at, node in enumerate(graph.nodes)
        ]
        self.inputs = [slots[v] for v in graph.inputs]
        self.outputs = [(slots[v], v.type.shape) for v in graph.outputs]
        self.size = len(slots)

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        memory: list[Any] = [None] * self.size
        for slot, array in zip(self.inputs, arrays, strict=True):
            memory[slot] = array
        read = memory.__getitem__
        for run, multiple, sources, targets, dying in self.steps:
            out = run(*map(read, sources))
            if multiple:
                for slot, value in zip(targets, out, strict=True):
                    memory[slot] = value
            else:
                memory[targets[0]] = out
            for slot in dying:
                memory[slot] = None
        return [broadcast_thin(memory[slot], shape) for slot, shape in self.outputs]


def interpret(graph: Graph, arrays: Sequence[NDArray]) -> list[Any]:
    """Return the outputs of a graph for these inputs."""
    program: GraphInterpreter = graph.derived("reference", lambda: GraphInterpreter(graph))
    return program(arrays)
