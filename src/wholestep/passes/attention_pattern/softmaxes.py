"""The spellings of a softmax along the last axis, traced back from its result, the weights."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.ir.graph import Node, Value
from wholestep.passes.attention_pattern.masks import number_of_all
from wholestep.primitives.arithmetic import add, div, mul, sub
from wholestep.primitives.family import Primitive
from wholestep.primitives.functions import exp, log, pow
from wholestep.primitives.logic import equal, isfinite, select
from wholestep.primitives.marks import identity, stop_gradient
from wholestep.primitives.movement import broadcast, reshape
from wholestep.primitives.reduction import max_, sum_
from wholestep.primitives.structure import composite

SOFTMAX = "softmax"
"""The label of a softmax that is a composite."""
REPEATS = (broadcast, reshape, identity)
"""The operations between a number of each row and its broadcast to the scores."""
MOST_STEPS = 8
"""The most operations over which two values are compared for equality."""


def softmax_operand(weights: Value, between: list[Node]) -> Value | None:
    """The operand of a softmax along the last axis, given its result; None where the value is no softmax.

    The nodes from the operand to the value go to `between`.
    """
    node = weights.node
    if node is None:
        return None
    if node.op is composite and node.params["label"] == SOFTMAX and len(node.inputs) == 1:
        body = node.params["graph"]
        found = softmax_operand(body.outputs[0], [])
        between.append(node)
        return (
            node.inputs[0] if found is not None and source_through(found, (identity,), []) is body.inputs[0] else None
        )
    if node.op is exp:
        return normalized_operand(node, between)
    inverse, orders = node.op is mul, (node.inputs, node.inputs[::-1])
    for powers, total in orders[: 1 + inverse] if inverse or node.op is div else ():
        own: list[Node] = [node]
        x = quotient_operand(powers, total, inverse, own)
        if x is not None:
            between += own
            return x
    return None


def quotient_operand(powers: Value, total: Value, inverse: bool, between: list[Node]) -> Value | None:
    """The x of exp(x - max(x)) over its sum, or times the inverse of its sum."""
    x = shifted_operand(powers, between)
    return x if x is not None and is_row_reduction(total, sum_, powers, between, inverse) else None


def shifted_operand(powers: Value, between: list[Node]) -> Value | None:
    """The x of exp(x - max(x))."""
    node = powers.node
    off = None if node is None or node.op is not exp else node.inputs[0].node
    if node is None or off is None or off.op is not sub:
        return None
    between += [node, off]
    x, largest = off.inputs
    return x if is_row_reduction(largest, max_, x, between) else None


def normalized_operand(node: Node, between: list[Node]) -> Value | None:
    """The x of exp(x - (log(sum(exp(x - m))) + m)), where m is the maximum of x; rows of -inf may have a case of their
    own."""
    off = node.inputs[0].node
    if off is None or off.op is not sub or not is_repeated(off.inputs[1], off.inputs[0]):
        return None
    x, normalizer = off.inputs
    whole: list[Node] = [node, off]
    tested: list[Value] = []
    joined = unless_zero(source_through(normalizer, REPEATS, whole), tested, whole).node
    if joined is None or joined.op is not add:
        return None
    for part, shift in (joined.inputs, joined.inputs[::-1]):
        own = [*whole, joined]
        powers = summed_powers(part, x, list(tested), own)
        if powers is not None and shifted_operand(powers, own) is x:
            if is_same(source_through(shift, REPEATS, own), shift_of(powers), own):
                between += own
                return x
    return None


def summed_powers(v: Value, x: Value, tested: list[Value], between: list[Node]) -> Value | None:
    """The operand of a sum along the last axis, given the logarithm of the sum; `tested` must be that sum."""
    logarithm = source_through(v, REPEATS, between).node
    if logarithm is None or logarithm.op is not log:
        return None
    total = unless_zero(source_through(logarithm.inputs[0], REPEATS, between), tested, between)
    total = source_through(total, REPEATS, between)
    if total.node is None or total.node.op is not sum_ or total.node.params["axes"] != (x.ndim - 1,):
        return None
    between += [logarithm, total.node]
    return None if any([source_through(t, REPEATS, between) is not total for t in tested]) else total.node.inputs[0]


def shift_of(powers: Value) -> Value:
    """The m of a value that is known to be exp(x - m)."""
    assert powers.node is not None and powers.node.inputs[0].node is not None
    return source_through(powers.node.inputs[0].node.inputs[1], REPEATS, [])


def unless_zero(v: Value, tested: list[Value], between: list[Node]) -> Value:
    """The source of a value that is selected where another one, which is appended to `tested`, is not 0."""
    node = v.node
    if node is None or node.op is not select:
        return v
    test = node.inputs[0].node
    if (
        test is None
        or test.op is not equal
        or number_of_all(test.inputs[1]) != 0
        or number_of_all(node.inputs[1]) is None
    ):
        return v
    between += [node, test]
    tested.append(test.inputs[0])
    return node.inputs[2]


def if_finite(v: Value, between: list[Node]) -> Value:
    """The source of a value that replaces elements that are not finite by 0."""
    node = v.node
    test = None if node is None or node.op is not select else node.inputs[0].node
    if node is None or test is None or test.op is not isfinite or number_of_all(node.inputs[2]) != 0:
        return v
    if test.inputs[0] is not node.inputs[1]:
        return v
    between += [node, test]
    return node.inputs[1]


def source_through(v: Value, ops: Sequence[Primitive], between: list[Node]) -> Value:
    """The value behind operations such as marks that rename it."""
    while v.node is not None and v.node.op in ops:
        between.append(v.node)
        v = v.node.inputs[0]
    return v


def is_repeated(v: Value, of: Value) -> bool:
    """True for a value of another's shape that is broadcast along the last axis."""
    node = v.node
    return node is not None and node.op is broadcast and v.shape == of.shape and of.ndim - 1 not in node.params["axes"]


