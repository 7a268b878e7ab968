"""Programs for a card as the disk cache keeps them: their kernels, as text or code, and steps for the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.beside_kernels import KernelsBeside, launch_text
from wholestep.backends.gpu.host_scalars import Element, HostScalars, SplitKernel, split_kernel
from wholestep.backends.gpu.kernel_writer import KernelCode, write_kernel
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.launch_order import HOST_ELEMENT, HostPart, LaunchPart, card_part, order_launches
from wholestep.backends.gpu.vector_items import VECTOR_BYTES
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.kernel.lang import Kernel
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.program import FIRST_INPUT, LoweredProgram
from wholestep.lower.program.steps import (
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    Switch,
    WhileLoop,
    walk_steps,
)
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.error_sites import ErrorSite, pack_largest, pack_sites, unpack_sites
from wholestep.runtime.gpu.conditions import (
    NUMBER,
    STOP_WORDS,
    Condition,
    case_conditions,
    conditional_copy,
    copies_may_overlap,
    failure_note,
    is_left_alone,
    runs_without_host,
    steps_of_cases,
)
from wholestep.runtime.gpu.driver import Driver, KernelShape
from wholestep.runtime.gpu.memory import raw_bytes


@dataclass(frozen=True)
class NumberedLaunch:
    """The launch of the kernel of this number on the buffers at these places."""

    kernel: int
    refs: tuple[MemRef, ...]


@dataclass(frozen=True)
class HostStep:
    """Scalar code of the host on elements at these places, each of one of these dtypes."""

    scalars: HostScalars
    loads: tuple[tuple[MemRef, str], ...]
    stores: tuple[MemRef, ...]


@dataclass(frozen=True, eq=False)
class DeviceSteps:
    """Consecutive launches, copies and loops of them, which the card runs without the host.

    The commands are the same whenever these `loops` around them are in the same trips, and these `slots` at the same
    addresses.
    """

    steps: tuple[Any, ...]
    loops: tuple[int, ...]
    slots: tuple[int, ...]


CardStep = NumberedLaunch | HostStep | RoutineCall | StatusCheck | ForLoop | WhileLoop | Switch | DeviceSteps


@dataclass(frozen=True)
class CardProgram:
    """A module as its driver compiled it, its kernels, the memory of a program, and its steps, whose launches are
    numbered."""

    code: bytes
    kernels: tuple[KernelShape, ...]
    types: tuple[Type, ...]
    """The types of the slots from the first input on."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int
    largest: tuple[str, int] | None
    """The largest value in the arena, and the index of its line among the graph's source locations."""
    constants: NDArray
    """The bytes of the constants at the offsets that the program expects."""
    steps: tuple[Any, ...]
    sites: tuple[ErrorSite, ...]
    numbers: tuple[tuple[int, ...], ...]
    """The axis and the size of each site of an index check; empty for other sites."""
    undone: bool
    """True if the program may fail after it has written resident memory."""
    stop: MemRef | None
    """The place where the card notes a failed check; None where the host tests each check."""


