"""Kernels beside LAPACK routines: assertions, row exchanges, square roots of triangular matrices."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Node, Value
from wholestep.kernel.index_arithmetic import linear_index
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.kernels.scalar_codegen import ElementReader, Location, components_of
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape, copy_kernel_task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import StatusCheck, Step


def require_tasks(low: Materializer, node: Node) -> list[Task]:
    """The kernel that tests the condition, the step that returns from the program where it fails, and the copy."""
    (x, holds), (out,) = node.inputs, node.outputs
    place = Allocation(16)
    with KernelTemplate(low, "require") as reader:
        builder, flag = reader.builder, reader.buffer(place, I64, 2)
        builder.store(flag, Index(0), builder.convert(reader.read(holds, ()), I64))
        builder.store(flag, Index(1), builder.constant(0, I64))
    looked, moved = reader.task(), copy_kernel_task(low, x, low.locations[out])
    site = low.context.site(node.params["kind"], (node.params["message"], node.params["hint"]), node.where)

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (*looked.steps(at), StatusCheck(site, at.address(place), 1), *moved.steps(at))

    reads = tuple(dict.fromkeys((*looked.reads, *moved.reads)))
    return [Task(reads, moved.writes, steps, scratch=(place,), check=True)]


def exchanged_tasks(low: Materializer, node: Node) -> list[Task]:
    """The task that writes 0, 1, 2, ... along the last axis, and the one that applies the exchanges in order."""
    (pivots,), (out,) = node.inputs, node.outputs
    with KernelTemplate(low, "numbered") as kernel:
        axes, at = axes_of_shape(out.shape)
        with kernel.loops(axes):
            kernel.store(out, low.locations[out], at, kernel.builder.index(at[-1]))
    return [kernel.task(), row_exchange_task(low, pivots, out)]


def row_exchange_task(low: Materializer, pivots: Value, out: Value) -> Task:
    """A task that applies the row exchanges of `pivots` to `out`, one after the other."""
    with KernelTemplate(low, "exchanged") as reader:
        over, at = axes_of_shape(out.shape[:-1])
        step = Axis("s", pivots.shape[-1])
        with reader.loops([*over, step], ordered=True):
            here = Index(0, {step: 1})
            there = Index(0, {reader.builder.convert(reader.read(pivots, (*at, here)), I64): 1})
            pair = [load_written(reader, out, low.locations[out], (*at, i)) for i in (here, there)]
            reader.store(out, low.locations[out], (*at, here), pair[1])
            reader.store(out, low.locations[out], (*at, there), pair[0])
    return reader.task()


def load_written(
    reader: ElementReader, v: Value, home: Location, at: tuple[Index, ...], guard: Var | None = None
) -> Any:
    """The current element of a value that the kernel itself is writing."""
    buffer, b = reader.home_buffer(v, home), reader.builder
    line = linear_index(at, home.strides)
    if v.dtype.kind == "c":
        return Complex(*[b.load(buffer, line * 2 + part, guard, here=True) for part in (0, 1)])
    return b.load(buffer, line, guard, here=True)


def triangular_root_tasks(low: Materializer, node: Node) -> list[Task]:
    """A copy of the matrices, whose roots then replace them column by column, each from the diagonal upward.

    r_ij = (t_ij - sum of r_ik r_kj between i and j) / (r_ii + r_jj)
    """
    (t, roots, shares), (out,) = node.inputs, node.outputs
    n, home = t.shape[-1], low.locations[out]
    with KernelTemplate(low, "triangular_root") as reader:
        b = reader.builder
        over, at = axes_of_shape(t.shape[:-2])
        column, up, inner = Axis("j", n), Axis("u", n), Axis("k", n)
        j, i, k = Index(0, {column: 1}), Index(n - 1, {up: -1}), Index(0, {inner: 1})
        with reader.loops([*over, column, up], ordered=True):
            old = load_written(reader, out, home, (*at, i, j))
            with b.loop(inner, ordered=True) as loop:
                between = b.op("and", b.op("lt", b.index(i), b.index(k)), b.op("lt", b.index(k), b.index(j)))
                left, right = (load_written(reader, out, home, (*at, *place), between) for place in ((i, k), (k, j)))
                sums = Complex(*[loop.fold("add", part) for part in components_of(left * right)])
            rest = (old - sums) * reader.read(shares, (*at, i, j))
            edge = reader.choose(b.op("eq", b.index(i), b.index(j)), reader.read(roots, (*at, j)), old)
            new = reader.choose(b.op("lt", b.index(i), b.index(j)), rest, edge)
            reader.store(out, home, (*at, i, j), new)
    return [copy_kernel_task(low, t, home), reader.task()]
