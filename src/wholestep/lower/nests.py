"""Nests: kernels that lowering writes itself, loops over the axes of a shape around a few lines of code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import Axis, Index
from wholestep.lower.access import Home, Readable, Reader
from wholestep.lower.indices import At
from wholestep.lower.schedule import as_written
from wholestep.lower.storage import Storage
from wholestep.lower.work import Work, kernel_work
from wholestep.lower.write import Written


class Rule(NamedTuple):
    """What an operation needs stored, and the work that it becomes."""

    demands: Callable[[Storage, Node], None]
    works: Callable[[Storage, Node], list[Work]]


def leaves(low: Storage, node: Node) -> None:
    """The operands are read through movement."""
    for x in node.inputs:
        low.want_leaves(x)


def axes_over(shape: tuple[int, ...], letter: str = "i") -> tuple[list[Axis], At]:
    """Axes for a nest over a shape, and its coordinates; an axis of size 1 needs no loop."""
    axes, at = [], []
    for k, n in enumerate(shape):
        axis = Axis(f"{letter}{k}", n)
        at.append(Index() if n == 1 else Index(0, {axis: 1}))
        if n != 1:
            axes.append(axis)
    return axes, tuple(at)


def finished(low: Storage, builder: Builder, reader: Reader) -> Written:
    """The kernel, its axes given lanes and tiles, and its places."""
    made = Written(builder.kernel(), tuple([place for place, _ in reader.buffers]))
    return as_written(made, low.context.machine)


@contextmanager
def nest(builder: Builder, axes: list[Axis], ordered: bool = False) -> Iterator[None]:
    """Loops over several axes, entered and left together."""
    with ExitStack() as loops:
        for axis in axes:
            loops.enter_context(builder.loop(axis, ordered))
        yield


def copied(low: Storage, x: Value, home: Home) -> Work:
    """x written to another place."""
    builder = Builder("copy")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        axes, at = axes_over(x.shape)
        with nest(builder, axes):
            reader.store(x, home, at, reader.read(x, at))
    return kernel_work(finished(low, builder, reader))
