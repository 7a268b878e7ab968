"""Joined kernels: small kernels that one workgroup runs one after the other, with barriers between, in one launch.

kernel a: for i in 32: y[i] = ...        kernel b: for i in 16: for k in 32: fold s = add(y[k]); z[i] = s
-->
for t in 64 thread: (i = t, where that is below 32: y[i] = ...); barrier; (i = t, below 16: for k in 32: ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.backends.gpu.share_loops import THREADS, PlacedAxes, first_of_threads, index_below
from wholestep.dims import most
from wholestep.kernel.lang import (
    BOOL,
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
    walk,
)
from wholestep.kernel.verify import is_verified
from wholestep.kernel.workgroups import find_workgroup, item_trips
from wholestep.lower.cost.roofline import distinct_bytes

LAUNCH = 128
"""The trips of loops that one thread runs in about the time of a launch."""
NEAR = 1 << 15
"""The most bytes that a kernel of one workgroup touches: with more, its trips are bound by the latency of memory."""
TRIPS = 1024
"""The most trips of loops that one thread of a joined kernel runs for one of its kernels."""
KERNELS = 32
"""The most kernels of a joined kernel, since drivers compile long kernels slowly."""


class SmallKernel(NamedTuple):
    """A kernel that one workgroup runs whole: its threads share the steps of an axis of the grid, or the first thread
    runs it alone, or they are the kernel's own threads."""

    kernel: Kernel
    spread: Axis | None
    trips: int = 0
    """The trips of a thread."""


def joined_kernel(kernels: Sequence[SmallKernel], rows: Sequence[Axis] = (), shared: bool = True) -> Kernel:
    """One kernel that runs these one after the other, and has the buffers of all of them. It has one workgroup, or one
    for each step of `rows`, the first grid axes of each kernel; a work item in place of a workgroup unless `shared`."""
    thread = Axis("t", THREADS, thread=True)
    body: list[Statement] = []
    buffers: list[Buffer] = []
    scratch: list[Buffer] = []
    for small in kernels:
        part = KernelSpreading(small, thread if shared else None, rows).kernel()
        body += [*([Barrier()] if body and shared else []), *part.body]
        buffers += part.buffers
        scratch += part.scratch
    for axis in [*rows, *([thread] if shared else [])][::-1]:
        body = [Loop(axis, tuple(body))]
    return Kernel("joined", tuple(buffers), tuple(body), tuple(scratch))


def small_kernel(kernel: Kernel) -> SmallKernel | None:
    """The kernel with a mapping to one workgroup that takes few trips and is verified to be free of races; None where
    there is none, or where many workgroups are faster."""
    group = find_workgroup(kernel)
    if any(s.axis.symbolic for s in walk(kernel.body) if isinstance(s, Loop)):
        return None
    if [a.extent for a in group.threads] not in ([], [THREADS]):
        return None
    axes = sorted(group.grid, key=lambda a: -a.extent) if not group.threads else []
    if sum(map(most, distinct_bytes(kernel).values())) > NEAR:
        return None
    most_trips = min(TRIPS, item_trips(kernel) + LAUNCH) if group.threads else TRIPS
    for axis in axes or (None,):
        made = joined_kernel([SmallKernel(kernel, axis)])
        trips = item_trips(made)
        if trips <= most_trips and is_verified(made):
            return SmallKernel(kernel, axis, trips)
    return None


