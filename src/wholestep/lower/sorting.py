"""Sorting: elements become unsigned integers in the same order, a routine sorts those, and the elements follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import OPS, Node, Value
from wholestep.kernel.build import builder
from wholestep.kernel.lang import DType, Var
from wholestep.lower.inner import Scalar, argsort
from wholestep.lower.plan import Call, Place, Step
from wholestep.lower.storage import Storage
from wholestep.lower.work import Work
from wholestep.primitives.indexing import take_along

MOST = 2**31
"""Rows must be shorter than this: places in a row are kept in 32 bits."""
SHORT, COUNTERS = 64, 1024
"""What the routine needs to work in: its rows up to `SHORT` are sorted in place, and for each byte of a key in longer
ones it counts in so many bytes."""


def key_type(dtype: DType) -> DType:
    """The unsigned integers that stand for a dtype."""
    size = max(dtype.itemsize, 4) if dtype.kind in "fV" else dtype.itemsize
    return np.dtype(f"u{size}")


def key(x: Var) -> Var:
    """An unsigned integer that orders as x does: NaN last and equal to itself, -0.0 equal to 0.0."""
    b, dtype = builder(), key_type(x.dtype)
    top = 1 << (8 * dtype.itemsize - 1)
    if x.dtype.kind == "b":
        return b.convert(x, dtype)
    if x.dtype.kind in "iu":
        return b.bits(x, dtype) ^ top if x.dtype.kind == "i" else x
    word = b.bits(x, dtype)
    word = b.op("select", b.op("eq", word, b.constant(top, dtype)), b.constant(0, dtype), word)
    negative = b.op("le", b.constant(top, dtype), word)
    ordered = b.op("select", negative, ~word, word | top)
    return b.op("select", b.op("ne", x, x), b.constant(2 * top - 1, dtype), ordered)


keys = Scalar("sort_keys", key, key_type)
reversed_keys = Scalar("reversed_sort_keys", lambda x: ~key(x), key_type)


# What the operations of the language become.


def last_axis(x: Value, axis: int) -> Value:
    """x with an axis moved to the end."""
    if axis == x.ndim - 1:
        return x
    return OPS["permute"](x, axes=(*[i for i in range(x.ndim) if i != axis], axis))


def from_last(x: Value, axis: int) -> Value:
    """x with its last axis moved to where it was."""
    k = x.ndim - 1
    return x if axis == k else OPS["permute"](x, axes=(*range(axis), k, *range(axis, k)))


def order_of(x: Value, axis: int) -> Value:
    """The order that sorts x along an axis."""
    moved = last_axis(x, axis)
    order = complex_order(moved) if x.dtype.kind == "c" else argsort(keys(moved))
    return from_last(order, axis)


def complex_order(x: Value) -> Value:
    """By real parts, then imaginary ones; after those numbers with NaN in the imaginary part, the real one, both."""
    re, im = OPS["real"](x), OPS["imag"](x)
    bad_re, bad_im = (OPS["cast"](OPS["isnan"](part), dtype=np.dtype(np.uint8)) for part in (re, im))
    order = argsort(keys(im))
    for part in (re, bad_im + bad_re + bad_re):
        following = argsort(keys(take_along(part, order, x.ndim - 1)))
        order = take_along(order, following, x.ndim - 1)
    return order


def sort(x: Value, *, axis: int) -> Sequence[Value]:
    """The order, and x read in it."""
    order = order_of(x, axis)
    return take_along(x, order, axis), order


def partition(x: Value, *, axis: int, kth: tuple[int, ...]) -> Sequence[Value]:
    """What is sorted is partitioned everywhere."""
    return sort(x, axis=axis)


def top_k(x: Value, *, axis: int, k: int) -> Sequence[Value]:
    """The start of the reversed order."""
    order = argsort(reversed_keys(last_axis(x, axis)))
    lead = (0,) * (x.ndim - 1)
    first = OPS["slice"](order, start=(*lead, 0), stop=(*order.shape[:-1], k), step=(1,) * x.ndim)
    order = from_last(first, axis)
    return take_along(x, order, axis), order


def complex_extreme(name: str, extreme: str, worst: float) -> Callable[..., Sequence[Value] | None]:
    """The first place of the extreme complex number: of a NaN, or by real parts, then imaginary ones."""

    def rule(x: Value, *, axis: int) -> Sequence[Value] | None:
        if x.dtype.kind != "c":
            return None
        re, im = OPS["real"](x), OPS["imag"](x)
        bad = OPS["isnan"](re) | OPS["isnan"](im)
        best = OPS[extreme](re, axes=(axis,))
        kept = tuple([i for i in range(x.ndim) if i != axis])
        among = re.equals(OPS["broadcast"](best, shape=re.shape, axes=kept))
        rest = OPS["select"](among, im, OPS["full"](value=worst, shape=im.shape, dtype=im.dtype))
        found = OPS["select"](OPS["any"](bad, axes=(axis,)), OPS["argmax"](bad, axis=axis), OPS[name](rest, axis=axis))
        return (found,)

    return rule


def complex_product(x: Value, *, axes: tuple[int, ...]) -> Sequence[Value] | None:
    """Halves multiplied with each other until one number is left."""
    if x.dtype.kind != "c":
        return None
    kept = tuple([i for i in range(x.ndim) if i not in axes])
    moved = OPS["permute"](x, axes=(*kept, *axes)) if axes else x
    lead = tuple([x.shape[i] for i in kept])
    y = OPS["reshape"](moved, shape=(*lead, math.prod([x.shape[a] for a in axes])))
    k, one = len(lead), OPS["full"]

    def part(y: Value, start: int, stop: int) -> Value:
        return OPS["slice"](y, start=(*[0] * k, start), stop=(*lead, stop), step=(1,) * (k + 1))

    while y.shape[-1] > 1:
        n = y.shape[-1]
        product = part(y, 0, n // 2) * part(y, n // 2, n // 2 * 2)
        y = OPS["concat"](product, part(y, n - 1, n), axis=k) if n % 2 else product
    if y.shape[-1] == 0:
        return (one(value=1, shape=lead, dtype=x.dtype),)
    return (OPS["reshape"](y, shape=lead),)


def truth_extreme(name: str) -> Callable[..., Sequence[Value] | None]:
    """The largest or smallest truth is whether any or all hold."""

    def rule(x: Value, *, axes: tuple[int, ...]) -> Sequence[Value] | None:
        return (OPS[name](x, axes=axes),) if x.dtype.kind == "b" else None

    return rule


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {
    "sort": sort,
    "partition": partition,
    "top_k": top_k,
    "argmax": complex_extreme("argmax", "max", -np.inf),
    "argmin": complex_extreme("argmin", "min", np.inf),
    "prod": complex_product,
    "max": truth_extreme("any"),
    "min": truth_extreme("all"),
}
"""What each operation is in simpler ones; None where it stays as it is."""


# The routine.


def demands(low: Storage, node: Node) -> None:
    """The routine reads the keys as they lie in memory."""
    low.want_whole(node.inputs[0])


def works(low: Storage, node: Node) -> list[Work]:
    """One call for all rows; raises UnsupportedError for rows that are too long."""
    (x,), (order,) = node.inputs, node.outputs
    n, size = x.shape[-1], x.dtype.itemsize
    if n >= MOST:
        raise UnsupportedError(f"sort: compiled programs do not sort rows of {MOST} elements or more: {x.type}")
    room = n * size if n <= SHORT else COUNTERS * size + 2 * n * (4 + size)
    scratch = Place(room)
    source, target = low.homes[x].place, low.homes[order].place
    params = (8 * size, n, x.type.size // n)

    def steps() -> tuple[Step, ...]:
        return (Call("argsort", (source.address(), target.address(), scratch.address()), params),)

    return [Work((source,), (target,), steps, scratch=(scratch,))]
