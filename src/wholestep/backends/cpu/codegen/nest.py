"""Loops: full steps in a loop, the rest once more with fewer copies; what a loop folds and carries along."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.backends.cpu.codegen.facts import lanes_of
from wholestep.backends.cpu.codegen.forms import form, typed
from wholestep.backends.cpu.codegen.held import Carried, Folded, step
from wholestep.backends.cpu.codegen.scalars import At
from wholestep.backends.cpu.codegen.values import Values
from wholestep.backends.cpu.codegen.writer import Motion, Scope, Writer
from wholestep.dims import Dim, Size
from wholestep.kernel.lang import Axis, Loop, Statement, Store, Var


class Helds(NamedTuple):
    """What goes from step to step of a loop."""

    folded: list[Folded]
    carried: list[Carried]

    def all(self) -> list[Folded | Carried]:
        """The folds, then the carries."""
        return [*self.folded, *self.carried]


class Nest:
    """Writes the body of a kernel."""

    def __init__(self, w: Writer, values: Values) -> None:
        self.w = w
        self.values = values

    def body(self, body: tuple[Statement, ...], lazy: bool = False) -> None:
        """Each statement in order; values only when they are asked for, if lazy."""
        run: list[Var | Store] = []
        for s in body:
            if isinstance(s, Loop):
                self.run(run)
                run = []
                self.loop(s)
            elif isinstance(s, Store) or s in self.w.facts.used:
                if rereads(s) and any(isinstance(x, Store) for x in run):
                    self.run(run)
                    run = []
                run.append(s)
        if lazy:
            for s in run:
                assert isinstance(s, Var)
                self.values.prepare(s)
        else:
            self.run(run)

    def run(self, run: list[Var | Store]) -> None:
        """Statements between loops: each for some copies at a time, so that what is at work fits the registers."""
        w, values = self.w, self.values
        writing = [values.written(s) if isinstance(s, Var) else values.memory.store(*s) for s in together(run)]
        found = {a for axes, _ in writing for a in axes}
        axes = tuple([a for a in w.scopes if a in found])
        count = w.copies(axes)
        size = w.abreast(lanes_of(axes))
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

    def loop(self, loop: Loop) -> None:
        """A loop, all of it."""
        results = [*[f.result for f in loop.folds], *[c.after for c in loop.carries]]
        found = self.steps(loop) if loop.guard is None else self.guarded(loop, loop.guard, results)
        for result, names in zip(results, found, strict=True):
            self.values.define(result, names)

    def guarded(self, loop: Loop, guard: Var, results: list[Var]) -> list[list[str]]:
        """A loop that is passed by where its guard holds for no copy; the others keep what they started from."""
        w, guards = self.w, self.values.memory.guards
        inits = [*[f.init for f in loop.folds], *[c.init for c in loop.carries]]
        starts = [self.values.names(x, w.facts.around[r]) for x, r in zip(inits, results, strict=True)]
        before, after = w.block, self.branch(self.any(guard))
        differs = [guard] if self.values.known[guard].axes else []
        guards += differs
        ended = self.steps(loop)
        if differs:
            guards.pop()
            ended = [self.kept(r, guard, new, old) for r, new, old in zip(results, ended, starts, strict=True)]
        inside = w.block
        self.join(after)
        return [
            [self.meet(r, (x, inside), (y, before)) for x, y in zip(new, old, strict=True)]
            for r, new, old in zip(results, ended, starts, strict=True)
        ]

    def meet(self, result: Var, *ways: tuple[str, str]) -> str:
        """What a value is that came by one of several blocks."""
        kind = typed(form(result.dtype).register, lanes_of(self.w.facts.around[result]))
        return self.w.let(f"phi {kind} " + ", ".join(f"[ {name}, %{label} ]" for name, label in ways))

    def any(self, guard: Var) -> str:
        """Whether a guard holds anywhere here."""
        w, held = self.w, self.values.known[guard]
        found = held.name(0, 0)
        kind = typed("i1", held.lanes)
        for copy in range(1, len(held.names)):
            found = w.let(f"or {kind} {found}, {held.name(copy, 0)}")
        if held.lanes:
            bits = w.let(f"bitcast {kind} {found} to i{held.lanes}")
            found = w.let(f"icmp ne i{held.lanes} {bits}, 0")
        return found

    def kept(self, result: Var, guard: Var, new: list[str], old: list[str]) -> list[str]:
        """What a guarded loop leaves in its copies."""
        axes = self.w.facts.around[result]
        at = At(self.w, form(result.dtype), lanes_of(axes))
        return [at.pick(g, x, y) for g, x, y in zip(self.values.names(guard, axes), new, old, strict=True)]

    def steps(self, loop: Loop) -> list[list[str]]:
        """The steps of a loop; the names of what it folds, then of what it carries."""
        axis = loop.axis
        if isinstance(axis.size, Dim):
            return self.counted(loop, axis.size)
        full, rest = divmod(axis.extent, axis.block)
        tile = axis.tile if full else -(-rest // axis.lanes)
        abreast = self.w.facts.abreast(loop)
        folded = [Folded(self.values, f, axis.lanes, tile if abreast else 0) for f in loop.folds]
        held = Helds(folded, [Carried(self.values, c) for c in loop.carries])
        if full > 1:
            self.repeat(loop, held, "0", str(full), axis.tile)
        elif full:
            self.once(loop, held, Scope(axis, 0, axis.tile, axis.lanes, None))
        if rest:
            self.once(loop, held, self.remainder(axis))
        return [h.left() for h in held.all()]

    def counted(self, loop: Loop, size: Dim) -> list[list[str]]:
        """The steps of a loop whose size is given when the program is called: full ones, then one by one."""
        w, axis = self.w, loop.axis
        tile = axis.tile if w.facts.abreast(loop) else 0
        folded = [Folded(self.values, f, axis.lanes, tile) for f in loop.folds]
        held = Helds(folded, [Carried(self.values, c) for c in loop.carries])
        for start, end, count in ranges(axis, size, w.facts.abreast(loop)):
            entering, before = [h.names for h in held.all()], w.block
            after = self.branch(w.let(f"icmp slt i64 {w.sizes.name(start)}, {w.sizes.name(end)}"))
            self.repeat(loop, held, w.sizes.name(start), w.sizes.name(end), count)
            inside = w.block
            self.join(after)
            for h, old in zip(held.all(), entering, strict=True):
                pairs = zip(h.names, old, strict=True)
                h.names = [w.let(f"phi {h.type} [ {x}, %{inside} ], [ {y}, %{before} ]") for x, y in pairs]
        return [h.left() for h in held.all()]

    def shared_counted(self, loop: Loop, size: Dim) -> None:
        """The outermost loop from step %lo to before step %hi, where its size is given when the program is called."""
        w, nothing = self.w, Helds([], [])
        (_, full, tile), *rest = ranges(loop.axis, size, w.facts.abreast(loop))
        whole = w.sizes.name(full)
        inside = w.let(f"icmp slt i64 %hi, {whole}")
        end = w.let(f"select i1 {inside}, i64 %hi, i64 {whole}")
        after = self.branch(w.let(f"icmp slt i64 %lo, {end}"))
        self.repeat(loop, nothing, "%lo", end, tile)
        self.join(after)
        for start, stop, count in rest:
            # Whoever has the last step, which is no full one, has all that is left over.
            last = w.let(f"icmp sgt i64 %hi, {whole}")
            some = w.let(f"icmp slt i64 {w.sizes.name(start)}, {w.sizes.name(stop)}")
            after = self.branch(w.let(f"and i1 {last}, {some}"))
            self.repeat(loop, nothing, w.sizes.name(start), w.sizes.name(stop), count)
            self.join(after)

    def shared(self, loop: Loop) -> None:
        """The outermost loop, from step %lo to before step %hi."""
        w, axis = self.w, loop.axis
        if isinstance(axis.size, Dim):
            self.shared_counted(loop, axis.size)
            return
        full, rest = divmod(axis.extent, axis.block)
        some = w.let("icmp slt i64 %lo, %hi")
        if full:
            inside = w.let(f"icmp slt i64 %hi, {full}")
            end = w.let(f"select i1 {inside}, i64 %hi, i64 {full}")
            after = self.branch(w.let(f"icmp slt i64 %lo, {end}"))
            if full > 1:
                self.repeat(loop, Helds([], []), "%lo", end, axis.tile)
            else:
                self.once(loop, Helds([], []), Scope(axis, 0, axis.tile, axis.lanes, None))
            self.join(after)
        if rest:
            last = w.let(f"icmp sgt i64 %hi, {full}")
            after = self.branch(w.let(f"and i1 {some}, {last}"))
            self.once(loop, Helds([], []), self.remainder(axis))
            self.join(after)

    def free(self, loop: Loop) -> None:
        """The outermost loop, from step %lo to before step %hi, all of them full."""
        after = self.branch(self.w.let("icmp slt i64 %lo, %hi"))
        self.repeat(loop, Helds([], []), "%lo", "%hi", loop.axis.tile)
        self.join(after)

    def branch(self, condition: str) -> str:
        """Go on only where a condition holds; the label of what comes after."""
        inside, after = self.w.label(), self.w.label()
        self.w.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.w.enter(inside)
        return after

    def join(self, after: str) -> None:
        self.w.do(f"br label %{after}")
        self.w.enter(after)

    def remainder(self, axis: Axis) -> Scope:
        """What the full steps of an axis leave over."""
        base = axis.extent - axis.extent % axis.block
        count = -(-(axis.extent - base) // axis.lanes)
        return Scope(axis, base, count, axis.extent - base - (count - 1) * axis.lanes, None)

    def repeat(self, loop: Loop, held: Helds, start: str, end: str, count: int) -> None:
        """Steps with so many copies side by side, from start to before end, at least one."""
        w, axis = self.w, loop.axis
        each = count * axis.lanes
        outside, w.lines, before = w.lines, [], w.block
        head, after = w.label(), w.label()
        entering = [h.names for h in held.all()]
        for h in held.all():
            h.names = [w.fresh() for _ in h.names]
        phis = [h.names for h in held.all()]
        w.block, motion = head, Motion()
        self.once(loop, held, Scope(axis, 0, count, axis.lanes, motion))
        body, w.lines = w.lines, outside
        latch, w.block = w.block, before
        at = w.fresh()
        moving = [(1, at, start)]
        for stride, name in motion.offsets.items():
            first = "0" if start == "0" else w.let(f"mul i64 {start}, {stride * each}")
            moving.append((stride * each, name, first))
        w.do(f"br label %{head}")
        w.enter(head)
        for _, name, first in moving:
            w.lines.append(f"  {name} = phi i64 [ {first}, %{before} ], [ {name}n, %{latch} ]")
        for h, names, firsts in zip(held.all(), phis, entering, strict=True):
            for name, first, last in zip(names, firsts, h.names, strict=True):
                w.lines.append(f"  {name} = phi {h.type} [ {first}, %{before} ], [ {last}, %{latch} ]")
        w.lines += motion.lines
        w.lines += body
        w.block = latch
        for by, name, _ in moving:
            w.lines.append(f"  {name}n = add i64 {name}, {by}")
        w.do(f"br i1 {w.let(f'icmp slt i64 {at}n, {end}')}, label %{head}, label %{after}")
        w.enter(after)

    def once(self, loop: Loop, held: Helds, scope: Scope) -> None:
        """One step of a loop, which may be the last and not full."""
        w, lazy = self.w, lazily(loop)
        w.scopes[scope.axis] = scope
        turns = 1
        if not w.facts.abreast(loop):
            turns, scope.count, scope.abreast = scope.count, 1, False
        for _ in range(turns):
            for c in held.carried:
                c.enter()
            self.body(loop.body, lazy)
            step(held.carried, held.folded, scope)
            scope.base += 1
        del w.scopes[scope.axis]


def ranges(axis: Axis, size: Dim, abreast: bool) -> list[tuple[Size, Size, int]]:
    """The steps over a symbolic size, from one to before another, and how many copies each has side by side: full
    tiles, half a tile where that is many, then one by one.

    Lanes are chosen along an axis only where they divide its size.
    """
    found: list[tuple[Size, Size, int]] = []
    counts = [axis.tile, *([axis.tile // 2] if abreast and axis.tile >= HALVED and axis.tile % 2 == 0 else []), 1]
    done: Size = 0
    for count in dict.fromkeys(counts):
        end = size // (count * axis.lanes)
        found.append((done // count, end, count))
        done = end * count
        if size % (count * axis.lanes) == 0:
            break
    return found


HALVED = 8
"""From so many copies side by side on what a loop leaves over is worth a step of half as many."""


def together(run: list[Var | Store]) -> list[Var | tuple[Store, ...]]:
    """The run with each two stores as one that put values beside each other, such as the parts of a complex number."""
    found: list[Var | tuple[Store, ...]] = []
    for s in run:
        last = found[-1] if found else None
        if isinstance(s, Var):
            found.append(s)
        elif isinstance(last, tuple) and len(last) == 1 and beside(last[0], s):
            found[-1] = (last[0], s)
        else:
            found.append((s,))
    return found


def beside(x: Store, y: Store) -> bool:
    """Whether y stores to the place after x's."""
    return x.buffer is y.buffer and x.guard is None and y.guard is None and y.index == x.index + 1


def rereads(s: Var | Store) -> bool:
    """Whether a statement loads what the kernel may have stored."""
    return isinstance(s, Var) and s.op == "load" and s.attr[0].written


def lazily(loop: Loop) -> bool:
    """Whether a body only computes what its loop folds: its values are then written next to where they are taken in."""
    pure = all(isinstance(s, Var) for s in loop.body)
    return pure and bool(loop.folds) and not (loop.carries or loop.ordered or deep(loop.body))


DEEP = 80
"""A chain of more values than this is written in order: one that asks for another is a level of a recursion."""


def deep(body: tuple[Statement, ...]) -> bool:
    """Whether values of a body are made of each other in such a chain."""
    if len(body) <= DEEP:
        return False
    depth: dict[Var, int] = {}
    for s in body:
        if isinstance(s, Var):
            depth[s] = 1 + max([depth.get(x, 0) for x in s.args], default=0)
    return max(depth.values(), default=0) > DEEP
