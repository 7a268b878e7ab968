"""Scatter, and assignment to small slices: a copy of the operand unless it is written in place, then the updates; on
targets whose work items run side by side each element of the result searches for its own updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import Coordinates, linear_index, row_major_strides
from wholestep.lower.buffers.materialize import Materializer, strip_reshapes
from wholestep.lower.buffers.tasks import Assignment, Task, row_major_location
from wholestep.lower.fusion.fusion_groups import is_virtual
from wholestep.lower.kernels.op_rules import wrap_index
from wholestep.lower.kernels.scalar_codegen import ElementReader, Location, components_of
from wholestep.lower.legalize.scatter_places import scatter_way
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape, copy_kernel_task, leaf_operands
from wholestep.lower.ops.scatter_elements import combined_components, elements_task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import Step


def scatter_operands(low: Materializer, node: Node) -> None:
    """Materialize the operands; an operand whose result replaces an input in memory is computed in that place, which
    its other readers then read before the updates."""
    out, x = node.outputs[0], strip_reshapes(node.inputs[0])
    at, layout = low.locations.get(out), low.context.layout
    replaces = at is not None and layout.overwritten_memory(at.place) is not None
    if at is not None and replaces and at.strides == row_major_strides(out.shape) and is_computed(low, x):
        low.locations[x] = row_major_location(x, Allocation(at.place.size, base=at.place))
        layout.lent.add(low.locations[x].place)
        low.pending.append(x)
    leaf_operands(low, node)


def is_computed(low: Materializer, v: Value) -> bool:
    """True for a value that a kernel stores and that has no location yet."""
    return v not in low.locations and v.node is not None and not is_virtual(v.node)


def scatter_tasks(low: Materializer, node: Node) -> list[Task]:
    """The tasks of a scatter: a copy of the operand and its updates, or both in one."""
    x, u, *_ = node.inputs
    out, limits = node.outputs[0], low.context.target.looks
    if out.type.size == 0:
        return []
    first = copy_unless_in_place(low, x, low.locations[out])
    if u.type.size == 0:
        return [first]
    way = scatter_way(node, limits)
    if way == "by element":
        return [elements_task(low, node)]
    return [first, places_task(low, node, ordered=way != "at once")]


def places_task(low: Materializer, node: Node, ordered: bool) -> Task:
    """A task that applies the updates index by index, in row-major order of the indices if `ordered`; else no two
    indices are equal, which the kernel shows, since each index is clipped to its axis."""
    x, u, *indices = node.inputs
    out, axes = node.outputs[0], node.params["axes"]
    with KernelTemplate(low, node.op.name) as reader:
        k = indices[0].ndim
        over, at = axes_of_shape(indices[0].shape, "n")
        inner, rest = axes_of_shape(u.shape[k:], "j")
        with reader.loops(over, ordered):
            picked = {a: wrap_index(reader, reader.read(i, at), x.shape[a]) for a, i in zip(axes, indices, strict=True)}
            if not ordered:
                picked = {a: reader.clip(i, x.shape[a]) for a, i in picked.items()}
            with reader.loops(inner):
                others = iter(rest)
                place = tuple([picked[a] if a in picked else next(others) for a in range(x.ndim)])
                scatter_element(reader, node, low.locations[out], place, reader.read(u, (*at, *rest)))
    return reader.task()


def slice_tasks(low: Materializer, node: Node) -> list[Task]:
    """The tasks of an assignment to a small slice: a copy of the operand, and a kernel over the slice."""
    x, u = node.inputs
    out, start, step = node.outputs[0], node.params["start"], node.params["step"]
    first = copy_unless_in_place(low, x, low.locations[out])
    if u.type.size == 0:
        return [first]
    with KernelTemplate(low, node.op.name) as kernel:
        axes, at = axes_of_shape(u.shape)
        with kernel.loops(axes):
            place = tuple([i * s + a for a, i, s in zip(start, at, step, strict=True)])
            kernel.store(out, low.locations[out], place, kernel.read(u, at))
    return [first, kernel.task()]


def copy_unless_in_place(low: Materializer, x: Value, location: Location) -> Task:
    """A task that copies the operand, or nothing where the result lies over it once addresses are known."""
    made, own = copy_kernel_task(low, x, location), low.locations.get(strip_reshapes(x))
    if own is None:
        return made
    if own.strides != row_major_strides(strip_reshapes(x).shape) or location.strides != row_major_strides(x.shape):
        return made

    def steps(at: Assignment) -> tuple[Step, ...]:
        return () if at.address(location.place) == at.address(own.place) else made.steps(at)

    return replace(made, steps=steps)


def scatter_element(reader: ElementReader, node: Node, location: Location, place: Coordinates, value: Any) -> None:
    """Store one element, or combine it with the stored one if the scatter has a combiner."""
    out, combiner = node.outputs[0], node.op.joined_by
    if not combiner:
        reader.store(out, location, place, value)
        return
    buffer, line = reader.home_buffer(out, location), linear_index(place, location.strides)
    parts = components_of(value)
    for i, part in enumerate(parts):
        at = line * len(parts) + i
        old = reader.builder.convert(reader.builder.load(buffer, at, here=True), part.dtype)
        new = combined_components(reader, combiner, old, part)
        reader.builder.store(buffer, at, reader.builder.convert(new, buffer.dtype))
