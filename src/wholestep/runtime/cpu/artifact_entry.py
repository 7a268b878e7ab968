"""Cache entries: machine code and the facts that the runtime needs of it, packed for the disk and unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.cpu.compiler import LlvmSource, llvm_source
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.backends.cpu.entry_function import ENTRY_SYMBOL, EntryFunction
from wholestep.backends.cpu.object_compiler import ObjectCompiler
from wholestep.dims import dim_product, spelled
from wholestep.errors import Where
from wholestep.ir.graph import Graph, NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost import roofline
from wholestep.lower.dynamic_shapes import substitute_sizes
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import PREFETCH, PREFETCH_NOW, RoutineCall, walk_steps
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu.artifact import Artifact, ErrorSite, TableSlot

ENTRY_OPT = 0
"""LLVM's optimization of the function that calls the kernels: a call takes no longer for it that could be measured, and
at the level of the kernels it was up to a tenth of all code generation."""


def pack_entry(
    unit: CompilationUnit, plan: LoweredProgram, target: CpuTarget, printer: type[EntryFunction] = EntryFunction
) -> CacheEntry:
    """Write a plan as LLVM text and compile it, with all that the runtime must know to run it."""
    with ObjectCompiler(target) as compiler:
        text = llvm_source(plan, target, printer, compiler.add)
        compiler.add(text.modules[-1], ENTRY_OPT)
        facts = entry_facts(unit, plan, text)
        objects = compiler.objects()
    return CacheEntry((*objects, *map(array_bytes, plan.constants)), facts)


def entry_facts(unit: CompilationUnit, plan: LoweredProgram, text: LlvmSource) -> dict[str, Any]:
    """The facts that the runtime must know to run the code of a plan, as JSON can hold them."""
    wheres = list(source_locations(unit.graph))
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
        "sites": [
            # A line that is unknown has the number -1.
            [s.kind, list(map(str, s.facts)), wheres.index(s.where) if s.where in wheres else -1]
            for s in plan.sites
        ],
        "streamed": any(
            isinstance(s, RoutineCall) and s.routine in (PREFETCH, PREFETCH_NOW) for s in walk_steps(plan.steps)
        ),
        "parallel": any(launch.parallel for launch in plan.launches()),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in unit.resident}),
        "microseconds": microseconds,
    }


def array_bytes(array: NDArray) -> memoryview:
    """The bytes of an array in row-major order, without a copy where possible."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def source_locations(graph: Graph) -> Iterator[Where]:
    """The user's line of every operation, in an order that depends on the graph alone."""
    return (node.where for part in graph.family() for node in part.nodes)


def unpack_artifact(unit: CompilationUnit, entry: CacheEntry) -> Artifact:
    """The artifact that a cache entry holds."""
    facts: Mapping[str, Any] = entry.facts
    wheres = list(source_locations(unit.graph)) if facts["sites"] else []
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
        sites=tuple([unpack_site(kind, said, wheres[i] if i >= 0 else None) for kind, said, i in facts["sites"]]),
        resident=unit.resident,
        undone=facts["undone"],
        parallel=facts["parallel"],
        streamed=facts["streamed"],
        microseconds=facts["microseconds"],
    )


def unpack_site(kind: Any, facts: Sequence[str], where: Where) -> ErrorSite:
    """A point where a program may fail, with its message."""
    if kind == "index":
        return ErrorSite("bounds", where)
    message, hint = facts
    return ErrorSite(kind, where, message, hint or None)
