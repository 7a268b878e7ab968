"""The compiler driver: a graph becomes a loaded program of this processor, or is found compiled on disk.

    trace -> differentiate (frontend, transforms) -> reroll (train) -> graph passes -> legalize -> fuse -> schedule
    -> assign buffers -> rematerialize and offload -> emit LLVM -> machine code -> load

Each stage takes the value that the one before has made; `compiler.rewrites` lists the rewrites of the graph.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from wholestep import config
from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import CpuTarget
from wholestep.collector import without_garbage_collection
from wholestep.compiler.artifact_entry import pack_entry, unpack_artifact
from wholestep.compiler.compilation_unit import ASSUMED_SIZE, CompilationUnit
from wholestep.compiler.memory_report import Forecast, MemoryReport, plan_costs, report_memory
from wholestep.contents import sha256
from wholestep.dims import SymbolicError
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph
from wholestep.ir.text import text_and_objects
from wholestep.kernel.lang import Kernel
from wholestep.lower.compile import lower_program
from wholestep.lower.dynamic_shapes import SYMBOLIC_SIZE_HINT, substitute_sizes
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.lower.verify_program import verify_program
from wholestep.passes.optional import collect_left_out
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.report import explain
from wholestep.report.cost_table import Costs
from wholestep.report.memory_plot import PlottableProgram, plottable
from wholestep.runtime.cache.code_cache import cached_code
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu import machine_rates
from wholestep.runtime.cpu.artifact import Artifact
from wholestep.runtime.cpu.executable import NativeExecutable
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs
from wholestep.words import Words


class InspectableProgram:
    """The reports of a compiled program; what the disk cache does not keep is computed when it is asked for."""

    unit: CompilationUnit
    artefact: Artifact

    @property
    def target(self) -> CpuTarget:
        """The processor that it is compiled for."""
        return self.unit.target

    @cached_property
    def plan(self) -> LoweredProgram:
        """The lowered program: its steps, and the buffer assignment."""
        return plan_graph(self.unit)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, each once."""
        return self.plan.kernels()

    def source(self) -> str:
        """The LLVM text."""
        return llvm_source(self.plan, self.target).text

    def explain(self) -> str:
        """A report on fusion, loops and costs, a few lines for each kernel."""
        with self.unit.assumed_sizes():
            return Words("\n".join(explain.report_lines(self.plan)))

    def cost(self) -> Costs:
        """The predicted cost of a run: an entry for each kernel and for each line."""
        return plan_costs(self.plan)

    @property
    def memory(self) -> MemoryReport:
        """The memory of a run, by purpose."""
        return report_memory(self.unit, self.plan, sum(map(len, self.artefact.objects)))


class CompiledProgram(InspectableProgram, NativeExecutable):
    """A program whose sizes are all known."""

    def __init__(self, unit: CompilationUnit, artefact: Artifact, streams: FileInputs = NO_FILE_INPUTS) -> None:
        super().__init__(unit.graph, artefact, streams=streams)
        self.unit = unit


def compile_graph(
    graph: Graph,
    resident: Sequence[tuple[int, int]] = (),
    budget: MemoryBudget | None = None,
    streams: FileInputs = NO_FILE_INPUTS,
) -> CompiledProgram:
    """Compile a graph for this processor; raises BudgetError where it needs more memory than `budget`."""
    unit = CompilationUnit(graph, tuple(resident), with_measured_rates(budget), tuple(streams.inputs)).checked()
    return CompiledProgram(unit, compile_artifact(unit), streams)


def forecast_memory(
    graph: Graph,
    resident: Sequence[tuple[int, int]],
    budget: MemoryBudget | None = None,
    kept: int = 0,
    streamed: Sequence[int] = (),
) -> Forecast:
    """The memory of a graph once compiled, without its code; this many bytes are kept beside the program.

    Raises UnsupportedError where symbolic sizes prevent one plan for all of them.
    """
    budget = None if budget is None else budget.keeping(kept)
    unit = CompilationUnit(graph, tuple(resident), with_measured_rates(budget), tuple(streamed)).checked()
    plan = plan_graph(unit)
    found = Forecast(*report_memory(unit, plan, 0, kept))
    found.plan = plan
    return found


def with_measured_rates(budget: MemoryBudget | None) -> MemoryBudget | None:
    """A budget with the rates of this machine as they are known now, for as long as its program lives."""
    return None if budget is None else budget._replace(rates=machine_rates.current_rates())


def compile_artifact(unit: CompilationUnit) -> Artifact:
    """The code of a unit and all that the runtime needs of it, from the disk cache where it is there."""
    start = time.perf_counter()
    if config.check() or any(config.debug(word) for word in ("kernel", "plan", "passes", "ir")):
        entry = compile_entry(unit)
    else:
        flags: dict[str, Any] = {"resident": unit.resident, "passes": ALL_PASSES, "budget": unit.budget}
        flags |= {"supposed": ASSUMED_SIZE, "streamed": unit.streamed}
        entry = cached_code(graph_fingerprint(unit.graph), unit.target, flags, lambda: compile_entry(unit))
    found = unpack_artifact(unit, entry)
    if config.debug("time"):
        print(f"compiled {unit.graph.name} in {1e3 * (time.perf_counter() - start):.1f} ms", file=sys.stderr)
    return found


def graph_fingerprint(graph: Graph) -> str:
    """A text of all that the code of a graph depends on, without the names that a user gave."""
    text, objects = text_and_objects(Graph(graph.inputs, graph.nodes, graph.outputs))
    hashes = [
        f"{name} {sha256(value)} {value.dtype} {value.shape}"
        for name, value in objects.items()
        if isinstance(value, np.ndarray)
    ]
    return "\n".join([text, *hashes])


@without_garbage_collection()  # nearly all that a compilation makes is in use until it ends
def compile_entry(unit: CompilationUnit) -> CacheEntry:
    """Lower a graph and compile it to machine code, printing what the environment asks for."""
    plan = plan_graph(unit)
    if config.debug("kernel"):
        print(*plan.kernels(), sep="\n\n", file=sys.stderr)
    if config.debug("plan"):
        print(plan, file=sys.stderr)
    return pack_entry(unit, plan, llvm_source(plan, unit.target))


def plan_graph(unit: CompilationUnit) -> PlottableProgram:
    """Optimize and lower a graph.

    Raises UnsupportedError where symbolic sizes prevent one program for all of them.
    """
    budget = None if unit.budget is None else unit.budget.keeping(unit.constant_bytes)
    try:
        with unit.assumed_sizes(), collect_left_out() as left:
            optimized = run_passes(unit.graph, ALL_PASSES)
            lowered = lower_program(optimized, machine_model(unit.target), unit.resident, budget, unit.streamed)
            if config.check():
                verify_program(substitute_sizes(lowered), not unit.sizes)
    except SymbolicError as error:
        raise UnsupportedError(f"compile: {error}", hint=SYMBOLIC_SIZE_HINT) from None
    return plottable(lowered, tuple(map(str, left)))
