"""Workgroups for rows: the threads of a workgroup share the loops of one point of a kernel's grid.

for i in 8: for j in 1000: fold v1 = add(x[1000*i + j]) from v0
-->
for i in 8: for t in 64 thread: for k in 16: fold v1 = add(x[1000*i + 64*k + t]); s[t] = v1; barrier; fold of s from v0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wholestep.kernel.lang import (
    BOOL,
    I64,
    Axis,
    Barrier,
    Buffer,
    Carry,
    Fold,
    Index,
    Kernel,
    Loop,
    Statement,
    Store,
    Var,
    loop_points,
    neutral_element,
    walk,
)
from wholestep.kernel.schedule import PartReplacement
from wholestep.kernel.verify import is_verified
from wholestep.kernel.workgroups import find_workgroup

THREADS = 64
"""The threads of a workgroup."""
BRANCHES = 8
"""The number of partial folds that one thread combines in the first of two stages."""
FEW_POINTS = 4096
"""The least points of a grid that keep a card busy as work items."""


def share_loops(kernel: Kernel, threads: int = THREADS, enough: int = FEW_POINTS, rows: int | None = None) -> Kernel:
    """The kernel with workgroups that share its rows, where that pays and the verifier accepts it; else unchanged.
    `enough` points keep a card busy as work items; each of several points has a row of at least `rows` elements."""
    group = find_workgroup(kernel)
    loops = [s for s in group.body if isinstance(s, Loop)]
    if group.threads or kernel.scratch or not loops or not all(is_sharable(loop) for loop in loops):
        return kernel
    shared = [find_shared(loop, threads) for loop in loops]
    pairs = list(zip(loops, shared, strict=True))
    least = (rows or threads) if group.points > 1 else threads // 4
    if max(loop_points(replace(kernel, body=(loop,))) for loop in loops) < least:
        return kernel
    if group.points >= enough and not all(runs_along_memory(*pair) for pair in pairs):
        return kernel
    stored = [axis.extent for loop, axis in pairs if any(isinstance(s, Store) for s in walk(loop.body))]
    count = even_threads([a.extent for a in shared], threads) if stored else threads
    if any(extent % count for extent in stored):
        return kernel
    axes = {loop.axis: axis for loop, axis in pairs}
    made = RowSharing(kernel, group.grid, count, axes).kernel()
    return made if is_verified(made) else kernel  # two threads might access one element


def even_threads(extents: Sequence[int], wanted: int) -> int:
    """The number of threads nearest to the wanted one, from half to twice of it, that divides all extents; the wanted
    number where none does.
    """
    near = sorted(range(wanted // 2 + 1, 2 * wanted), key=lambda n: abs(n - wanted))
    return next((n for n in near if all(extent % n == 0 for extent in extents)), wanted)


def is_sharable(loop: Loop) -> bool:
    """Test whether the steps of a loop, and of the inner loops whose folds its carries accumulate, may run in any
    order."""
    if loop.ordered or loop.guard is not None or loop.axis.symbolic:
        return False
    inner = [s for s in loop.body if isinstance(s, Loop)]
    return not loop.carries or (len(inner) == 1 and is_sharable(inner[0]) and continues(loop, inner[0]))


def continues(loop: Loop, inner: Loop) -> bool:
    """Test whether the carried values of a loop are the accumulators and carried values of the loop inside it."""
    inits = [*[f.init for f in inner.folds], *[c.init for c in inner.carries]]
    results = [*[f.result for f in inner.folds], *[c.after for c in inner.carries]]
    pairs = {(c.inside, c.next) for c in loop.carries}
    return not loop.folds and pairs == set(zip(inits, results, strict=True))


def find_shared(loop: Loop, threads: int) -> Axis:
    """The axis of a nest of sums whose steps threads share: the longest, the innermost of several; of those with a step
    for each thread, one along which memory runs comes first."""
    axes, nest = [loop.axis], loop
    while nest.carries:
        nest = inner_loop(nest)
        axes.append(nest.axis)
    along = [a for a in axes if a.extent >= threads and runs_along_memory(loop, a)]
    return max(reversed(along or axes), key=lambda a: a.extent)


def runs_along_memory(loop: Loop, axis: Axis) -> bool:
    """Test whether all loads that vary along an axis are contiguous along it."""
    indices = [s.index for s in walk((loop,)) if isinstance(s, Var) and s.op == "load"]
    return all(i.coefficient(axis) in (0, 1) for i in indices)


class LoopSum(NamedTuple):
    """A fold over a nest of loops, such as a sum: its operation, initial value and result."""

    op: str
    init: Var
    result: Var


def sums_of(loop: Loop) -> list[LoopSum]:
    """The sums of a nest of loops, in the order of its innermost folds."""
    if not loop.carries:
        return [LoopSum(f.op, f.init, f.result) for f in loop.folds]
    handed = {c.inside: c for c in loop.carries}
    return [LoopSum(f.op, handed[f.init].init, handed[f.init].after) for f in sums_of(inner_loop(loop))]


def inner_loop(loop: Loop) -> Loop:
    """The loop inside a loop that carries its sums."""
    (found,) = [s for s in loop.body if isinstance(s, Loop)]
    return found


class PlacedAxes(PartReplacement):
    """A copy of a kernel's statements in which the indices of some axes are replaced by expressions of the thread."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.places: dict[Axis, Index] = {}

    def index(self, index: Index) -> Index:
        """An index with the shared axes replaced by their expressions of the thread."""
        made = Index(index.const)
        for key, factor in index.terms.items():
            made += (self.places[key] if key in self.places else Index(0, {self.of(key): 1})) * factor
        return made


