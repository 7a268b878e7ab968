"""The order of sums: which folds have an accumulator for each lane of a tile, and which are sums of blocks."""

from __future__ import annotations

from collections.abc import Iterable

from wholestep.kernel.lang import Axis, Carry, Fold, Index, Kernel, Loop, Store, Var, walk

SUM_BLOCK = 32
"""The steps of a block of a sum: floating-point sums of more are sums of blocks, as in pairwise summation."""


def sum_blocks(count: int) -> tuple[int, ...]:
    """The lengths of the blocks of a sum over `count` steps, outermost first."""
    return tuple([n for n in (SUM_BLOCK**2, SUM_BLOCK) if count > n])


def is_float_sum(fold: Fold) -> bool:
    """True for a sum that rounds; sums of products are one chain in the order of their terms."""
    return fold.op == "add" and fold.result.dtype.kind == "f"


def continues_sum(loop: Loop, carry: Carry) -> bool:
    """True for a carry that is the accumulator of a sum inside the loop."""
    if loop.ordered:
        return False
    for inner in [s for s in loop.body if isinstance(s, Loop)]:
        for fold in inner.folds:
            if fold.init is carry.inside:
                return is_float_sum(fold)
        for following in inner.carries:
            if following.init is carry.inside:
                return continues_sum(inner, following)
    return False


def folds_transposed_loads(loop: Loop) -> bool:
    """True for a fold of loads that are contiguous along its steps and strided along the lanes around it: they are
    loaded as rows and transposed in registers, and one accumulator adds them in order."""
    axis = loop.axis
    if axis.lanes > 1 or not loop.folds or loop.ordered or loop.carries:
        return False
    loads = [s.attr[1] for s in loop.body if isinstance(s, Var) and s.op == "load" and not s.args]
    return any(i.coefficient(axis) == 1 and is_strided_along_lanes(i) for i in loads)


def is_strided_along_lanes(index: Index) -> bool:
    """True if the lanes of an access are apart in memory."""
    return any(isinstance(key, Axis) and key.lanes > 1 and abs(stride) > 1 for key, stride in index.terms.items())


def live_variables(kernel: Kernel) -> set[Var]:
    """Return the values that stores and loops use, directly or not."""
    return values_behind([v for s in walk(kernel.body) if isinstance(s, Store | Loop) for v in s.reads()])


def values_behind(values: Iterable[Var]) -> set[Var]:
    """Some values and all values that they depend on."""
    found: set[Var] = set()
    waiting = list(values)
    while waiting:
        v = waiting.pop()
        if v not in found:
            found.add(v)
            waiting += v.reads()
    return found