class CardModule:
    """The module of a program: its steps as JSON values, its text, its distinct kernels, and the bytes of its arena,
    followed by the scalars that the host computes."""

    def __init__(self, plan: LoweredProgram, language: KernelLanguage, doubles: bool) -> None:
        self.language, self.doubles, self.arena = language, doubles, int(plan.arena)
        self.written: dict[tuple[str, tuple[str, ...], tuple[int, ...]], KernelCode] = {}
        self.trips: dict[int, int] = {}
        """The trip counts of the loops around, by their numbers."""
        self.done_by: list[tuple[Launch | RoutineCall, ...]] = []
        """The steps of the plan that each launch and copy runs, in the order of the program."""
        self.alone = doubles and language.conditional and runs_without_host(plan.steps)
        """True where the card runs the whole program without the host."""
        checked = self.alone and any(isinstance(step, StatusCheck) for step in walk_steps(plan.steps))
        self.stop = self.reserved(STOP_WORDS * NUMBER) if checked else None
        self.conditions = () if self.stop is None else (Condition(self.stop, "!= 0"),)
        """The conditions under which the current kernels return at once."""
        self.steps = self.packed(plan.steps)
        self.codes = list(self.written.values())
        self.text = language.module([code.text for code in self.codes])

    def packed(self, body: Sequence[Step]) -> list[Any]:
        """Steps as JSON values, with consecutive launches reordered and joined."""
        out: list[Any] = []
        parts: list[LaunchPart] = []
        for step in body:
            if isinstance(step, Launch):
                parts += self.launch(step)
                continue
            if self.alone and isinstance(step, RoutineCall):
                parts.append(card_part(*conditional_copy(step), (step,)))
                continue
            if self.stop is not None and isinstance(step, StatusCheck):
                note = Launch(failure_note(step), (self.stop, step.ref))
                out += self.ordered([*parts, card_part(note.kernel, note.refs, (note,))])
                parts = []
                continue
            out += self.ordered(parts)
            parts = []
            out += self.without_host(step) if self.alone else [self.control(step)]
        return [*out, *self.ordered(parts)]

    def reserved(self, nbytes: int) -> MemRef:
        """Allocate a place after the arena."""
        found = MemRef(0, -(-self.arena // NUMBER) * NUMBER)
        self.arena = int(found.offset) + nbytes
        return found

    def without_host(self, step: Step) -> list[list[Any]]:
        """A step other than a launch, as launches with conditions."""
        return self.branched(step) if isinstance(step, Switch) else [self.control(step)]

    def branched(self, step: Switch) -> list[list[Any]]:
        """The launches of all cases of a switch, each under the condition of its case."""
        out, ref, around = list[list[Any]](), step.ref, self.conditions
        if not is_left_alone(ref, steps_of_cases(step)):
            ref = self.reserved(NUMBER)
            copy = RoutineCall("copy", (ref, step.ref), (NUMBER,))
            out.append(self.launched(*conditional_copy(copy), (copy,)))
        for case, own in zip(step.cases, case_conditions(ref, len(step.cases)), strict=True):
            self.conditions = (*around, *own)
            out += self.packed(case)
        self.conditions = around
        return out

    def launched(
        self, kernel: Kernel | KernelsBeside, refs: Sequence[MemRef], steps: tuple[Launch | RoutineCall, ...]
    ) -> list[Any]:
        """The launch that runs these steps, as JSON values: its arguments are its conditions' numbers, then `refs`."""
        self.done_by.append(steps)
        places = [condition.ref for condition in self.conditions]
        return ["launch", self.number(kernel, refs), list(map(pack_ref, [*places, *refs]))]

    def ordered(self, parts: Sequence[LaunchPart]) -> list[list[Any]]:
        """Consecutive launches in their final order, as JSON values."""
        by = self.language
        ordered = order_launches(parts, by.most_buffers, self.trips, by.most_shared, by.narrow_apart, by.joins_rows)
        return list(map(self.part, ordered))

    def launch(self, step: Launch) -> list[LaunchPart]:
        """The parts of a launch: one of the host and one of the card, or one of them."""
        split = SplitKernel(None, step.kernel) if self.doubles else split_kernel(step.kernel)
        refs, types = list(step.refs), [b.dtype for b in step.kernel.buffers]
        for dtype in split.added:
            refs.append(MemRef(0, self.arena))
            types.append(dtype)
            self.arena += HOST_ELEMENT
        host = [] if split.host is None else [HostPart(split.host, tuple(refs), tuple(types))]
        return [*host, *([] if split.card is None else [card_part(split.card, refs, (step,))])]

    def part(self, part: LaunchPart) -> list[Any]:
        """A part of a launch as JSON values."""
        if isinstance(part, HostPart):
            loads = [[pack_ref(ref), short] for ref, short in part.loads()]
            return ["host", part.scalars, loads, list(map(pack_ref, part.stores()))]
        return self.launched(part.kernel, part.refs, part.steps)

    def number(self, kernel: Kernel | KernelsBeside, refs: Sequence[MemRef]) -> int:
        """The number of a kernel's text for buffers at these places, which is written once."""
        aligned = tuple([i for i, ref in enumerate(refs) if self.language.vectors and is_aligned(ref)])
        key = launch_text(kernel), tuple([condition.unless for condition in self.conditions]), aligned
        if key not in self.written:
            self.written[key] = write_kernel(kernel, f"k{len(self.written)}", self.language, key[1], aligned)
        return list(self.written).index(key)

    def control(self, step: Step) -> list[Any]:
        """A step other than a launch, as JSON values."""
        match step:
            case RoutineCall():
                self.done_by.append((step,))
                return ["copy", list(map(pack_ref, step.refs)), int(step.params[0])]
            case StatusCheck():
                return ["check", step.site, pack_ref(step.ref), step.fine]
            case ForLoop():
                self.trips[step.loop] = trips = int(step.trips)
                return ["repeat", step.loop, trips, self.packed(step.body), step.reverse, step.outermost]
            case WhileLoop():
                return ["while", self.packed(step.test), pack_ref(step.ref), self.packed(step.body)]
            case Switch():
                return ["switch", pack_ref(step.ref), list(map(self.packed, step.cases))]
        raise AssertionError(step)


def is_aligned(ref: MemRef) -> bool:
    """Test whether a place in the arena, which the driver aligns, is always at a multiple of 16 bytes."""
    return ref.slot == 0 and all(n % VECTOR_BYTES == 0 for n in (ref.offset, *[stride for _, stride in ref.moves]))


def pack_program(unit: CompilationUnit, plan: LoweredProgram, language: KernelLanguage, driver: Driver) -> CacheEntry:
    """A program as an entry of the cache."""
    module = CardModule(plan, language, driver.has_doubles)
    ends = [at + a.nbytes for at, a in zip(plan.constant_offsets, plan.constants, strict=True)]
    blob = np.zeros(max(ends, default=0), np.uint8)
    for at, array in zip(plan.constant_offsets, plan.constants, strict=True):
        blob[at : at + array.nbytes] = raw_bytes(np.ascontiguousarray(array))
    facts = {
        "kernels": [[code.name, code.groups, code.threads, code.shared] for code in module.codes],
        "types": [[dtypes.short(s.type.dtype), list(map(int, s.type.shape))] for s in plan.slots],
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "steps": module.steps,
        "arena": module.arena,
        "largest": pack_largest(unit.graph, plan),
        "sites": pack_sites(unit.graph, plan),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in unit.resident}),
        "stop": None if module.stop is None else pack_ref(module.stop),
    }
    return CacheEntry((driver.compile(module.text), blob.data), facts)


