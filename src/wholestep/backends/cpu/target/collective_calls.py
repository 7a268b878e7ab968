"""Calls of collectives: a routine that waits for the other processes of an axis."""

from __future__ import annotations

from wholestep import dtypes
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

LAUNCHES = 1000
"""The latency of a message between processes of one machine, in launches of a kernel."""


def collective_operands(low: Materializer, node: Node) -> None:
    """Materialize the operands in row-major order."""
    for x in node.inputs:
        low.materialize_row_major(x)


def collective_tasks(low: Materializer, node: Node) -> list[Task]:
    """One call, which the program may be left at: a process of the axis may have ended."""
    (result,) = node.outputs
    sources = [low.locations[x].place for x in node.inputs]
    target = low.locations[result].place
    axis_name = node.params["axis_name"]
    site = low.context.site("collective", (f"{node.op.name} over {axis_name!r}", ""), node.where)
    params = (dtypes.letters(result.dtype), result.type.size, site)
    places = (*sources, target)
    effects = RoutineEffects(
        tuple([(i, x.nbytes) for i, x in enumerate(sources)]),
        ((len(sources), target.nbytes),),
        fallible=True,
        launches=LAUNCHES,
    )

    def steps(at: Assignment) -> tuple[Step, ...]:
        routine = f"collective.{node.op.name}.{axis_name}"
        return (RoutineCall(routine, tuple(map(at.address, places)), params, node.where, effects),)

    return [Task(tuple(sources), (target,), steps, check=True)]
