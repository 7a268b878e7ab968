"""Rank sort: each key counts the keys before it, and each position finds the key of its rank, in two launches.

ranks[i] = the number of keys that are less than keys[i], or equal and before it
order[k] = the i of which ranks[i] is k
"""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Node
from wholestep.kernel.index_arithmetic import Coordinates, linear_index, row_major_strides
from wholestep.kernel.lang import I32, I64
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape
from wholestep.lower.ops.merge_sort import merge_sort_tasks
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import Step


def sort_tasks(low: Materializer, node: Node) -> list[Task]:
    """The stable order of keys in rows: by ranks where the target's limits let each key read all keys, else by merging,
    which takes few launches for short rows."""
    keys, limits = node.inputs[0], low.context.target.looks
    if not keys.type.size or limits is None or not limits.allow(keys.type.size, keys.type.size):
        return merge_sort_tasks(low, node)
    (order,) = node.outputs
    ranks = Allocation(keys.type.size * I32.itemsize)
    tasks = (ranks_task(low, node, ranks), positions_task(low, node, ranks))

    def steps(at: Assignment) -> tuple[Step, ...]:
        return tuple([step for task in tasks for step in task.steps(at)])

    return [Task((low.locations[keys].place,), (low.locations[order].place,), steps, scratch=(ranks,))]


def ranks_task(low: Materializer, node: Node, ranks: Allocation) -> Task:
    """A kernel that counts for each key those before it in the order."""
    (keys,) = node.inputs
    n = keys.shape[-1]
    with KernelTemplate(low, "ranks") as reader:
        b, (axes, at) = reader.builder, axes_of_shape(keys.shape)
        with reader.loops(axes):
            own, here = reader.read(keys, at), b.index(at[-1])

            def counted(r: Coordinates) -> tuple[Any]:
                other = reader.read(keys, (*at[:-1], r[0]))
                tied = b.op("and", b.op("eq", other, own), b.op("lt", b.index(r[0]), here))
                return (b.convert(b.op("or", b.op("lt", other, own), tied), I32),)

            found = reader.reduce("add", at, (n,), I32, counted)
            b.store(reader.buffer(ranks, I32, keys.type.size), linear_index(at, row_major_strides(keys.shape)), found)
    return reader.task()


def positions_task(low: Materializer, node: Node, ranks: Allocation) -> Task:
    """A kernel that searches for the key of each rank."""
    (order,) = node.outputs
    strides = row_major_strides(order.shape)
    with KernelTemplate(low, "positions_of_ranks") as reader:
        b, (axes, at) = reader.builder, axes_of_shape(order.shape)
        given = reader.buffer(ranks, I32, order.type.size)
        with reader.loops(axes):
            wanted = b.convert(b.index(at[-1]), I32)

            def found(r: Coordinates) -> tuple[Any]:
                rank = b.load(given, linear_index((*at[:-1], r[0]), strides))
                return (b.op("select", b.op("eq", rank, wanted), b.convert(b.index(r[0]), I32), b.constant(0, I32)),)

            position = reader.reduce("add", at, (order.shape[-1],), I32, found)
            reader.store(order, low.locations[order], at, b.convert(position, I64))
    return reader.task()
