"""Uniformity analysis: the axes along which each value varies, which determine its unrolled copies and vector lanes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.summation import folds_transposed_loads, live_variables

VaryingAxes = tuple[Axis, ...]


class Uniformity(NamedTuple):
    """The result of the analysis.

    `axes_of`: the unrolled axes that a value varies along, outermost first. `splats`: the vector widths in which a
    value that is uniform over lanes is also used. `used`: the live variables. `whole`: the axes reduced across in one
    step. `chained`: the axes of folds whose steps are jammed, although one accumulator takes them in order.
    """

    axes_of: dict[Var, VaryingAxes]
    splats: dict[Var, set[int]]
    used: set[Var]
    whole: set[Axis]
    chained: set[Axis]

    def unrolls(self, loop: Loop) -> bool:
        """True where the steps of a tile are jammed, statement by statement; otherwise they run in order."""
        axis = loop.axis
        return axis.block > 1 and (loop.independent or axis.lanes > 1 or axis in self.whole or axis in self.chained)


def vector_lanes(axes: VaryingAxes) -> int:
    """Return the number of lanes of a value that varies along these axes; 0 for a scalar."""
    wide = [a.lanes for a in axes if a.lanes > 1]
    return wide[0] if wide else 0


def analyze_uniformity(kernel: Kernel) -> Uniformity:
    """Return the uniformity of a kernel's values."""
    return UniformityAnalysis(kernel).uniformity


def loop_guards(loop: Loop) -> list[Var]:
    """The guard of a loop, if it has one."""
    return [] if loop.guard is None else [loop.guard]


class UniformityAnalysis:
    """One walk over a kernel, repeated on a loop's body until the axes of its loop-carried values reach a fixed
    point."""

    def __init__(self, kernel: Kernel) -> None:
        found = live_variables(kernel)
        whole = {v.attr[1] for v in found if v.op == "across"}
        chained = {s.axis for s in walk(kernel.body) if isinstance(s, Loop) and folds_transposed_loads(s)}
        self.uniformity = Uniformity({}, {}, found, whole, chained)
        self.open: list[Axis] = []
        self.guards: list[Var] = []
        self.body(kernel.body)

    def union(self, values: Iterable[Var], axes: Iterable[Axis] = ()) -> VaryingAxes:
        found = set(axes).union(*[self.uniformity.axes_of[v] for v in values])
        return tuple([a for a in self.open if a in found])

    def along(self, index: Index, values: Iterable[Var]) -> VaryingAxes:
        return self.union([*index.values(), *values], [k for k in index.terms if isinstance(k, Axis)])

    def splat(self, lanes: int, values: Iterable[Var]) -> None:
        """Note that the uniform ones of these values are splat to vectors of this width."""
        for v in values:
            if lanes and not vector_lanes(self.uniformity.axes_of[v]):
                self.uniformity.splats.setdefault(v, set()).add(lanes)

    def body(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, Var):
                if s in self.uniformity.used:
                    self.value(s)
            elif isinstance(s, Store):
                guard = [*self.guards, *([] if s.guard is None else [s.guard])]
                self.splat(vector_lanes(self.along(s.index, [s.value, *guard])), [s.value, *guard])
            elif isinstance(s, Loop):
                self.loop(s)

    def value(self, v: Var) -> None:
        axes_of = self.uniformity.axes_of
        if v.op == "across":
            axis = v.attr[1]
            axes_of[v] = tuple([a for a in axes_of[v.args[0]] if a is not axis])
            self.splat(axis.lanes if axis.lanes > 1 else 0, v.args)
            return
        index = v.attr[1] if v.op == "load" else v.attr if v.op == "index" else None
        axes_of[v] = self.union(v.args) if index is None else self.along(index, v.args)
        if v.op == "load" and v.attr[1].values() and axes_of[v]:
            axes_of[v] = self.along(v.attr[1], [*v.args, *self.guards])
            self.splat(vector_lanes(axes_of[v]), self.guards)
        if v.op != "call":
            self.splat(vector_lanes(axes_of[v]), v.reads() if v.op == "index" else v.args)

    def loop(self, loop: Loop) -> None:
        axes_of, axis = self.uniformity.axes_of, loop.axis
        for c in loop.carries:
            axes_of[c.inside] = self.union([c.init, *([c.inside] if c.inside in axes_of else [])])
        abreast = self.uniformity.unrolls(loop)
        if abreast:
            self.open.append(axis)
        guards = [g for g in loop_guards(loop) if axes_of[g]]
        self.guards += guards
        self.body(loop.body)
        del self.guards[len(self.guards) - len(guards) :]
        grown = self.carries(loop)
        if abreast:
            self.open.pop()
        for f in loop.folds:
            axes_of[f.result] = self.union([f.init, *f.values, *loop_guards(loop)])
            lanes = axis.lanes if axis.lanes > 1 else vector_lanes(axes_of[f.result])
            self.splat(lanes, f.values)
            self.splat(vector_lanes(axes_of[f.result]), [f.init, *loop_guards(loop)])
        if grown:
            self.loop(loop)

    def carries(self, loop: Loop) -> bool:
        """Update the axes of loop-carried values; return True where they grew."""
        axes_of, grown = self.uniformity.axes_of, False
        for c in loop.carries:
            wider = self.union([c.init, c.next, c.inside, *loop_guards(loop)])
            grown = grown or wider != axes_of[c.inside]
            axes_of[c.inside] = axes_of[c.after] = wider
            self.splat(vector_lanes(wider), [c.init, c.next, *loop_guards(loop)])
        return grown
