"""Programs for a card as the disk cache keeps them: the text of their kernels, and steps that a host goes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.kernel_writer import KernelCode, write_kernel
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.kernel.lang import Kernel
from wholestep.kernel.text import canonical_text
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.program import FIRST_INPUT, LoweredProgram
from wholestep.lower.program.steps import ForLoop, Launch, MemRef, RoutineCall, StatusCheck, Step, Switch, WhileLoop
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.error_sites import ErrorSite, pack_sites, unpack_sites
from wholestep.runtime.gpu.driver import KernelShape
from wholestep.runtime.gpu.memory import raw_bytes


@dataclass(frozen=True)
class NumberedLaunch:
    """The launch of the kernel of this number on the buffers at these places."""

    kernel: int
    refs: tuple[MemRef, ...]


CardStep = NumberedLaunch | RoutineCall | StatusCheck | ForLoop | WhileLoop | Switch


@dataclass(frozen=True)
class CardProgram:
    """The text of a module, its kernels, the memory of a program, and its steps, whose launches are numbered."""

    text: str
    kernels: tuple[KernelShape, ...]
    types: tuple[Type, ...]
    """The types of the slots from the first input on."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arena: int
    constants: NDArray
    """The bytes of the constants where the program expects them."""
    steps: tuple[Any, ...]
    sites: tuple[ErrorSite, ...]
    numbers: tuple[tuple[int, ...], ...]
    """The axis and the size of each site that an index fails at; nothing for the others."""
    undone: bool
    """True if the program may fail after it has written resident memory."""


def write_module(plan: LoweredProgram, language: KernelLanguage) -> tuple[str, list[KernelCode], dict[Kernel, int]]:
    """The module of a program, its kernels without those that are equal to another, and the number of each."""
    written: dict[str, KernelCode] = {}
    numbers: dict[Kernel, int] = {}
    for kernel in plan.kernels():
        key = canonical_text(kernel)
        if key not in written:
            written[key] = write_kernel(kernel, f"k{len(written)}", language)
        numbers[kernel] = list(written).index(key)
    codes = list(written.values())
    return language.module([code.text for code in codes]), codes, numbers


def pack_program(unit: CompilationUnit, plan: LoweredProgram, language: KernelLanguage) -> CacheEntry:
    """A program as an entry of the cache."""
    text, codes, numbers = write_module(plan, language)
    ends = [at + a.nbytes for at, a in zip(plan.constant_offsets, plan.constants, strict=True)]
    blob = np.zeros(max(ends, default=0), np.uint8)
    for at, array in zip(plan.constant_offsets, plan.constants, strict=True):
        blob[at : at + array.nbytes] = raw_bytes(np.ascontiguousarray(array))
    facts = {
        "kernels": [[code.name, code.groups, code.threads] for code in codes],
        "types": [[dtypes.short(s.type.dtype), list(map(int, s.type.shape))] for s in plan.slots],
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "arena": int(plan.arena),
        "steps": [pack_step(s, numbers) for s in plan.steps],
        "sites": pack_sites(unit.graph, plan),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in unit.resident}),
    }
    return CacheEntry((text.encode(), blob.data), facts)


def unpack_program(unit: CompilationUnit, entry: CacheEntry) -> CardProgram:
    """The program that an entry of the cache holds."""
    facts: Mapping[str, Any] = entry.facts
    text, constants = entry.pieces
    return CardProgram(
        text=bytes(text).decode(),
        kernels=tuple([KernelShape(*shape) for shape in facts["kernels"]]),
        types=tuple([array_type(tuple(shape), dtypes.from_short(name)) for name, shape in facts["types"]]),
        inputs=tuple(facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        arena=facts["arena"],
        constants=np.frombuffer(constants, np.uint8),
        steps=tuple(map(unpack_step, facts["steps"])),
        sites=unpack_sites(unit.graph, facts["sites"]),
        numbers=tuple([tuple(map(int, said)) if kind == "index" else () for kind, said, _ in facts["sites"]]),
        undone=facts["undone"],
    )


def slot_type(program: CardProgram, slot: int) -> Type:
    """The type of the array in a slot."""
    return program.types[slot - FIRST_INPUT]


# Steps as lists.


def pack_ref(ref: MemRef) -> list[Any]:
    """A place as JSON can hold it."""
    return [ref.slot, int(ref.offset), [[loop, int(stride)] for loop, stride in ref.moves]]


def unpack_ref(packed: Sequence[Any]) -> MemRef:
    """A place."""
    slot, offset, moves = packed
    return MemRef(slot, offset, tuple([(loop, stride) for loop, stride in moves]))


def pack_step(step: Step, numbers: Mapping[Kernel, int]) -> list[Any]:
    """A step as JSON can hold it: a word, and what the step has."""

    def steps(body: Sequence[Step]) -> list[Any]:
        return [pack_step(s, numbers) for s in body]

    match step:
        case Launch():
            return ["launch", numbers[step.kernel], list(map(pack_ref, step.refs))]
        case RoutineCall():
            return ["copy", list(map(pack_ref, step.refs)), int(step.params[0])]
        case StatusCheck():
            return ["check", step.site, pack_ref(step.ref), step.fine]
        case ForLoop():
            return ["repeat", step.loop, int(step.trips), steps(step.body), step.reverse, step.outermost]
        case WhileLoop():
            return ["while", steps(step.test), pack_ref(step.ref), steps(step.body)]
        case Switch():
            return ["switch", pack_ref(step.ref), list(map(steps, step.cases))]


def unpack_step(packed: Sequence[Any]) -> CardStep:
    """A step."""

    def steps(body: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(map(unpack_step, body))

    match packed:
        case "launch", kernel, refs:
            return NumberedLaunch(kernel, tuple(map(unpack_ref, refs)))
        case "copy", refs, nbytes:
            return RoutineCall("copy", tuple(map(unpack_ref, refs)), (nbytes,))
        case "check", site, ref, fine:
            return StatusCheck(site, unpack_ref(ref), fine)
        case "repeat", loop, trips, body, reverse, outermost:
            return ForLoop(loop, trips, steps(body), reverse, outermost)
        case "while", test, ref, body:
            return WhileLoop(steps(test), unpack_ref(ref), steps(body))
        case _:
            _, ref, cases = packed
            return Switch(unpack_ref(ref), tuple(map(steps, cases)))
