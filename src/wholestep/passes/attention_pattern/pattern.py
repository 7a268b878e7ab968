"""Attention as a person writes it: softmax(q k^T * scale, masked) v, read back from the product with the values."""

from __future__ import annotations

from typing import NamedTuple

from wholestep import dtypes
from wholestep.ir.graph import Node, Value
from wholestep.passes.attention_pattern.masks import (
    NOTHING,
    WrittenMasks,
    conjuncts,
    number_of_all,
    thinned,
)
from wholestep.passes.attention_pattern.softmaxes import softmax_operand
from wholestep.primitives.arithmetic import add, div, mul, sub
from wholestep.primitives.contraction import contract, parts
from wholestep.primitives.creation import cast
from wholestep.primitives.logic import select
from wholestep.primitives.movement import reshape

NO_MASKS = WrittenMasks((), (), (), (), float("-inf"))


class Scores(NamedTuple):
    """The product of queries and keys, with its scale and masks before the softmax."""

    node: Node
    scale: float
    shown: WrittenMasks
    between: tuple[Node, ...]
    """The nodes from the product to the scores."""

    def scaled(self, node: Node, factor: float) -> Scores | None:
        """The scores times a number; None for masked scores and a number that is not positive, which would unmask
        them."""
        hides = bool(self.shown.seen or self.shown.hidden)
        if factor <= 0 and hides:
            return None
        added = tuple([(part, f * factor) for part, f in self.shown.added])
        shown = self.shown._replace(added=added, floor=self.shown.floor * factor if hides else self.shown.floor)
        return Scores(self.node, self.scale * factor, shown, (*self.between, node))

    def shows(self, node: Node, shown: WrittenMasks) -> Scores:
        """The scores with further masks."""
        own = self.shown
        every = WrittenMasks(
            own.seen + shown.seen,
            own.hidden + shown.hidden,
            own.added + shown.added,
            own.terms + shown.terms,
            max(own.floor, shown.floor),
        )
        return self._replace(shown=every, between=(*self.between, node))


class WrittenAttention(NamedTuple):
    """The nodes of attention: its last product, its scores, and the nodes between them."""

    mixing: Node
    weights: int
    """The position of the weights among the operands of the last product."""
    scores: Scores
    inner: tuple[Node, ...]
    """The nodes whose results no node outside of this attention may use."""

    def attended(self) -> tuple[Value, Value, Value]:
        """Queries, keys and values."""
        q, k = self.scores.node.inputs[:: -1 if keys_first(self.scores.node) else 1]
        return q, k, self.mixing.inputs[1 - self.weights]


def written_attention(node: Node) -> WrittenAttention | None:
    """The attention whose last product is this node."""
    if node.op is not contract or not dtypes.is_float(node.outputs[0].dtype):
        return None
    for at, operand in enumerate(node.inputs):
        between: list[Node] = []
        x = softmax_operand(through_casts(operand, between), between)
        scores = None if x is None else scores_of(through_casts(x, between))
        if scores is not None and scores.node.outputs[0].shape == operand.shape:
            return WrittenAttention(node, at, scores, (*between, *scores.between, scores.node))
    return None


def through_casts(v: Value, between: list[Node]) -> Value:
    """The source of a value behind casts between floating dtypes."""
    while v.node is not None and (v.node.op.alias or is_cast(v.node)):
        between.append(v.node)
        v = v.node.inputs[0]
    return v


def is_cast(node: Node) -> bool:
    """True for a cast between floating dtypes."""
    return node.op is cast and all([dtypes.is_float(v.dtype) for v in (*node.inputs, *node.outputs)])


def scores_of(v: Value) -> Scores | None:
    """The scores that a value is, a masked and scaled product of queries and keys; None for any other value."""
    node = v.node
    if node is None:
        return None
    if node.op is contract:
        return Scores(node, 1.0, NO_MASKS, ()) if dtypes.is_float(v.dtype) else None
    if node.op.alias or is_cast(node):
        found = scores_of(node.inputs[0])
        return None if found is None else found._replace(between=(*found.between, node))
    if node.op is reshape:
        found = scores_of(node.inputs[0])
        return found._replace(between=(*found.between, node)) if found is not None and found.shown == NO_MASKS else None
    if node.op in (mul, div):
        return scaled_scores(node)
    if node.op is select:
        return selected_scores(node)
    return added_scores(node) if node.op in (add, sub) else None


