"""Workgroups for columns: folds down the columns of a matrix, each workgroup with some adjacent columns.

for j in 768: for i in 8192: fold v = add(x[768*i + j]); y[j] = v
-->
for J in 48: for threads (r in 16, c in 16): for k in 512: fold part = add(x[768*(16*k + r) + 16*J + c]);
    s[16*r + c] = part; barrier; fold v = add(s[16*u + c]) over u in 16; y[16*J + c] = v where r is 0
"""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.gpu.placed_values import PlacedValues
from wholestep.backends.gpu.share_loops import is_sharable, sums_of
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import I64, Axis, Index, Kernel, Loop, Store, Var, neutral_element, walk
from wholestep.kernel.workgroups import find_workgroup

COLUMNS = 16
"""The adjacent threads of a workgroup, which read one row of memory."""
LEAST = 256
"""The least steps of a fold down a column."""


def share_columns(kernel: Kernel, enough: int, rows: int) -> Kernel | None:
    """The kernel with workgroups of `rows` rows of threads that share folds down columns; None where it has no such
    folds, or at least `enough` points, which keep a card busy as work items."""
    group = find_workgroup(kernel)
    loops = [s for s in group.body if isinstance(s, Loop)]
    if group.threads or kernel.scratch or len(loops) != 1 or not group.grid or not is_sharable(loops[0]):
        return None
    (loop,), column = loops, group.grid[-1]
    whole = column.extent % COLUMNS == 0 and loop.axis.extent % rows == 0 and not column.symbolic
    if group.points >= enough or not whole or loop.axis.extent < LEAST or loop.carries:
        return None
    inner = list(walk(loop.body))
    if any(not isinstance(s, Var) for s in inner) or not goes_down(inner, loop.axis, column):
        return None
    return ColumnSharing(kernel, loop, rows).kernel()


def goes_down(body: Sequence[object], row: Axis, column: Axis) -> bool:
    """Test whether loads go through memory element by element along columns, and some do not along rows."""
    indices = [s.index for s in body if isinstance(s, Var) and s.op == "load"]
    along = all(i.coefficient(column) in (0, 1) for i in indices)
    return along and any(i.coefficient(column) == 1 and i.coefficient(row) > 1 for i in indices)


class ColumnSharing:
    """A kernel whose workgroups share the rows of some columns."""

    def __init__(self, kernel: Kernel, loop: Loop, rows: int) -> None:
        self.given, self.loop, self.rows = kernel, loop, rows
        self.group = find_workgroup(kernel)
        self.b = KernelBuilder(kernel.name)
        self.b.buffers = list(kernel.buffers)
        self.column = self.group.grid[-1]
        self.block = Axis(self.column.name, self.column.extent // COLUMNS)
        self.down, self.across = Axis("tr", rows, thread=True), Axis("tc", COLUMNS, thread=True)
        self.place = Index(0, {self.block: COLUMNS, self.across: 1})

    def kernel(self) -> Kernel:
        """The kernel of workgroups."""
        with self.b, self.b.loops([*self.group.grid[:-1], self.block, self.down, self.across]):
            self.of_thread()
        made = self.b.kernel()
        return Kernel(self.given.name, self.given.buffers, made.body, made.scratch)

    def of_thread(self) -> None:
        """Write a thread's partial folds, their combination, and the epilogue, which the first row of threads runs."""
        b, loop, places = self.b, self.loop, {self.column: self.place}
        rows = Axis(loop.axis.name, loop.axis.extent // self.rows)
        sums = sums_of(loop)
        neutral = [b.constant(neutral_element(s.op, s.result.dtype), s.result.dtype) for s in sums]
        with b.loop(rows) as summed:
            inside = PlacedValues(b, {**places, loop.axis: Index(0, {rows: self.rows, self.down: 1})})
            values = [tuple([inside.of(v) for v in f.values]) for f in loop.folds]
            parts = [summed.fold(f.op, *v, init=n) for f, v, n in zip(loop.folds, values, neutral, strict=True)]
        buffers = [b.buffer("s", part.dtype, self.rows * COLUMNS, True, "shared") for part in parts]
        for buffer, part in zip(buffers, parts, strict=True):
            b.store(buffer, Index(0, {self.down: COLUMNS, self.across: 1}), part)
        b.barrier()
        outside = PlacedValues(b, places)
        inits = [outside.of(s.init) for s in sums]
        each = Axis("u", self.rows)
        with b.loop(each) as together:
            loaded = [b.load(buffer, Index(0, {each: COLUMNS, self.across: 1})) for buffer in buffers]
            for s, x, init in zip(sums, loaded, inits, strict=True):
                outside.known[s.result] = together.fold("add" if s.op == "fma" else s.op, x, init=init)
        self.finish(outside)

    def finish(self, values: PlacedValues) -> None:
        """Write the kernel's epilogue, which runs once for each column."""
        b = self.b
        first = b.op("eq", b.index(Index(0, {self.down: 1})), b.constant(0, I64))
        for s in self.group.body[self.group.body.index(self.loop) + 1 :]:
            if isinstance(s, Var):
                values.of(s)
            elif isinstance(s, Store):
                guard = first if s.guard is None else b.op("and", first, values.of(s.guard))
                b.store(s.buffer, values.at(s.index), values.of(s.value), guard)