def unpack_program(unit: CompilationUnit, entry: CacheEntry) -> CardProgram:
    """The program that an entry of the cache holds."""
    facts: Mapping[str, Any] = entry.facts
    code, constants = entry.pieces
    return CardProgram(
        code=bytes(code),
        kernels=tuple([KernelShape(*shape) for shape in facts["kernels"]]),
        types=tuple([array_type(tuple(shape), dtypes.from_short(name)) for name, shape in facts["types"]]),
        inputs=tuple(facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        arena=facts["arena"],
        largest=facts["largest"] and (str(facts["largest"][0]), int(facts["largest"][1])),
        constants=np.frombuffer(constants, np.uint8),
        steps=unpack_steps(facts["steps"]),
        sites=unpack_sites(unit.graph, facts["sites"]),
        numbers=tuple([tuple(map(int, said)) if kind == "index" else () for kind, said, _ in facts["sites"]]),
        undone=facts["undone"],
        stop=None if facts["stop"] is None else unpack_ref(facts["stop"]),
    )


def slot_type(program: CardProgram, slot: int) -> Type:
    """The type of the array in a slot."""
    return program.types[slot - FIRST_INPUT]


# Steps as lists.


def pack_ref(ref: MemRef) -> list[Any]:
    """A place as JSON values."""
    return [ref.slot, int(ref.offset), [[loop, int(stride)] for loop, stride in ref.moves]]


def unpack_ref(packed: Sequence[Any]) -> MemRef:
    """The place that JSON values hold."""
    slot, offset, moves = packed
    return MemRef(slot, offset, tuple([(loop, stride) for loop, stride in moves]))


def unpack_steps(packed: Sequence[Any]) -> tuple[Any, ...]:
    """The steps that JSON values hold, with consecutive ones that need no host grouped as `DeviceSteps`."""
    out: list[Any] = []
    together: list[Any] = []
    for step in [*map(unpack_step, packed), None]:
        if step is not None and needs_no_host(step):
            together.append(flat_loop(step) if isinstance(step, ForLoop) else step)
            continue
        if together:
            refs = list(touched(together))
            loops = {loop for ref in refs for loop, _ in ref.moves} - set(inner_loops(together))
            slots = {ref.slot for ref in refs}
            out.append(DeviceSteps(tuple(together), tuple(sorted(loops)), tuple(sorted(slots))))
            together = []
        if step is not None:
            out.append(step)
    return tuple(out)


def needs_no_host(step: CardStep) -> bool:
    """Test whether a card runs a step without the host; copies within one array may need temporary memory."""
    if isinstance(step, RoutineCall):
        return not copies_may_overlap(step)
    if isinstance(step, ForLoop):
        return not step.outermost and all(isinstance(inside, DeviceSteps) for inside in step.body)
    return isinstance(step, NumberedLaunch)


def flat_loop(loop: ForLoop) -> ForLoop:
    """A loop that needs no host, with the steps inside its body's `DeviceSteps` as its body."""
    return replace(loop, body=tuple([step for together in loop.body for step in together.steps]))  # type: ignore[union-attr]


def launches_and_copies(steps: Iterable[Any]) -> Iterator[NumberedLaunch | RoutineCall]:
    """The launches and copies of a program, in its order."""
    for step in steps:
        match step:
            case NumberedLaunch() | RoutineCall():
                yield step
            case DeviceSteps():
                yield from launches_and_copies(step.steps)
            case ForLoop():
                yield from launches_and_copies(step.body)
            case WhileLoop():
                yield from launches_and_copies((*step.test, *step.body))
            case Switch():
                for case in step.cases:
                    yield from launches_and_copies(case)


def touched(steps: Iterable[Any]) -> Iterator[MemRef]:
    """The places of steps that need no host."""
    for step in steps:
        if isinstance(step, ForLoop):
            yield from touched(step.body)
        else:
            yield from step.refs


def inner_loops(steps: Iterable[Any]) -> Iterator[int]:
    """The numbers of the loops of steps that need no host."""
    for step in steps:
        if isinstance(step, ForLoop):
            yield step.loop
            yield from inner_loops(step.body)


def unpack_step(packed: Sequence[Any]) -> CardStep:
    """A step."""

    match packed:
        case "launch", kernel, refs:
            return NumberedLaunch(kernel, tuple(map(unpack_ref, refs)))
        case "host", (loaded, code, stored), loads, stores:
            scalars = HostScalars(
                tuple([Element(*at) for at in loaded]),
                tuple([(op, dtype, tuple(args), extra) for op, dtype, args, extra in code]),
                tuple([(Element(*at), number) for at, number in stored]),
            )
            places = tuple([(unpack_ref(ref), dtype) for ref, dtype in loads])
            return HostStep(scalars, places, tuple(map(unpack_ref, stores)))
        case "copy", refs, nbytes:
            return RoutineCall("copy", tuple(map(unpack_ref, refs)), (nbytes,))
        case "check", site, ref, fine:
            return StatusCheck(site, unpack_ref(ref), fine)
        case "repeat", loop, trips, body, reverse, outermost:
            return ForLoop(loop, trips, unpack_steps(body), reverse, outermost)
        case "while", test, ref, body:
            return WhileLoop(unpack_steps(test), unpack_ref(ref), unpack_steps(body))
        case _:
            _, ref, cases = packed
            return Switch(unpack_ref(ref), tuple(map(unpack_steps, cases)))
