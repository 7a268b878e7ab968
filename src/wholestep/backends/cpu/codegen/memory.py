"""Instruction selection for loads and stores: contiguous, reversed, strided, transposed, gathered or scattered."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from wholestep.backends.cpu.codegen.addresses import AccessPattern, AddressBuilder
from wholestep.backends.cpu.codegen.adjacent_accesses import SharedLoads
from wholestep.backends.cpu.codegen.interleaved_lanes import backwards, deinterleave_lanes, interleave_lanes
from wholestep.backends.cpu.codegen.llvm_types import simd_type
from wholestep.backends.cpu.codegen.masked_memory import (
    active_lanes,
    gather_lanes,
    masked_load,
    masked_store,
    prefetch,
    reverse_lanes,
    scatter_lanes,
)
from wholestep.backends.cpu.codegen.transposed_loads import LINE_BYTES, transposable_axis, transposed_load
from wholestep.backends.cpu.codegen.uniformity import VaryingAxes, vector_lanes
from wholestep.backends.cpu.codegen.writer import FunctionWriter, UnrolledValue
from wholestep.backends.cpu.target.tiles import MAX_PICK_STRIDE
from wholestep.kernel.lang import Axis, Buffer, Index, Store, Var

ZERO_BLOCK = "@ws_zeros"


class BufferAccess:
    """Emits the loads and stores of a kernel."""

    def __init__(self, w: FunctionWriter, bases: dict[Buffer, str], values: dict[Var, UnrolledValue]) -> None:
        self.w = w
        self.addressing = AddressBuilder(w, bases, values)
        self.values = values
        self.shared: dict[Var, SharedLoads] = {}
        """The loads of the statements that are being emitted that share vectors with others."""
        self.guards: list[Var] = []
        """The guards of enclosing loops that differ between copies."""

    def all(self, guards: list[Var], axes: VaryingAxes) -> Callable[[int], str | None]:
        """Return a function that emits the conjunction of the guards for a copy; None where there are none."""
        w, lanes = self.w, vector_lanes(axes)
        held = [(self.values[g], w.project(axes, self.values[g].axes)) for g in guards]

        def found(copy: int) -> str | None:
            names = [g.name(copies[copy], lanes) for g, copies in held]
            return reduce(lambda x, y: w.let(f"and {simd_type('i1', lanes)} {x}, {y}"), names) if names else None

        return found

    # -- loads -------------------------------------------------------------------------------------------------------

    def load(self, v: Var, value: UnrolledValue) -> Callable[[int], str]:
        """Return a function that emits the copies of a load."""
        (buffer, index), guard = v.attr, v.args[0] if v.args else None
        w, axes = self.w, value.axes
        place, live = self.addressing.find(buffer, index, axes), w.live_lanes(axes)
        # An affine index is within its buffer at every step, taken or not.
        guards = [*([] if guard is None else [guard]), *(self.guards if index.values() and axes else [])]
        along = None if guards else transposable_axis(w, axes, index, place)
        if along is not None:
            columns = transposed_load(w, self.addressing, place, axes, along, live)
            return lambda copy: self.from_memory(columns(copy), place)
        if v in self.shared and place.stride > 0 and not guards:
            return self.shared_load(v, place, live)
        holds, read = self.all(guards, axes), self.read if place.lanes else self.read_scalar
        early = self.early_distance(index, place)

        def write(copy: int) -> str:
            if early and place.distances[copy] % LINE_BYTES == 0:
                prefetch(w, self.addressing.address(place, copy, early))
            return self.from_memory(read(place, copy, live[copy], holds(copy)), place)

        return write

    def shared_load(self, v: Var, place: AccessPattern, live: list[int]) -> Callable[[int], str]:
        """Return a function that emits a copy of a load; the first copy of one of several loads a stride apart emits
        that of all of them."""
        w, lanes, group, stride = self.w, place.lanes, self.shared[v], place.stride
        kind, mine = simd_type(place.form.memory, lanes), v.attr[1].const - group.first
        place = place.offset_by(-mine)

        def write(copy: int) -> str:
            if copy not in group.vectors:
                end = (live[copy] - 1) * stride + group.last - group.first + 1
                blocks = self.contiguous_vectors(place, self.addressing.address(place, copy), end)
                blocks += ["zeroinitializer"] * (stride - len(blocks))
                group.vectors[copy] = deinterleave_lanes(w, kind, lanes, blocks)
            return self.from_memory(group.vectors[copy][mine], place)

        return write

    def contiguous_vectors(self, place: AccessPattern, pointer: str, end: int) -> list[str]:
        """The vectors of the first `end` elements from a pointer on; lanes beyond are zero."""
        w, lanes, made, found = self.w, place.lanes, place.form, list[str]()
        for start in range(0, end, lanes):
            on = active_lanes(w, lanes, min(lanes, end - start), None)
            found.append(masked_load(w, made, lanes, w.offset_pointer(pointer, start * made.size), on))
        return found

    def early_distance(self, index: Index, place: AccessPattern) -> int:
        """Return the prefetch distance, in bytes, of a load of contiguous vectors; 0 where it has no prefetch."""
        if place.stride != 1 or place.scalars or place.vectors:
            return 0
        steps = [axis.ahead * index.coefficient(axis) for axis in self.w.scopes if axis.ahead]
        return sum(steps) * place.form.size

    def from_memory(self, loaded: str, place: AccessPattern) -> str:
        """Convert a loaded value to its register type: a bool is a byte in memory."""
        if place.form.kind != "b":
            return loaded
        return self.w.let(f"icmp ne {simd_type('i8', place.lanes)} {loaded}, zeroinitializer")

    def read_scalar(self, place: AccessPattern, copy: int, live: int, guard: str | None) -> str:
        """Load one element; a false guard redirects the load to a constant zero."""
        pointer = self.addressing.address(place, copy)
        if guard is not None:
            pointer = self.w.let(f"select i1 {guard}, ptr {pointer}, ptr {ZERO_BLOCK}")
        return self.w.let(f"load {place.form.memory}, ptr {pointer}, align {place.form.size}")

    def read(self, place: AccessPattern, copy: int, live: int, guard: str | None) -> str:
        """Load one vector in its memory type."""
        w, lanes, stride, made = self.w, place.lanes, place.stride, place.form
        if not place.vectors:
            if stride == 1:
                on = active_lanes(w, lanes, live, guard)
                return masked_load(w, made, lanes, self.addressing.address(place, copy), on)
            if stride == -1:
                return self.read_backwards(place, copy, live, guard)
            if stride and guard is None:
                return (self.pick if abs(stride) <= MAX_PICK_STRIDE else self.read_lanes)(place, copy, live)
        return gather_lanes(w, made, lanes, self.addressing.addresses(place, copy), active_lanes(w, lanes, live, guard))

    def read_backwards(self, place: AccessPattern, copy: int, live: int, guard: str | None) -> str:
        w, lanes, made = self.w, place.lanes, place.form
        where = self.addressing.address(place, copy, (1 - lanes) * made.size)
        turned = None if guard is None else reverse_lanes(w, "i1", lanes, guard)
        found = masked_load(w, made, lanes, where, active_lanes(w, lanes, live, turned, True))
        return reverse_lanes(w, made.memory, lanes, found)

    def read_lanes(self, place: AccessPattern, copy: int, live: int) -> str:
        """Each lane by itself, which is faster than an instruction that gathers."""
        w, made, kind = self.w, place.form, simd_type(place.form.memory, place.lanes)
        pointer = self.addressing.address(place, copy)
        found = "poison" if live == place.lanes else "zeroinitializer"
        for lane in range(live):
            where = w.offset_pointer(pointer, lane * place.stride * made.size)
            one = w.let(f"load {made.memory}, ptr {where}, align {made.size}")
            found = w.let(f"insertelement {kind} {found}, {made.memory} {one}, i64 {lane}")
        return found

    def pick(self, place: AccessPattern, copy: int, live: int) -> str:
        """Load lanes a small stride apart: contiguous loads and shuffles; with a negative stride the last one first."""
        w, lanes, stride, made = self.w, place.lanes, abs(place.stride), place.form
        kind, last = simd_type(made.memory, lanes), (live - 1) * stride
        early = min(0, (live - 1) * place.stride)
        pointer, found, taken = self.addressing.address(place, copy, early * made.size), "poison", 0
        for part, block in enumerate(self.contiguous_vectors(place, pointer, last + 1)):
            picks = [lane if lane < taken else -1 for lane in range(lanes)]
            while taken < live and taken * stride // lanes == part:
                picks[taken] = lanes + taken * stride % lanes
                taken += 1
            found = w.shuffle(kind, found, block, *picks)
        if live == lanes and place.stride > 0:
            return found
        order = range(lanes) if place.stride > 0 else backwards(lanes, live)
        return w.shuffle(kind, found, "zeroinitializer", *[k if lane < live else lanes for lane, k in enumerate(order)])

    # -- stores ------------------------------------------------------------------------------------------------------

    def store(self, *stores: Store) -> tuple[VaryingAxes, Callable[[int], None]]:
        """Return the unrolled axes that a store varies along and a function that emits its copies; stores to as many
        neighbouring elements as their stride are interleaved."""
        w, s = self.w, stores[0]
        guards = [*self.guards, *([] if s.guard is None else [s.guard])]
        axes = self.along(s, guards)
        place, live, holds = self.addressing.find(s.buffer, s.index, axes), w.live_lanes(axes), self.all(guards, axes)
        held = [(self.values[x.value], w.project(axes, self.values[x.value].axes)) for x in stores]
        woven = len(stores) > 1 and abs(place.stride) == len(stores) and not place.vectors and not guards
        put = self.write if place.lanes else self.write_scalar

        def write(copy: int) -> None:
            names = [self.left(value.name(copies[copy], place.lanes), place) for value, copies in held]
            if woven:
                self.write_interleaved(place, copy, names, live[copy])
                return
            for at, name in enumerate(names):
                put(place.offset_by(at), copy, name, live[copy], holds(copy))

        return axes, write

    def along(self, s: Store, guards: list[Var]) -> VaryingAxes:
        """Return the unrolled axes that a store varies along."""
        found = {a for v in (s.value, *s.index.values(), *guards) for a in self.w.uniformity.axes_of[v]}
        found.update(k for k in s.index.terms if isinstance(k, Axis))
        return tuple([a for a, scope in self.w.scopes.items() if a in found and a.block > 1 and scope.unrolled])

    def left(self, name: str, place: AccessPattern) -> str:
        """Convert a value to its memory type: a bool is a byte in memory."""
        if place.form.kind != "b":
            return name
        return self.w.let(f"zext {simd_type('i1', place.lanes)} {name} to {simd_type('i8', place.lanes)}")

    def write_interleaved(self, place: AccessPattern, copy: int, names: list[str], live: int) -> None:
        """Store vectors with their lanes interleaved; with a negative stride the last live lane comes first."""
        w, lanes, made = self.w, place.lanes, place.form
        kind, end, early = simd_type(made.memory, lanes), len(names) * live, 0
        if place.stride < 0:
            names = [w.shuffle(kind, name, "poison", *backwards(lanes, live)) for name in names]
            early = (live - 1) * place.stride
        pointer = self.addressing.address(place, copy, early * made.size)
        woven = interleave_lanes(w, kind, lanes, names)
        for start, part in zip(range(0, end, lanes), woven, strict=False):
            on = active_lanes(w, lanes, min(lanes, end - start), None)
            masked_store(w, made, lanes, w.offset_pointer(pointer, start * made.size), part, on)

    def write_scalar(self, place: AccessPattern, copy: int, name: str, live: int, guard: str | None) -> None:
        """Store one element; a false guard redirects the store to a dummy location."""
        w, pointer = self.w, self.addressing.address(place, copy)
        if guard is not None:
            w.sink = True
            pointer = w.let(f"select i1 {guard}, ptr {pointer}, ptr %sink")
        w.do(f"store {place.form.memory} {name}, ptr {pointer}, align {place.form.size}")

    def write(self, place: AccessPattern, copy: int, name: str, live: int, guard: str | None) -> None:
        """Store one vector."""
        w, lanes, made = self.w, place.lanes, place.form
        near = place.stride in (1, -1) and not place.vectors
        guard = None if guard is None else self.hide_constant(guard, place)
        if not near and (place.vectors or guard is not None):
            where = self.addressing.addresses(place, copy)
            scatter_lanes(w, made, lanes, where, name, active_lanes(w, lanes, live, guard))
        elif not near or (live == 1 and guard is None):
            # Also a single lane, for the reason given in `unforeseen`.
            self.write_lanes(place, copy, name, live)
        elif place.stride == 1:
            masked_store(
                w, made, lanes, self.addressing.address(place, copy), name, active_lanes(w, lanes, live, guard)
            )
        else:
            turned = None if guard is None else reverse_lanes(w, "i1", lanes, guard)
            name = reverse_lanes(w, made.memory, lanes, name)
            where = self.addressing.address(place, copy, (1 - lanes) * made.size)
            masked_store(w, made, lanes, where, name, active_lanes(w, lanes, live, turned, True))

    def hide_constant(self, guard: str, place: AccessPattern) -> str:
        """Hide from LLVM that a guard may be constant: LLVM 22 stores a truncated vector under a constant mask with one
        active lane at its width before the truncation."""
        if not place.form.memory.startswith("i") or place.form.size == 8:
            return guard
        true = self.w.splat(self.w.let("icmp ne ptr %args, null"), "i1", place.lanes)
        return self.w.let(f"and {simd_type('i1', place.lanes)} {guard}, {true}")

    def write_lanes(self, place: AccessPattern, copy: int, name: str, live: int) -> None:
        """Store each lane by itself."""
        w, made, pointer = self.w, place.form, self.addressing.address(place, copy)
        for lane in range(live):
            one = w.let(f"extractelement {simd_type(made.memory, place.lanes)} {name}, i64 {lane}")
            where = w.offset_pointer(pointer, lane * place.stride * made.size)
            w.do(f"store {made.memory} {one}, ptr {where}, align {made.size}")
