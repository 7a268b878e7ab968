"""Derivatives in a step of a function that it writes out: found by the graph that differentiating the function makes.

y = f(x); gx = vjp(f)(x, gy); total = rest + gx        rest: what other uses of x hand back, added before or between
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wholestep.export.adam_updates import nodes_between
from wholestep.export.core import CLEANING, CONVOLVING
from wholestep.export.fused.formulas import Bindings, formula_bindings
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import count_uses
from wholestep.transforms.reverse import vjp


class WrittenFunction(NamedTuple):
    """A function in a graph: its body there, whose inputs and output are values of that graph."""

    label: str
    body: Graph
    numbers: tuple[Value, ...] = ()
    """The numbers that the operation takes behind the inputs."""
    order: tuple[int, ...] = ()
    """The order of axes in which the operation takes the inputs and gives the output; none for the own one."""


class FoundGradient(NamedTuple):
    """A gradient of a function in a graph."""

    total: Value
    """The value that has the gradient in it."""
    rest: tuple[Value, ...]
    """The other terms of that value."""


class FoundDerivative(NamedTuple):
    """The derivative of a function in a graph."""

    formula: Graph
    """(inputs of the function, the gradient of its result) -> the gradients of the inputs."""
    gy: Value
    gradients: tuple[FoundGradient, ...]


class GraphIndex:
    """The nodes of a graph by operation and type of result, and by what they read."""

    def __init__(self, graph: Graph) -> None:
        self.made: dict[tuple[object, object], list[Node]] = {}
        self.users: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            if len(node.outputs) == 1:
                self.made.setdefault((node.op, node.outputs[0].type), []).append(node)
            for v in dict.fromkeys(node.inputs):
                self.users.setdefault(v, []).append(node)

    def derivative(self, function: WrittenFunction) -> FoundDerivative | None:
        """The derivative of a function with respect to all its inputs; None where the graph has not all of it."""
        body = function.body
        formula = run_passes(run_passes(vjp(body, [True] * len(body.inputs), [True]), CONVOLVING), CLEANING)
        uses = count_uses(formula)
        sums = [addends(v, uses) for v in formula.outputs]
        found: Bindings | None = dict(zip(formula.inputs[:-1], body.inputs, strict=True))
        for part in sorted(
            {v for terms in sums for v in terms}, key=lambda v: -len(nodes_between([v], formula.inputs))
        ):
            found = None if found is None else self.made_somewhere(part, found)
        if found is None or formula.inputs[-1] not in found:
            return None
        gradients = [self.total([found[v] for v in terms]) for terms in sums]
        known = tuple([each for each in gradients if each is not None])
        return FoundDerivative(formula, found[formula.inputs[-1]], known) if len(known) == len(gradients) else None

    def made_somewhere(self, formula: Value, found: Bindings) -> Bindings | None:
        """The bindings with those under which the first value that is a formula is it; None where none is."""
        if formula.node is None:
            return None
        tries = (
            formula_bindings(formula, node.outputs[0], found)
            for node in self.made.get((formula.node.op, formula.type), ())
        )
        return next((each for each in tries if each is not None), None)

    def total(self, terms: Sequence[Value]) -> FoundGradient | None:
        """The sum that ends with the last of some terms, in which others may be added; None where there is none."""
        total, *left = terms
        rest = []
        while left:
            sums = [node for node in self.users.get(total, ()) if node.op.name == "add"]
            if len(sums) != 1:
                return None
            x, y = sums[0].inputs
            other, total = y if x is total else x, sums[0].outputs[0]
            if other in left:
                left.remove(other)
            else:
                rest.append(other)
        return FoundGradient(total, tuple(rest))


def addends(v: Value, uses: Mapping[Value, int]) -> list[Value]:
    """The values that a sum adds up, those of its own partial sums among them."""
    if v.node is None or v.node.op.name != "add" or uses[v] > 1:
        return [v]
    return [each for x in v.node.inputs for each in addends(x, uses)]
