"""Analyses of a graph that do not depend on the meaning of its primitives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from wholestep.ir.build import lean
from wholestep.ir.graph import Graph, Node, Value

T = TypeVar("T")


def in_order(
    wanted: T, known: Callable[[T], bool], needs: Callable[[T], Iterable[T]], make: Callable[[T], None]
) -> None:
    """Make an item after all of its dependencies, in the order of a recursion and without its depth.

    `make` must enter the item, so that `known` is true of it.
    """
    waiting = [wanted]
    while waiting:
        thing = waiting[-1]
        missing = None if known(thing) else next((x for x in needs(thing) if not known(x)), thing)
        if missing is not None and missing is not thing:
            waiting.append(missing)
            continue
        waiting.pop()
        if missing is thing:
            make(thing)


def reach(graph: Graph, active: Sequence[bool]) -> list[bool]:
    """Marks of the outputs that a tangent on the marked inputs can reach."""
    seen = {v for v, a in zip(graph.inputs, active, strict=True) if a}
    for node in graph.nodes:
        if not node.op.flat and not seen.isdisjoint(node.inputs):
            seen.update([v for v in node.outputs if v.type.inexact])
    return [v in seen for v in graph.outputs]


def dependents(graph: Graph, sources: Sequence[Value]) -> set[Value]:
    """The values that depend on any of these, the sources among them."""
    found = set(sources)
    for node in graph.nodes:
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return found


def used(graph: Graph) -> list[bool]:
    """Marks of the inputs that the nodes and the outputs use."""
    seen = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
    return [v in seen for v in graph.inputs]


def cut(graph: Graph, wanted: Sequence[bool]) -> Graph:
    """The graph of the wanted outputs alone; its inputs stay."""

    def make() -> Graph:
        outputs = tuple([v for v, w in zip(graph.outputs, wanted, strict=True) if w])
        return Graph(graph.inputs, lean(graph.nodes, outputs), outputs, graph.name, graph.input_names)

    found: Graph = graph.derived(("cut", tuple(wanted)), make)
    return found


def hollow(values: Sequence[Value]) -> bool:
    """Test whether any of these values depends on a placeholder, which is never computed."""
    return depends(values, lambda v: v.builder is not None and v in v.builder.hollow)


def depends(values: Sequence[Value], sought: Callable[[Value], bool]) -> bool:
    """Test whether any of these is a value that is sought, or is computed from one."""
    waiting, seen = list(values), set(values)
    while waiting:
        v = waiting.pop()
        if sought(v):
            return True
        new = [u for u in v.node.inputs if u not in seen] if v.node is not None else []
        seen.update(new)
        waiting.extend(new)
    return False


def reordered(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph with its inputs and outputs in another order."""
    return Graph(
        tuple([graph.inputs[i] for i in inputs]), graph.nodes, tuple([graph.outputs[i] for i in outputs]), graph.name
    )


def part(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    """The region of a graph that computes `outputs` from `inputs`."""
    given = set(inputs)
    nodes = [n for n in graph.nodes if given.isdisjoint(n.outputs)]
    return Graph(tuple(inputs), lean(nodes, [v for v in outputs if v not in given]), tuple(outputs), graph.name)


def slimmed(graphs: Sequence[Graph], values: Sequence[Value]) -> tuple[list[Graph], list[Value]]:
    """Graphs of the same inputs without the inputs that none of them uses, and the values of the others.

    A pullback then keeps no unused residuals, and a linear region, without its primal inputs, can be transposed.
    """
    wanted = [any(flags) for flags in zip(*[used(g) for g in graphs], strict=True)]
    places = [i for i, w in enumerate(wanted) if w]
    return [slim(g, tuple(places)) for g in graphs], [values[i] for i in places]


def slim(graph: Graph, places: tuple[int, ...]) -> Graph:
    """The graph with the inputs at these places alone."""
    made: Graph = graph.derived(("slim", places), lambda: reordered(graph, places, range(len(graph.outputs))))
    return made


def narrowed(node: Node, inputs: Sequence[Value], params: dict[str, Any], outputs: Sequence[bool]) -> Node:
    """A node with other inputs and parameters that makes some of the same values."""
    new = Node(node.op, tuple(inputs), params, node.where)
    new.outputs = tuple([v for v, o in zip(node.outputs, outputs, strict=True) if o])
    return new
