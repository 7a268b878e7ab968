"""Loop-carried values and reduction accumulators."""

from __future__ import annotations

from wholestep.backends.cpu.codegen.llvm_types import llvm_type, simd_type
from wholestep.backends.cpu.codegen.reduction import Reducer
from wholestep.backends.cpu.codegen.uniformity import vector_lanes
from wholestep.backends.cpu.codegen.unrolled_values import UnrolledValues
from wholestep.backends.cpu.codegen.writer import LoopCopy
from wholestep.kernel.lang import Carry, Fold, Loop
from wholestep.kernel.summation import continues_sum, is_float_sum


class LoopCarried:
    """A loop-carried value: its copies get new names in each iteration."""

    def __init__(self, values: UnrolledValues, loop: Loop, carry: Carry) -> None:
        self.values = values
        self.carry = carry
        self.axes = values.w.uniformity.axes_of[carry.inside]
        self.type = simd_type(llvm_type(carry.inside.dtype).register, vector_lanes(self.axes))
        self.names = self.inits = values.names(carry.init, self.axes)
        self.is_sum = continues_sum(loop, carry)
        self.reducer = Reducer(values.w, "add", carry.inside.dtype)
        if self.is_sum:
            self.names = self.identities()

    def identities(self) -> list[str]:
        """Return zero for each copy of a sum."""
        return [self.reducer.identity(vector_lanes(self.axes))] * len(self.names)

    def combined(self, before: list[str]) -> list[str]:
        """Return the copies of a sum added to those of the blocks before."""
        lanes = vector_lanes(self.axes)
        return [self.reducer.combine(lanes, x, y) for x, y in zip(before, self.names, strict=True)]

    def enter(self) -> None:
        """Define the value at the start of an iteration."""
        self.values.define(self.carry.inside, self.names)

    def left(self) -> list[str]:
        """Return the names of the copies after the loop; a sum is added to its initial value at the end."""
        return self.combined(self.inits) if self.is_sum else self.names


class FoldAccumulators:
    """The accumulators of a fold.

    With a `tile` each of the unrolled steps, and each lane, has an accumulator of its own, and a tree combines them
    after the loop; otherwise one accumulator takes the values in order. A floating-point sum starts at zero and is
    added to its initial value at the end, so that a sum over several loops is one of partial sums.
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
        self.is_sum = is_float_sum(fold)
        self.inits = values.names(fold.init, self.axes)
        neutral = [self.reducer.identity(self.lanes)] * (max(tile, 1) * w.copies(self.axes))
        self.names = neutral if tile or self.is_sum else self.inits

    def identities(self) -> list[str]:
        """Return zero for each accumulator of a sum."""
        return [self.reducer.identity(self.lanes)] * len(self.names)

    def combined(self, before: list[str]) -> list[str]:
        """Return the accumulators of a sum added to those of the blocks before."""
        return [self.reducer.combine(self.lanes, x, y) for x, y in zip(before, self.names, strict=True)]

    def left(self) -> list[str]:
        """Return the names of the copies after the loop, combined by a tree."""
        if not self.tile:
            return self.combined(self.inits) if self.is_sum else self.names
        rows = [self.names[i : i + self.tile] for i in range(0, len(self.names), self.tile)]
        found = [self.reducer.reduce_tree(self.lanes, row) for row in rows]
        if self.across:
            found = [self.reducer.reduce_lanes(self.lanes, x) for x in found]
        lanes = vector_lanes(self.axes)
        return [self.reducer.combine(lanes, a, b) for a, b in zip(self.inits, found, strict=True)]


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
