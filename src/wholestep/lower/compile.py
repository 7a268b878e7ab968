"""The lowering pipeline: graph to tasks, buffer assignment within the memory budget, prefetches, lowered program."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wholestep.dims import most
from wholestep.errors import BudgetError
from wholestep.ir.graph import Graph
from wholestep.ir.types import array_type
from wholestep.lower.buffers.lifetimes import arena_timeline
from wholestep.lower.buffers.tasks import ARENA_SLOT, ProgramBuilder, Task, row_major_location
from wholestep.lower.cost.roofline import Rates, microseconds
from wholestep.lower.dynamic_shapes import check_symbolic_sizes
from wholestep.lower.kernels.scalar_codegen import Location
from wholestep.lower.legalize.pipeline import legalize
from wholestep.lower.lower_graph import lower_graph
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.program import FIRST_INPUT, BufferSlot, LoweredProgram
from wholestep.lower.program.steps import ForLoop, Launch, MemRef, Step, walk_steps
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.lower.remat.solve import BudgetSolver
from wholestep.lower.target import FREE_REUSE, Target


def lower_program(
    graph: Graph,
    target: Target,
    resident: Sequence[tuple[int, int]] = (),
    budget: MemoryBudget | None = None,
    streamed: Collection[int] = (),
    winograd: bool = False,
) -> LoweredProgram:
    """Lower a graph to a program; `resident` pairs inputs with the outputs that are written over them (donation).

    The inputs in `streamed` lie in files and are streamed a few rows at a time; then all sizes are numbers. With
    `winograd` convolutions of 3x3 windows are computed by tiles where that pays. Raises BudgetError where no program is
    found within the budget, and UnsupportedError where symbolic sizes prevent one program for all of them.
    """
    check_symbolic_sizes(graph)
    legal = legalize(graph, target, winograd)
    context = ProgramBuilder(target, legal.stored)
    called = ProgramArguments(graph, resident, streamed)
    arena, file = Allocation(0, MemRef(ARENA_SLOT)), Allocation(0, MemRef(called.next_slot), file=True)
    found = lower_graph(legal.graph, context, called.inputs, called.outputs, arena, file)
    fitting = budget_solver(target, budget, context)
    free = fitting.fit(found)
    if budget is not None:
        fixed = called.bytes_in_memory(streamed) + context.constant_bytes
        least = fitting.fit_within(found, budget.arena(fixed, free))
        if least > budget.arena(fixed, free):
            spilled = not budget.spill and fits_budget(
                graph, target, resident, budget.with_spilling(), streamed, winograd
            )
            raise budget.refused(graph.name, fixed, free, least, spilled)
    assigned = fitting.assignment()
    own, steps = assigned.graphs[found], mark_stoppable_loop(assigned.steps(found))
    filed = most(own.file)
    slots, files = called.slots_and_files(streamed, filed)
    constants = list(context.constants.values())
    return LoweredProgram(
        graph.name,
        tuple(slots),
        target.place_offload(steps, files, task_rates(target, budget), context.loop),
        tuple(range(FIRST_INPUT, FIRST_INPUT + len(graph.inputs))),
        tuple(called.out_slots),
        tuple([array for array, _ in constants]),
        tuple([most(assigned.address(place).offset) for _, place in constants]),
        own.arena,
        own.bound,
        tuple(context.sites),
        tuple(arena_timeline(assigned, found)),
        tuple(fitting.decisions),
        filed,
        notes=legal.notes,
    )


class ProgramArguments:
    """The buffers that a program is called with: inputs, then the outputs that are not written over one of these."""

    def __init__(self, graph: Graph, resident: Sequence[tuple[int, int]], streamed: Collection[int]) -> None:
        replaced = {o: i for i, o in resident}
        names = graph.input_names or [""] * len(graph.inputs)
        self.slots = [BufferSlot("input", v.type, name) for v, name in zip(graph.inputs, names, strict=True)]
        self.inputs = [
            row_major_location(v, Allocation(v.type.nbytes, MemRef(FIRST_INPUT + i), file=i in streamed))
            for i, v in enumerate(graph.inputs)
        ]
        self.outputs: list[Location] = []
        self.out_slots: list[int] = []
        for o, v in enumerate(graph.outputs):
            if o in replaced:
                place = Allocation(v.type.nbytes, base=self.inputs[replaced[o]].place)
                self.out_slots.append(FIRST_INPUT + replaced[o])
            else:
                self.out_slots.append(self.next_slot)
                self.slots.append(BufferSlot("output", v.type))
                place = Allocation(v.type.nbytes, MemRef(self.out_slots[-1]))
            self.outputs.append(row_major_location(v, place))

    def bytes_in_memory(self, streamed: Collection[int]) -> Any:
        """The bytes of the buffers, without those of streamed inputs."""
        return sum([s.type.nbytes for i, s in enumerate(self.slots) if i not in streamed])

    def slots_and_files(self, streamed: Collection[int], filed: int) -> tuple[list[BufferSlot], frozenset[int]]:
        """The slots, with one more for a file of `filed` bytes unless that is 0; and the numbers of those in files."""
        own = [BufferSlot("file", array_type((filed,), np.dtype(np.uint8)))] if filed else []
        files = [FIRST_INPUT + i for i in streamed] + [self.next_slot] * len(own)
        return [*self.slots, *own], frozenset(files)

    @property
    def next_slot(self) -> int:
        """The number of the slot after those of the buffers."""
        return FIRST_INPUT + len(self.slots)


def task_rates(target: Target, budget: MemoryBudget | None) -> Rates:
    """The rates by which tasks are priced: those of the target, or of the budget."""
    return target.rates if budget is None else budget.rates


def budget_solver(target: Target, budget: MemoryBudget | None, context: ProgramBuilder) -> BudgetSolver:
    """The solver that assigns memory to the tasks of a program, within a budget if there is one."""
    rates = task_rates(target, budget)
    disk = rates if budget is not None and budget.spill else None
    price = partial(task_microseconds, rates=rates)
    reuse = target.reuse if budget is None else FREE_REUSE  # where memory is short, it comes first
    return BudgetSolver(context.layout.finish(), price, context.pinned, disk, target.is_evictable, reuse)


def fits_budget(
    graph: Graph,
    target: Target,
    resident: Sequence[tuple[int, int]],
    budget: MemoryBudget,
    streamed: Collection[int],
    winograd: bool,
) -> bool:
    """True if there is a program within a budget."""
    try:
        lower_program(graph, target, resident, budget, streamed, winograd)
    except BudgetError:
        return False
    return True


def task_microseconds(task: Task, rates: Rates) -> float:
    """The predicted time of one run of a kernel; infinite for other tasks, which cannot be recomputed."""
    if task.bound is None:
        return math.inf
    kernel = task.bound.kernel
    return microseconds(Launch(kernel, (), task.bound.parallel), rates)


def mark_stoppable_loop(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with the longest outermost loop marked as the one that may be left between trips."""
    loops = [s for s in steps if isinstance(s, ForLoop) and not s.indivisible]
    if not loops:
        return steps
    longest = max(loops, key=lambda s: len(list(walk_steps(s.body))) * s.trips)
    return tuple([replace(s, outermost=True) if s is longest else s for s in steps])
