"""Concatenation of large arrays: one copy kernel for each operand."""

from __future__ import annotations

from wholestep.ir.graph import Node
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import size_index
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task, kernel_task
from wholestep.lower.kernels.scalar_codegen import ElementReader, ReadableLocations
from wholestep.lower.ops.loop_templates import axes_of_shape, loop_nest, schedule_template


def concat_tasks(low: Materializer, node: Node) -> list[Task]:
    """One copy kernel for each operand."""
    out, axis = node.outputs[0], node.params["axis"]
    made: list[Task] = []
    start = 0
    for x in node.inputs:
        if x.type.size:
            builder = KernelBuilder("part")
            with builder:
                reader = ElementReader(builder, ReadableLocations(low.locations, ()))
                axes, at = axes_of_shape(x.shape)
                place = (*at[:axis], at[axis] + size_index(builder, start), *at[axis + 1 :])
                with loop_nest(builder, axes):
                    reader.store(out, low.locations[out], place, reader.read(x, at))
            made.append(kernel_task(schedule_template(low, builder, reader)))
        start += x.shape[axis]
    return made
