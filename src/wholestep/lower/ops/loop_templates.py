"""Loop templates: hand-written kernels with a loop nest over the axes of a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import Axis, Index, Kernel
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task, kernel_task
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.kernels.scalar_codegen import ElementReader, Location, ReadableLocations


class OpaqueRule(NamedTuple):
    """The lowering rule of an operation that is not fused: what it materializes, and its tasks."""

    demands: Callable[[Materializer, Node], None]
    tasks: Callable[[Materializer, Node], list[Task]]


def leaf_operands(low: Materializer, node: Node) -> None:
    """Materialize what the operands are computed from through movement."""
    for x in node.inputs:
        low.materialize_leaves(x)


def axes_of_shape(shape: tuple[int, ...], letter: str = "i") -> tuple[list[Axis], Coordinates]:
    """Axes for a loop nest over a shape, and the coordinates; an axis of size 1 needs no loop."""
    axes, at = [], []
    for k, n in enumerate(shape):
        axis = Axis(f"{letter}{k}", n)
        at.append(Index() if n == 1 else Index(0, {axis: 1}))
        if n != 1:
            axes.append(axis)
    return axes, tuple(at)


def schedule_template(low: Materializer, builder: KernelBuilder, reader: ElementReader) -> BoundKernel:
    """The finished kernel with its allocations, its axes vectorized and tiled."""
    kernel = low.context.target.schedule_in_order(builder.kernel())
    return bind_kernel(low, kernel, reader)


def bind_kernel(low: Materializer, kernel: Kernel, reader: ElementReader) -> BoundKernel:
    """A scheduled kernel with the places of its buffers."""
    places = tuple([place for place, _ in reader.buffers])
    return BoundKernel(kernel, places, parallel=low.context.target.worth_sharing(kernel))


@contextmanager
def loop_nest(builder: KernelBuilder, axes: list[Axis], ordered: bool = False) -> Iterator[None]:
    """A context manager that emits loops over several axes."""
    with ExitStack() as loops:
        for axis in axes:
            loops.enter_context(builder.loop(axis, ordered))
        yield


def copy_kernel_task(low: Materializer, x: Value, location: Location) -> Task:
    """A kernel that writes x to another location."""
    builder = KernelBuilder("copy")
    with builder:
        reader = ElementReader(builder, ReadableLocations(low.locations, ()))
        axes, at = axes_of_shape(x.shape)
        with loop_nest(builder, axes):
            reader.store(x, location, at, reader.read(x, at))
    return kernel_task(schedule_template(low, builder, reader))
