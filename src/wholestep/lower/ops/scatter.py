"""Scatter: a copy of the operand unless it is written in place, then the updates in row-major order of indices."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import Coordinates, linear_index, row_major_strides
from wholestep.lower.buffers.materialize import Materializer, strip_reshapes
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.kernels.op_rules import wrap_index
from wholestep.lower.kernels.scalar_codegen import ElementReader, Location, components_of
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape, copy_kernel_task
from wholestep.lower.program.steps import Step
from wholestep.primitives.indexing import ScatterSet


def scatter_tasks(low: Materializer, node: Node) -> list[Task]:
    """Copy the operand, then apply the updates in row-major order of the indices."""
    x, u, *indices = node.inputs
    out = node.outputs[0]
    if out.type.size == 0:
        return []
    first = copy_unless_in_place(low, x, low.locations[out])
    if u.type.size == 0:
        return [first]
    axes = node.params["axes"]
    with KernelTemplate(low, node.op.name) as reader:
        k = indices[0].ndim
        over, at = axes_of_shape(indices[0].shape, "n")
        inner, rest = axes_of_shape(u.shape[k:], "j")
        with reader.loops(over, ordered=True):
            picked = {a: wrap_index(reader, reader.read(i, at), x.shape[a]) for a, i in zip(axes, indices, strict=True)}
            with reader.loops(inner):
                others = iter(rest)
                place = tuple([picked[a] if a in picked else next(others) for a in range(x.ndim)])
                scatter_element(reader, node, low.locations[out], place, reader.read(u, (*at, *rest)))
    return [first, reader.task()]


def copy_unless_in_place(low: Materializer, x: Value, location: Location) -> Task:
    """A task that copies the operand, or nothing where the result lies over it once addresses are known."""
    made, layout = copy_kernel_task(low, x, location), low.context.layout
    over, own = layout.overwritten_memory(location.place), low.locations.get(strip_reshapes(x))
    if over is None or own is None or layout.memory(own.place) is not over:
        return made
    if own.strides != row_major_strides(strip_reshapes(x).shape) or location.strides != row_major_strides(x.shape):
        return made

    def steps(at: Assignment) -> tuple[Step, ...]:
        return () if at.address(location.place) == at.address(own.place) else made.steps(at)

    return Task(made.reads, made.writes, steps)


def scatter_element(reader: ElementReader, node: Node, location: Location, place: Coordinates, value: Any) -> None:
    """Store or add one element."""
    out = node.outputs[0]
    if isinstance(node.op, ScatterSet):
        reader.store(out, location, place, value)
        return
    buffer, line = reader.home_buffer(out, location), linear_index(place, location.strides)
    parts = components_of(value)
    for i, part in enumerate(parts):
        at = line * len(parts) + i
        old = reader.builder.convert(reader.builder.load(buffer, at, here=True), part.dtype)
        new = reader.builder.op("add" if part.dtype.kind != "b" else "or", old, part)
        reader.builder.store(buffer, at, reader.builder.convert(new, buffer.dtype))
