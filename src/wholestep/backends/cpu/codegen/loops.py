"""Loop emission with unroll-and-jam: a loop of full steps, then a remainder with fewer copies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from wholestep.backends.cpu.codegen.adjacent_accesses import group_adjacent_stores, group_shared_loads
from wholestep.backends.cpu.codegen.emission_order import emits_on_demand, parts_to_emit
from wholestep.backends.cpu.codegen.llvm_types import llvm_type, simd_type
from wholestep.backends.cpu.codegen.loop_carried import FoldAccumulators, LoopCarried, end_iteration
from wholestep.backends.cpu.codegen.ops import OpEmitter
from wholestep.backends.cpu.codegen.row_loops import RowLoop, row_loop
from wholestep.backends.cpu.codegen.uniformity import vector_lanes
from wholestep.backends.cpu.codegen.unrolled_values import UnrolledValues
from wholestep.backends.cpu.codegen.writer import FunctionWriter, InductionVariables, LoopCopy
from wholestep.dims import Dim, Size
from wholestep.kernel.lang import Axis, Loop, Statement, Store, Var
from wholestep.kernel.summation import SUM_BLOCK, sum_blocks


class LoopState(NamedTuple):
    """The loop-carried state of a loop."""

    folded: list[FoldAccumulators]
    carried: list[LoopCarried]

    def all(self) -> list[FoldAccumulators | LoopCarried]:
        """The folds, then the carries."""
        return [*self.folded, *self.carried]


class LoopWriter:
    """Emits the body of a kernel."""

    def __init__(self, w: FunctionWriter, values: UnrolledValues) -> None:
        self.w = w
        self.values = values

    def body(self, body: tuple[Statement, ...], lazy: bool = False, last: bool = False) -> None:
        """Emit each statement in order; values only at their first use, if lazy.

        `last`: nothing behind the body uses its values.
        """
        run: list[Var | Store] = []
        for s in body:
            if isinstance(s, Loop):
                self.run(run)
                run = []
                self.loop(s)
            elif isinstance(s, Store) or (isinstance(s, Var) and s in self.w.uniformity.used):
                rereads = isinstance(s, Var) and s.op == "load" and s.attr[0].written
                if rereads and any(isinstance(x, Store) for x in run):
                    self.run(run)
                    run = []
                run.append(s)
        if lazy:
            for s in run:
                assert isinstance(s, Var)
                self.values.define_on_demand(s)
        else:
            self.run(run, last)

    def run(self, run: list[Var | Store], last: bool = False) -> None:
        """Emit straight-line statements for a few copies at a time, which limits register pressure."""
        rows = row_loop(self.values, run) if last else None
        if rows is not None:
            self.run_rows(rows, run)
            return
        for part in parts_to_emit(run):
            self.run_part(part)

    def run_part(self, run: list[Var | Store]) -> None:
        """Emit statements a few copies at a time; a reduction of a row emits the copies that it needs on demand."""
        w, values = self.w, self.values
        values.memory.shared = group_shared_loads(run)
        writing = [
            values.emitter(s) if isinstance(s, Var) else values.memory.store(*s) for s in group_adjacent_stores(run)
        ]
        found = {a for axes, _ in writing for a in axes}
        axes = tuple([a for a in w.scopes if a in found])
        count = w.copies(axes)
        size = w.copies_at_once(vector_lanes(axes))
        if count <= size:
            for its, write in writing:
                for copy in range(w.copies(its)):
                    write(copy)
            return
        projected = [(w.project(axes, its), set[int](), write) for its, write in writing]
        for start in range(0, count, size):
            for copies, done, write in projected:
                for copy in copies[start : start + size]:
                    if copy not in done:
                        done.add(copy)
                        write(copy)

    def run_rows(self, rows: RowLoop, run: list[Var | Store]) -> None:
        """Emit straight-line statements once, in a loop over the rows of a tile."""

        def some(step: str) -> None:
            rows.enter(step)
            self.run(run)

        self.repeat(LoopState([], []), "0", str(rows.count), 1, some, rows.motion, rows.rows)
        rows.leave()

    def loop(self, loop: Loop) -> None:
        """Emit a loop and define its results."""
        results = [*[f.result for f in loop.folds], *[c.after for c in loop.carries]]
        found = self.steps(loop) if loop.guard is None else self.guarded(loop, loop.guard, results)
        for result, names in zip(results, found, strict=True):
            self.values.define(result, names)

    def guarded(self, loop: Loop, guard: Var, results: list[Var]) -> list[list[str]]:
        """Emit a loop that is skipped where its guard holds for no copy; copies whose guard is false keep their initial
        values."""
        w, guards = self.w, self.values.memory.guards
        inits = [*[f.init for f in loop.folds], *[c.init for c in loop.carries]]
        starts = [self.values.names(x, w.uniformity.axes_of[r]) for x, r in zip(inits, results, strict=True)]
        ended: list[list[str]] = []

        def steps() -> None:
            differs = [guard] if self.values.known[guard].axes else []
            guards.extend(differs)
            ended.extend(self.steps(loop))
            if differs:
                guards.pop()
                facts = zip(results, ended, starts, strict=True)
                ended[:] = [self.select_results(r, guard, new, old) for r, new, old in facts]

        before, inside = w.block, w.when(self.any(guard), steps)
        found = []
        for r, new, old in zip(results, ended, starts, strict=True):
            kind = simd_type(llvm_type(r.dtype).register, vector_lanes(w.uniformity.axes_of[r]))
            pairs = zip(new, old, strict=True)
            found.append([w.let(f"phi {kind} [ {x}, %{inside} ], [ {y}, %{before} ]") for x, y in pairs])
        return found

    def any(self, guard: Var) -> str:
        """Emit the test of whether a guard holds for any copy and lane."""
        w, held = self.w, self.values.known[guard]
        found = held.name(0, 0)
        kind = simd_type("i1", held.lanes)
        for copy in range(1, len(held.names)):
            found = w.let(f"or {kind} {found}, {held.name(copy, 0)}")
        if held.lanes:
            bits = w.let(f"bitcast {kind} {found} to i{held.lanes}")
            found = w.let(f"icmp ne i{held.lanes} {bits}, 0")
        return found

    def select_results(self, result: Var, guard: Var, new: list[str], old: list[str]) -> list[str]:
        """Select the new values where the guard holds, the old ones elsewhere."""
        axes = self.w.uniformity.axes_of[result]
        at = OpEmitter(self.w, llvm_type(result.dtype), vector_lanes(axes))
        return [at.pick(g, x, y) for g, x, y in zip(self.values.names(guard, axes), new, old, strict=True)]

    def steps(self, loop: Loop) -> list[list[str]]:
        """Emit the steps of a loop; return the names of its folds, then of its carries."""
        axis = loop.axis
        if isinstance(axis.size, Dim):
            return self.symbolic_loop(loop, axis.size)
        full, rest = divmod(axis.extent, axis.block)
        tile = axis.tile if full else -(-rest // axis.lanes)
        folded = self.accumulators(loop, tile)
        held = LoopState(folded, [LoopCarried(self.values, loop, c) for c in loop.carries])
        if full > 1:
            self.counted_loop(loop, held, "0", str(full), axis.tile)
        elif full:
            self.iteration(loop, held, LoopCopy(axis, 0, axis.tile, axis.lanes, None))
        if rest:
            self.iteration(loop, held, self.remainder(axis))
        return [h.left() for h in held.all()]

    def accumulators(self, loop: Loop, tile: int) -> list[FoldAccumulators]:
        """Return the accumulators of a loop's folds: one for each step of a tile, or one that takes all in order."""
        facts = self.w.uniformity
        separate = facts.unrolls(loop) and loop.axis not in facts.chained
        return [FoldAccumulators(self.values, f, loop.axis.lanes, tile if separate else 0) for f in loop.folds]

    def symbolic_loop(self, loop: Loop, size: Dim) -> list[list[str]]:
        """Emit a loop of symbolic size: full tiles, then single steps."""
        w, axis = self.w, loop.axis
        folded = self.accumulators(loop, axis.tile)
        held = LoopState(folded, [LoopCarried(self.values, loop, c) for c in loop.carries])
        for start, end, count in split_symbolic_loop(axis, size, w.uniformity.unrolls(loop)):
            entering, before = [h.names for h in held.all()], w.block
            steps = partial(self.counted_loop, loop, held, w.sizes.name(start), w.sizes.name(end), count)
            inside = w.when(w.let(f"icmp slt i64 {w.sizes.name(start)}, {w.sizes.name(end)}"), steps)
            for h, old in zip(held.all(), entering, strict=True):
                pairs = zip(h.names, old, strict=True)
                h.names = [w.let(f"phi {h.type} [ {x}, %{inside} ], [ {y}, %{before} ]") for x, y in pairs]
        return [h.left() for h in held.all()]

    def symbolic_parallel_loop(self, loop: Loop, size: Dim) -> None:
        """Emit steps [%lo, %hi) of an outermost loop of symbolic size."""
        w, nothing = self.w, LoopState([], [])
        (_, full, tile), *rest = split_symbolic_loop(loop.axis, size, w.uniformity.unrolls(loop))
        whole = w.sizes.name(full)
        inside = w.let(f"icmp slt i64 %hi, {whole}")
        end = w.let(f"select i1 {inside}, i64 %hi, i64 {whole}")
        w.when(w.let(f"icmp slt i64 %lo, {end}"), lambda: self.counted_loop(loop, nothing, "%lo", end, tile))
        for start, stop, count in rest:
            # The thread whose share includes the last, partial step runs the whole remainder.
            last = w.let(f"icmp sgt i64 %hi, {whole}")
            some = w.let(f"icmp slt i64 {w.sizes.name(start)}, {w.sizes.name(stop)}")
            steps = partial(self.counted_loop, loop, nothing, w.sizes.name(start), w.sizes.name(stop), count)
            w.when(w.let(f"and i1 {last}, {some}"), steps)

    def parallel_loop(self, loop: Loop) -> None:
        """Emit steps [%lo, %hi) of the outermost loop."""
        w, axis = self.w, loop.axis
        if isinstance(axis.size, Dim):
            self.symbolic_parallel_loop(loop, axis.size)
            return
        (full, rest), nothing = divmod(axis.extent, axis.block), LoopState([], [])
        some = w.let("icmp slt i64 %lo, %hi")
        if full:
            inside = w.let(f"icmp slt i64 %hi, {full}")
            end = w.let(f"select i1 {inside}, i64 %hi, i64 {full}")
            steps = partial(self.counted_loop, loop, nothing, "%lo", end, axis.tile)
            if full == 1:
                steps = partial(self.iteration, loop, nothing, LoopCopy(axis, 0, axis.tile, axis.lanes, None))
            w.when(w.let(f"icmp slt i64 %lo, {end}"), steps)
        if rest:
            last = w.let(f"icmp sgt i64 %hi, {full}")
            w.when(w.let(f"and i1 {some}, {last}"), lambda: self.iteration(loop, nothing, self.remainder(axis)))

    def parallel_full_steps(self, loop: Loop) -> None:
        """Emit steps [%lo, %hi) of an outermost loop, all of them full."""
        steps = partial(self.counted_loop, loop, LoopState([], []), "%lo", "%hi", loop.axis.tile)
        self.w.when(self.w.let("icmp slt i64 %lo, %hi"), steps)

    def remainder(self, axis: Axis) -> LoopCopy:
        """Return the remainder of an axis after its full steps."""
        base = axis.extent - axis.extent % axis.block
        count = -(-(axis.extent - base) // axis.lanes)
        return LoopCopy(axis, base, count, axis.extent - base - (count - 1) * axis.lanes, None)

    def counted_loop(self, loop: Loop, held: LoopState, start: str, end: str, count: int) -> None:
        """Emit a loop over steps [start, end), at least one, each unrolled `count` times."""
        axis, motion = loop.axis, InductionVariables()
        scope = LoopCopy(axis, 0, count, axis.lanes, motion)

        def steps(start: str, end: str) -> None:
            self.repeat(held, start, end, 1, lambda _: self.iteration(loop, held, scope), motion, count * axis.lanes)

        known = (start + end).isdigit()
        blocks = sum_blocks(int(end) - int(start) if known else SUM_BLOCK**2 + 1)
        self.blocked_sums(held, start, end, blocks if any(h.is_sum for h in held.all()) else (), steps)

    def blocked_sums(
        self, held: LoopState, start: str, end: str, blocks: tuple[int, ...], steps: Callable[[str, str], None]
    ) -> None:
        """Emit steps [start, end) in blocks of these lengths, outermost first, whose sums start at zero and are added
        up: the rounding error grows with the steps of one level, not with their product."""
        if not blocks:
            steps(start, end)
            return
        w, sums = self.w, [h for h in held.all() if h.is_sum]

        def block(at: str) -> None:
            before = [h.names for h in sums]
            for h in sums:
                h.names = h.identities()
            last = w.let(f"add i64 {at}, {blocks[0]}")
            if not (start + end).isdigit() or (int(end) - int(start)) % blocks[0]:
                last = w.let(f"select i1 {w.let(f'icmp slt i64 {last}, {end}')}, i64 {last}, i64 {end}")
            self.blocked_sums(held, at, last, blocks[1:], steps)
            for h, names in zip(sums, before, strict=True):
                h.names = h.combined(names)

        self.repeat(held, start, end, blocks[0], block, InductionVariables(), 0)

    def repeat(
        self,
        held: LoopState,
        start: str,
        end: str,
        by: int,
        body: Callable[[str], None],
        motion: InductionVariables,
        each: int,
    ) -> None:
        """Emit a loop whose index goes from `start` in steps `by` below `end`, at least once; the offsets of `motion`
        grow by their strides times `each`."""
        w = self.w
        outside, w.lines, before = w.lines, [], w.block
        head, after = w.label(), w.label()
        entering = [h.names for h in held.all()]
        for h in held.all():
            h.names = [w.fresh() for _ in h.names]
        phis = [h.names for h in held.all()]
        w.block, at = head, w.fresh()
        body(at)
        inside, w.lines = w.lines, outside
        latch, w.block = w.block, before
        moving: list[tuple[int | str, str, str]] = [(by, at, start)]
        for stride, name in motion.offsets.items():
            # A stride that is an argument belongs to a plain loop, each of whose steps is one element.
            step = stride if isinstance(stride, str) else stride * each
            first = "0" if start == "0" else w.let(f"mul i64 {start}, {step}")
            moving.append((step, name, first))
        w.do(f"br label %{head}")
        w.enter(head)
        for _, name, first in moving:
            w.lines.append(f"  {name} = phi i64 [ {first}, %{before} ], [ {name}n, %{latch} ]")
        for h, names, firsts in zip(held.all(), phis, entering, strict=True):
            for name, first, last in zip(names, firsts, h.names, strict=True):
                w.lines.append(f"  {name} = phi {h.type} [ {first}, %{before} ], [ {last}, %{latch} ]")
        w.lines += motion.lines
        w.lines += inside
        w.block = latch
        for step, name, _ in moving:
            w.lines.append(f"  {name}n = add i64 {name}, {step}")
        w.do(f"br i1 {w.let(f'icmp slt i64 {at}n, {end}')}, label %{head}, label %{after}")
        w.enter(after)

    def iteration(self, loop: Loop, held: LoopState, scope: LoopCopy) -> None:
        """Emit one iteration, which may be a partial one."""
        w, lazy = self.w, emits_on_demand(loop)
        w.scopes[scope.axis] = scope
        turns = 1
        if not w.uniformity.unrolls(loop):
            turns, scope.count, scope.unrolled = scope.count, 1, False
        for _ in range(turns):
            for c in held.carried:
                c.enter()
            self.body(loop.body, lazy, not (loop.folds or loop.carries))
            end_iteration(held.carried, held.folded, scope)
            scope.base += 1
        del w.scopes[scope.axis]


def split_symbolic_loop(axis: Axis, size: Dim, abreast: bool) -> list[tuple[Size, Size, int]]:
    """Split a symbolic size into ranges (start, end, unroll factor): full tiles, half tiles where tiles are large,
    single steps.

    Lanes are chosen along an axis only where they divide its size.
    """
    found: list[tuple[Size, Size, int]] = []
    counts = [
        axis.tile,
        *([axis.tile // 2] if abreast and axis.tile >= MIN_HALVED_TILE and axis.tile % 2 == 0 else []),
        1,
    ]
    done: Size = 0
    for count in dict.fromkeys(counts):
        end = size // (count * axis.lanes)
        found.append((done // count, end, count))
        done = end * count
        if size % (count * axis.lanes) == 0:
            break
    return found


MIN_HALVED_TILE = 8
"""The smallest tile whose remainder is worth a loop of half tiles."""
