"""What a kernel's values vary along, found before a line is written: the copies of a value follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, walk

Axes = tuple[Axis, ...]


class Facts(NamedTuple):
    """`around`: the axes worked on side by side that a value varies along, outermost first. `splats`: for a value that
    is one scalar for all lanes, the numbers of lanes it is also wanted in. `used`: the values that anything needs.
    `whole`: the axes that something is reduced across in one step."""

    around: dict[Var, Axes]
    splats: dict[Var, set[int]]
    used: set[Var]
    whole: set[Axis]

    def abreast(self, loop: Loop) -> bool:
        """Whether the steps of a tile are worked on side by side; otherwise one after the other, in order."""
        axis = loop.axis
        alone = not (loop.folds or loop.carries or loop.ordered)
        return axis.block > 1 and (alone or axis.lanes > 1 or axis in self.whole)


def lanes_of(axes: Axes) -> int:
    """How many lanes a value has that varies along these axes; 0 where it is a scalar."""
    return next((a.lanes for a in axes if a.lanes > 1), 0)


def facts(kernel: Kernel) -> Facts:
    """The facts of a kernel."""
    return Survey(kernel).facts


def reads_of(loop: Loop) -> list[Var]:
    """What the loop itself reads, besides its body."""
    folds = [v for f in loop.folds for v in (f.init, *f.values)]
    return [*folds, *[v for c in loop.carries for v in (c.init, c.next)], *asked(loop)]


def asked(loop: Loop) -> list[Var]:
    """The guard of a loop, if it has one."""
    return [] if loop.guard is None else [loop.guard]


def used(kernel: Kernel) -> set[Var]:
    """The values that stores and loops need."""
    found: set[Var] = set()
    waiting: list[Var] = []
    for s in walk(kernel.body):
        if isinstance(s, Store):
            waiting += [s.value, *s.index.values(), *([] if s.guard is None else [s.guard])]
        elif isinstance(s, Loop):
            waiting += reads_of(s)
    while waiting:
        v = waiting.pop()
        if v not in found:
            found.add(v)
            waiting += v.reads()
    return found


class Survey:
    """One walk over a kernel; the body of a loop again while what it carries turns out to vary along more axes."""

    def __init__(self, kernel: Kernel) -> None:
        found = used(kernel)
        self.facts = Facts({}, {}, found, {v.attr[1] for v in found if v.op == "across"})
        self.open: list[Axis] = []
        self.guards: list[Var] = []
        self.body(kernel.body)

    def union(self, values: Iterable[Var], axes: Iterable[Axis] = ()) -> Axes:
        found = {a for v in values for a in self.facts.around[v]}.union(axes)
        return tuple([a for a in self.open if a in found])

    def along(self, index: Index, values: Iterable[Var]) -> Axes:
        return self.union([*index.values(), *values], [k for k in index.terms if isinstance(k, Axis)])

    def splat(self, lanes: int, values: Iterable[Var]) -> None:
        """Vectors of so many lanes are made of these values."""
        for v in values:
            if lanes and not lanes_of(self.facts.around[v]):
                self.facts.splats.setdefault(v, set()).add(lanes)

    def body(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, Var):
                if s in self.facts.used:
                    self.value(s)
            elif isinstance(s, Store):
                guard = [*self.guards, *([] if s.guard is None else [s.guard])]
                self.splat(lanes_of(self.along(s.index, [s.value, *guard])), [s.value, *guard])
            else:
                self.loop(s)

    def value(self, v: Var) -> None:
        around = self.facts.around
        if v.op == "across":
            axis = v.attr[1]
            around[v] = tuple([a for a in around[v.args[0]] if a is not axis])
            self.splat(axis.lanes if axis.lanes > 1 else 0, v.args)
            return
        index = v.attr[1] if v.op == "load" else v.attr if v.op == "index" else Index()
        around[v] = self.along(index, v.args)
        if v.op == "load" and index.values() and around[v]:
            around[v] = self.along(index, [*v.args, *self.guards])
            self.splat(lanes_of(around[v]), self.guards)
        if v.op != "call":
            self.splat(lanes_of(around[v]), v.reads() if v.op == "index" else v.args)

    def loop(self, loop: Loop) -> None:
        around, axis = self.facts.around, loop.axis
        for c in loop.carries:
            around[c.inside] = self.union([c.init, *([c.inside] if c.inside in around else [])])
        abreast = self.facts.abreast(loop)
        if abreast:
            self.open.append(axis)
        guards = [g for g in asked(loop) if around[g]]
        self.guards += guards
        self.body(loop.body)
        del self.guards[len(self.guards) - len(guards) :]
        grown = self.carries(loop)
        if abreast:
            self.open.pop()
        for f in loop.folds:
            around[f.result] = self.union([f.init, *f.values, *asked(loop)])
            lanes = axis.lanes if axis.lanes > 1 else lanes_of(around[f.result])
            self.splat(lanes, f.values)
            self.splat(lanes_of(around[f.result]), [f.init, *asked(loop)])
        if grown:
            self.loop(loop)

    def carries(self, loop: Loop) -> bool:
        """Note what the carries vary along; whether that is more than it was."""
        around, grown = self.facts.around, False
        for c in loop.carries:
            wider = self.union([c.init, c.next, c.inside, *asked(loop)])
            grown = grown or wider != around[c.inside]
            around[c.inside] = around[c.after] = wider
            self.splat(lanes_of(wider), [c.init, c.next, *asked(loop)])
        return grown
