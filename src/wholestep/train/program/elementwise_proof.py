"""A proof, by analysis of a graph, that an optimizer's update treats each element of a parameter independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.primitives.marks import AllGather, PSum
from wholestep.primitives.movement import Broadcast, Reshape
from wholestep.primitives.structure import Body, Cond


class Spread(Enum):
    """The distribution of a value over processes that each have a part of the elements."""

    UNIFORM = "one number, the same on all of them"
    SAME = "the same on all of them"
    EACH = "elements, each made of those in its own place"
    PARTIAL = "one number of a process, made of its own elements"
    SCALED = "elements that depend on other elements"


class NotElementwise(Exception):
    """The error for an operation that does not treat each element independently."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(f"{node.op.name} {why}")
        self.node = node


UNIFORM, SAME, EACH, PARTIAL, SCALED = Spread
SHAPES = (Broadcast, Reshape)
"""Primitives that updates of parts of a parameter need, and updates of parameters without axes do not."""


def prove_elementwise(graph: Graph, given: Sequence[Spread], wanted: Sequence[Spread]) -> None:
    """Raise NotElementwise unless the graph's results have the wanted kinds for inputs of the given kinds."""
    for v, found, kind in zip(graph.outputs, spreads(graph, given), wanted, strict=True):
        fits = found in (UNIFORM, kind) or (kind is UNIFORM and found is SAME)
        if not fits and v.node is not None:
            raise NotElementwise(v.node, f"makes {found.value}")


def spreads(graph: Graph, given: Sequence[Spread]) -> list[Spread]:
    """The kinds of the results of a graph whose inputs are of the given kinds."""
    known: dict[Value, Spread] = dict(zip(graph.inputs, given, strict=True))
    for node in graph.nodes:
        made = node_spreads(node, [known[v] for v in node.inputs])
        pairs = zip(node.outputs, made, strict=True)
        known.update({v: UNIFORM if kind is SAME and not v.ndim else kind for v, kind in pairs})
    return [known[v] for v in graph.outputs]


def node_spreads(node: Node, kinds: Sequence[Spread]) -> Sequence[Spread]:
    """The kinds of the results of a node."""
    if node.op.collective:
        return [collected(node, kinds)]
    if isinstance(node.op, Body):
        return spreads(node.params["graph"], kinds)
    if isinstance(node.op, Cond):
        return branch_spreads(node, kinds)
    if node.op.kind in ("elementwise", "mark") or node.op.uniform:
        return [mixed_spread(node, kinds)]
    if isinstance(node.op, SHAPES) and (kinds[0] is UNIFORM or changes_nothing(node)):
        return kinds
    if isinstance(node.op, Broadcast) and kinds[0] is PARTIAL:
        return [SCALED]
    if node.op.kind == "reduction" and kinds[0] in (EACH, SCALED) and not node.outputs[0].ndim:
        return [PARTIAL]
    if all(kind is SAME or (kind is UNIFORM and not v.ndim) for v, kind in zip(node.inputs, kinds, strict=True)):
        return [SAME] * len(node.outputs)
    raise NotElementwise(node, "takes elements from other places")


def changes_nothing(node: Node) -> bool:
    """True for a reshape of one number, and for a reshape or broadcast to the same shape."""
    (x,), (out,) = node.inputs, node.outputs
    return x.type.shape == out.type.shape or out.type.size == 1


def collected(node: Node, kinds: Sequence[Spread]) -> Spread:
    """The kind of a collective's result, which is equal on all processes; operands have one number in each process."""
    if EACH in kinds or SCALED in kinds or not isinstance(node.op, PSum | AllGather):
        raise NotElementwise(node, "is of elements, of which each process has others")
    return SAME


def mixed_spread(node: Node, kinds: Sequence[Spread]) -> Spread:
    """The kind of an elementwise operation's result, for values of several kinds."""
    found = {*kinds} - {UNIFORM}
    if len(found) < 2:
        return found.pop() if found else UNIFORM
    if SAME in found:
        raise NotElementwise(node, "takes an array whose elements have places")
    return SCALED


def branch_spreads(node: Node, kinds: Sequence[Spread]) -> list[Spread]:
    """The kinds of the results of a choice between branches; all processes must choose alike."""
    branches = node.params["branches"]
    if kinds[0] is not UNIFORM and any(n.op.collective for b in branches for g in b.family() for n in g.nodes):
        raise NotElementwise(node, "has processes wait for each other, and each chooses by itself")
    found = [spreads(branch, kinds[1:]) for branch in branches]
    return [mixed_spread(node, (*several, kinds[0])) for several in zip(*found, strict=True)]


def same_program(one: Graph, other: Graph) -> bool:
    """True if two graphs apply the same operations to arrays of other shapes, and compute the same scalars.

    Equal scalars count once: updates of parameters of one shape share the scalars that do not depend on their elements.
    """
    return operations_on_arrays(one) == operations_on_arrays(other)


def operations_on_arrays(graph: Graph) -> tuple[list[tuple[str, str]], set[tuple[str, str]]]:
    """The operations that compute arrays from the input arrays, in order, and the set of the other operations."""
    reached = {v for v in graph.inputs if v.ndim}
    arrays: list[tuple[str, str]] = []
    others: set[tuple[str, str]] = set()
    for node in graph.nodes:
        depends = not reached.isdisjoint(node.inputs)
        reached.update(node.outputs if depends else ())
        if depends and (node.op.collective or any(v.ndim for v in node.outputs)):
            arrays += operations([node])
        else:
            others.update(operations([node]))
    return arrays, others


def operations(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    """The names of operations in order, with their constants and without shapes."""
    for node in nodes:
        if not isinstance(node.op, SHAPES):
            yield node.op.name, repr(node.params.get("value"))
        for inner in subgraphs(node):
            yield from operations(inner.nodes)