def first_of_threads(thread: Axis) -> tuple[Var, Var, Var]:
    """The number of a thread, zero, and the test that it is the first of them."""
    me, zero = Var("index", (), I64, Index(0, {thread: 1})), Var("const", (), I64, np.int64(0))
    return me, zero, Var("eq", (me, zero), BOOL)


def index_below(index: Index, end: int) -> tuple[Var, Var, Var]:
    """An index, its end, and the test that it is below."""
    at, limit = Var("index", (), I64, index), Var("const", (), I64, np.int64(end))
    return at, limit, Var("lt", (at, limit), BOOL)


class RowSharing(PlacedAxes):
    """A kernel whose points become workgroups."""

    def __init__(self, kernel: Kernel, grid: Sequence[Axis], threads: int, shared: Mapping[Axis, Axis]) -> None:
        super().__init__()
        self.shared_axes = shared
        self.given, self.grid = kernel, frozenset(grid)
        self.thread = Axis("t", threads, thread=True)
        self.first = first_of_threads(self.thread)
        self.scratch: list[Buffer] = []

    def kernel(self) -> Kernel:
        """The kernel of workgroups."""
        body = self.nest(self.given.body)
        return Kernel(self.given.name, self.given.buffers, body, tuple(self.scratch))

    def nest(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """The loops of the grid, and the threads inside them."""
        last = body[-1]
        if isinstance(last, Loop) and last.axis in self.grid:
            return (*body[:-1], Loop(last.axis, self.nest(last.body)))
        return (Loop(self.thread, tuple(self.of_thread(body))),)

    def of_thread(self, body: Sequence[Statement]) -> list[Statement]:
        """The statements of one thread, with barriers between a store and a later loop, which may load the element, and
        between loads and a later store, whose buffer may alias an operand."""
        *_, first = self.first
        out: list[Statement] = [*self.first]
        stored = loaded = False
        for s in body:
            stores = any(isinstance(x, Store) for x in walk((s,)))
            if (isinstance(s, Loop) and stored) or (stores and loaded):
                out.append(Barrier())
                stored = loaded = False
            if isinstance(s, Loop):
                out += self.shared(s)
            elif isinstance(s, Store):
                guard = first
                if s.guard is not None:
                    guard = Var("and", (first, self.of(s.guard)), BOOL)
                    out.append(guard)
                out.append(Store(s.buffer, self.index(s.index), self.of(s.value), guard))
            else:
                out.append(self.statement(s))
            stored |= stores
            loaded |= any(isinstance(x, Var) and x.op == "load" for x in walk((s,))) and not isinstance(s, Store)
        return out

    def shared(self, loop: Loop) -> list[Statement]:
        """A loop that the threads share, followed by the combination of their partial sums."""
        sums, shared = sums_of(loop), self.shared_axes[loop.axis]
        starts = [
            Var("const", (), f.result.dtype, f.result.dtype.type(neutral_element(f.op, f.result.dtype))) for f in sums
        ]
        parts, made = self.remade(loop, shared, starts)
        if not sums:
            return made
        results, together = self.brought_together(sums, parts, starts)
        self.new |= dict(zip([f.result for f in sums], results, strict=True))
        return [*starts, *made, *together]

    def brought_together(
        self, sums: Sequence[LoopSum], parts: Sequence[Var], neutral: Sequence[Var]
    ) -> tuple[list[Var], list[Statement]]:
        """The results of folds of which each thread has a part: a few threads fold some of the parts each, and all
        threads fold the results of these."""
        inits, threads = [self.of(f.init) for f in sums], self.thread.extent
        if threads % BRANCHES or threads <= 2 * BRANCHES:
            return self.exchanged(sums, parts, None, Axis("u", threads), None, inits)
        me, *_ = self.first
        few = Var("const", (), I64, np.int64(threads // BRANCHES))
        inside = Var("lt", (me, few), BOOL)
        parts, first = self.exchanged(sums, parts, None, Axis("u", BRANCHES), inside, neutral)
        results, second = self.exchanged(sums, parts, inside, Axis("u", threads // BRANCHES), None, inits)
        return results, [few, inside, *first, *second]

    def exchanged(
        self,
        sums: Sequence[LoopSum],
        parts: Sequence[Var],
        has: Var | None,
        axis: Axis,
        takes: Var | None,
        inits: Sequence[Var],
    ) -> tuple[list[Var], list[Statement]]:
        """Folds over parts of the threads that have one, as many as an axis counts: those threads that take parts fold
        their own stretch of them, or every thread all."""
        place = Index(0, {axis: 1} if takes is None else {self.thread: axis.extent, axis: 1})
        stores, loads, folds = list[Statement](), list[Var](), list[Fold]()
        for f, part, init in zip(sums, parts, inits, strict=True):
            room = self.thread.extent if has is None else axis.extent
            buffer = Buffer(f"s{len(self.scratch)}", part.dtype, room, written=True, space="shared")
            self.scratch.append(buffer)
            stores.append(Store(buffer, Index(0, {self.thread: 1}), part, has))
            loads.append(Var("load", (), part.dtype, (buffer, place)))
            result = Var("fold", (), part.dtype)
            folds.append(Fold("add" if f.op == "fma" else f.op, result, init, (loads[-1],)))
        loop = Loop(axis, tuple(loads), tuple(folds), guard=takes)
        return [f.result for f in folds], [*stores, Barrier(), loop]

    def remade(self, loop: Loop, shared: Axis, starts: Sequence[Var]) -> tuple[list[Var], list[Statement]]:
        """A nest with sums that start from these values and run over the thread's share of an axis: the sums, and the
        statements."""
        if loop.axis is not shared:
            return self.summed(loop, loop.axis, shared, starts, None)
        threads, extent = self.thread.extent, loop.axis.extent
        chunks = Axis(loop.axis.name, -(-extent // threads))
        self.places[loop.axis] = place = Index(0, {chunks: threads, self.thread: 1})
        if extent % threads == 0:
            return self.summed(loop, chunks, shared, starts, None)
        test = index_below(place, extent)
        carried = [Var("carry", (), v.dtype) for v in starts]
        results, body = self.summed(loop, Axis("one", 1), shared, carried, test[-1])
        after = [Var("carried", (), v.dtype) for v in starts]
        carries = tuple([Carry(*c) for c in zip(carried, starts, results, after, strict=True)])
        return after, [Loop(chunks, (*test, *body), (), carries)]

    def summed(
        self, loop: Loop, axis: Axis, shared: Axis, starts: Sequence[Var], guard: Var | None
    ) -> tuple[list[Var], list[Statement]]:
        """A loop over another axis with sums that start from these values: the sums, and the loop."""
        if not loop.carries:
            body = self.body(loop.body)
            results = [Var("fold", (), v.dtype) for v in starts]
            folds = [
                Fold(f.op, result, start, tuple(map(self.of, f.values)))
                for f, result, start in zip(loop.folds, results, starts, strict=True)
            ]
            return results, [Loop(axis, body, tuple(folds), (), False, guard)]
        inner, out = inner_loop(loop), list[Statement]()
        carried, following = [Var("carry", (), v.dtype) for v in starts], list[Var]()
        for s in loop.body:
            if s is inner:
                following, made = self.remade(inner, shared, carried)
                out += made
            else:
                out.append(self.statement(s))
        after = [Var("carried", (), v.dtype) for v in starts]
        carries = tuple([Carry(*c) for c in zip(carried, starts, following, after, strict=True)])
        return after, [Loop(axis, tuple(out), (), carries, False, guard)]
