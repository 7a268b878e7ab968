"""Prefix scans such as cumsum: an ordered loop along the axis whose loop-carried value is the prefix so far; where
work items run side by side, each element of a sum of integers reads all elements before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.ir.graph import Node
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.kernels.scalar_codegen import ElementReader, components_of, scalar_of, working_dtype
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape
from wholestep.primitives.class_table import ClassTable
from wholestep.primitives.order import Cummax, Cummin
from wholestep.primitives.reduction import Cumprod, Cumsum


def prefix_scan_tasks(low: Materializer, node: Node) -> list[Task]:
    """An ordered loop along the axis that carries the prefix."""
    x, axis, reverse = node.inputs[0], node.params["axis"], node.params.get("reverse", False)
    n = x.shape[axis]
    if x.type.size == 0:
        return []
    limits = low.context.target.looks
    if limits is not None and isinstance(node.op, Cumsum) and x.dtype.kind in "iu":
        if limits.allow(x.type.size, x.type.size):  # of more rows each is short, or a work item's own
            return [integer_sums_task(low, node)]
    initial_values, update = INITIAL_VALUES.of(node.op), PREFIX_UPDATES.of(node.op)
    assert initial_values is not None and update is not None
    with KernelTemplate(low, node.op.name) as reader:
        builder = reader.builder
        axes, at = axes_of_shape(x.shape)
        along = Axis("k", n)
        axes = [a for a in axes if at[axis] != Index(0, {a: 1})]
        with reader.loops(axes):
            start = [builder.constant(v, t) for v, t in initial_values(working_dtype(x.dtype), x.dtype.kind == "c")]
            with builder.loop(along, ordered=True) as loop:
                here = Index(n - 1, {along: -1}) if reverse else Index(0, {along: 1})
                place = (*at[:axis], here, *at[axis + 1 :])
                inside = [loop.carry(v) for v in start]
                element = reader.read(x, place)
                after = update(reader, inside, element, here)
                if isinstance(node.op, Cumprod) and isinstance(element, Complex):
                    # 1 times an infinite element has nan for a part; the first prefix is the element itself.
                    first = builder.op("lt", builder.index(Index(0, {along: 1})), builder.constant(1, I64))
                    pairs = zip(components_of(element), after, strict=True)
                    after = [builder.op("select", first, alone, product) for alone, product in pairs]
                for carry, value in zip(inside, after, strict=True):
                    loop.hand(carry, value)
                prefixes = after if len(node.outputs) == 2 else [scalar_of(after)]
                for v, prefix in zip(node.outputs, prefixes, strict=True):
                    reader.store(v, low.locations[v], place, prefix)
    return [reader.task()]


def integer_sums_task(low: Materializer, node: Node) -> Task:
    """A running sum of integers, exact in any order: each element of the result sums all elements up to its own."""
    x, axis = node.inputs[0], node.params["axis"]
    out = node.outputs[0]
    with KernelTemplate(low, node.op.name) as reader:
        builder = reader.builder
        axes, at = axes_of_shape(x.shape)
        with reader.loops(axes):
            here = builder.index(at[axis])

            def element(r: Coordinates) -> tuple[Any]:
                there, value = builder.index(r[0]), reader.read(x, (*at[:axis], r[0], *at[axis + 1 :]))
                met = builder.op("le", *((here, there) if node.params["reverse"] else (there, here)))
                return (reader.choose(met, value, reader.number(0, x.dtype)),)

            found = reader.reduce("add", at, (x.shape[axis],), x.dtype, element)
            reader.store(out, low.locations[out], at, found)
    return reader.task()


def next_sum(reader: ElementReader, so_far: list[Var], x: Any, at: Index) -> list[Var]:
    return [reader.builder.op("add", a, b) for a, b in zip(so_far, components_of(x), strict=True)]


def next_product(reader: ElementReader, so_far: list[Var], x: Any, at: Index) -> list[Var]:
    if isinstance(x, Complex):
        return list(components_of(Complex(*so_far) * x))
    return [reader.builder.op("mul", so_far[0], x)]


def next_extreme(op: str) -> Callable[[ElementReader, list[Var], Any, Index], list[Var]]:
    def following(reader: ElementReader, so_far: list[Var], x: Var, at: Index) -> list[Var]:
        best, where = so_far
        b = reader.builder
        first = b.op("lt", where, b.constant(0, I64))
        pair = (best, x) if op == "max" else (x, best)
        wins = b.op("or", first, b.op("lt", *pair))
        if x.dtype.kind == "f":
            # NaN wins, and each further NaN updates the index, as in NumPy's maximum.accumulate.
            wins = b.op("or", wins, b.op("isnan", x))
            lost = b.op("isnan", best)
            keeps = b.op("and", lost, b.op("not", b.op("isnan", x)))
            wins = b.op("and", wins, b.op("not", keeps))
        return [b.op("select", wins, x, best), b.op("select", wins, b.index(at), where)]

    return following


def initial_number(number: int) -> Callable[[Any, bool], list[tuple[Any, Any]]]:
    def start(dtype: Any, is_complex: bool) -> list[tuple[Any, Any]]:
        return [(number, dtype), (0, dtype)] if is_complex else [(number, dtype)]

    return start


INITIAL_VALUES: ClassTable[Callable[[Any, bool], list[tuple[Any, Any]]]] = ClassTable(
    {Cumsum: initial_number(0), Cumprod: initial_number(1), Cummax: lambda dtype, _: [(0, dtype), (-1, I64)]}
)
PREFIX_UPDATES: ClassTable[Callable[[ElementReader, list[Var], Any, Index], list[Var]]] = ClassTable(
    {Cumsum: next_sum, Cumprod: next_product, Cummax: next_extreme("max"), Cummin: next_extreme("min")}
)
