"""Collapsing: two nested loops that walk through memory as one become one.

for i in 1000: for j in 3: y[3*i + j] = x[3*i + j] * 2   ->   for m in 3000: y[m] = x[m] * 2
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.schedule import PartReplacement


def collapse_loops(kernel: Kernel, lanes: int = 1) -> Kernel:
    """The kernel with every collapsible pair of loops joined; a pair of symbolic size only where the joined size is a
    multiple of `lanes`.
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
    """Test whether a loop is independent and its steps are no threads."""
    return loop.independent and loop.guard is None and not loop.axis.thread


def is_collapsible(kernel: Kernel, outer: Axis, inner: Axis, lanes: int) -> bool:
    """Test whether one step of the outer axis moves every index as far as all steps of the inner axis together."""
    if inner.symbolic or (outer.symbolic and outer.size * inner.extent % lanes != 0):
        return False
    indices = [s.index for s in walk(kernel.body) if isinstance(s, Store | Var)]
    return all(i.coefficient(outer) == i.coefficient(inner) * inner.extent for i in indices)


def join_grid(kernel: Kernel) -> Kernel:
    """The kernel with every collapsible pair of its grid loops joined, adjacent or not; loops with lanes stay.

    for n in 16: for o in 64 lanes 8: for x in 32: ...   ->   for o in 64 lanes 8: for m in 512: ...
    """
    while True:
        loops = [loop for loop in lone_loops(kernel) if loop.axis.lanes == 1 and not loop.axis.symbolic]
        pairs = itertools.combinations(loops, 2)
        found = next((pair for pair in pairs if is_collapsible(kernel, pair[0].axis, pair[1].axis, 1)), None)
        if found is None:
            return kernel
        kernel = replace(kernel, body=LoopCollapse(*found).body(kernel.body))


def lone_loops(kernel: Kernel) -> list[Loop]:
    """The independent loops of a kernel that are each the only one in the one around it, outermost first."""
    found: list[Loop] = []
    body = kernel.body
    while True:
        inner = [s for s in body if isinstance(s, Loop)]
        if len(inner) != 1 or not is_independent(inner[0]):
            return found
        found.append(inner[0])
        body = inner[0].body


class LoopCollapse(PartReplacement):
    """A copy of a kernel's body with one axis in the place of two; statements between their loops use neither axis."""

    def __init__(self, outer: Loop, inner: Loop) -> None:
        self.outer = outer
        axis = Axis(inner.axis.name, outer.axis.size * inner.axis.size)
        super().__init__({inner.axis: axis}, {})

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for s in body:
            made += self.body(self.outer.body) if s is self.outer else [self.statement(s)]
        return tuple(made)

    def index(self, index: Index) -> Index:
        rest = {k: c for k, c in index.terms.items() if k is not self.outer.axis}
        return super().index(index if len(rest) == len(index.terms) else Index(index.const, rest))
