"""Cache entries: machine code and the facts that the runtime needs of it, packed for the disk and unpacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.cpu.compiler import LlvmSource, llvm_source
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.entry_function import ENTRY_SYMBOL, EntryFunction
from wholestep.backends.cpu.object_compiler import ObjectCompiler
from wholestep.dims import dim_product, spelled
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost import roofline
from wholestep.lower.dynamic_shapes import substitute_sizes
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import PREFETCH, PREFETCH_NOW, Launch, RoutineCall, walk_steps
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu.artifact import Artifact, TableSlot
from wholestep.runtime.cpu.thread_pool import thread_count
from wholestep.runtime.error_sites import pack_sites, unpack_sites

ENTRY_OPT = 0
"""LLVM's optimization of the function that calls the kernels: a call takes no longer for it that could be measured, and
at the level of the kernels it was up to a tenth of all code generation."""


def pack_entry(
    unit: CompilationUnit, plan: LoweredProgram, target: CpuTarget, printer: type[EntryFunction] = EntryFunction
) -> CacheEntry:
    """Write a plan as LLVM text and compile it; the entry also holds the metadata that the runtime needs."""
    with ObjectCompiler(target, thread_count()) as compiler:
        text = llvm_source(plan, target, printer, compiler.add)
        compiler.add(text.modules[-1], ENTRY_OPT)
        facts = entry_facts(unit, plan, text)
        objects = compiler.objects()
    return CacheEntry((*objects, *map(array_bytes, plan.constants)), facts)


def entry_facts(unit: CompilationUnit, plan: LoweredProgram, text: LlvmSource) -> dict[str, Any]:
    """The metadata that the runtime needs to run the code of a plan, as JSON values."""
    with unit.assumed_sizes():
        microseconds = roofline.total_microseconds(substitute_sizes(plan).steps)
    return {
        "objects": len(text.modules),
        "slots": [[s.kind, dtypes.short(s.type.dtype), list(map(str, s.type.shape))] for s in plan.slots],
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "arena": str(plan.arena),
        "sizes": list(map(str, text.sizes)),
        "constants": [[dtypes.short(a.dtype), list(a.shape)] for a in plan.constants],
        "offsets": list(plan.constant_offsets),
        "symbols": list(text.symbols),
        "sites": pack_sites(unit.graph, plan),
        "streamed": any(
            isinstance(s, RoutineCall) and s.routine in (PREFETCH, PREFETCH_NOW) for s in walk_steps(plan.steps)
        ),
        "parallel": any(s.parallel for s in walk_steps(plan.steps) if isinstance(s, Launch | RoutineCall)),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in unit.resident}),
        "microseconds": microseconds,
    }


def array_bytes(array: NDArray) -> memoryview:
    """The bytes of an array in row-major order, without a copy where possible."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def unpack_artifact(unit: CompilationUnit, entry: CacheEntry) -> Artifact:
    """The artifact that a cache entry holds."""
    facts: Mapping[str, Any] = entry.facts
    byte = np.dtype(np.uint8)
    count = facts["objects"]
    constants = [
        np.frombuffer(data, dtypes.from_short(name)).reshape(shape)
        for data, (name, shape) in zip(entry.pieces[count:], facts["constants"], strict=True)
    ]
    room = max([o + a.nbytes for o, a in zip(facts["offsets"], constants, strict=True)], default=0)
    arrays = [(kind, dtypes.from_short(name), tuple(map(spelled, shape))) for kind, name, shape in facts["slots"]]
    sizes = tuple(map(spelled, facts["sizes"]))
    slots = (
        TableSlot("arena", byte, (spelled(facts["arena"]),), spelled(facts["arena"])),
        TableSlot("constant", byte, (room,), room),
        *[TableSlot(kind, t, shape, dim_product(shape) * t.itemsize) for kind, t, shape in arrays],
        *([TableSlot("sizes", np.dtype(np.int64), (len(sizes),), 8 * len(sizes))] if sizes else []),
    )
    return Artifact(
        objects=tuple(map(bytes, entry.pieces[:count])),
        entry=ENTRY_SYMBOL,
        slots=slots,
        inputs=tuple(facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        constants=tuple(constants),
        constant_offsets=tuple(facts["offsets"]),
        symbols=tuple(facts["symbols"]),
        sizes=sizes,
        sites=unpack_sites(unit.graph, facts["sites"]),
        resident=unit.resident,
        undone=facts["undone"],
        parallel=facts["parallel"],
        streamed=facts["streamed"],
        microseconds=facts["microseconds"],
    )
