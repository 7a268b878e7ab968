"""Collapsing: two nested loops that walk through memory as one become one.

for i in 1000: for j in 3: y[3*i + j] = x[3*i + j] * 2   ->   for m in 3000: y[m] = x[m] * 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.schedule import PartReplacement


def collapse_loops(kernel: Kernel, lanes: int = 1) -> Kernel:
    """The kernel with every pair of loops joined that can be; one of symbolic size only where a multiple of so many
    lanes comes out.
    """
    while True:
        pair = next(collapsible_pairs(kernel.body), None)
        if pair is None:
            return kernel
        outer, inner = pair
        if not is_collapsible(kernel, outer.axis, inner.axis, lanes):
            return kernel
        kernel = replace(kernel, body=LoopCollapse(outer, inner).body(kernel.body))


def collapsible_pairs(body: Sequence[Statement]) -> Iterator[tuple[Loop, Loop]]:
    """The innermost loop of a nest of independent ones and the loop around it, with nothing between them."""
    loops = [s for s in body if isinstance(s, Loop)]
    if len(loops) != 1 or not is_independent(loops[0]):
        return
    (outer,) = loops
    inside = [s for s in outer.body if isinstance(s, Loop)]
    if len(inside) == 1 and is_independent(inside[0]):
        if len(outer.body) == 1 and not any(isinstance(s, Loop) for s in inside[0].body):
            yield outer, inside[0]
        else:
            yield from collapsible_pairs(outer.body)


def is_independent(loop: Loop) -> bool:
    """Test whether the steps of a loop may be done in any order, and none of them is a thread by itself."""
    return loop.independent and loop.guard is None and not loop.axis.thread


def is_collapsible(kernel: Kernel, outer: Axis, inner: Axis, lanes: int) -> bool:
    """Test whether one step of the outer axis is always as far as a whole round of the inner one."""
    if inner.symbolic or (outer.symbolic and outer.size * inner.extent % lanes != 0):
        return False
    indices = [s.index for s in walk(kernel.body) if isinstance(s, Store | Var)]
    return all(i.coefficient(outer) == i.coefficient(inner) * inner.extent for i in indices)


class LoopCollapse(PartReplacement):
    """A kernel's body written anew with one axis in the place of two."""

    def __init__(self, outer: Loop, inner: Loop) -> None:
        self.outer, self.inner = outer, inner
        self.axis = Axis(inner.axis.name, outer.axis.size * inner.axis.size)
        super().__init__({inner.axis: self.axis}, {})

    def statement(self, s: Statement) -> Statement:
        return Loop(self.axis, self.body(self.inner.body)) if s is self.outer else super().statement(s)

    def index(self, index: Index) -> Index:
        rest = {k: c for k, c in index.terms.items() if k is not self.outer.axis}
        return super().index(index if len(rest) == len(index.terms) else Index(index.const, rest))
