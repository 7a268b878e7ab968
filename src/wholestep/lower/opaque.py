"""Operations with a kernel or routine of their own: they store their results and read what was stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph, Node, Value
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower import control, lapack, random, sorting
from wholestep.lower.access import Home, Readable, Reader, components, scalar, working
from wholestep.lower.elements import position
from wholestep.lower.indices import At, along, flat, split, strides_of
from wholestep.lower.nests import Rule, axes_over, copied, finished, leaves, nest
from wholestep.lower.plan import Check, Launch, Place
from wholestep.lower.storage import Storage
from wholestep.lower.work import Work, kernel_work


def demands(low: Storage, node: Node) -> None:
    """Have stored what a node reads, and its results."""
    rule_of(node).demands(low, node)
    for v in node.outputs:
        low.want(v)


def works(low: Storage, node: Node) -> list[Work]:
    """The work of one node."""
    return rule_of(node).works(low, node)


def rule_of(node: Node) -> Rule:
    """The rule of an operation; raises UnsupportedError where there is none."""
    found = RULES.get(node.op.name)
    if found is None:
        raise UnsupportedError(
            f"compile: {node.op.name} of {', '.join(map(str, node.types))} is not compiled for this device yet",
            where=node.where,
            hint="use device='reference'",
        )
    return found


# Parts beside each other.


def concat_works(low: Storage, node: Node) -> list[Work]:
    """Each part written to its place."""
    out, axis = node.outputs[0], node.params["axis"]
    made: list[Work] = []
    start = 0
    for x in node.inputs:
        if x.type.size:
            builder = Builder("part")
            with builder:
                reader = Reader(builder, Readable(low.homes, ()))
                axes, at = axes_over(x.shape)
                place = (*at[:axis], at[axis] + along(builder, start), *at[axis + 1 :])
                with nest(builder, axes):
                    reader.store(out, low.homes[out], place, reader.read(x, at))
            made.append(kernel_work(finished(low, builder, reader)))
        start += x.shape[axis]
    return made


# Writing at indices.


def scatter_works(low: Storage, node: Node) -> list[Work]:
    """The operand copied, then the updates, one after another in row-major order of the indices."""
    x, u, *indices = node.inputs
    out = node.outputs[0]
    if out.type.size == 0:
        return []
    first = copied(low, x, low.homes[out])
    if u.type.size == 0:
        return [first]
    axes = node.params["axes"]
    builder = Builder(node.op.name)
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        k = indices[0].ndim
        over, at = axes_over(indices[0].shape, "n")
        inner, rest = axes_over(u.shape[k:], "j")
        with nest(builder, over, ordered=True):
            picked = {a: position(reader, reader.read(i, at), x.shape[a]) for a, i in zip(axes, indices, strict=True)}
            with nest(builder, inner):
                others = iter(rest)
                place = tuple([picked[a] if a in picked else next(others) for a in range(x.ndim)])
                update(reader, node, low.homes[out], place, reader.read(u, (*at, *rest)))
    return [first, kernel_work(finished(low, builder, reader))]


def update(reader: Reader, node: Node, home: Home, place: At, value: Any) -> None:
    """Write or add one element."""
    out = node.outputs[0]
    if node.op.name == "scatter":
        reader.store(out, home, place, value)
        return
    buffer, line = reader.home_buffer(out, home), flat(place, home.strides)
    parts = components(value)
    for i, part in enumerate(parts):
        at = line * len(parts) + i
        old = reader.builder.convert(reader.builder.load(buffer, at, here=True), part.dtype)
        new = reader.builder.op("add" if part.dtype.kind != "b" else "or", old, part)
        reader.builder.store(buffer, at, reader.builder.convert(new, buffer.dtype))


# Running along an axis.


def running_works(low: Storage, node: Node) -> list[Work]:
    """A loop in order along the axis, carrying what has come together so far."""
    x, axis, reverse = node.inputs[0], node.params["axis"], node.params.get("reverse", False)
    n = x.shape[axis]
    if x.type.size == 0:
        return []
    builder = Builder(node.op.name)
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        axes, at = axes_over(x.shape)
        along = Axis("k", n)
        axes = [a for a in axes if at[axis] != Index(0, {a: 1})]
        with nest(builder, axes):
            start = [builder.constant(v, t) for v, t in STARTS[node.op.name](working(x.dtype), x.dtype.kind == "c")]
            with builder.loop(along, ordered=True) as loop:
                here = Index(n - 1, {along: -1}) if reverse else Index(0, {along: 1})
                place = (*at[:axis], here, *at[axis + 1 :])
                inside = [loop.carry(v) for v in start]
                after = NEXT[node.op.name](reader, inside, reader.read(x, place), here)
                for carry, value in zip(inside, after, strict=True):
                    loop.hand(carry, value)
                write_running(low, reader, node, place, after)
    return [kernel_work(finished(low, builder, reader))]


def write_running(low: Storage, reader: Reader, node: Node, place: At, values: list[Var]) -> None:
    """Store what a running operation has come to."""
    v = node.outputs[0]
    if len(node.outputs) == 2:
        for out, x in zip(node.outputs, values, strict=True):
            reader.store(out, low.homes[out], place, x)
    else:
        reader.store(v, low.homes[v], place, scalar(values))


def running_sum(reader: Reader, so_far: list[Var], x: Any, at: Index) -> list[Var]:
    return [reader.builder.op("add", a, b) for a, b in zip(so_far, components(x), strict=True)]


def running_product(reader: Reader, so_far: list[Var], x: Any, at: Index) -> list[Var]:
    if isinstance(x, Complex):
        return list(components(Complex(*so_far) * x))
    return [reader.builder.op("mul", so_far[0], x)]


def running_extreme(op: str) -> Callable[[Reader, list[Var], Any, Index], list[Var]]:
    def following(reader: Reader, so_far: list[Var], x: Var, at: Index) -> list[Var]:
        best, where = so_far
        b = reader.builder
        first = b.op("lt", where, b.constant(0, I64))
        pair = (best, x) if op == "max" else (x, best)
        wins = b.op("or", first, b.op("lt", *pair))
        if x.dtype.kind == "f":
            # NaN takes over and moves on with each further NaN, as NumPy's maximum.accumulate is read.
            wins = b.op("or", wins, b.op("ne", x, x))
            lost = b.op("ne", best, best)
            keeps = b.op("and", lost, b.op("eq", x, x))
            wins = b.op("and", wins, b.op("not", keeps))
        return [b.op("select", wins, x, best), b.op("select", wins, b.index(at), where)]

    return following


def zero_and(number: int) -> Callable[[Any, bool], list[tuple[Any, Any]]]:
    def start(dtype: Any, is_complex: bool) -> list[tuple[Any, Any]]:
        return [(number, dtype), (0, dtype)] if is_complex else [(number, dtype)]

    return start


STARTS: dict[str, Callable[[Any, bool], list[tuple[Any, Any]]]] = {
    "cumsum": zero_and(0),
    "cumprod": zero_and(1),
    "cummax": lambda dtype, _: [(0, dtype), (-1, I64)],
    "cummin": lambda dtype, _: [(0, dtype), (-1, I64)],
}
NEXT: dict[str, Callable[[Reader, list[Var], Any, Index], list[Var]]] = {
    "cumsum": running_sum,
    "cumprod": running_product,
    "cummax": running_extreme("max"),
    "cummin": running_extreme("min"),
}


# Indices that may be out of range.


def checked(graph: Graph) -> Iterator[tuple[Node, Value, tuple[int, int]]]:
    """Each index that has to be looked at before it is used: with the axis and its size."""
    for node in graph.nodes:
        if node.op.name in ("gather", "scatter", "scatter_add"):
            x, indices = node.inputs[0], node.inputs[1 if node.op.name == "gather" else 2 :]
            for axis, index in zip(node.params["axes"], indices, strict=True):
                if not known_inside(index, x.shape[axis]):
                    yield node, index, (axis, x.shape[axis])


def known_inside(index: Value, n: int) -> bool:
    """Whether an index is seen to be inside without running the program."""
    if index.type.size == 0:
        return True
    while index.node is not None and index.node.op.name in ("reshape", "broadcast", "permute", "slice", "flip"):
        index = index.node.inputs[0]
    node = index.node
    if node is not None and node.op.name == "constant":
        value = node.params["value"]
        return bool(value.min() >= -n and value.max() < n)
    if node is not None and node.op.name == "iota":
        return bool(node.params["shape"][node.params["axis"]] <= n)
    if node is not None and node.op.name in ("argmax", "argmin"):
        return bool(node.inputs[0].shape[node.params["axis"]] <= n)
    if node is not None and node.op.name in ("argsort", "exchanged"):
        return bool(index.shape[-1] <= n)
    return False


FINE = np.iinfo(np.int64).max


def check_works(low: Storage) -> list[Work]:
    """A kernel for each index that finds the first one out of range, and the step that leaves the program then."""
    found: dict[tuple[Value, int, int], Node] = {}
    for node, index, (axis, n) in checked(low.graph):
        found.setdefault((index, axis, n), node)
    return [check_work(low, index, axis, n, node) for (index, axis, n), node in found.items()]


def check_work(low: Storage, index: Value, axis: int, n: int, node: Node) -> Work:
    """The work of looking at one array of indices."""
    place = Place(16)
    builder = Builder("check")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        b = builder

        def bad(at: At) -> tuple[Var, ...]:
            value = b.convert(reader.read(index, at), I64)
            wrong = b.op("le", b.size(n), value)
            if dtypes.counts_back(index.dtype):
                wrong = b.op("or", wrong, b.op("lt", value, b.size(-n)))
            line = b.index(flat(at, strides_of(index.shape)))
            return (b.op("select", wrong, line, b.constant(FINE, I64)),)

        first = reader.reduce("min", (), index.shape, I64, bad)
        out = reader.buffer(place, I64, 2)
        b.store(out, Index(0), first)
        last = index.type.size - 1
        there = Index(0, {b.op("min", first, b.size(last)): 1})
        at = tuple(split(b, there, index.shape))
        b.store(out, Index(1), b.convert(reader.read(index, at), I64))
    made = finished(low, builder, reader)
    site = low.context.site("index", (axis, n), node.where)

    def steps() -> tuple[Any, ...]:
        refs = tuple([p.address() for p in made.places])
        return (Launch(made.kernel, refs), Check(site, place.address(), FINE))

    work = kernel_work(made)
    return Work(work.reads, (), steps, scratch=(place,), check=True)


RULES: dict[str, Rule] = {
    "concat": Rule(leaves, concat_works),
    "scatter": Rule(leaves, scatter_works),
    "scatter_add": Rule(leaves, scatter_works),
    **{name: Rule(leaves, running_works) for name in NEXT},
    "scan": Rule(control.demands, control.scan_works),
    "while_loop": Rule(control.demands, control.while_works),
    "cond": Rule(control.demands, control.cond_works),
    "random_bits": Rule(leaves, random.works),
    "argsort": Rule(sorting.demands, sorting.works),
    "lapack": Rule(lapack.demands, lapack.works),
    "require": Rule(leaves, lapack.require_works),
    "exchanged": Rule(leaves, lapack.exchanged_works),
    "triangular_root": Rule(leaves, lapack.triangular_root_works),
}
"""What each operation with a kernel or routine of its own needs and does."""
