"""The reference semantics of graphs: NumPy, node by node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import BoundsError, Indexed, Where
from wholestep.ir.graph import Graph, NDArray, Value


def broadcast_thin(data: Any, shape: tuple[Any, ...]) -> Any:
    """Broadcast a thin array to its full shape; see `Primitive.thin`."""
    return data if data.shape == shape else np.broadcast_to(data, shape)


def evaluate_node(op: Any, inputs: Sequence[Value], params: dict[str, Any]) -> Any:
    """Compute one node from the data of its inputs."""
    if op.thin:
        args = [v.data for v in inputs]
        try:
            return op.ref(*args, **params)
        except IndexError:
            return apply_primitive(op, args, params, None)
    else:
        args = []
        for v in inputs:
            data, shape = v.data, v.type.shape
            args.append(data if data.shape == shape else np.broadcast_to(data, shape))
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
            raise BoundsError(text, where=where, hint=Indexed.hint) from None
        raise BoundsError(f"indexing: {error}", where=where) from None


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
                node.op,
                [slots[v] for v in node.inputs],
                None if node.op.thin else [v.type.shape for v in node.inputs],
                node.params,
                [slots[v] for v in node.outputs],
                dying.get(at, ()),
                node.where,
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
        for op, sources, shapes, params, targets, dying, where in self.steps:
            args = map(read, sources)
            if shapes is None:  # elementwise operations, which most are
                try:
                    memory[targets[0]] = op.ref(*args, **params)
                except IndexError:
                    memory[targets[0]] = apply_primitive(op, [memory[s] for s in sources], params, where)
                for slot in dying:
                    memory[slot] = None
                continue
            whole = [x if x.shape == n else np.broadcast_to(x, n) for x, n in zip(args, shapes, strict=True)]
            out = apply_primitive(op, whole, params, where)
            if op.multiple:
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
