"""Branches in graph words: all of them computed and one chosen, where none can fail and each is cheap to have."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.ir.build import inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import number_of
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast

HARMLESS = frozenset(("elementwise", "movement", "reduction", "contraction", "creation", "mark"))
"""Kinds of operations that cannot fail, whatever their operands hold."""
MAY_FAIL = frozenset(("floor_divide", "remainder", "fmod", "pow"))
"""Operations of those kinds that fail on integers: division by 0, and negative exponents."""


def cannot_fail(node: Node) -> bool:
    """True if an operation has a result for all operands of its types."""
    if node.op.nested:
        return node.op.name in ("composite", "cond", "custom_vjp", "custom_jvp", "checkpoint") and all(
            map(is_harmless, Graph(node.inputs, (node,), node.outputs).subgraphs())
        )
    integers = node.op.name in MAY_FAIL and node.types[0].dtype.kind in "iu"
    return getattr(node.op, "kind", "") in HARMLESS and not integers


def is_harmless(graph: Graph) -> bool:
    """True if no operation of a graph can fail."""
    return all(map(cannot_fail, graph.nodes))


def is_selectable(node: Node) -> bool:
    """True for a branch on one number whose graphs cannot fail."""
    return node.types[0].ndim == 0 and all(map(is_harmless, node.params["branches"]))


def all_branches(index: Value, *operands: Value, branches: tuple[Graph, ...]) -> Sequence[Value] | None:
    """Every branch, and its results selected; out of range the index is clipped.

    y = cond(i, x, branches=(f, g))
    -->
    a = f(x); b = g(x); y = select(i <= 0, a, b)
    """
    if index.ndim or not all(map(is_harmless, branches)):
        return None
    number = number_of(index)
    if number is not None:
        return inline(branches[min(max(int(number), 0), len(branches) - 1)], operands)
    found = inline(branches[-1], operands)
    for i in reversed(range(len(branches) - 1)):
        mine = inline(branches[i], operands)
        found = [y if x is y else chosen(index <= i, x, y) for x, y in zip(mine, found, strict=True)]
    return found


def chosen(condition: Value, x: Value, y: Value) -> Value:
    """x where one condition holds, else y."""
    wide = broadcast(condition, shape=x.shape, axes=()) if x.ndim else condition
    made: Value = select(wide, x, y)
    return made
