"""Functions and their derivatives as one operation each, in a step that writes them out: `composite`s of a known label.

c = x - mean(x); y = c / sqrt(mean(c * c) + eps) * gain + bias; …; gx = rest + …
-->
y, mean, r = composite(x, gain, bias, eps, label="layer_norm"); …
gx, ggain, gbias = composite(x, gain, bias, eps, y, mean, r, gy, label="layer_norm_gradients"); gx1 = rest + gx
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wholestep.export.fused.derivatives import FoundDerivative, GraphIndex, WrittenFunction
from wholestep.export.fused.functions import functions_in
from wholestep.ir.build import build, inline, trim
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.rewrite import copy_node, new_value
from wholestep.primitives.attention import attention
from wholestep.primitives.attention_operands import usual_block
from wholestep.primitives.family import number_of
from wholestep.primitives.functions import sqrt
from wholestep.primitives.movement import permute, reshape
from wholestep.primitives.reduction import sum_

Kept = Callable[[Sequence[Value]], Sequence[Value]]
"""The operands of an operation -> what its derivative reads besides, and the operation gives behind its result."""


def kept_of_layer_norm(xs: Sequence[Value]) -> Sequence[Value]:
    """The mean of each row, and 1 / sqrt(variance + eps), with an axis of size 1."""
    x, eps, last, shape = xs[0], xs[3], (xs[0].ndim - 1,), (*xs[0].shape[:-1], 1)
    share = 1 / x.shape[-1]
    mean = reshape(sum_(x, axes=last) * share, shape=shape)
    centred = x - OPS["broadcast"](reshape(mean, shape=shape[:-1]), shape=x.shape, axes=tuple(range(x.ndim - 1)))
    return mean, reshape(1 / sqrt(sum_(centred * centred, axes=last) * share + eps), shape=shape)


def kept_of_attention(causal: bool) -> Kept:
    """The logarithm of each row's sum of exponentials."""

    def kept(xs: Sequence[Value]) -> Sequence[Value]:
        q, k, v = xs[:3]
        alone = reshape(q, shape=(*q.shape[:2], 1, *q.shape[2:]))
        block, scale = usual_block(1), float(number_of(xs[3]))
        lse = attention(alone, k, v, scale=scale, causal=causal, masked=False, dropout=0.0, block=block)[1]
        return [reshape(lse, shape=q.shape[:3])]

    return kept


KEPT: dict[str, Kept] = {
    "layer_norm": kept_of_layer_norm,
    "gelu_tanh": lambda xs: (),
    "attention": kept_of_attention(causal=False),
    "causal_attention": kept_of_attention(causal=True),
}
"""For the label of each function what its derivative reads besides the operands."""


def fused_functions(graph: Graph) -> Graph:
    """The graph in which functions that are written out, with their derivatives, are one operation each.

    Equal up to rounding.
    """
    index, instead = GraphIndex(graph), dict[Value, Value]()
    for function in functions_in(graph):
        derivative = index.derivative(function)
        if derivative is not None:
            instead |= fused_values(function, derivative)
    return with_values(graph, instead) if instead else graph


def fused_values(function: WrittenFunction, derivative: FoundDerivative) -> dict[Value, Value]:
    """For the result of a function and its gradients the values of single operations."""
    body, order = function.body, function.order
    back = tuple(np.argsort(order).tolist())
    (y,) = body.outputs
    assert y.node is not None
    like, label = y.node, function.label

    def in_order(v: Value, axes: tuple[int, ...]) -> Value:
        return new_value(like, "permute", v, axes=axes) if axes else v

    def forward(*xs: Value) -> list[Value]:
        own = xs[: len(body.inputs)]
        (made,) = inline(body, [permute(x, axes=back) for x in own] if order else own)
        first = permute(made, axes=order) if order else made
        return [first, *kept(xs)]

    def backward(*xs: Value) -> list[Value]:
        own = (*xs[: len(body.inputs)], xs[-1])
        made = inline(derivative.formula, [permute(x, axes=back) for x in own] if order else own)
        return [permute(x, axes=order) for x in made] if order else list(made)

    operands = (*[in_order(x, order) for x in body.inputs], *function.numbers)
    kept = KEPT[label]
    outputs = composite_of(label, forward, operands, like)
    given = (*operands, *outputs, in_order(derivative.gy, order))
    gradients = composite_of(f"{label}_gradients", backward, given, like)
    found = {y: in_order(outputs[0], back)}
    for each, g in zip(derivative.gradients, gradients, strict=True):
        total = in_order(g, back)
        for other in each.rest:
            total = new_value(like, "add", other, total)
        found[each.total] = total
    return found


def composite_of(
    label: str, write: Callable[..., Sequence[Value]], operands: tuple[Value, ...], like: Node
) -> tuple[Value, ...]:
    """The results of a composite whose body a function writes, in which numbers are known."""

    def body(*xs: Value) -> Sequence[Value]:
        numbers = map(number_of, operands)
        return write(*[x if n is None else x._lift(n) for x, n in zip(xs, numbers, strict=True)])

    graph, _ = build(body, [v.type for v in operands], name=label)
    node = Node(OPS["composite"], operands, {"graph": graph, "label": label, "rule": None}, like.where)
    node.outputs = tuple([Value(t, node, None) for t in graph.out_types])
    return node.outputs


def with_values(graph: Graph, instead: Mapping[Value, Value]) -> Graph:
    """The graph in which values stand for others, each with the nodes that it is made of at its first use."""
    env, nodes, done = {v: v for v in graph.inputs}, list[Node](), set[Node]()
    for last in graph.nodes:
        waiting = [last]
        while waiting:
            node = waiting[-1]
            inputs = [instead.get(v, v) for v in node.inputs]
            missing = next((v.node for v in inputs if v not in env), None)
            if missing is not None:
                waiting.append(missing)
                continue
            waiting.pop()
            if node not in done:
                done.add(node)
                own = tuple([env[v] for v in inputs])
                nodes.append(node if own == node.inputs else copy_node(node, own, node.params))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
    outputs = tuple([env[instead.get(v, v)] for v in graph.outputs])
    return Graph(graph.inputs, trim(nodes, outputs), outputs, graph.name, graph.input_names)
