"""Derivatives of functions that a step writes out, found as matches of the graphs of the functions' derivatives.

y = f(x); gx = vjp(f)(x, gy); total = rest + gx        rest: cotangents from other uses of x, added before or between
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wholestep.export.core import CLEANING, CONVOLVING
from wholestep.export.fused.formulas import (
    Bindings,
    axis_order,
    formula_bindings,
    nodes_between,
    operands_bound,
    squeezed,
    turned_bindings,
)
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import count_uses, new_value
from wholestep.primitives.family import number_of
from wholestep.transforms.reverse import vjp


class OperandForm(NamedTuple):
    """The form in which an operation takes an array: an order of axes, then a shape; empty and None for its own."""

    order: tuple[int, ...] = ()
    shape: Shape | None = None

    def entered(self, v: Value, like: Node) -> Value:
        """A value as the operation takes it."""
        order = self.order or tuple(range(v.ndim))
        turned = v if order == tuple(range(v.ndim)) else new_value(like, "permute", v, axes=order)
        same = self.shape is None or turned.shape == self.shape
        return turned if same else new_value(like, "reshape", turned, shape=self.shape)

    def left(self, v: Value, whole: Value, like: Node) -> Value:
        """The inverse of `entered`: a value in the operation's form, with the axes and the shape of `whole`."""
        order = self.order or tuple(range(whole.ndim))
        shape = tuple([whole.shape[i] for i in order])
        turned = v if v.shape == shape else new_value(like, "reshape", v, shape=shape)
        back = tuple(np.argsort(order).tolist())
        return turned if order == tuple(range(whole.ndim)) else new_value(like, "permute", turned, axes=back)


class WrittenFunction(NamedTuple):
    """A function in a graph: its body there, whose inputs and output are values of that graph."""

    label: str
    body: Graph
    places: tuple[OperandForm, ...]
    """The forms of the inputs that have gradients, which come first in the body, and of the result."""
    rest: tuple[Value, ...] = ()
    """The operands behind these inputs."""
    pullback: Graph | None = None
    """(inputs of the body, gradient of the result) -> gradients, as a library states it beside the function."""
    private: tuple[Value, ...] = ()
    """Intermediates that would be computed twice if operations beside the function and its derivative read them."""

    @property
    def derivatives(self) -> Iterator[Graph]:
        """The candidate graphs of the derivative: by the rules of this library, and the stated pullback."""
        wrt = [i < len(self.places) - 1 for i in range(len(self.body.inputs))]
        yield vjp(self.body, wrt, [True])
        if self.pullback is not None:
            yield self.pullback


class FoundGradient(NamedTuple):
    """A gradient of a function in a graph."""

    total: Value
    """The value that has the gradient in it."""
    rest: tuple[Value, ...] = ()
    """The other terms of that value."""
    order: tuple[int, ...] | None = None
    """The order in which it has the axes that are longer than 1; None for that of the input."""


class FoundDerivative(NamedTuple):
    """The derivative of a function in a graph, with respect to the inputs that have gradients."""

    gy: Value
    gradients: tuple[FoundGradient, ...]


