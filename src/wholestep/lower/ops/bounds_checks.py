"""Bounds checks: a kernel that finds the first index out of range, and the step that leaves the program there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import Graph, Node, Value
from wholestep.kernel.index_arithmetic import Coordinates, delinearize_index, linear_index, row_major_strides
from wholestep.kernel.lang import I64, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.legalize.internal_ops import ArgsortOp, PivotPermutationOp
from wholestep.lower.ops.loop_templates import KernelTemplate
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import StatusCheck, Step
from wholestep.primitives.arithmetic import minimum
from wholestep.primitives.creation import Full, Iota
from wholestep.primitives.indexing import Gather
from wholestep.primitives.reduction import Arg


def unchecked_indices(graph: Graph) -> Iterator[tuple[Node, Value, tuple[int, int]]]:
    """Each index array that must be checked before it is used, with the axis and its size."""
    for node in graph.nodes:
        if node.op.kind == "indexing":
            x, indices = node.inputs[0], node.inputs[1 if isinstance(node.op, Gather) else 2 :]
            for axis, index in zip(node.params["axes"], indices, strict=True):
                if not provably_in_bounds(index, x.shape[axis]):
                    yield node, index, (axis, x.shape[axis])


def provably_in_bounds(index: Value, n: int) -> bool:
    """True if an index array is in bounds by construction."""
    if index.type.size == 0:
        return True
    while index.node is not None and index.node.op.view and index.node.op.kind == "movement":
        index = index.node.inputs[0]
    node = index.node
    if node is not None and node.op.literal:
        value = node.params["value"]
        return bool(value.min() >= -n and value.max() < n)
    if node is not None and isinstance(node.op, Iota):
        return bool(node.params["shape"][node.params["axis"]] <= n)
    if node is not None and node.op is minimum and index.dtype.kind == "u":
        return any(
            v.node is not None and isinstance(v.node.op, Full) and v.node.params["value"] < n for v in node.inputs
        )
    if node is not None and isinstance(node.op, Arg):
        return bool(node.inputs[0].shape[node.params["axis"]] <= n)
    if node is not None and isinstance(node.op, ArgsortOp | PivotPermutationOp):
        return bool(index.shape[-1] <= n)
    return False


IN_BOUNDS = np.iinfo(np.int64).max
"""Status of an index array that is in bounds."""


def bounds_check_tasks(low: Materializer) -> list[Task]:
    """A task for each index array and size: a kernel that finds the first index out of bounds, and the status check of
    the first operation that uses it."""
    found: dict[tuple[Value, int], tuple[int, Node]] = {}
    for node, index, (axis, n) in unchecked_indices(low.graph):
        found.setdefault((index, n), (axis, node))
    return [bounds_check_task(low, index, axis, n, node) for (index, n), (axis, node) in found.items()]


def bounds_check_task(low: Materializer, index: Value, axis: int, n: int, node: Node) -> Task:
    """The bounds check of one index array."""
    place = Allocation(16)
    with KernelTemplate(low, "check") as reader:
        b = reader.builder

        def bad(at: Coordinates) -> tuple[Var, ...]:
            value = b.convert(reader.read(index, at), I64)
            wrong = b.op("le", b.size(n), value)
            if dtypes.counts_back(index.dtype):
                wrong = b.op("or", wrong, b.op("lt", value, b.size(-n)))
            line = b.index(linear_index(at, row_major_strides(index.shape)))
            return (b.op("select", wrong, line, b.constant(IN_BOUNDS, I64)),)

        first = reader.reduce("min", (), index.shape, I64, bad)
        out = reader.buffer(place, I64, 2)
        b.store(out, Index(0), first)
        last = index.type.size - 1
        there = Index(0, {b.op("min", first, b.size(last)): 1})
        at = tuple(delinearize_index(b, there, index.shape))
        b.store(out, Index(1), b.convert(reader.read(index, at), I64))
    found = reader.task()
    site = low.context.site("index", (axis, n), node.where)

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (*found.steps(at), StatusCheck(site, at.address(place), IN_BOUNDS))

    return Task(found.reads, (), steps, scratch=(place,), check=True)