def is_row_reduction(v: Value, op: Primitive, of: Value, between: list[Node], inverse: bool = False) -> bool:
    """True where a value is the reduction of another value along the last axis, or its inverse, broadcast along it.

    Only a maximum may be behind `stop_gradient`, since the derivative of the softmax is the same without its own.
    """
    if not is_repeated(v, of):
        return False
    marks = (*REPEATS, stop_gradient) if op is max_ else REPEATS
    v = source_through(v, marks, between)
    if inverse:
        total = inverse_operand(v, between)
        if total is None:
            return False
        v = source_through(total, marks, between)
    if op is max_:
        v = source_through(if_finite(v, between), marks, between)
    node = v.node
    if node is None or node.op is not op or node.params["axes"] != (of.ndim - 1,):
        return False
    between.append(node)
    return is_same(source_through(node.inputs[0], marks[2:], between), of, between)


def inverse_operand(v: Value, between: list[Node]) -> Value | None:
    """The x of 1 / x; None for any other value."""
    node = v.node
    if node is None:
        return None
    between.append(node)
    if node.op is div and number_of_all(node.inputs[0]) == 1:
        return node.inputs[1]
    return node.inputs[0] if node.op is pow and number_of_all(node.inputs[1]) == -1 else None


def is_same(v: Value, w: Value, between: list[Node], steps: int = MOST_STEPS) -> bool:
    """True where two values are identical, or are computed by the same operations from the same values."""
    a, b = v.node, w.node
    if v is w:
        return True
    if a is None or b is None or not steps or a.op is not b.op or a.op.multiple or a.op.nested or a.op.literal:
        return False
    between.append(a)
    pairs = list(zip(a.inputs, b.inputs, strict=False))
    return a.params == b.params and all([is_same(x, y, between, steps - 1) for x, y in pairs])
