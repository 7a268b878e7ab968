"""The CPU as a backend: LLVM text, machine code in this process, measured rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import CpuTarget, exported_target, host_target
from wholestep.backends.cpu.exported_object import exported_object
from wholestep.backends.cpu.llvm_jit import code_identity
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.program.placed import PlacedProgram
from wholestep.lower.program.program import LoweredProgram
from wholestep.runtime.backend import Backend, LoadedCode
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu import machine_rates
from wholestep.runtime.cpu.artifact_entry import pack_entry, unpack_artifact
from wholestep.runtime.cpu.executable import NativeCode
from wholestep.runtime.cpu.profiler import ProfiledProgram
from wholestep.runtime.memory.mapped_arrays import FileInputs


class CpuBackend(Backend):
    """Code for a processor; this process can run that of its own."""

    def __init__(self, processor: CpuTarget) -> None:
        self.processor = processor
        self.target = machine_model(processor)

    def identity(self) -> Mapping[str, Any]:
        return code_identity(self.processor)

    def rates(self) -> Rates:
        return machine_rates.current_rates()

    def source(self, plan: LoweredProgram) -> str:
        return llvm_source(plan, self.processor).text

    def compile(self, unit: CompilationUnit, plan: LoweredProgram) -> CacheEntry:
        return pack_entry(unit, plan, self.processor)

    def load(self, unit: CompilationUnit, entry: CacheEntry) -> NativeCode:
        return NativeCode(unit.graph, unpack_artifact(unit, entry))

    def export_object(self, programs: Sequence[PlacedProgram], prefix: str) -> bytes:
        return exported_object(programs, prefix, self.processor)

    def profiler(
        self,
        unit: CompilationUnit,
        plan: LoweredProgram,
        code: LoadedCode,
        streams: FileInputs,
        state: Sequence[NDArray],
    ) -> ProfiledProgram:
        return ProfiledProgram(unit, plan, self.processor, streams, state)


@cache
def host_backend() -> CpuBackend:
    """The backend of the processor that this process runs on."""
    return CpuBackend(host_target())


def exporting_backend(processor: str) -> CpuBackend:
    """The backend of a processor that code is exported for, by name; raises UnsupportedError for an unknown one."""
    return CpuBackend(exported_target(processor))
