"""Accumulators of folds in C, in the order that the native code adds in: one for each lane, blocks, a tree of lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from wholestep.kernel import c_scalars as scalars
from wholestep.kernel.lang import DType, Loop, Var, neutral_element
from wholestep.kernel.ops import combining_fold
from wholestep.kernel.summation import continues_sum, is_float_sum, sum_blocks

if TYPE_CHECKING:
    from wholestep.export.c.kernel import CKernelWriter

Steps = Callable[[str, str], None]
"""Writes the steps from one number to another, both as C."""


class CAccumulator(NamedTuple):
    """A variable, or an array with one for each lane of a tile, that a loop changes."""

    name: str
    op: str
    dtype: DType
    width: int
    """The number of elements of the array; 0 for a variable."""
    blocked: bool
    """True for a sum of blocks."""

    @property
    def first(self) -> str:
        """The neutral element."""
        return scalars.c_number(neutral_element(self.op, self.dtype), self.dtype)

    @property
    def join(self) -> str:
        """The operation that combines two accumulators."""
        return combining_fold(self.op)

    def joined(self, held: str, x: str) -> str:
        """The statement that combines one accumulator into another."""
        return scalars.combined(self.join, held, [x], self.dtype)


def for_each_lane(w: CKernelWriter, a: CAccumulator, line: Callable[[str], str]) -> None:
    """Write a line for each element of an accumulator, told the index behind its name."""
    if a.width:
        lane = w.fresh("l")
        w.put(f"WS_LANES for (int {lane} = 0; {lane} < {a.width}; {lane}++) {line(f'[{lane}]')}")
    else:
        w.put(line(""))


def declared(w: CKernelWriter, a: CAccumulator) -> None:
    """Declare an accumulator with the neutral element as its value."""
    kind = scalars.value_type(a.dtype)
    if a.width:
        w.put(f"{kind} {a.name}[{a.width}];")
        for_each_lane(w, a, lambda at: f"{a.name}{at} = {a.first};")
    else:
        w.put(f"{kind} {a.name} = {a.first};")


def blocked_steps(
    w: CKernelWriter, sums: Sequence[CAccumulator], start: str, end: str, blocks: tuple[int, ...], steps: Steps
) -> None:
    """Write steps in blocks of these lengths, outermost first, whose sums start at zero and are added up."""
    if not blocks:
        steps(start, end)
        return
    first, last = w.fresh("t"), w.fresh("t")
    w.open(f"for (int64_t {first} = {start}; {first} < {end}; {first} += {blocks[0]})")
    w.put(f"const int64_t {last} = {first} + {blocks[0]} < {end} ? {first} + {blocks[0]} : {end};")
    before = [a._replace(name=w.fresh("s")) for a in sums]
    for a, old in zip(sums, before, strict=True):
        w.put(f"{scalars.value_type(a.dtype)} {old.name}{f'[{a.width}]' if a.width else ''};")
        for_each_lane(w, a, lambda at, a=a, old=old: f"{old.name}{at} = {a.name}{at}, {a.name}{at} = {a.first};")  # type: ignore[misc]
    blocked_steps(w, sums, first, last, blocks[1:], steps)
    for a, old in zip(sums, before, strict=True):
        for_each_lane(w, a, lambda at, a=a, old=old: f"{a.name}{at} = {old.name}{at} + {a.name}{at};")  # type: ignore[misc]
    w.close()


def tree(w: CKernelWriter, a: CAccumulator, lanes: int) -> str:
    """Combine the elements of an accumulator, neighbouring vectors first, then halves of one; the place of the last."""
    tile, n, k, lane = a.width // lanes, w.fresh("n"), w.fresh("k"), w.fresh("l")
    if tile > 1:
        held, other = f"{a.name}[{k} * {lanes} + {lane}]", f"{a.name}[({k} + {n}) * {lanes} + {lane}]"
        w.put(f"for (int {n} = 1; {n} < {tile}; {n} *= 2)")
        w.put(f"    for (int {k} = 0; {k} + {n} < {tile}; {k} += 2 * {n})")
        w.put(f"        WS_LANES for (int {lane} = 0; {lane} < {lanes}; {lane}++) {a.joined(held, other)}")
    if lanes > 1:
        w.put(f"for (int {n} = {lanes // 2}; {n} > 0; {n} /= 2)")
        line = a.joined(f"{a.name}[{lane}]", f"{a.name}[{lane} + {n}]")
        w.put(f"    for (int {lane} = 0; {lane} < {n}; {lane}++) {line}")
    return f"{a.name}[0]"


class FoldLoop:
    """A loop that folds or carries sums."""

    def __init__(self, w: CKernelWriter, loop: Loop) -> None:
        self.w, self.loop = w, loop
        axis = loop.axis
        self.full, self.rest = divmod(axis.extent, axis.block)
        wide = bool(loop.folds) and axis.block > 1 and (axis.lanes > 1 or axis in w.rows) and axis not in w.chained
        self.width = (axis.block if self.full else -(-self.rest // axis.lanes) * axis.lanes) if wide else 0
        self.folded = [
            CAccumulator(w.fresh("s"), f.op, f.result.dtype, self.width, is_float_sum(f)) for f in loop.folds
        ]
        self.carried = [
            CAccumulator(w.fresh("s"), "add", c.inside.dtype, 0, continues_sum(loop, c)) for c in loop.carries
        ]
        self.results: list[Var] = [*[f.result for f in loop.folds], *[c.after for c in loop.carries]]

    @property
    def own(self) -> list[CAccumulator]:
        """The accumulators other than the variables of the results: those with lanes or blocks."""
        return [*[a for a in self.folded if a.width or a.blocked], *[a for a in self.carried if a.blocked]]

    def begin(self) -> None:
        """Declare the accumulators; inside the loop they hold the loop-carried values."""
        w = self.w
        self.variables = [w.names[v] for v in self.results]
        for a in self.own:
            declared(w, a)
        for c, a in zip(self.loop.carries, self.carried, strict=True):
            if a.blocked:
                w.names[c.inside] = a.name

    def take(self, place: str) -> None:
        """Write the end of a step: its folds into the accumulators of a lane, and its loop-carried values."""
        w = self.w
        for f, a, variable in zip(self.loop.folds, self.folded, self.variables, strict=False):
            name = (f"{a.name}[{place}]" if a.width else a.name) if a in self.own else variable
            w.put(scalars.combined(f.op, name, [w.names[v] for v in f.values], f.result.dtype))
        following = [w.names[c.next] for c in self.loop.carries]
        if len(following) > 1:
            kept = [w.fresh() for _ in following]
            for name, old, c in zip(kept, following, self.loop.carries, strict=True):
                w.put(f"const {scalars.value_type(c.next.dtype)} {name} = {old};")
            following = kept
        for name, c in zip(following, self.loop.carries, strict=True):
            if w.names[c.inside] != name:
                w.put(f"{w.names[c.inside]} = {name};")

    def end(self) -> None:
        """Combine the accumulators with the initial values of the loop."""
        w = self.w
        for a, variable in zip([*self.folded, *self.carried], self.variables, strict=True):
            if a in self.own:
                found = tree(w, a, self.loop.axis.lanes) if a.width else a.name
                w.put(a.joined(variable, found))
        for v, variable in zip(self.results, self.variables, strict=True):
            w.names[v] = variable

    def write(self) -> None:
        """Write the loop from its beginning to its end."""
        w, axis = self.w, self.loop.axis
        self.begin()
        sums = [a for a in self.own if a.blocked]
        blocks = sum_blocks(self.full) if sums else ()
        if not self.width and not blocks:
            self.chain("0", str(axis.extent))
        else:
            if self.full:
                blocked_steps(w, sums, "0", str(self.full), blocks, self.tiles if self.width else self.chain_of_tiles)
            if self.rest and self.width:
                self.lanes(str(self.full * axis.block), self.rest)
            elif self.rest:
                self.chain(str(self.full * axis.block), str(axis.extent))
        self.end()

    def chain_of_tiles(self, start: str, end: str) -> None:
        """Write steps of whole tiles, one after the other."""
        block = self.loop.axis.block
        self.chain(*[n if block == 1 else f"{n} * {block}" for n in (start, end)])

    def chain(self, start: str, end: str) -> None:
        """Write steps that are folded into one accumulator in order."""
        w, loop = self.w, self.loop
        i = w.fresh("i")
        w.names[loop.axis] = i
        if loop.independent and not any(isinstance(s, Loop) for s in loop.body):
            w.put("WS_INDEPENDENT")
        w.open(f"for (int64_t {i} = {start}; {i} < {end}; {i}++)")
        w.body(loop.body)
        self.take("0")
        w.close()

    def tiles(self, start: str, end: str) -> None:
        """Write steps of whole tiles, whose lanes have accumulators of their own."""
        w, block = self.w, self.loop.axis.block
        t = w.fresh("t")
        w.open(f"for (int64_t {t} = {start}; {t} < {end}; {t}++)")
        self.lanes(f"{t} * {block}", block)
        w.close()

    def lanes(self, first: str, count: int) -> None:
        """Write a loop over `count` lanes of a tile."""
        w, loop = self.w, self.loop
        lane, i = w.fresh("l"), w.fresh("i")
        w.names[loop.axis] = i
        if not any(isinstance(s, Loop) for s in loop.body):
            w.put("WS_INDEPENDENT")
        w.open(f"for (int64_t {lane} = 0; {lane} < {count}; {lane}++)")
        w.put(f"const int64_t {i} = {first} + {lane};")
        w.body(loop.body)
        self.take(lane)
        w.close()
