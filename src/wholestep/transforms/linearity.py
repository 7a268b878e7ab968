"""Linearity: which values of a program are linear in its arguments, and the first operation that makes one that is not.

y = 2 * x; z = y + w   -->   y is linear in x, and z is only where w is zero
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from wholestep.dims import Dim
from wholestep.errors import DerivativeError
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import number_of
from wholestep.primitives.structure import Body, Cond

HINT = "ws.vjp gives the pullback at a point of a function that is not linear"


class Standing(IntEnum):
    """The dependence of a value on the arguments: it has none, it is zero, or it is linear in them."""

    FIXED = 0
    ZERO = 1
    LINEAR = 2


FIXED, ZERO, LINEAR = Standing


def standings(graph: Graph, given: Sequence[Standing]) -> list[Standing]:
    """The standings of a graph's outputs where its inputs have these; raises DerivativeError at an operation that makes
    something of linear values that is not linear."""
    known = dict(zip(graph.inputs, given, strict=True))
    for node in graph.nodes:
        known.update(zip(node.outputs, standings_after(node, [known[v] for v in node.inputs]), strict=True))
    return [known[v] for v in graph.outputs]


def standings_after(node: Node, given: Sequence[Standing]) -> Sequence[Standing]:
    """The standings of one node's outputs."""
    if node.op.nested:
        return standings_inside(node, given) if max(given, default=FIXED) > FIXED else [FIXED] * len(node.outputs)
    groups = node.op.linear_groups(node)
    if LINEAR not in given:
        fits = any(group and all(given[i] == ZERO for i in group) for group in groups)
        zero = fits or any(is_zero_everywhere(v) for v in node.outputs)
        return [ZERO if zero else FIXED] * len(node.outputs)
    moving = {i for i, standing in enumerate(given) if standing == LINEAR}
    for group in groups:
        if moving.issubset(group) and all(v.type.inexact for v in node.outputs):
            shifted = [i for i in group if given[i] == FIXED]
            if shifted:
                raise not_linear(node, "takes what does not depend on them, and is not zero, beside what does")
            return [LINEAR] * len(node.outputs)
    both = len(moving) > 1 and all(any(i in group for group in groups) for i in moving)
    raise not_linear(node, "multiplies two values that depend on them" if both else "is not linear in them")


def is_zero_everywhere(v: Value) -> bool:
    """Test whether a value is zero everywhere, from the node that makes it."""
    number = number_of(v)
    if number is not None:
        return not isinstance(number, Dim) and bool(number == 0)
    return v.node is not None and v.node.op.literal and not np.any(v.node.params["value"])


def not_linear(node: Node, what: str) -> DerivativeError:
    """The error for an operation on linear values that is not linear."""
    types = ", ".join(str(v.type) for v in node.inputs)
    return DerivativeError(
        f"linear_transpose: the function is not linear in its arguments: {node.op.name} {what}: {types}",
        where=node.where,
        hint=HINT,
    )


def standings_inside(node: Node, given: Sequence[Standing]) -> Sequence[Standing]:
    """The standings of the outputs of a node that holds graphs."""
    params = node.params
    if isinstance(node.op, Body):
        return standings(params["graph"], given)
    if isinstance(node.op, Cond):
        if given[0] == LINEAR:
            raise not_linear(node, "chooses a branch by them, and so it is not linear")
        found = [standings(branch, given[1:]) for branch in params["branches"]]
        return [joined_standing(node, each) for each in zip(*found, strict=True)]
    if "sizes" in params:
        return standings_looped(node, given, *params["sizes"])
    if LINEAR in given:
        raise not_linear(node, "runs until a condition holds, and has no transpose")
    return [FIXED] * len(node.outputs)


def standings_looped(node: Node, given: Sequence[Standing], constants: int, carries: int) -> list[Standing]:
    """The standings of a scan's outputs, once those of its carries feed back into its step."""
    fixed, carry, rows = given[:constants], list(given[constants : constants + carries]), given[constants + carries :]
    while True:
        found = standings(node.params["graph"], [*fixed, *carry, *rows])
        new = [joined_standing(node, pair) for pair in zip(carry, found, strict=False)]
        if new == carry:
            return [*new, *found[carries:]]
        carry = new


def joined_standing(node: Node, those: Sequence[Standing]) -> Standing:
    """The standing of a value that is one of several, or of a carry from step to step."""
    if FIXED in those and LINEAR in those:
        raise not_linear(node, "gives what depends on them in one case, and in another what does not, and is not zero")
    return FIXED if FIXED in those else max(those)
