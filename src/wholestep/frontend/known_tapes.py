"""Tapes that were met before: an eager gradient of the same operations on the same types walks back by the program that
an earlier one wrote, so that only the user's function is traced again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.backends.reference import GraphInterpreter
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import Maybe, conj, ones
from wholestep.primitives.movement import broadcast
from wholestep.transforms.reverse import backward

MOST = 512
"""The number of tapes that are known at a time."""

Key = tuple[Any, ...]


class Pullback(NamedTuple):
    """The way back over a tape: a program over some of its values and over numbers that are the same in every run, and
    which of the wanted values it reaches."""

    program: GraphInterpreter
    reads: tuple[int, ...]
    numbers: tuple[Any, ...]
    reaches: tuple[bool, ...]


_known: dict[Key, Pullback | None] = {}
"""The pullback of each tape; None for one that was met once."""


class Tape:
    """The nodes of one call, from the wanted values to a result, and the key under which their pullback is known.

    The key has all that a pullback depends on: operations, parameters, types, and operands. The arrays of constants are
    not in it, as rules see only the number of a `full`. A tape has no key where a rule may run functions of the user's
    or depend on the trace around it: where operations nest graphs or depend on a surrounding `vmap`.
    """

    def __init__(self, nodes: Sequence[Node], wanted: Sequence[Value], result: Value, holomorphic: bool) -> None:
        self.nodes, self.wanted, self.result, self.holomorphic = nodes, wanted, result, holomorphic
        self.places = {v: i for i, v in enumerate(wanted)}
        self.key = self.written()

    def written(self) -> Key | None:
        """The key, None where there is none."""
        places = self.places
        parts: list[Any] = [self.holomorphic, *[v.type for v in self.wanted]]
        try:
            for node in self.nodes:
                op = node.op
                if op.multiple or op.collective:
                    return None
                out = node.outputs[0]
                parts += (op, out.type, *[places[v] for v in node.inputs])
                if op.uniform:
                    parts.append(repr(node.params["value"]))  # repr distinguishes 0.0 from -0.0
                elif not op.literal and node.params:
                    parts += node.params.values()
                places[out] = len(places)
            parts.append(places[self.result])
            key = tuple(parts)
            hash(key)
        except (KeyError, TypeError):  # a value from elsewhere, or parameters that are arrays
            return None
        return key

    def pullback(self) -> Pullback | None:
        """The program that walks back over tapes like this one; None where it must be walked by itself."""
        if self.key is None or len(self.places) != len(self.wanted) + len(self.nodes):
            return None
        known = _known.get(self.key)
        if known is None:
            if len(_known) >= MOST:
                _known.clear()
            met = self.key in _known
            known = _known[self.key] = self.made() if met else None
        return known

    def made(self) -> Pullback:
        """Write the program: the cotangents of the wanted values that reach the result, from values of the tape."""
        reaches: list[bool] = []

        def pull() -> list[Value]:
            found: list[Maybe] = backward(self.nodes, [(self.result, ones(self.result.type))], self.wanted)
            reaches[:] = [g is not None for g in found]
            return [conj(g) if self.holomorphic else g for g in found if g is not None]

        graph, captured = build(pull, [], name="pullback", reason="grad")
        graph, numbers = without_numbers(graph)
        program, reads = GraphInterpreter(graph), tuple([self.places[v] for v in captured])
        return Pullback(program, reads, numbers, tuple(reaches))

    def gradients(self, known: Pullback) -> list[Any]:
        """The data of the cotangents of the wanted values, None where the result does not depend on one."""
        values = list(self.places)
        found = iter(known.program([*[values[i].data for i in known.reads], *known.numbers]))
        return [next(found) if reached else None for reached in known.reaches]


def without_numbers(graph: Graph) -> tuple[Graph, tuple[Any, ...]]:
    """The graph with the numbers that it repeats as inputs after its own, and their data, which is thin."""
    thin: dict[Value, Any] = {}
    for node in graph.nodes:
        if node.op.uniform or (node.op is broadcast and node.inputs[0] in thin):
            thin[node.outputs[0]] = node.op.ref(*[thin[v] for v in node.inputs], **node.params)
    nodes = tuple([node for node in graph.nodes if node.outputs[0] not in thin])
    return Graph((*graph.inputs, *thin), nodes, graph.outputs, graph.name), tuple(thin.values())


def caller_own(data: Any, value: Value, scalar: bool) -> Any:
    """The gradient of a value as an array that shares memory with nothing, zero where there is none."""
    made = np.zeros(value.type.shape, value.type.dtype) if data is None else np.array(data, order="C")
    return made[()] if scalar else made