class GraphIndex:
    """The nodes of a graph by operation and type of result, and by their operands."""

    def __init__(self, graph: Graph) -> None:
        self.made: dict[tuple[object, ...], list[Node]] = {}
        self.products: dict[tuple[object, ...], list[Node]] = {}
        self.users: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            if len(node.outputs) == 1:
                self.made.setdefault(maker_key(node.outputs[0]), []).append(node)
            if node.op.name == "contract":
                self.products.setdefault(sorted_sizes(node.outputs[0]), []).append(node)
            for v in dict.fromkeys(node.inputs):
                self.users.setdefault(v, []).append(node)

    def derivative(self, function: WrittenFunction) -> FoundDerivative | None:
        """The derivative of a function with respect to its inputs; None where the graph has not all of it."""
        tries = (self.found(function, formula) for formula in function.derivatives)
        return next((each for each in tries if each is not None), None)

    def found(self, function: WrittenFunction, written: Graph) -> FoundDerivative | None:
        """The derivative of a function that is a formula; None where the graph has not all of it."""
        body, formula = function.body, run_passes(run_passes(written, CONVOLVING), CLEANING)
        uses = count_uses(formula)
        sums = [addends(v, uses) for v in formula.outputs]
        found: Bindings | None = dict(zip(formula.inputs[:-1], body.inputs, strict=True))
        terms = {v for part in sums for v in part}
        for part in sorted(terms, key=lambda v: -len(nodes_between([v], formula.inputs))):
            found = None if found is None else self.made_somewhere(part, found)
        if found is None or formula.inputs[-1] not in found or not self.keeps_apart(function, found, terms):
            return None
        gradients = [self.gradient(part, found) for part in sums]
        known = tuple([each for each in gradients if each is not None])
        return FoundDerivative(found[formula.inputs[-1]], known) if len(known) == len(gradients) else None

    def keeps_apart(self, function: WrittenFunction, found: Bindings, terms: set[Value]) -> bool:
        """True if only a function and its derivative read their intermediates of the types of private values."""
        inside = {v for formula, v in found.items() if formula.node is not None}
        inside |= {v for node in function.body.nodes for v in node.outputs}
        ends = {found[v] for v in terms} | {*function.body.outputs}
        large = {v.type for v in function.private}
        inner = [v for v in inside - ends if v.type in large and number_of(v) is None]
        return all([inside.issuperset(node.outputs) for v in inner for node in self.readers(v)])

    def readers(self, v: Value) -> Iterator[Node]:
        """The operations that read a value or a reshape of it."""
        for node in self.users.get(v, ()):
            if node.op.name == "reshape":
                yield from self.readers(node.outputs[0])
            else:
                yield node

    def made_somewhere(self, formula: Value, found: Bindings) -> Bindings | None:
        """The bindings extended by those of the first value that matches a formula; None without a match."""
        tries = [(formula_bindings, self.made.get(maker_key(formula), ()))]
        if formula.node is not None and formula.node.op.name == "contract":
            tries.append((turned_bindings, self.products.get(sorted_sizes(formula), ())))
        for bindings, nodes in tries:
            for node in nodes:
                made = bindings(formula, node.outputs[0], found)
                if made is not None:
                    return made
        return None

    def gradient(self, terms: Sequence[Value], found: Bindings) -> FoundGradient | None:
        """The sum of some terms of a formula; None where the graph has none, or not all in one order of axes."""
        orders = {order_in(v, found) for v in terms}
        total = self.total([found[v] for v in terms]) if len(orders) == 1 else None
        return None if total is None else total._replace(order=orders.pop())

    def total(self, terms: Sequence[Value]) -> FoundGradient | None:
        """The sum that contains all of some terms, and perhaps others between; None if there is none."""
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


def maker_key(v: Value) -> tuple[object, ...]:
    """The operation that makes a value, its dtype, and its shape without axes of size 1."""
    return None if v.node is None else v.node.op, v.dtype, squeezed(v.shape)


def sorted_sizes(v: Value) -> tuple[object, ...]:
    """The dtype of a value, and its sizes but for axes of size 1, in no order."""
    return v.dtype, *sorted(squeezed(v.shape), key=repr)


def order_in(formula: Value, found: Bindings) -> tuple[int, ...] | None:
    """The order in which a value has the axes of the product that it is found to be; None for the same."""
    node, own = formula.node, found[formula].node
    if node is None or own is None or node.op.name != "contract":
        return None
    for operands in (own.inputs, own.inputs[::-1]):
        order = axis_order(node, own, operands)
        if order is not None and operands_bound(node, [operands], found) is not None:
            return None if list(order) == sorted(order) else order
    return None


def addends(v: Value, uses: Mapping[Value, int]) -> list[Value]:
    """The terms of a sum, including those of its partial sums."""
    if v.node is None or v.node.op.name != "add" or uses[v] > 1:
        return [v]
    return [each for x in v.node.inputs for each in addends(x, uses)]


def body_between(graph: Graph, inputs: tuple[Value, ...], output: Value) -> Graph:
    """The part of a graph that computes a value from others."""
    inside = nodes_between((output,), inputs)
    return Graph(inputs, tuple([node for node in graph.nodes if node in inside]), (output,))
