"""Branches in graph words: all of them computed and one chosen, where none can fail and each is cheap to have."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.ir.build import inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import number_of
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast

HARMLESS = frozenset(("elementwise", "movement", "reduction", "contraction", "creation", "mark"))
"""Kinds of operations that cannot fail for any values of their operands."""
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


def is_skipped_update(node: Node) -> bool:
    """True for a branch that cannot fail and multiplies no matrices, beside one that leaves everything as it is.

    Both are cheap to compute, and a compiler that fuses elementwise operations then writes no array twice. Others stay
    branches, since the derivative of a select is NaN where that of the value not selected is infinite.
    """
    branches = node.params["branches"]
    empty = [not graph.nodes for graph in branches]
    kinds = {getattr(inner.op, "kind", "") for graph in branches for inner in graph.nodes}
    single = all([len({*graph.outputs}) == len(graph.outputs) for graph in branches if graph.nodes])
    return sorted(empty) == [False, True] and single and "contraction" not in kinds and is_selectable(node)


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


def kept_or_updated(index: Value, *operands: Value, branches: tuple[Graph, ...]) -> Sequence[Value] | None:
    """A skipped update: each result is selected where it is computed, and its users read the selected value.

    m1 = f(m); p1 = g(p, m1); y = cond(i, m, p, branches=(keep, update))
    -->
    m1 = select(i <= 0, m, f(m)); p1 = select(i <= 0, p, g(p, m1))

    Where the update is not taken g(p, m1) is not read, so its operands may be any values; no compiler then needs the
    old m for p1 beside the new one, and copies it.
    """
    update = next(graph for graph in branches if graph.nodes)
    keep = branches[1 - branches.index(update)]
    env = dict(zip(update.inputs, operands, strict=True))
    old = dict(zip(keep.inputs, operands, strict=True))
    first, results = index <= 0, dict[Value, Value](zip(update.outputs, [old[v] for v in keep.outputs], strict=True))

    def choice(new: Value, kept: Value) -> Value:
        return new if new is kept else chosen(first, new, kept) if update is branches[0] else chosen(first, kept, new)

    for node in update.nodes:
        found = inline(Graph(node.inputs, (node,), node.outputs), [env[v] for v in node.inputs])
        env |= {v: choice(y, results[v]) if v in results else y for v, y in zip(node.outputs, found, strict=True)}
    made = {v for node in update.nodes for v in node.outputs}
    pairs = zip(update.outputs, keep.outputs, strict=True)
    return [env[v] if v in made and results[v] is old[k] else choice(env[v], old[k]) for v, k in pairs]


def chosen(condition: Value, x: Value, y: Value) -> Value:
    """x where one condition holds, else y."""
    wide = broadcast(condition, shape=x.shape, axes=()) if x.ndim else condition
    made: Value = select(wide, x, y)
    return made
