"""Emission order: values at their first use or in the order of the text, such that no recursion is deep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wholestep.kernel.lang import Loop, Statement, Store, Var


def emits_on_demand(loop: Loop) -> bool:
    """True for a body of pure values that its loop folds: each is emitted at its first use, next to the accumulator."""
    pure = all(isinstance(s, Var) for s in loop.body)
    return pure and bool(loop.folds) and not (loop.carries or loop.ordered or has_deep_chain(loop.body))


MAX_CHAIN = 80
"""Longer dependence chains are emitted in order, since emission on demand recurses along them."""


def parts_to_emit(run: list[Var | Store]) -> list[list[Var | Store]]:
    """Statements in parts that are emitted one after the other: reductions of rows begin a part where the chains before
    them are deep, since emission on demand recurses along these."""
    if not any(s.op == "across" for s in run if isinstance(s, Var)) or not has_deep_chain(run):
        return [run]
    starts = [i for i, s in enumerate(run) if i and isinstance(s, Var) and s.op == "across"]
    return [run[a:b] for a, b in pairwise([0, *starts, len(run)])]


def has_deep_chain(body: Sequence[Statement]) -> bool:
    """True where the longest dependence chain of a body exceeds `MAX_CHAIN`."""
    if len(body) <= MAX_CHAIN:
        return False
    depth: dict[Var, int] = {}
    for s in body:
        if isinstance(s, Var):
            depth[s] = 1 + max([depth.get(x, 0) for x in s.args], default=0)
    return max(depth.values(), default=0) > MAX_CHAIN
