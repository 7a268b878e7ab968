"""Functions and their derivatives as one operation each, in a step that writes them out: `composite`s of a known label.

c = x - mean(x); y = c / sqrt(mean(c * c) + eps) * gain + bias; …; gx = rest + …
-->
y, mean, r = composite(x, gain, bias, eps, label="layer_norm"); …
gx, ggain, gbias = composite(x, gain, bias, eps, y, mean, r, gy, label="layer_norm_gradients"); gx1 = rest + gx
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.export.fused.derivatives import FoundDerivative, FoundGradient, GraphIndex, OperandForm, WrittenFunction
from wholestep.export.fused.formulas import squeezed
from wholestep.export.fused.functions import functions_at
from wholestep.export.fused.looped_functions import fused_loops
from wholestep.export.fused.operations import OPERATIONS, READ_RESULT, RESULT_SLOPES
from wholestep.export.fused.replaced_values import with_values
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import new_value
from wholestep.primitives.family import number_of
from wholestep.transforms.reverse import inline_vjp


def fused_functions(graph: Graph) -> Graph:
    """The graph in which functions that are written out, with their derivatives, are one operation each.

    Equal up to rounding; loops and branches are gone into. Of functions inside others the outer ones are taken, so the
    last operations come first.
    """
    graph = run_passes(graph, ("cse",))  # layouts leave equal broadcasts, which formulas have once
    graph = fused_loops(graph, lambda inner: inner.derived("fused functions", lambda: fused_functions(inner)))
    index, instead, inside = GraphIndex(graph), dict[Value, Value](), set[Node]()
    for node in reversed(graph.nodes):
        for function in functions_at(graph, node) if node not in inside else ():
            derivative = index.derivative(function)
            if derivative is not None:
                instead |= fused_values(function, derivative)
                inside |= {*function.body.nodes}
                break
    return with_values(graph, instead) if instead else graph


def fused_values(function: WrittenFunction, derivative: FoundDerivative) -> dict[Value, Value]:
    """For the result of a function and its gradients the values of single operations."""
    *places, last = function.places
    (y,), inputs = function.body.outputs, function.body.inputs[: len(places)]
    assert y.node is not None
    like, label, known = y.node, function.label, OPERATIONS[function.label]
    operands = (*[place.entered(x, like) for place, x in zip(places, inputs, strict=True)], *function.rest)

    def backward(*xs: Value) -> list[Value]:
        if label in RESULT_SLOPES:
            return [xs[-1] * RESULT_SLOPES[label](xs[1])]
        given = xs[: len(operands)]
        result, _ = build(lambda *ys: known(known_numbers(ys, operands))[:1], [v.type for v in given])
        wrt = [i < len(places) for i in range(len(given))]
        return inline_vjp(result, given, wrt, [xs[-1]])[1]

    outputs = composite_of(label, known, operands, like)
    given = (*without_unread(label, operands, outputs, like), last.entered(derivative.gy, like))
    gradients = composite_of(f"{label}_gradients", lambda xs: backward(*xs), given, like)
    found = {y: last.left(outputs[0], y, like)}
    for place, x, each, g in zip(places, inputs, derivative.gradients, gradients, strict=True):
        total = in_form_of(each, place.left(g, x, like), like)
        for other in each.rest:
            total = new_value(like, "add", other, total)
        found[each.total] = total
    return found


def without_unread(
    label: str, operands: tuple[Value, ...], outputs: tuple[Value, ...], like: Node
) -> tuple[Value, ...]:
    """The operands and results of a function, a constant in the place of the one that its derivative does not read."""
    unread = 0 if label in RESULT_SLOPES else None if label in READ_RESULT else len(operands)
    found = [*operands, *outputs]
    if unread is not None:
        t = found[unread].type
        found[unread] = new_value(like, "full", value=0, shape=t.shape, dtype=t.dtype)
    return tuple(found)


def in_form_of(found: FoundGradient, g: Value, like: Node) -> Value:
    """A gradient with the axes and the shape of the one that was found."""
    if found.order is not None:
        g = OperandForm(found.order).entered(OperandForm(shape=squeezed(g.shape)).entered(g, like), like)
    return OperandForm(shape=found.total.shape).entered(g, like)


def known_numbers(xs: Sequence[Value], operands: Sequence[Value]) -> list[Value]:
    """The values xs, with constants in the place of those whose operands are known numbers."""
    known = map(number_of, operands)
    return [x if n is None else x._lift(n) for x, n in zip(xs, known, strict=True)]


def composite_of(
    label: str, write: Callable[[Sequence[Value]], Sequence[Value]], operands: tuple[Value, ...], like: Node
) -> tuple[Value, ...]:
    """The results of a composite whose body a function writes, in which numbers are known."""
    graph, _ = build(lambda *xs: write(known_numbers(xs, operands)), [v.type for v in operands], name=label)
    node = Node(OPS["composite"], operands, {"graph": graph, "label": label, "rule": None}, like.where)
    node.outputs = tuple([Value(t, node, None) for t in graph.out_types])
    return node.outputs