class KernelSpreading(PlacedAxes):
    """A deep copy of a kernel for the threads of one workgroup, or of one for each step of `rows`, which replace the
    first axes of its grid; or for one work item where there is no thread."""

    def __init__(self, small: SmallKernel, thread: Axis | None, rows: Sequence[Axis] = ()) -> None:
        super().__init__()
        self.given, self.spread, _ = kernel, *_ = small
        self.group, self.thread = find_workgroup(kernel), thread or Axis("t", 1)
        self.rows = dict(zip(self.group.grid, rows, strict=False))
        self.first = first_of_threads(self.thread)
        self.alone = thread is not None and self.spread is None and not self.group.threads
        axes = [s.axis for s in walk(kernel.body) if isinstance(s, Loop)]
        self.new |= {a: Axis(a.name, a.size, extent=a.extent, lanes=a.lanes, tile=a.tile) for a in axes}
        self.new |= {**dict.fromkeys(self.group.threads, self.thread), **self.rows}
        held = (*kernel.buffers, *kernel.scratch)
        self.new |= {b: Buffer(b.name, b.dtype, b.room, b.written, b.space) for b in held}

    def kernel(self) -> Kernel:
        """The kernel without the loop over the threads."""
        body = tuple(self.nest(self.given.body, (*self.group.grid, *self.group.threads)))
        if self.alone:  # a result may lie where an operand does, which no other thread reads then
            body = (*self.first, Loop(Axis("one", 1), body, guard=self.first[-1]))
        given, own = [tuple([self.of(b) for b in held]) for held in (self.given.buffers, self.given.scratch)]
        return Kernel(self.given.name, given, body, own)

    def nest(self, body: Sequence[Statement], around: Sequence[Axis]) -> list[Statement]:
        """The statements of one thread, which runs the loops of the grid or its share of them."""
        if not around:
            return list(self.body(body))
        *before, loop = body
        assert isinstance(loop, Loop)
        axis, out = loop.axis, list(self.body(before))
        if axis is self.spread:
            chunks = Axis(axis.name, -(-axis.extent // self.thread.extent))
            self.places[axis] = place = Index(0, {chunks: self.thread.extent, self.thread: 1})
            inner: Sequence[Statement] = self.nest(loop.body, around[1:])
            if axis.extent % self.thread.extent:
                inner = self.where(place, axis.extent, inner)
            return [*out, Loop(chunks, tuple(inner))]
        inner = self.nest(loop.body, around[1:])
        if axis in self.group.threads or axis in self.rows:
            return [*out, *inner]
        if self.group.threads:  # the next point reuses the shared memory
            return [*out, Loop(self.of(axis), (*inner, Barrier()), ordered=True)]
        return [*out, Loop(self.of(axis), tuple(inner))]

    def where(self, place: Index, end: int, body: Sequence[Statement]) -> list[Statement]:
        """Statements that run where an index is below its end."""
        test = index_below(place, end)
        return [*test, Loop(Axis("one", 1), tuple(body), guard=test[-1])]

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Store) and self.alone:
                out += self.stored_once(s)
            else:
                out.append(self.statement(s))
        return tuple(out)

    def stored_once(self, s: Store) -> list[Statement]:
        """A store with the first thread as part of its own guard, which the verifier reads."""
        made, (*_, first) = super().statement(s), self.first
        assert isinstance(made, Store)
        if made.guard is None:
            return [made._replace(guard=first)]
        both = Var("and", (first, made.guard), BOOL)
        return [both, made._replace(guard=both)]

    def var(self, s: Var) -> Var:
        made = super().var(s)
        return Var(s.op, made.args, s.dtype, made.attr) if made is s else made

    def statement(self, s: Statement) -> Statement:
        if isinstance(s, Barrier):
            return Barrier(s.late)
        if not isinstance(s, Loop):
            return super().statement(s)
        outside = [v for f in s.folds for v in (f.result,)] + [v for c in s.carries for v in (c.inside, c.after)]
        self.new |= {v: Var(v.op, (), v.dtype) for v in outside}
        body = self.body(s.body)
        folds = [Fold(f.op, self.of(f.result), self.of(f.init), tuple(map(self.of, f.values))) for f in s.folds]
        carries = [Carry(*map(self.of, c)) for c in s.carries]
        return Loop(self.of(s.axis), body, tuple(folds), tuple(carries), s.ordered, self.of(s.guard))
