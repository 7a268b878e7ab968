"""Collapsed folds: a fold over several axes that go through memory as one is a fold over one axis.

for i in 9: carry; for j in 32: fold v1 = add(x[32*i + j])    -->    for j in 288: fold v1 = add(x[j]) from v0
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from wholestep.backends.gpu.share_loops import PlacedAxes, inner_loop, is_sharable, sums_of
from wholestep.kernel.lang import Axis, Fold, Index, Kernel, Loop, Statement, Store, Var, walk


def collapse_folds(kernel: Kernel) -> Kernel:
    """The kernel with one loop for each nest of folds whose axes go through all memory as one."""
    if not any(isinstance(s, Loop) and s.carries and is_one_walk(s) for s in walk(kernel.body)):
        return kernel
    return replace(kernel, body=FoldCollapse().body(kernel.body))


def handing_loops(loop: Loop) -> list[Loop]:
    """The loops that carry the accumulator of a fold, outermost first."""
    out = [loop]
    while out[-1].carries:
        out.append(inner_loop(out[-1]))
    return out


def is_one_walk(loop: Loop) -> bool:
    """Test whether the loops of a fold have nothing between them, and a step of each is a round of the next one."""
    if not is_sharable(loop):
        return False
    loops = handing_loops(loop)
    axes = [s.axis for s in loops]
    indices = [s.index for s in walk(loops[-1].body) if isinstance(s, Store | Var)]
    return all(len(s.body) == 1 for s in loops[:-1]) and all(
        i.coefficient(outer) == i.coefficient(inner) * inner.extent for i in indices for outer, inner in pairwise(axes)
    )


class FoldCollapse(PlacedAxes):
    """A copy of a kernel's statements with such nests as one loop."""

    def statement(self, s: Statement) -> Statement:
        if not (isinstance(s, Loop) and s.carries and is_one_walk(s)):
            return super().statement(s)
        loops = handing_loops(s)
        axis = Axis(loops[-1].axis.name, math.prod([x.axis.extent for x in loops]))
        around = self.places  # another loop may be over the same axes
        self.places = around | {x.axis: Index() for x in loops} | {loops[-1].axis: Index(0, {axis: 1})}
        body, folds = self.body(loops[-1].body), list[Fold]()
        self.places = around
        for f, whole in zip(loops[-1].folds, sums_of(s), strict=True):
            folds.append(
                Fold(f.op, Var("fold", (), whole.result.dtype), self.of(whole.init), tuple(map(self.of, f.values)))
            )
            self.new[whole.result] = folds[-1].result
        return Loop(axis, body, tuple(folds))
