"""Products: kernels that are one contraction, with the axes of its rows, columns and terms, and its epilogue."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wholestep.backends.gpu.share_loops import inner_loop, is_sharable, sums_of
from wholestep.kernel.dependence import varying_axes
from wholestep.kernel.lang import Axis, Fold, Index, Kernel, Loop, Store, Var, walk
from wholestep.kernel.workgroups import find_workgroup


class Product(NamedTuple):
    """A contraction: the grid axes `row` and `column`, along which only its first or only its second factor varies; the
    axes of its terms, outermost first; the initial value of its sum; and the sum.
    """

    kernel: Kernel
    row: Axis
    column: Axis
    factors: tuple[Var, Var]
    terms: tuple[Axis, ...]
    init: Var
    result: Var
    after: tuple[Var | Store, ...]
    """The epilogue: the values and stores after the sum."""


def find_product(kernel: Kernel) -> Product | None:
    """The contraction that a kernel computes; None for any other kernel."""
    group = find_workgroup(kernel)
    loops = [s for s in group.body if isinstance(s, Loop)]
    if group.threads or kernel.scratch or len(loops) != 1 or not is_sharable(loops[0]):
        return None
    sums, (first, *_) = sums_of(loops[0]), loops
    after = group.body[group.body.index(first) + 1 :]
    inner = walk((first,))
    if len(sums) != 1 or sums[0].op != "fma" or any(isinstance(s, Store) for s in inner):
        return None
    if any(a.symbolic for a in group.grid) or sums[0].result.dtype.kind != "f":
        return None
    nest = list(loops_of_terms(first))
    (fold,) = nest[-1].folds
    pair = row_and_column(kernel, group.grid, fold, [s.index for s in after if isinstance(s, Store)])
    if pair is None:
        return None
    row, column, factors = pair
    kept = tuple([s for s in after if isinstance(s, Var | Store)])
    return Product(kernel, row, column, factors, tuple([n.axis for n in nest]), sums[0].init, sums[0].result, kept)


def loops_of_terms(loop: Loop) -> Iterator[Loop]:
    """The loops of a nest of sums, outermost first."""
    yield loop
    while loop.carries:
        loop = inner_loop(loop)
        yield loop


def row_and_column(
    kernel: Kernel, grid: Sequence[Axis], fold: Fold, stores: Sequence[Index]
) -> tuple[Axis, Axis, tuple[Var, Var]] | None:
    """The axis of rows, the axis of columns, along which the result has the smaller stride, and the factors that vary
    along them; None where a factor has no axis of its own.
    """
    varies = varying_axes(kernel)
    first, second = fold.values
    own = [[a for a in grid if a in varies[x] and a not in varies[y]] for x, y in ((first, second), (second, first))]
    if not all(own) or not stores:
        return None
    column = min([*own[0], *own[1]], key=lambda a: (abs(stores[0].coefficient(a)) or math.inf, -a.extent))
    if column in own[0]:
        own, first, second = own[::-1], second, first
    return max(own[0], key=lambda a: a.extent), column, (first, second)
