"""Loads and stores: which instruction reaches the elements that the lanes of an index name."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from wholestep.backends.cpu.codegen import vectors
from wholestep.backends.cpu.codegen.facts import Axes, lanes_of
from wholestep.backends.cpu.codegen.forms import typed
from wholestep.backends.cpu.codegen.places import Place, Places
from wholestep.backends.cpu.codegen.transpose import neighbours, transposed
from wholestep.backends.cpu.codegen.vectors import allowed
from wholestep.backends.cpu.codegen.writer import Value, Writer
from wholestep.kernel.lang import Axis, Buffer, Index, Store, Var

ZEROS = "@ws_zeros"
WIDEST = 4
"""The largest stride between lanes for which everything between is read too, and picked from."""


class Memory:
    """Reads and writes the buffers of a kernel."""

    def __init__(self, w: Writer, bases: dict[Buffer, str], values: dict[Var, Value]) -> None:
        self.w = w
        self.places = Places(w, bases, values)
        self.values = values
        self.guards: list[Var] = []
        """The guards of the loops around that hold for some copies and not for others."""

    def all(self, guards: list[Var], axes: Axes) -> Callable[[int], str | None]:
        """For each copy along some axes, whether all guards hold; None where there are none."""
        w, lanes = self.w, lanes_of(axes)
        held = [(self.values[g], w.project(axes, self.values[g].axes)) for g in guards]

        def found(copy: int) -> str | None:
            names = [g.name(copies[copy], lanes) for g, copies in held]
            return reduce(lambda x, y: w.let(f"and {typed('i1', lanes)} {x}, {y}"), names) if names else None

        return found

    # -- loads -------------------------------------------------------------------------------------------------------

    def load(self, value: Value, buffer: Buffer, index: Index, guard: Var | None) -> Callable[[int], str]:
        """How the copies of a load are written."""
        w, axes = self.w, value.axes
        place, live = self.places.find(buffer, index, axes), w.live(axes)
        # An affine index is within its buffer at every step, taken or not.
        guards = [*([] if guard is None else [guard]), *(self.guards if index.values() and axes else [])]
        along = None if guards else neighbours(w, axes, index, place)
        if along is not None:
            columns = transposed(w, self.places, place, axes, along, live)
            return lambda copy: self.entered(columns(copy), place)
        holds = self.all(guards, axes)
        read = self.read if place.lanes else self.read_scalar
        return lambda copy: self.entered(read(place, copy, live[copy], holds(copy)), place)

    def entered(self, loaded: str, place: Place) -> str:
        """A truth value is a byte in memory."""
        if place.form.kind != "b":
            return loaded
        return self.w.let(f"icmp ne {typed('i8', place.lanes)} {loaded}, zeroinitializer")

    def read_scalar(self, place: Place, copy: int, live: int, guard: str | None) -> str:
        """One element; where it may not be read, a zero elsewhere."""
        pointer = self.places.address(place, copy)
        if guard is not None:
            pointer = self.w.let(f"select i1 {guard}, ptr {pointer}, ptr {ZEROS}")
        return self.w.let(f"load {place.form.memory}, ptr {pointer}, align {place.form.size}")

    def read(self, place: Place, copy: int, live: int, guard: str | None) -> str:
        """One vector, as it is in memory."""
        w, lanes, stride, made = self.w, place.lanes, place.stride, place.form
        if not place.vectors:
            if stride == 1:
                on = allowed(w, lanes, live, guard)
                return vectors.load(w, made, lanes, self.places.address(place, copy), on)
            if stride == -1:
                return self.read_backwards(place, copy, live, guard)
            if stride and guard is None:
                return (self.pick if 1 < stride <= WIDEST else self.read_lanes)(place, copy, live)
        return vectors.gather(w, made, lanes, self.places.addresses(place, copy), allowed(w, lanes, live, guard))

    def read_backwards(self, place: Place, copy: int, live: int, guard: str | None) -> str:
        w, lanes, made = self.w, place.lanes, place.form
        where = self.places.address(place, copy, (1 - lanes) * made.size)
        turned = None if guard is None else vectors.backwards(w, "i1", lanes, guard)
        found = vectors.load(w, made, lanes, where, allowed(w, lanes, live, turned, True))
        return vectors.backwards(w, made.memory, lanes, found)

    def read_lanes(self, place: Place, copy: int, live: int) -> str:
        """Each lane by itself, which is faster than an instruction that gathers."""
        w, made, kind = self.w, place.form, typed(place.form.memory, place.lanes)
        pointer = self.places.address(place, copy)
        found = "poison" if live == place.lanes else "zeroinitializer"
        for lane in range(live):
            where = w.ahead(pointer, lane * place.stride * made.size)
            one = w.let(f"load {made.memory}, ptr {where}, align {made.size}")
            found = w.let(f"insertelement {kind} {found}, {made.memory} {one}, i64 {lane}")
        return found

    def pick(self, place: Place, copy: int, live: int) -> str:
        """Lanes a small stride apart, out of all the elements from the first to the last."""
        w, lanes, stride, made = self.w, place.lanes, place.stride, place.form
        kind, last = typed(made.memory, lanes), (live - 1) * stride
        pointer, found, taken = self.places.address(place, copy), "poison", 0
        for part in range(last // lanes + 1):
            on = allowed(w, lanes, min(lanes, last + 1 - part * lanes), None)
            block = vectors.load(w, made, lanes, w.ahead(pointer, part * lanes * made.size), on)
            picks = [lane if lane < taken else -1 for lane in range(lanes)]
            while taken < live and taken * stride // lanes == part:
                picks[taken] = lanes + taken * stride % lanes
                taken += 1
            found = w.shuffle(kind, found, block, *picks)
        if live == lanes:
            return found
        return w.shuffle(kind, found, "zeroinitializer", *[lane if lane < live else lanes for lane in range(lanes)])

    # -- stores ------------------------------------------------------------------------------------------------------

    def store(self, *stores: Store) -> tuple[Axes, Callable[[int], None]]:
        """The axes side by side that a store varies along, and how to write its copies; or two stores to neighbours."""
        w, s = self.w, stores[0]
        guards = [*self.guards, *([] if s.guard is None else [s.guard])]
        axes = self.along(s, guards)
        place, live, holds = self.places.find(s.buffer, s.index, axes), w.live(axes), self.all(guards, axes)
        held = [(self.values[x.value], w.project(axes, self.values[x.value].axes)) for x in stores]
        woven = len(stores) > 1 and place.stride == 2 and not place.vectors and not guards
        put = self.write if place.lanes else self.write_scalar

        def write(copy: int) -> None:
            names = [self.left(value.name(copies[copy], place.lanes), place) for value, copies in held]
            if woven:
                self.write_woven(place, copy, names[0], names[1], live[copy])
                return
            for at, name in enumerate(names):
                put(place.further(at), copy, name, live[copy], holds(copy))

        return axes, write

    def along(self, s: Store, guards: list[Var]) -> Axes:
        """The axes side by side that a store varies along."""
        found = {a for v in (s.value, *s.index.values(), *guards) for a in self.values[v].axes}
        found.update(k for k in s.index.terms if isinstance(k, Axis))
        return tuple([a for a, scope in self.w.scopes.items() if a in found and a.block > 1 and scope.abreast])

    def left(self, name: str, place: Place) -> str:
        """A truth value is a byte in memory."""
        if place.form.kind != "b":
            return name
        return self.w.let(f"zext {typed('i1', place.lanes)} {name} to {typed('i8', place.lanes)}")

    def write_woven(self, place: Place, copy: int, x: str, y: str, live: int) -> None:
        """Two vectors whose lanes take turns in memory."""
        w, lanes, made, pointer = self.w, place.lanes, place.form, self.places.address(place, copy)
        for start, within in ((0, min(lanes, 2 * live)), (lanes, 2 * live - lanes)):
            if within > 0:
                picks = [start // 2 + lane // 2 + lanes * (lane % 2) for lane in range(lanes)]
                both = w.shuffle(typed(made.memory, lanes), x, y, *picks)
                where = w.ahead(pointer, start * made.size)
                vectors.store(w, made, lanes, where, both, allowed(w, lanes, within, None))

    def write_scalar(self, place: Place, copy: int, name: str, live: int, guard: str | None) -> None:
        """One element; where it may not be written, into a place of no interest."""
        w, pointer = self.w, self.places.address(place, copy)
        if guard is not None:
            w.sink = True
            pointer = w.let(f"select i1 {guard}, ptr {pointer}, ptr %sink")
        w.do(f"store {place.form.memory} {name}, ptr {pointer}, align {place.form.size}")

    def write(self, place: Place, copy: int, name: str, live: int, guard: str | None) -> None:
        """One vector."""
        w, lanes, made = self.w, place.lanes, place.form
        near = place.stride in (1, -1) and not place.vectors
        guard = None if guard is None else self.unforeseen(guard, place)
        if not near and (place.vectors or guard is not None):
            where = self.places.addresses(place, copy)
            vectors.scatter(w, made, lanes, where, name, allowed(w, lanes, live, guard))
        elif not near or (live == 1 and guard is None):
            # Also a single lane, for the reason given in `unforeseen`.
            self.write_lanes(place, copy, name, live)
        elif place.stride == 1:
            vectors.store(w, made, lanes, self.places.address(place, copy), name, allowed(w, lanes, live, guard))
        else:
            turned = None if guard is None else vectors.backwards(w, "i1", lanes, guard)
            name = vectors.backwards(w, made.memory, lanes, name)
            where = self.places.address(place, copy, (1 - lanes) * made.size)
            vectors.store(w, made, lanes, where, name, allowed(w, lanes, live, turned, True))

    def unforeseen(self, guard: str, place: Place) -> str:
        """A guard that LLVM cannot find to be constant: LLVM 22 stores a truncated vector of which a constant mask lets
        one lane through as wide as it was before it was truncated."""
        if not place.form.memory.startswith("i") or place.form.size == 8:
            return guard
        true = self.w.splat(self.w.let("icmp ne ptr %args, null"), "i1", place.lanes)
        return self.w.let(f"and {typed('i1', place.lanes)} {guard}, {true}")

    def write_lanes(self, place: Place, copy: int, name: str, live: int) -> None:
        """Each lane by itself."""
        w, made, pointer = self.w, place.form, self.places.address(place, copy)
        for lane in range(live):
            one = w.let(f"extractelement {typed(made.memory, place.lanes)} {name}, i64 {lane}")
            where = w.ahead(pointer, lane * place.stride * made.size)
            w.do(f"store {made.memory} {one}, ptr {where}, align {made.size}")
