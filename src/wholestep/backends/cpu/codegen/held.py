"""What goes from step to step of a loop: what it carries along, and what it has folded so far."""

from __future__ import annotations

from wholestep.backends.cpu.codegen.facts import lanes_of
from wholestep.backends.cpu.codegen.forms import form, mask, typed
from wholestep.backends.cpu.codegen.reduction import Reducer
from wholestep.backends.cpu.codegen.values import Values
from wholestep.backends.cpu.codegen.writer import Scope
from wholestep.kernel.lang import Carry, Fold


class Carried:
    """A carry: its copies are named anew after each step."""

    def __init__(self, values: Values, carry: Carry) -> None:
        self.values = values
        self.carry = carry
        self.axes = values.w.facts.around[carry.inside]
        self.type = typed(form(carry.inside.dtype).register, lanes_of(self.axes))
        self.names = values.names(carry.init, self.axes)

    def enter(self) -> None:
        """Name what the step starts with."""
        self.values.define(self.carry.inside, self.names)

    def following(self) -> list[str]:
        """What the next step starts with."""
        return self.values.names(self.carry.next, self.axes)

    def left(self) -> list[str]:
        """What the copies are after the last step."""
        return self.names


class Folded:
    """A fold. With a `tile` there is an accumulator for each of so many steps side by side (and for each lane), and all
    become one after the last step; otherwise a step takes in its values one after the other."""

    def __init__(self, values: Values, fold: Fold, wide: int, tile: int) -> None:
        w = values.w
        self.values = values
        self.fold = fold
        self.tile = tile
        self.axes = w.facts.around[fold.result]
        self.across = wide > 1 and tile > 0
        self.lanes = wide if self.across else lanes_of(self.axes)
        self.type = typed(form(fold.result.dtype).register, self.lanes)
        self.reducer = Reducer(w, fold.op, fold.result.dtype)
        neutral = [self.reducer.neutral(self.lanes)] * (tile * w.copies(self.axes))
        self.names = neutral if tile else values.names(fold.init, self.axes)

    def left(self) -> list[str]:
        """What the copies are after the last step."""
        if not self.tile:
            return self.names
        rows = [self.names[i : i + self.tile] for i in range(0, len(self.names), self.tile)]
        found = [self.reducer.tree(self.lanes, row) for row in rows]
        if self.across:
            found = [self.reducer.lane(self.lanes, x) for x in found]
        inits = self.values.names(self.fold.init, self.axes)
        lanes = lanes_of(self.axes)
        return [self.reducer.joined(lanes, a, b) for a, b in zip(inits, found, strict=True)]


class Taking:
    """A fold that takes in the values of one step."""

    def __init__(self, held: Folded, scope: Scope) -> None:
        w, tile, n = held.values.w, held.tile, scope.count
        axes = (*held.axes, scope.axis) if tile else held.axes
        copies = range(w.copies(axes))
        self.held = held
        self.places = [c // n * tile + c % n for c in copies] if tile else list(copies)
        self.live = w.live(axes) if held.across else [held.lanes] * len(copies)
        self.operands = [(x, w.project(axes, x.axes)) for x in (held.values.known[v] for v in held.fold.values)]
        held.names = list(held.names)

    def take(self, copy: int) -> None:
        """One copy of it."""
        held, lanes, place = self.held, self.held.lanes, self.places[copy]
        old = held.names[place]
        new = held.reducer.taken(lanes, old, *[x.name(copies[copy], lanes) for x, copies in self.operands])
        if self.live[copy] < lanes:
            new = held.reducer.kept(lanes, mask(lanes, self.live[copy]), new, old)
        held.names[place] = new


def step(carried: list[Carried], folded: list[Folded], scope: Scope) -> None:
    """Take in what a step has found, copy by copy of all folds; carries change all at once."""
    for c, names in [(c, c.following()) for c in carried]:
        c.names = names
    taking = [Taking(f, scope) for f in folded]
    for copy in range(max([len(t.places) for t in taking], default=0)):
        for t in taking:
            if copy < len(t.places):
                t.take(copy)