def scaled_scores(node: Node) -> Scores | None:
    """Scores times a number, or divided by one."""
    for x, y in (node.inputs, node.inputs[::-1])[: 1 if node.op is div else 2]:
        factor = number_of_all(y)
        if factor:
            found = scores_of(x)
            return None if found is None else found.scaled(node, factor if node.op is mul else 1 / factor)
    return None


def selected_scores(node: Node) -> Scores | None:
    """Scores where a condition holds, and a masking number elsewhere."""
    seen, x, y = node.inputs
    for part, other, positive in ((x, y, True), (y, x, False)):
        floor = number_of_all(other)
        if floor is not None and floor <= NOTHING:
            found, axes = scores_of(part), tuple(range(seen.ndim))
            if found is None:
                return None
            masks = tuple(conjuncts(seen, axes)) if positive else (thinned(seen, axes),)
            shown = NO_MASKS._replace(seen=masks) if positive else NO_MASKS._replace(hidden=masks)
            return found.shows(node, shown._replace(floor=floor))
    return None


def added_scores(node: Node) -> Scores | None:
    """Scores and numbers that are added to them, or taken away."""
    sign = -1.0 if node.op is sub else 1.0
    for x, y in (node.inputs, node.inputs[::-1])[: 1 if sign < 0 else 2]:
        found = scores_of(x)
        if found is not None:
            part = thinned(y, tuple(range(y.ndim)))
            return found.shows(node, NO_MASKS._replace(added=((part, sign),), terms=(y,)))
    return None


class Roles(NamedTuple):
    """The labels of attention's axes: shared leading axes, groups of queries, queries, keys, and both widths."""

    lead: str
    groups: str
    query: str
    key: str
    width: str
    value_width: str


def roles_of(found: WrittenAttention) -> tuple[Roles, tuple[str, str, str], str] | None:
    """The roles of labels, the labels of q, k and v by the scores' names, and those of the result; None where some
    do not fit.

    Scores have the leading axes first, then a group's if there is one, queries, and keys.
    """
    (q, k), scores = contraction_labels(found.scores.node)
    q, k = (k, q) if keys_first(found.scores.node) else (q, k)
    (weights, v), out = contraction_labels(found.mixing)
    weights, v = (v, weights) if found.weights else (weights, v)
    key = scores[-1:]
    if key in q or key not in k:
        return None
    lead = "".join([c for c in scores if c in q and c in k])
    own = [c for c in scores if c in q and c not in k]
    width = [c for c in q if c not in scores]
    names = dict(zip(weights, scores, strict=True))
    fresh = [c for c in v if c not in weights]
    if len(own) not in (1, 2) or len(width) != 1 or len(fresh) != 1:
        return None
    names[fresh[0]] = "\0"
    v, out = "".join([names[c] for c in v]), "".join([names[c] for c in out])
    roles = Roles(lead, "".join(own[:-1]), own[-1], key, width[0], "\0")
    whole = (sorted(q), sorted(k), sorted(v), sorted(out))
    wanted = (
        sorted(lead + roles.groups + roles.query + roles.width),
        sorted(lead + key + roles.width),
        sorted(lead + key + "\0"),
        sorted(lead + roles.groups + roles.query + "\0"),
    )
    return (roles, (q, k, v), out) if whole == wanted and scores == lead + "".join(own) + key else None


def keys_first(node: Node) -> bool:
    """True for scores whose first operand has the last axis, that of the keys."""
    (a, b), out = contraction_labels(node)
    return out[-1:] in a and out[-1:] not in b


def contraction_labels(node: Node) -> tuple[tuple[str, str], str]:
    """The labels of a contraction's operands and of its result."""
    a, b, out = parts(node.params["spec"])
    return (a, b), out
