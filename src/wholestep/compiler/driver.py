"""The compiler driver: a graph becomes a loaded program of a device, or is found compiled on disk.

    trace -> differentiate, find attention (frontend, transforms) -> update rows, reroll (train) -> graph passes
    -> legalize -> fuse -> schedule -> assign buffers -> rematerialize and offload -> emit code -> load

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
from wholestep.collector import without_garbage_collection
from wholestep.compiler.backends import default_backend
from wholestep.compiler.memory_report import Forecast, MemoryReport, plan_costs, report_memory
from wholestep.contents import sha256
from wholestep.dims import ASSUMED_SIZE, SymbolicError
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.text import text_and_objects
from wholestep.kernel.lang import Kernel
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.compile import lower_program
from wholestep.lower.dynamic_shapes import SYMBOLIC_SIZE_HINT, substitute_sizes
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.lower.target import Target
from wholestep.lower.verify_program import verify_program
from wholestep.passes.optional import collect_left_out
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.report import explain
from wholestep.report.cost_table import Costs
from wholestep.report.memory_plot import PlottableProgram, plottable
from wholestep.runtime.backend import Backend, LoadedCode, Profiler
from wholestep.runtime.cache.code_cache import cached_code
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.executable import BoundExecutable, Executable, QuickCall
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs
from wholestep.words import Words


class InspectableProgram:
    """The reports of a compiled program, computed on demand where the disk cache does not keep them."""

    unit: CompilationUnit
    backend: Backend
    code: LoadedCode

    @cached_property
    def plan(self) -> LoweredProgram:
        """The lowered program: its steps, and the buffer assignment."""
        return plan_graph(self.unit, self.backend.target)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, each once."""
        return self.plan.kernels()

    def source(self) -> str:
        """The text of the program before it is machine code."""
        return self.backend.source(self.plan)

    def explain(self) -> str:
        """A report on fusion, loops and costs, a few lines for each kernel."""
        with self.unit.assumed_sizes():
            return Words("\n".join(explain.report_lines(self.plan)))

    def cost(self) -> Costs:
        """The predicted cost of a run: an entry for each kernel and for each line."""
        return plan_costs(self.plan, self.backend.rates())

    @property
    def memory(self) -> MemoryReport:
        """The memory of a run, by purpose."""
        return report_memory(self.unit, self.plan, self.code.nbytes)


class CompiledProgram(InspectableProgram, Executable):
    """A program whose sizes are all known."""

    def __init__(
        self, unit: CompilationUnit, backend: Backend, code: LoadedCode, streams: FileInputs = NO_FILE_INPUTS
    ) -> None:
        self.unit, self.backend, self.code, self.streams = unit, backend, code, streams
        self.graph, self.resident = unit.graph, unit.resident
        self.executable = code.executable(streams)

    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        return self.executable(arrays)

    def quick_call(self) -> QuickCall | None:
        return self.executable.quick_call()

    def instance(self, state: Sequence[Any]) -> BoundExecutable:
        return self.executable.instance(state)

    def profiler(self, state: Sequence[Any]) -> Profiler:
        """The program with a clock around its kernels, on copies of this state."""
        return self.backend.profiler(self.unit, self.plan, self.code, self.streams, state)


def compile_graph(
    graph: Graph,
    resident: Sequence[tuple[int, int]] = (),
    budget: MemoryBudget | None = None,
    streams: FileInputs = NO_FILE_INPUTS,
    backend: Backend | None = None,
    winograd: bool = False,
) -> CompiledProgram:
    """Compile a graph for a device; raises BudgetError where it needs more memory than `budget`."""
    backend = backend or default_backend()
    budget = with_rates(budget, backend)
    unit = CompilationUnit(graph, tuple(resident), budget, tuple(streams.inputs), winograd).checked()
    return CompiledProgram(unit, backend, compile_unit(unit, backend), streams)


def forecast_memory(
    graph: Graph,
    resident: Sequence[tuple[int, int]],
    budget: MemoryBudget | None = None,
    kept: int = 0,
    streamed: Sequence[int] = (),
    winograd: bool = False,
) -> Forecast:
    """The memory of a graph once compiled, without its code; this many bytes are kept beside the program.

    Raises UnsupportedError where symbolic sizes prevent one plan for all of them.
    """
    backend = default_backend()
    budget = with_rates(None if budget is None else budget.keeping(kept), backend)
    unit = CompilationUnit(graph, tuple(resident), budget, tuple(streamed), winograd).checked()
    plan = plan_graph(unit, backend.target)
    found = Forecast(*report_memory(unit, plan, 0, kept))
    found.plan, found.rates = plan, backend.rates()
    return found


def with_rates(budget: MemoryBudget | None, backend: Backend) -> MemoryBudget | None:
    """A budget with this machine's measured rates as of now, which its program keeps."""
    return None if budget is None else budget._replace(rates=backend.rates())


def compile_unit(unit: CompilationUnit, backend: Backend) -> LoadedCode:
    """The code of a unit in this process, from the disk cache where it is there."""
    start = time.perf_counter()
    if config.check() or any(config.debug(word) for word in ("kernel", "plan", "passes", "ir")):
        entry = compile_entry(unit, backend)
    else:
        flags: dict[str, Any] = {"resident": unit.resident, "passes": ALL_PASSES, "budget": unit.budget}
        flags |= {"supposed": ASSUMED_SIZE, "streamed": unit.streamed, "winograd": unit.winograd}
        entry = cached_code(
            graph_fingerprint(unit.graph), backend.identity(), flags, lambda: compile_entry(unit, backend)
        )
    found = backend.load(unit, entry)
    if config.debug("time"):
        print(f"compiled {unit.graph.name} in {1e3 * (time.perf_counter() - start):.1f} ms", file=sys.stderr)
    return found


def graph_fingerprint(graph: Graph) -> str:
    """The fingerprint of a graph: a text of everything that its code depends on, without the user's names."""
    text, objects = text_and_objects(Graph(graph.inputs, graph.nodes, graph.outputs))
    hashes = [
        f"{name} {sha256(value)} {value.dtype} {value.shape}"
        for name, value in objects.items()
        if isinstance(value, np.ndarray)
    ]
    return "\n".join([text, *hashes])


@without_garbage_collection()  # nearly all that a compilation makes is in use until it ends
def compile_entry(unit: CompilationUnit, backend: Backend) -> CacheEntry:
    """Lower a graph and generate its code; print the stages named by WHOLESTEP_DEBUG."""
    plan = plan_graph(unit, backend.target)
    if config.debug("kernel"):
        print(*plan.kernels(), sep="\n\n", file=sys.stderr)
    if config.debug("plan"):
        print(plan, file=sys.stderr)
    return backend.compile(unit, plan)


def plan_graph(unit: CompilationUnit, target: Target) -> PlottableProgram:
    """Optimize a graph and lower it for a target.

    Raises UnsupportedError where symbolic sizes prevent one program for all of them.
    """
    budget = None if unit.budget is None else unit.budget.keeping(unit.constant_bytes)
    try:
        with unit.assumed_sizes(), collect_left_out() as left:
            optimized = run_passes(unit.graph, ALL_PASSES)
            lowered = lower_program(optimized, target, unit.resident, budget, unit.streamed, unit.winograd)
            if config.check():
                verify_program(substitute_sizes(lowered), not unit.sizes)
    except SymbolicError as error:
        raise UnsupportedError(f"compile: {error}", hint=SYMBOLIC_SIZE_HINT) from None
    return plottable(lowered, tuple(map(str, left)))
