"""LAPACK in a plan: operands copied to where a routine works on them, its call, and the kernels that go with it."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.kernel.maths.complex import Complex
from wholestep.lower.access import Home, Readable, Reader, components
from wholestep.lower.inner import Argument, In, Out, Scratch, Status
from wholestep.lower.nests import axes_over, copied, finished, nest
from wholestep.lower.plan import Call, Check, Place, Step
from wholestep.lower.storage import Storage
from wholestep.lower.work import Work, home_of, kernel_work


def demands(low: Storage, node: Node) -> None:
    """What a routine only reads lies in memory as it is; what it works on is read through movement and copied."""
    arguments = node.params["arguments"]
    whole = {a.input for a in arguments if isinstance(a, In)}
    for i, x in enumerate(node.inputs):
        if i in whole:
            low.want_whole(x)
        else:
            low.want_leaves(x)


def works(low: Storage, node: Node) -> list[Work]:
    """The copies, then the call."""
    arguments: tuple[Argument, ...] = node.params["arguments"]
    outs = [a for a in arguments if isinstance(a, Out)]
    homes = [low.homes.get(v) or home_of(v, Place(v.type.nbytes)) for v in node.outputs]
    started = [(node.inputs[a.start], h) for a, h in zip(outs, homes, strict=True) if a.start is not None]
    copies = [copied(low, x, h) for x, h in started if x.type.size]
    return [*copies, call_work(low, node, homes)]


def call_work(low: Storage, node: Node, homes: list[Home]) -> Work:
    """The call of a routine for each matrix of a stack."""
    count, places = node.params["count"], iter([h.place for h in homes])
    refs: list[Place] = []
    given: list[tuple[str, int, int]] = []
    reads: list[Place] = []
    writes: list[Place] = []
    scratch: list[Place] = []
    site = 0
    for a in node.params["arguments"]:
        if isinstance(a, str):
            given.append(("letter", ord(a), 0))
        elif isinstance(a, int):
            given.append(("number", a, 0))
        elif isinstance(a, Status):
            given.append(("status", 0, 0))
            site = low.context.site("linalg", (a.message, ""), node.where) if a.message else 0
        elif a is None:
            given.append(("null", 0, 0))
        else:
            place = next(places) if isinstance(a, Out) else scratch_or_input(low, node, a)
            {Out: writes, In: reads, Scratch: scratch}[type(a)].append(place)
            if isinstance(a, Out) and a.start is not None:
                reads.append(place)
            given.append(("memory", len(refs), 0 if isinstance(a, Scratch) else place.nbytes // count))
            refs.append(place)
    params = (count, tuple(given), site)

    def steps() -> tuple[Step, ...]:
        return (Call(node.params["routine"], tuple([p.address() for p in refs]), params, node.where),)

    return Work(tuple(reads), tuple(writes), steps, scratch=tuple(scratch), check=site != 0)


def scratch_or_input(low: Storage, node: Node, argument: In | Scratch) -> Place:
    """The memory of an argument that is no output."""
    if isinstance(argument, Scratch):
        return Place(argument.nbytes)
    return low.homes[node.inputs[argument.input]].place


# What goes with it.


def require_works(low: Storage, node: Node) -> list[Work]:
    """A look at the truth, the step that leaves the program where it does not hold, and the copy."""
    (x, holds), (out,) = node.inputs, node.outputs
    place = Place(16)
    builder = Builder("require")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        flag = reader.buffer(place, I64, 2)
        builder.store(flag, Index(0), builder.convert(reader.read(holds, ()), I64))
        builder.store(flag, Index(1), builder.constant(0, I64))
    looked, moved = kernel_work(finished(low, builder, reader)), copied(low, x, low.homes[out])
    site = low.context.site(node.params["kind"], (node.params["message"], node.params["hint"]), node.where)

    def steps() -> tuple[Step, ...]:
        return (*looked.steps(), Check(site, place.address(), 1), *moved.steps())

    reads = tuple(dict.fromkeys((*looked.reads, *moved.reads)))
    return [Work(reads, moved.writes, steps, scratch=(place,), check=True)]


def exchanged_works(low: Storage, node: Node) -> list[Work]:
    """0, 1, 2, ..., then the exchanges in their order."""
    (pivots,), (out,) = node.inputs, node.outputs
    return [numbered(low, out), exchanges(low, pivots, out)]


def numbered(low: Storage, out: Value) -> Work:
    """0, 1, 2, ... along the last axis."""
    builder = Builder("numbered")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        axes, at = axes_over(out.shape)
        with nest(builder, axes):
            reader.store(out, low.homes[out], at, builder.index(at[-1]))
    return kernel_work(finished(low, builder, reader))


def exchanges(low: Storage, pivots: Value, out: Value) -> Work:
    """The exchanges, one after another."""
    builder = Builder("exchanged")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        over, at = axes_over(out.shape[:-1])
        step = Axis("s", pivots.shape[-1])
        with nest(builder, [*over, step], ordered=True):
            here = Index(0, {step: 1})
            there = Index(0, {builder.convert(reader.read(pivots, (*at, here)), I64): 1})
            pair = [fresh(reader, out, low.homes[out], (*at, i)) for i in (here, there)]
            reader.store(out, low.homes[out], (*at, here), pair[1])
            reader.store(out, low.homes[out], (*at, there), pair[0])
    return kernel_work(finished(low, builder, reader))


def fresh(reader: Reader, v: Value, home: Home, at: tuple[Index, ...], guard: Var | None = None) -> Any:
    """An element of what the kernel itself is writing, as it is now."""
    buffer, b = reader.home_buffer(v, home), reader.builder
    line = Index()
    for index, stride in zip(at, home.strides, strict=True):
        line = line + index * stride
    if v.dtype.kind == "c":
        return Complex(*[b.load(buffer, line * 2 + part, guard, here=True) for part in (0, 1)])
    return b.load(buffer, line, guard, here=True)


def triangular_root_works(low: Storage, node: Node) -> list[Work]:
    """In the place of a copy, column after column, each from the diagonal upward.

    r_ij = (t_ij - sum of r_ik r_kj between i and j) / (r_ii + r_jj)
    """
    (t, roots, shares), (out,) = node.inputs, node.outputs
    n, home = t.shape[-1], low.homes[out]
    builder = b = Builder("triangular_root")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        over, at = axes_over(t.shape[:-2])
        column, up, inner = Axis("j", n), Axis("u", n), Axis("k", n)
        j, i, k = Index(0, {column: 1}), Index(n - 1, {up: -1}), Index(0, {inner: 1})
        with nest(builder, [*over, column, up], ordered=True):
            old = fresh(reader, out, home, (*at, i, j))
            with builder.loop(inner, ordered=True) as loop:
                between = b.op("and", b.op("lt", b.index(i), b.index(k)), b.op("lt", b.index(k), b.index(j)))
                left, right = (fresh(reader, out, home, (*at, *place), between) for place in ((i, k), (k, j)))
                sums = Complex(*[loop.fold("add", part) for part in components(left * right)])
            rest = (old - sums) * reader.read(shares, (*at, i, j))
            edge = reader.choose(b.op("eq", b.index(i), b.index(j)), reader.read(roots, (*at, j)), old)
            new = reader.choose(b.op("lt", b.index(i), b.index(j)), rest, edge)
            reader.store(out, home, (*at, i, j), new)
    return [copied(low, t, home), kernel_work(finished(low, builder, reader))]
