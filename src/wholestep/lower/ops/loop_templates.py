"""Kernel templates: hand-written kernels with a loop nest over the axes of a shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from wholestep.dims import Size
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates, size_index
from wholestep.kernel.lang import Axis, Index
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task, kernel_task
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.kernels.scalar_codegen import ElementReader, Location, ReadableLocations


class OpaqueRule(NamedTuple):
    """The lowering rule of an operation that is not fused: `demands` materializes its operands, `tasks` makes its
    tasks."""

    demands: Callable[[Materializer, Node], None]
    tasks: Callable[[Materializer, Node], list[Task]]


def leaf_operands(low: Materializer, node: Node) -> None:
    """Materialize the sources of the operands behind movement operations."""
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


class KernelTemplate(ElementReader):
    """A kernel that is written by hand inside a `with` statement; `task` then returns its task."""

    def __init__(self, low: Materializer, name: str) -> None:
        super().__init__(KernelBuilder(name, low.context.target.doubles), ReadableLocations(low.locations, ()))
        self.target = low.context.target

    def __enter__(self) -> KernelTemplate:
        self.builder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.builder.__exit__(*error)

    @contextmanager
    def loops(self, axes: Sequence[Axis], ordered: bool = False) -> Iterator[None]:
        """A context manager that emits loops over several axes."""
        with ExitStack() as loops:
            for axis in axes:
                loops.enter_context(self.builder.loop(axis, ordered))
            yield

    def task(self, *, scheduled: bool = False) -> Task:
        """The task of the kernel; its axes are vectorized and tiled unless they are `scheduled` already."""
        written = self.builder.kernel()
        kernel = written if scheduled else self.target.schedule_in_order(written)
        places = tuple([place for place, _ in self.buffers])
        return kernel_task(BoundKernel(kernel, places, parallel=self.target.worth_sharing(kernel)))


def copy_kernel_task(low: Materializer, x: Value, location: Location) -> Task:
    """A kernel that writes x to another location."""
    with KernelTemplate(low, "copy") as kernel:
        axes, at = axes_of_shape(x.shape)
        with kernel.loops(axes):
            kernel.store(x, location, at, kernel.read(x, at))
    return kernel.task()


MOST_COLUMNS = 36
"""The most columns that are stored beside each other by one kernel."""


def joins_columns(node: Node) -> bool:
    """True if a concatenation stores one element of each operand beside each other."""
    axis, lines = node.params["axis"], [x.shape[node.params["axis"] :] for x in node.inputs]
    return (
        len(lines) <= MOST_COLUMNS
        and node.outputs[0].shape[axis] == len(lines)
        and all(math.prod(s) == 1 for s in lines)
    )


def computed_operands(low: Materializer, node: Node) -> None:
    """Materialize what the operands are computed from by cheap operations: each of their elements is read once."""
    for x in node.inputs:
        low.materialize_leaves(x, computed=True)


def concat_tasks(low: Materializer, node: Node) -> list[Task]:
    """The concatenation of large arrays: one copy kernel for each operand, or one for all if they are columns."""
    out, axis = node.outputs[0], node.params["axis"]
    if joins_columns(node):
        with KernelTemplate(low, "columns") as kernel:
            axes, at = axes_of_shape(node.inputs[0].shape)
            with kernel.loops(axes):
                found = [kernel.read(x, at) for x in node.inputs]
                for k, x in enumerate(found):
                    kernel.store(out, low.locations[out], (*at[:axis], Index(k), *at[axis + 1 :]), x)
        return [kernel.task()]
    made: list[Task] = []
    start: Size = 0
    for x in node.inputs:
        if x.type.size:
            with KernelTemplate(low, "part") as kernel:
                axes, at = axes_of_shape(x.shape)
                place = (*at[:axis], at[axis] + size_index(kernel.builder, start), *at[axis + 1 :])
                with kernel.loops(axes):
                    kernel.store(out, low.locations[out], place, kernel.read(x, at))
            made.append(kernel.task())
        start += x.shape[axis]
    return made
