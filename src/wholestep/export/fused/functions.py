"""Functions that a step writes out in arrays: layer norms, GELU by tanh, and attention with a causal mask or none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

from wholestep.export.adam_updates import is_plain, nodes_between
from wholestep.export.fused.derivatives import WrittenFunction
from wholestep.export.fused.formulas import formula_bindings
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.attention_pattern.masks import sorted_masks
from wholestep.passes.attention_pattern.pattern import roles_of, written_attention
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import new_value
from wholestep.primitives.family import number_of
from wholestep.primitives.functions import sqrt, tanh
from wholestep.primitives.movement import broadcast
from wholestep.primitives.reduction import spread_back, sum_


def written_layer_norm(x: Value, gain: Value, bias: Value, eps: Value) -> Value:
    """Mean 0 and variance 1 along the last axis, then a gain and a bias."""
    last = (x.ndim - 1,)

    def mean(v: Value) -> Value:
        found: Value = sum_(v, axes=last) / x.shape[-1]
        return found

    centred = x - spread_back(mean(x), x.shape, last)
    deviation: Value = sqrt(mean(centred * centred) + eps)
    scale, shift = [broadcast(v, shape=x.shape, axes=last) for v in (gain, bias)]
    found: Value = centred / spread_back(deviation, x.shape, last) * scale + shift
    return found


def gelu_form(cubic: int, outer: int) -> Callable[[Value], Value]:
    """One of the orders in which GELU by tanh is written: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))."""

    def gelu(x: Value) -> Value:
        third = (0.044715 * x * x * x, 0.044715 * (x * x * x))[cubic]
        up = 1 + tanh(math.sqrt(2 / math.pi) * (x + third))
        return (0.5 * x * up, x * (0.5 * up), 0.5 * (x * up))[outer]

    return gelu


@cache
def layer_norm_formula(x: Type) -> Graph:
    """A layer norm of an array of a type, in the words that exact passes leave."""
    row = array_type(x.shape[-1:], x.dtype)
    return formula_graph(written_layer_norm, x, row, row, array_type(x.shape[:-1], x.dtype))


@cache
def gelu_formulas(x: Type) -> tuple[Graph, ...]:
    """GELU of an array of a type in all orders."""
    return tuple([formula_graph(gelu_form(*form), x) for form in product(range(2), range(3))])


def formula_graph(write: Callable[..., Value], *types: Type) -> Graph:
    """A formula as a graph, in the words that exact passes leave."""
    graph, _ = build(lambda *xs: [write(*xs)], types)
    return run_passes(graph)


def functions_in(graph: Graph) -> Iterator[WrittenFunction]:
    """The functions that a graph writes out, of float32 or float64, each by the last of its operations."""
    searches = {"add": layer_norm_at, "mul": gelu_at, "contract": attention_at}
    for node in graph.nodes:
        search = searches.get(node.op.name)
        if search is not None and node.outputs[0].ndim > 1 and is_plain(node.outputs[0]):
            found = search(graph, node)
            if found is not None:
                yield found


def layer_norm_at(graph: Graph, node: Node) -> WrittenFunction | None:
    """The layer norm that ends with a node."""
    formula, y = layer_norm_formula(node.outputs[0].type), node.outputs[0]
    found = formula_bindings(formula.outputs[0], y, {})
    if found is None:
        return None
    x, gain, bias, eps = [found[v] for v in formula.inputs]
    if number_of(eps) is None:
        return None
    return WrittenFunction("layer_norm", body_between(graph, (x, gain, bias), y), (eps,))


def gelu_at(graph: Graph, node: Node) -> WrittenFunction | None:
    """The GELU that ends with a node."""
    y = node.outputs[0]
    for formula in gelu_formulas(y.type):
        found = formula_bindings(formula.outputs[0], y, {})
        if found is not None:
            return WrittenFunction("gelu_tanh", body_between(graph, (found[formula.inputs[0]],), y))
    return None


def attention_at(graph: Graph, node: Node) -> WrittenFunction | None:
    """The attention of heads in batches that ends with a node: all queries see all keys, or those up to their own."""
    written = written_attention(node)
    roles = None if written is None else roles_of(written)
    if written is None or roles is None:
        return None
    (own, labels, out), scores = roles, written.scores.node.outputs[0]
    masks = sorted_masks(written.scores.shown, scores.shape)
    operands = written.attended()
    if masks is None or masks.constants or masks.dynamic or masks.added or not all(map(is_plain, operands)):
        return None
    if own.groups or len(own.lead) != 2 or scores.shape[-2] != scores.shape[-1]:
        return None
    taken = (own.query + own.width, own.key + own.width, own.key + own.value_width, own.query + own.value_width)
    orders = [tuple([part.index(c) for c in own.lead + at]) for part, at in zip((*labels, out), taken, strict=True)]
    q, _, v = operands
    if len({*orders}) > 1 or q.type is not v.type:
        return None
    label = "causal_attention" if masks.causal else "attention"
    scale = new_value(node, "full", value=written.scores.scale, shape=(), dtype=q.dtype)
    body = body_between(graph, operands, node.outputs[0])
    return WrittenFunction(label, body, (scale,), orders[0])


def body_between(graph: Graph, inputs: tuple[Value, ...], output: Value) -> Graph:
    """The part of a graph that makes a value out of others."""
    inside = nodes_between((output,), inputs)
    return Graph(inputs, tuple([node for node in graph.nodes if node in inside]), (output,))
