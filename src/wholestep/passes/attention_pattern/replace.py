"""Attention that a program writes out, replaced by blocked attention: in a whole graph, or in the walk of a gradient.

The walk of a gradient meets the pattern before its derivative is written out: there the last product of each becomes
the result of blocked attention, whose pullback keeps no scores. The finished graph then has the same attention in its
forward part. Where a score or a weight has any other use, both leave the program as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from wholestep.errors import ParameterError, show
from wholestep.ir.build import blame, build, current, emit, trim
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.attention_pattern.masks import KnownMasks, emitted_mask, sorted_masks
from wholestep.passes.attention_pattern.pattern import (
    Roles,
    WrittenAttention,
    roles_of,
    written_attention,
)
from wholestep.passes.cse import cse
from wholestep.passes.dce import dce
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import map_nested_graphs
from wholestep.primitives.attention import attention
from wholestep.primitives.attention_operands import is_long, usual_block
from wholestep.primitives.contraction import contract
from wholestep.primitives.marks import identity

_looked_for: ContextVar[bool] = ContextVar("looked_for", default=False)


@contextmanager
def looking_for_attention(wanted: bool) -> Iterator[None]:
    """Enable or disable the search for attention in the gradients that are derived inside the block."""
    token = _looked_for.set(wanted)
    try:
        yield
    finally:
        _looked_for.reset(token)


def check_blocks(name: str, blocks: object) -> None:
    """Raise ParameterError for an invalid choice of `blocks`."""
    if blocks is not None and blocks is not False:
        raise ParameterError(
            f"{name}: blocks is {blocks!r}",
            hint="None takes blocks for attention over long sequences, False leaves it as it is written",
        )


class Replacement(NamedTuple):
    """Attention to replace by blocked attention: the nodes found, the roles of its axes, and its masks."""

    found: WrittenAttention
    roles: Roles
    labels: tuple[str, str, str]
    out: str
    masks: KnownMasks
    block: tuple[int, int]

    def emitted(self, q: Value, k: Value, v: Value) -> Value:
        """Blocked attention in the current builder, with the axes of the result that it stands for."""
        roles, dtype, like = self.roles, self.found.mixing.outputs[0].dtype, self.found.scores.node.outputs[0]
        orders = (
            roles.lead + roles.groups + roles.query + roles.width,
            roles.lead + roles.key + roles.width,
            roles.lead + roles.key + roles.value_width,
        )
        given = [in_label_order(x, own, to) for x, own, to in zip((q, k, v), self.labels, orders, strict=True)]
        given = [x if x.dtype == dtype else OPS["cast"](x, dtype=dtype) for x in given]
        given[0] = given[0] if roles.groups else with_group(given[0])
        mask = emitted_mask(self.masks, like.shape, given[0])
        if mask.mask is not None:
            given.append(mask.mask if roles.groups else with_group(mask.mask))
        made: Value = attention(
            *given,
            scale=self.found.scores.scale,
            causal=mask.causal,
            masked=mask.mask is not None,
            dropout=0.0,
            block=self.block,
        )[0]
        if not roles.groups:
            made = OPS["reshape"](made, shape=(*made.shape[:-3], *made.shape[-2:]))
        if mask.seen is not None:
            made = made * nan_without_keys(mask.seen, made)
        return in_label_order(made, roles.lead + roles.groups + roles.query + roles.value_width, self.out)


def in_label_order(x: Value, own: str, wanted: str) -> Value:
    """A value with its labelled axes in another order."""
    if own == wanted:
        return x
    made: Value = OPS["permute"](x, axes=tuple([own.index(c) for c in wanted]))
    return made


def with_group(x: Value) -> Value:
    """[..., queries, n] with an axis for the only group."""
    made: Value = OPS["reshape"](x, shape=(*x.shape[:-2], 1, *x.shape[-2:]))
    return made


def nan_without_keys(seen: Value, like: Value) -> Value:
    """1 for a row with a key, and NaN for one without, whose softmax is NaN."""
    some = OPS["any"](seen, axes=(seen.ndim - 1,))
    one = OPS["full"](value=1, shape=some.shape, dtype=like.dtype)
    nan = OPS["full"](value=np.nan, shape=some.shape, dtype=like.dtype)
    factor = OPS["select"](some, one, nan)
    kept = tuple([i for i, n in enumerate(factor.shape) if n == like.shape[i]])
    thin = OPS["reshape"](factor, shape=tuple([like.shape[i] for i in kept]))
    made: Value = OPS["broadcast"](thin, shape=like.shape, axes=kept)
    return made


def replacements(nodes: Sequence[Node], held: Collection[Value]) -> list[Replacement]:
    """The attention among nodes that blocks can compute, and for which they pay; `held` values have other uses too."""
    long = [node for node in nodes if node.op is contract and may_mix(node)]
    found = [item for item in map(written_attention, long) if item is not None]
    if not found:
        return []
    users: dict[Value, list[Node]] = {}
    names = [v for node in nodes if node.op.named for v in node.outputs]
    for node in trim(nodes, [*held, *names]):  # without dead nodes, which will not be in the program
        for v in node.inputs:
            users.setdefault(v, []).append(node)
    made = [blocked_form(item) for item in found if is_apart(item, users, held)]
    return [item for item in made if item is not None]


def may_mix(node: Node) -> bool:
    """True where an operand of a product may be the weights of long attention."""
    shapes = [v.shape for v in node.inputs]
    return any([len(n) >= 2 and all([isinstance(m, int) for m in n]) and is_long(n[-2], n[-1]) for n in shapes])


def is_apart(found: WrittenAttention, users: dict[Value, list[Node]], held: Collection[Value]) -> bool:
    """True where nothing but this attention uses its scores and its weights."""
    own = {id(node) for node in (*found.inner, found.mixing)}
    for node in found.inner:
        for v in node.outputs:
            if v in held or any([id(user) not in own for user in users.get(v, [])]):
                return False
    return True


def blocked_form(found: WrittenAttention) -> Replacement | None:
    """The blocked form of attention; None where blocks cannot compute it."""
    roles = roles_of(found)
    if roles is None:
        return None
    scores = found.scores.node.outputs[0].shape
    masks = sorted_masks(found.scores.shown, scores)
    if masks is None:
        return None
    heads = scores[-3] if len(scores) > 2 else 1
    return Replacement(found, *roles, masks, usual_block(heads))


class FoundAttention(NamedTuple):
    """A graph with blocked attention, and notes on the places where it was found."""

    graph: Graph
    notes: tuple[str, ...] = ()


def find_attention(graph: Graph) -> FoundAttention:
    """Replace attention that is written out in arrays by blocked attention, if it has many scores.

        s = contract(q, k, spec="btd,bsd->bts"); m = max(s); e = exp(s - m); z = sum(e); p = e / z
        y = contract(p, v, spec="bts,bsd->btd")
        -->
        y, lse = attention(q, k, v, causal=False, block=(128, 512))

    Equal up to rounding. Attention that occurs twice, in the forward and the backward pass, is merged.
    """
    notes: list[str] = []

    def within(inner: Graph) -> Graph:
        made = find_attention(inner)
        notes.extend(made.notes)
        return made.graph

    graph = map_nested_graphs(graph, within)
    found = {item.found.mixing: item for item in replacements(graph.nodes, set(graph.outputs))}
    if not found:
        return FoundAttention(graph, tuple(notes))
    notes += [note_on_attention(item) for item in found.values()]
    made = emitted_again(graph, found)
    return FoundAttention(dce(cse(made)), tuple(dict.fromkeys(notes)))


def emitted_again(graph: Graph, found: dict[Node, Replacement]) -> Graph:
    """The graph with some nodes replaced."""

    def write(*inputs: Value) -> list[Value]:
        env = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            before = blame(node.where)
            item = found.get(node)
            if item is None:
                made = emit(node.op, tuple([env[v] for v in node.inputs]), node.params)
                env.update(zip(node.outputs, made if node.op.multiple else (made,), strict=True))
            else:
                env[node.outputs[0]] = on_new_operands(item, env)
            blame(before)
        return [env[v] for v in graph.outputs]

    made, captured = build(write, graph.in_types, name=graph.name)
    assert not captured
    return Graph(made.inputs, made.nodes, made.outputs, graph.name, graph.input_names)


def on_new_operands(item: Replacement, env: dict[Value, Value]) -> Value:
    """Blocked attention on the new values of its operands."""
    masks = item.masks
    own = masks._replace(
        dynamic=tuple([(part._replace(value=env[part.value]), positive) for part, positive in masks.dynamic]),
        added=tuple([(part._replace(value=env[part.value]), factor) for part, factor in masks.added]),
    )
    q, k, v = item.found.attended()
    return item._replace(masks=own).emitted(env[q], env[k], env[v])


def note_on_attention(item: Replacement) -> str:
    """The note on attention that was found."""
    place = show(item.found.mixing.where)
    queries, keys = item.block
    said = f"attention by blocks of {queries} queries and {keys} keys"
    return f"{said}, at {place}" if place else said


def with_blocked_attention(nodes: Sequence[Node], held: Collection[Value], active: Set[Value]) -> Sequence[Node]:
    """The nodes that a gradient walks back through, with blocked attention in place of attention that is written out.

    This applies only while a program is traced for compilation, and where no mask is differentiated.
    """
    builder = current()
    if not _looked_for.get() or builder is None or builder.evaluate is not None:
        return nodes
    stands: dict[Node, list[Node]] = {}
    for item in replacements(nodes, held):
        if not active.isdisjoint(item.found.scores.shown.terms):
            continue
        start, before = len(builder.nodes), blame(item.found.mixing.where)
        made = item.emitted(*item.found.attended())
        blame(before)
        same = Node(identity, (made,), {}, item.found.mixing.where)
        same.outputs = item.found.mixing.outputs
        stands[item.found.mixing] = [*builder.nodes[start:], same]
    if not stands:
        return nodes
    return [made for node in nodes for made in stands.get(node, [node])]


FIND_ATTENTION = Pass("find_attention", find_attention)
"""The pass, for programs that are compiled."""
