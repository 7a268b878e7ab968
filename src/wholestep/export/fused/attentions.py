"""Attention that a step writes out: with masks or without, where heads of queries share keys, guarded or not."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from wholestep.export.fused.derivatives import OperandForm, WrittenFunction, body_between
from wholestep.export.fused.forms import attention_label
from wholestep.export.fused.formulas import formula_bindings, is_plain
from wholestep.export.split_gradients import behind_reshape
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type
from wholestep.passes.attention_pattern.masks import KnownMasks, emitted_mask, sorted_masks
from wholestep.passes.attention_pattern.pattern import Roles, WrittenAttention, roles_of, scores_of
from wholestep.passes.attention_pattern.softmaxes import softmax_operand
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import new_value, on_values
from wholestep.primitives.attention_dropout import spread_thin
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import exp
from wholestep.primitives.logic import select
from wholestep.primitives.movement import reshape
from wholestep.primitives.reduction import max_, spread_back, sum_
from wholestep.transforms.reverse import inline_vjp


class SoftmaxedScores(NamedTuple):
    """The weights of attention, and the scores of which they are the softmax."""

    weights: Value
    scores: Value
    guarded: bool
    """True where a row that sees no key gives 0, else it gives NaN."""


class HeadSizes(NamedTuple):
    """The sizes in which an operation takes attention: arrays [batch, heads, time, width]."""

    batch: int
    heads: int
    shared: int
    """The heads of keys and values."""
    queries: int
    keys: int
    width: int
    outer: int
    """The leading axes of scores that are one of the batch there."""


@cache
def guarded_softmax(x: Type) -> Graph:
    """The softmax along the last axis in which a row of -inf gives 0."""
    last = (x.ndim - 1,)

    def write(v: Value) -> list[Value]:
        largest: Value = reshape(max_(v, axes=last), shape=(*x.shape[:-1], 1))
        largest = select(largest.equals(-math.inf), zeros(largest.type), largest)
        powers = exp(v - spread_back(reshape(largest, shape=x.shape[:-1]), x.shape, last))
        total: Value = sum_(powers, axes=last)
        total = select(total.equals(0), ones(total.type), total)
        return [powers / spread_back(total, x.shape, last)]

    return run_passes(build(write, [x])[0])


def softmaxed_scores(weights: Value) -> SoftmaxedScores | None:
    """The scores of which `weights` are the softmax; None if they are not a softmax."""
    formula = guarded_softmax(weights.type)
    found = formula_bindings(formula.outputs[0], weights, {})
    if found is not None:
        return SoftmaxedScores(weights, found[formula.inputs[0]], True)
    x = softmax_operand(weights, [])
    return None if x is None else SoftmaxedScores(weights, x, False)


def attention_at(graph: Graph, node: Node) -> WrittenFunction | None:
    """The attention that ends with a node."""
    for at, operand in enumerate(node.inputs):
        softmaxed = softmaxed_scores(behind_reshape(operand)) if operand.ndim > 1 and is_plain(operand) else None
        scores = None if softmaxed is None else scores_of(softmaxed.scores)
        if softmaxed is not None and scores is not None and scores.node.outputs[0].shape == operand.shape:
            return attention_of(graph, WrittenAttention(node, at, scores, ()), softmaxed)
    return None


def attention_of(graph: Graph, written: WrittenAttention, softmaxed: SoftmaxedScores) -> WrittenFunction | None:
    """Attention as one operation; None where its sizes, its masks or its scale do not fit one.

    PyTorch's own hides keys before it scales, so that a negative scale would show them alone.
    """
    roles, x = roles_of(written), softmaxed.scores
    masks, operands = sorted_masks(written.scores.shown, x.shape, softmaxed.guarded), written.attended()
    if roles is None or masks is None or not all(map(is_plain, operands)) or written.scores.scale <= 0:
        return None
    own, labels, out = roles
    sizes = head_sizes(own, labels, operands, x)
    unsure = [part for part, _ in (*masks.dynamic, *masks.added)]
    if sizes is None or (unsure and not softmaxed.guarded):
        return None
    node, inputs, (y,) = written.mixing, (*operands, *[part.value for part in unsure]), written.mixing.outputs
    mask = mask_operand(masks, x, sizes) if masks.constants or unsure else None
    scale = new_value(node, "full", value=written.scores.scale, shape=(), dtype=x.dtype)
    return WrittenFunction(
        attention_label(masks.causal, mask is not None),
        body_between(graph, inputs, y),
        operand_forms(own, (*labels, out), sizes),
        (scale,) if mask is None else (mask, scale),
        pullback_by_weights(graph, inputs, softmaxed, y),
        (x,),
    )


def head_sizes(
    own: Roles, labels: tuple[str, str, str], operands: tuple[Value, Value, Value], scores: Value
) -> HeadSizes | None:
    """The sizes of heads; None if widths differ, or the rows of scores do not match those of queries."""
    known: dict[str, int] = {}
    for text, v in zip(labels, operands, strict=True):
        known |= dict(zip(text, v.shape, strict=True))
    lead, width = [known[c] for c in own.lead], known[own.width]
    *before, shared = lead or [1]
    batch, queries = math.prod(before), scores.shape[-2]
    heads, left = divmod(math.prod(scores.shape[:-2]), batch)
    rows = math.prod([known[c] for c in own.lead + own.groups + own.query])
    outer = next((i for i in range(scores.ndim - 1) if math.prod(scores.shape[:i]) == batch), None)
    if left or heads % shared or batch * heads * queries != rows or scores.shape[-1] != known[own.key] or outer is None:
        return None
    found = HeadSizes(batch, heads, shared, queries, known[own.key], width, outer)
    return found if known[own.value_width] == width else None


def operand_forms(own: Roles, labels: tuple[str, ...], n: HeadSizes) -> tuple[OperandForm, ...]:
    """The forms in which an operation takes queries, keys and values, and gives its result."""
    queried, keyed = own.lead + own.groups + own.query, own.lead + own.key
    taken = (queried + own.width, keyed + own.width, keyed + own.value_width, queried + own.value_width)
    rows, columns = (n.batch, n.heads, n.queries, n.width), (n.batch, n.shared, n.keys, n.width)
    shapes = (rows, columns, columns, rows)
    orders = [tuple([part.index(c) for c in axes]) for part, axes in zip(labels, taken, strict=True)]
    return tuple([OperandForm(order, shape) for order, shape in zip(orders, shapes, strict=True)])


def mask_operand(masks: KnownMasks, scores: Value, n: HeadSizes) -> Value:
    """The masks that are not causal as one, [batch, heads, queries, keys] with axes of size 1 where it is the same."""
    unsure = [part.value for part, _ in (*masks.dynamic, *masks.added)]

    def write(*values: Value) -> list[Value]:
        own = dict(zip(unsure, values, strict=True))
        dynamic = tuple([(part._replace(value=own[part.value]), shown) for part, shown in masks.dynamic])
        added = tuple([(part._replace(value=own[part.value]), factor) for part, factor in masks.added])
        mask = emitted_mask(masks._replace(dynamic=dynamic, added=added), scores.shape, scores).mask
        assert mask is not None
        return [merged_mask(mask, scores, n.outer)]

    graph, _ = build(write, [v.type for v in unsure])
    (mask,) = on_values(graph, unsure)
    return mask


def merged_mask(mask: Value, scores: Value, outer: int) -> Value:
    """A mask with two leading axes, batch and heads, repeated along each of them that is only partly of size 1."""
    merged = (range(outer), range(outer, mask.ndim - 2))
    repeated = {i for axes in merged for i in axes if any([mask.shape[k] != 1 for k in axes])}
    shape = tuple([scores.shape[i] if i in repeated else n for i, n in enumerate(mask.shape)])
    whole = mask if shape == mask.shape else spread_thin(mask, shape)
    found: Value = reshape(whole, shape=(*[math.prod([shape[i] for i in axes]) for axes in merged], *shape[-2:]))
    return found


def pullback_by_weights(graph: Graph, inputs: tuple[Value, ...], softmaxed: SoftmaxedScores, y: Value) -> Graph:
    """(inputs, gy) -> gradients of queries, keys and values, where the softmax needs its weights alone."""
    weights, last = softmaxed.weights, (softmaxed.weights.ndim - 1,)
    scoring, weighing = [body_between(graph, inputs, v) for v in (softmaxed.scores, weights)]
    mixing = body_between(graph, (weights, inputs[2]), y)
    wrt = [i < 2 for i in range(len(inputs))]

    def pull(*values: Value) -> list[Value]:
        own, g = values[:-1], values[-1]
        (p,) = inline(weighing, own)
        gp, gv = inline_vjp(mixing, (p, own[2]), (True, True), [g])[1]
        gs = p * (gp - spread_back(sum_(gp * p, axes=last), p.shape, last))
        return [*inline_vjp(scoring, own, wrt, [gs])[1], gv]

    return build(pull, [v.type for v in (*inputs, y)])[0]
