"""Calls of collectives: a routine that waits for the other processes of an axis."""

from __future__ import annotations

from dataclasses import replace

from wholestep import dtypes
from wholestep.collectives import communicator_of, exchange_bytes
from wholestep.ir.graph import Node, Value
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

LAUNCHES = 1000
"""The latency of a message between processes of one machine, in launches of a kernel."""


def collective_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that begins a collective, as soon as its operand is computed, and the call that waits for its end, as
    late as possible; tasks between them overlap with the communication. The rank is one call, without a wait.

    The program may fail at the waiting call: a process of the axis may have ended.
    """
    (result,) = node.outputs
    target = low.locations[result].place
    op, axis_name = node.op.name, node.params["axis_name"]
    site = low.context.site("collective", (f"{op} over {axis_name!r}", ""), node.where)
    if not node.inputs:
        return [collective_task(f"{op}.{axis_name}", node, (target,), (), result, site)]
    (operand,) = node.inputs
    source, number = low.locations[operand].place, Allocation(8)
    ranks = communicator_of(axis_name, op).size
    room = Allocation(exchange_bytes(op, operand.type.size, operand.dtype.itemsize, ranks))
    begin = collective_task(f"begin_{op}.{axis_name}", node, (number, room), (source,), operand, site)
    end = collective_task(f"end_{op}.{axis_name}", node, (target,), (number,), result, site, LAUNCHES)
    return [replace(begin, sends=True), replace(end, waits=True, reads=(number, room))]


def collective_task(
    name: str,
    node: Node,
    writes: tuple[Allocation, ...],
    reads: tuple[Allocation, ...],
    data: Value,
    site: int,
    launches: int = 1,
) -> Task:
    """The task of one call, which is passed the number and the dtype of the elements of `data`."""
    params = (dtypes.letters(data.dtype), data.type.size, site)
    effects = RoutineEffects(
        tuple([(i, x.size) for i, x in enumerate(reads)]),
        tuple([(len(reads) + i, x.size) for i, x in enumerate(writes)]),
        fallible=True,
        launches=launches,
    )

    def steps(at: Assignment) -> tuple[Step, ...]:
        refs = tuple(map(at.address, (*reads, *writes)))
        return (RoutineCall(f"collective.{name}", refs, params, node.where, effects),)

    return Task(reads, writes, steps, check=True)
