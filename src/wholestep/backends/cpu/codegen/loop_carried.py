"""Loop-carried values and reduction accumulators."""

from __future__ import annotations

from wholestep.backends.cpu.codegen.llvm_types import llvm_type, simd_type
from wholestep.backends.cpu.codegen.reduction import Reducer
from wholestep.backends.cpu.codegen.uniformity import vector_lanes
from wholestep.backends.cpu.codegen.unrolled_values import UnrolledValues
from wholestep.backends.cpu.codegen.writer import LoopCopy
from wholestep.kernel.lang import Carry, Fold


class LoopCarried:
    """A loop-carried value: its copies get new names in each iteration."""

    def __init__(self, values: UnrolledValues, carry: Carry) -> None:
        self.values = values
        self.carry = carry
        self.axes = values.w.uniformity.axes_of[carry.inside]
        self.type = simd_type(llvm_type(carry.inside.dtype).register, vector_lanes(self.axes))
        self.names = values.names(carry.init, self.axes)

    def enter(self) -> None:
        """Define the value at the start of an iteration."""
        self.values.define(self.carry.inside, self.names)

    def left(self) -> list[str]:
        """Return the names of the copies after the loop."""
        return self.names


class FoldAccumulators:
    """The accumulators of a fold.

    With a `tile` each of the unrolled steps, and each lane, has an accumulator of its own, and a tree combines them
    after the loop; otherwise one accumulator takes the values in order.
    """

    def __init__(self, values: UnrolledValues, fold: Fold, wide: int, tile: int) -> None:
        w = values.w
        self.values = values
        self.fold = fold
        self.tile = tile
        self.axes = w.uniformity.axes_of[fold.result]
        self.across = wide > 1 and tile > 0
        self.lanes = wide if self.across else vector_lanes(self.axes)
        self.type = simd_type(llvm_type(fold.result.dtype).register, self.lanes)
        self.reducer = Reducer(w, fold.op, fold.result.dtype)
        neutral = [self.reducer.identity(self.lanes)] * (tile * w.copies(self.axes))
        self.names = neutral if tile else values.names(fold.init, self.axes)

    def left(self) -> list[str]:
        """Return the names of the copies after the loop, combined by a tree."""
        if not self.tile:
            return self.names
        rows = [self.names[i : i + self.tile] for i in range(0, len(self.names), self.tile)]
        found = [self.reducer.reduce_tree(self.lanes, row) for row in rows]
        if self.across:
            found = [self.reducer.reduce_lanes(self.lanes, x) for x in found]
        inits = self.values.names(self.fold.init, self.axes)
        lanes = vector_lanes(self.axes)
        return [self.reducer.combine(lanes, a, b) for a, b in zip(inits, found, strict=True)]


class FoldUpdate:
    """The update of a fold by the values of one iteration."""

    def __init__(self, held: FoldAccumulators, scope: LoopCopy) -> None:
        w, tile, n = held.values.w, held.tile, scope.count if scope.unrolled else 1
        axes = (*held.axes, scope.axis) if scope.unrolled else held.axes
        self.held = held
        copies = range(w.copies(axes))
        self.accumulators = [c // n * tile + c % n if tile else c // n for c in copies]
        self.live_lanes = w.live_lanes(axes) if held.across else [held.lanes] * len(copies)
        self.operands = [(x, w.project(axes, x.axes)) for x in (held.values.known[v] for v in held.fold.values)]
        held.names = list(held.names)

    def take(self, copy: int) -> None:
        """Emit the update of one copy."""
        held, lanes, place = self.held, self.held.lanes, self.accumulators[copy]
        old = held.names[place]
        new = held.reducer.accumulate(lanes, old, *[x.name(copies[copy], lanes) for x, copies in self.operands])
        if self.live_lanes[copy] < lanes:
            new = held.reducer.select_lanes(lanes, self.live_lanes[copy], new, old)
        held.names[place] = new


def end_iteration(carried: list[LoopCarried], folded: list[FoldAccumulators], scope: LoopCopy) -> None:
    """Update the accumulators, interleaving the copies of all folds; carries change all at once."""
    following = [c.values.names(c.carry.next, c.axes) for c in carried]
    for c, names in zip(carried, following, strict=True):
        c.names = names
    taking = [FoldUpdate(f, scope) for f in folded]
    for copy in range(max([len(t.accumulators) for t in taking], default=0)):
        for t in taking:
            if copy < len(t.accumulators):
                t.take(copy)
