"""Programs for a card as the disk cache keeps them: their kernels, as text or code, and steps for the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.beside_kernels import KernelsBeside, launch_text
from wholestep.backends.gpu.host_scalars import HostStep, SplitKernel, split_kernel
from wholestep.backends.gpu.kernel_writer import KernelCode, write_kernel
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.launch_order import HOST_ELEMENT, LaunchPart, card_part, order_launches
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
    map_nested,
    walk_steps,
)
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.error_sites import ErrorSite, pack_largest, pack_sites, unpack_sites
from wholestep.runtime.gpu.card_steps import CardStep, NumberedLaunch, packed, steps_in_groups, unpack_steps
from wholestep.runtime.gpu.conditions import (
    NUMBER,
    STOP_WORDS,
    Condition,
    case_conditions,
    conditional_copy,
    failure_note,
    is_left_alone,
    runs_without_host,
)
from wholestep.runtime.gpu.driver import Driver, KernelShape
from wholestep.runtime.gpu.memory import raw_bytes


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

    def slot_type(self, slot: int) -> Type:
        """The type of the array in a slot."""
        return self.types[slot - FIRST_INPUT]

    def input_type(self, i: int) -> Type:
        """The type of an input."""
        return self.slot_type(self.inputs[i])


class CardModule:
    """The module of a program: its steps, its text, its distinct kernels, and the bytes of its arena,
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
        self.steps = self.numbered(plan.steps)
        self.codes = list(self.written.values())
        self.text = language.module([code.text for code in self.codes])

    def numbered(self, body: Sequence[Step]) -> tuple[Any, ...]:
        """Steps with numbers for their kernels, and consecutive launches reordered and joined."""
        out: list[CardStep] = []
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
            out += self.branched(step) if self.alone and isinstance(step, Switch) else [self.control(step)]
        return (*out, *self.ordered(parts))

    def reserved(self, nbytes: int) -> MemRef:
        """Allocate a place after the arena."""
        found = MemRef(0, -(-self.arena // NUMBER) * NUMBER)
        self.arena = int(found.offset) + nbytes
        return found

    def branched(self, step: Switch) -> list[CardStep]:
        """The launches of all cases of a switch, each under the condition of its case."""
        out, ref, around = list[CardStep](), step.ref, self.conditions
        if not is_left_alone(ref, walk_steps((step,))):
            ref = self.reserved(NUMBER)
            copy = RoutineCall("copy", (ref, step.ref), (NUMBER,))
            out.append(self.launched(*conditional_copy(copy), (copy,)))
        for case, own in zip(step.cases, case_conditions(ref, len(step.cases)), strict=True):
            self.conditions = (*around, *own)
            out += self.numbered(case)
        self.conditions = around
        return out

    def launched(
        self, kernel: Kernel | KernelsBeside, refs: Sequence[MemRef], steps: tuple[Launch | RoutineCall, ...]
    ) -> NumberedLaunch:
        """The launch that runs these steps: its arguments are its conditions' numbers, then `refs`."""
        self.done_by.append(steps)
        places = [condition.ref for condition in self.conditions]
        return NumberedLaunch(self.number(kernel, refs), (*places, *refs))

    def ordered(self, parts: Sequence[LaunchPart]) -> list[NumberedLaunch | HostStep]:
        """Consecutive launches in their final order."""
        by = self.language
        ordered = order_launches(parts, by.most_buffers, self.trips, by.most_shared, by.narrow_apart, by.joins_rows)
        return [part if isinstance(part, HostStep) else self.launched(*part) for part in ordered]

    def launch(self, step: Launch) -> list[LaunchPart]:
        """The parts of a launch: one of the host and one of the card, or one of them."""
        split = SplitKernel(None, step.kernel) if self.doubles else split_kernel(step.kernel)
        refs, types = list(step.refs), [b.dtype for b in step.kernel.buffers]
        for dtype in split.added:
            refs.append(MemRef(0, self.arena))
            types.append(dtype)
            self.arena += HOST_ELEMENT
        host = [] if split.host is None else [split.host.at(refs, types)]
        return [*host, *([] if split.card is None else [card_part(split.card, refs, (step,))])]

    def number(self, kernel: Kernel | KernelsBeside, refs: Sequence[MemRef]) -> int:
        """The number of a kernel's text for buffers at these places, which is written once."""
        aligned = tuple([i for i, ref in enumerate(refs) if self.language.vectors and is_aligned(ref)])
        key = launch_text(kernel), tuple([condition.unless for condition in self.conditions]), aligned
        if key not in self.written:
            self.written[key] = write_kernel(kernel, f"k{len(self.written)}", self.language, key[1], aligned)
        return list(self.written).index(key)

    def control(self, step: Any) -> Any:
        """A step other than a launch."""
        if isinstance(step, RoutineCall):
            self.done_by.append((step,))
            return RoutineCall("copy", step.refs, (int(step.params[0]),))
        if isinstance(step, ForLoop):
            self.trips[step.loop] = int(step.trips)
        return map_nested(step, self.numbered)


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
        "steps": packed(module.steps),
        "arena": module.arena,
        "largest": pack_largest(unit.graph, plan),
        "sites": pack_sites(unit.graph, plan),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in unit.resident}),
        "stop": packed(module.stop),
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
        steps=steps_in_groups(unpack_steps(facts["steps"])),
        sites=unpack_sites(unit.graph, facts["sites"]),
        numbers=tuple([tuple(map(int, said)) if kind == "index" else () for kind, said, _ in facts["sites"]]),
        undone=facts["undone"],
        stop=unpack_steps(facts["stop"]),
    )
