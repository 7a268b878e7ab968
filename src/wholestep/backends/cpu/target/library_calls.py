"""Library calls: LAPACK routines with their operands and scratch memory, and the rules of all routines of the CPU."""

from __future__ import annotations

from wholestep.backends.cpu.target.argsort import argsort_operands, argsort_tasks, sorted_rows_tasks
from wholestep.backends.cpu.target.collective_calls import collective_tasks
from wholestep.backends.cpu.target.lapack import InArg, LapackArgument, OutArg, ScratchArg, StatusArg
from wholestep.backends.cpu.target.tiled_factors import (
    elimination_tasks,
    factor_tasks,
    substitution_tasks,
)
from wholestep.dims import Size
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task, row_major_location
from wholestep.lower.kernels.scalar_codegen import Location
from wholestep.lower.ops.loop_templates import OpaqueRule, copy_kernel_task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

LAUNCHES, PRODUCTS = 16, 8
"""The time of a routine on one matrix: launches of a kernel, and operations for the cube of its size."""
MOST_PARTS, MOST_SHARED, WORTH_SHARING = 16, 32 * 32, 1 << 11
"""The most parts of a stack that threads share; the most elements of a matrix of which LAPACK starts no threads of its
own; and the elements of all matrices below which one thread is as quick as two. Measured."""


def demand_operands(low: Materializer, node: Node) -> None:
    """Materialize the operands of a routine: read-only operands in row-major order, the sources of the other operands
    for copies into its work arrays."""
    arguments = node.params["arguments"]
    whole = {a.input for a in arguments if isinstance(a, InArg)}
    for i, x in enumerate(node.inputs):
        if i in whole:
            low.materialize_row_major(x)
        else:
            low.materialize_leaves(x)


def demand_rows(low: Materializer, node: Node) -> None:
    """Materialize the operands in row-major order."""
    for x in node.inputs:
        low.materialize_row_major(x)


def library_tasks(low: Materializer, node: Node) -> list[Task]:
    """The copies, then the call."""
    arguments: tuple[LapackArgument, ...] = node.params["arguments"]
    outs = [a for a in arguments if isinstance(a, OutArg)]
    homes = [low.locations.get(v) or row_major_location(v, Allocation(v.type.nbytes)) for v in node.outputs]
    started = [(node.inputs[a.start], h) for a, h in zip(outs, homes, strict=True) if a.start is not None]
    copies = [copy_kernel_task(low, x, h) for x, h in started if x.type.size]
    return [*copies, library_call_task(low, node, homes)]


def library_call_task(low: Materializer, node: Node, homes: list[Location]) -> Task:
    """The call of a routine for each matrix of a stack."""
    count, places = node.params["count"], iter([h.place for h in homes])
    parts = shared_parts(count, max([x.type.size for x in (*node.inputs, *node.outputs)]))
    refs: list[Allocation] = []
    given: list[tuple[str, int, int]] = []
    reads: list[Allocation] = []
    writes: list[Allocation] = []
    scratch: list[Allocation] = []
    site = 0
    for a in node.params["arguments"]:
        if isinstance(a, str):
            given.append(("letter", ord(a), 0))
        elif isinstance(a, int):
            given.append(("number", a, 0))
        elif isinstance(a, StatusArg):
            given.append(("status", 0, 0))
            site = low.context.site("linalg", (a.message, ""), node.where) if a.message else 0
        elif a is None:
            given.append(("null", 0, 0))
        else:
            if isinstance(a, OutArg):
                place = next(places)
            else:
                scratched = isinstance(a, ScratchArg)
                place = Allocation(parts * a.nbytes) if scratched else low.locations[node.inputs[a.input]].place
            {OutArg: writes, InArg: reads, ScratchArg: scratch}[type(a)].append(place)
            if isinstance(a, OutArg) and a.start is not None:
                reads.append(place)
            apart = ("scratch", a.nbytes) if isinstance(a, ScratchArg) else ("memory", place.nbytes // count)
            given.append((apart[0], len(refs), apart[1]))
            refs.append(place)
    params = (count, parts, tuple(given), site)
    effects = library_effects(refs, reads, writes, count)._replace(parallel=parts > 1)

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (RoutineCall(node.params["routine"], tuple(map(at.address, refs)), params, node.where, effects),)

    return Task(tuple(reads), tuple(writes), steps, scratch=tuple(scratch), check=site != 0)


def shared_parts(count: Size, elements: Size) -> int:
    """The parts of a stack that threads share, 1 where the calling thread computes all matrices."""
    if not isinstance(count, int) or not isinstance(elements, int) or elements > count * MOST_SHARED:
        return 1
    return min(count, MOST_PARTS) if elements >= WORTH_SHARING else 1


def library_effects(
    refs: list[Allocation], reads: list[Allocation], writes: list[Allocation], count: int
) -> RoutineEffects:
    """The effects of a routine on its arguments; its arithmetic is the cube of the size of the largest matrix."""
    held = {*map(id, reads), *map(id, writes)}
    elements = max([x.nbytes // count for x in refs if id(x) in held], default=0) / 8
    return RoutineEffects(
        tuple([(i, x.nbytes) for i, x in enumerate(refs) if any(x is y for y in reads)]),
        tuple([(i, x.nbytes) for i, x in enumerate(refs) if any(x is y for y in writes)]),
        fallible=True,
        launches=LAUNCHES * count,
        products=count * PRODUCTS * elements**1.5,
    )


LIBRARY_RULES = {
    "argsort": OpaqueRule(argsort_operands, argsort_tasks),
    "sorted_rows": OpaqueRule(argsort_operands, sorted_rows_tasks),
    "lapack": OpaqueRule(demand_operands, library_tasks),
    "substitution": OpaqueRule(demand_rows, substitution_tasks),
    "packed_factors": OpaqueRule(demand_rows, elimination_tasks),
    "upper_factor": OpaqueRule(demand_rows, factor_tasks),
    "psum": OpaqueRule(demand_rows, collective_tasks),
    "all_gather": OpaqueRule(demand_rows, collective_tasks),
    "psum_scatter": OpaqueRule(demand_rows, collective_tasks),
    "axis_index": OpaqueRule(demand_rows, collective_tasks),
}
"""The operations that are routines of the CPU."""
