"""Sorting expanded into an argsort of unsigned integer keys in the same order, and gathers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from wholestep.ir.graph import OPS, Value
from wholestep.kernel.build import builder
from wholestep.kernel.lang import DType, Var
from wholestep.lower.legalize.internal_ops import ScalarOp, argsort, sorted_rows
from wholestep.primitives.indexing import take_along


def sort_key_dtype(dtype: DType) -> DType:
    """The unsigned integer dtype of the sort keys of a dtype."""
    size = max(dtype.itemsize, 4) if dtype.kind in "fV" else dtype.itemsize
    return np.dtype(f"u{size}")


def sort_key(x: Var) -> Var:
    """An unsigned integer that orders as x does: NaN last and equal to itself, -0.0 equal to 0.0."""
    b, dtype = builder(), sort_key_dtype(x.dtype)
    top = 1 << (8 * dtype.itemsize - 1)
    if x.dtype.kind == "b":
        return b.convert(x, dtype)
    if x.dtype.kind in "iu":
        return b.bits(x, dtype) ^ top if x.dtype.kind == "i" else x
    word = b.bits(x, dtype)
    word = b.op("select", b.op("eq", word, b.constant(top, dtype)), b.constant(0, dtype), word)
    negative = b.op("le", b.constant(top, dtype), word)
    ordered = b.op("select", negative, ~word, word | top)
    return b.op("select", b.op("isnan", x), b.constant(2 * top - 1, dtype), ordered)


def sort_word(x: Var) -> Var:
    """An unsigned integer that orders as x does and has all of its bits: -0.0 before 0.0, NaN by their bits."""
    if x.dtype.kind != "f":
        return sort_key(x)
    b, dtype = builder(), sort_key_dtype(x.dtype)
    top, word = 1 << (8 * dtype.itemsize - 1), b.bits(x, dtype)
    return b.op("select", b.op("le", b.constant(top, dtype), word), ~word, word | top)


def of_sort_word(dtype: DType) -> Callable[[Var], Var]:
    """The function that returns the number from its sort word."""

    def code(word: Var) -> Var:
        b, top = builder(), 1 << (8 * word.dtype.itemsize - 1)
        if dtype.kind == "b":
            return b.convert(word, dtype)
        if dtype.kind in "iu":
            return b.bits(word ^ top, dtype) if dtype.kind == "i" else word
        word = b.op("select", b.op("le", b.constant(top, word.dtype), word), word ^ top, ~word)
        return b.bits(word, np.dtype(f"f{word.dtype.itemsize}"))

    return code


@cache
def numbers_of_words(dtype: DType) -> ScalarOp:
    """The operation that returns numbers of a dtype from their sort words."""
    return ScalarOp(f"{dtype.name}_of_sort_words", of_sort_word(dtype), lambda words: dtype)


sort_words = ScalarOp("sort_words", sort_word, sort_key_dtype)
sort_keys = ScalarOp("sort_keys", sort_key, sort_key_dtype)
reversed_sort_keys = ScalarOp("reversed_sort_keys", lambda x: ~sort_key(x), sort_key_dtype)


# Expansions.


def move_axis_last(x: Value, axis: int) -> Value:
    """x with an axis moved to the end."""
    if axis == x.ndim - 1:
        return x
    return OPS["permute"](x, axes=(*[i for i in range(x.ndim) if i != axis], axis))


def restore_axis(x: Value, axis: int) -> Value:
    """x with its last axis moved back to `axis`."""
    k = x.ndim - 1
    return x if axis == k else OPS["permute"](x, axes=(*range(axis), k, *range(axis, k)))


def along_axis(function: Callable[[Value], Value], x: Value, axis: int) -> Value:
    """A function of the last axis, along another one."""
    return restore_axis(function(move_axis_last(x, axis)), axis)


def slice_last(x: Value, stop: int, start: int = 0) -> Value:
    """A slice of the last axis."""
    lead = (0,) * (x.ndim - 1)
    return OPS["slice"](x, start=(*lead, start), stop=(*x.shape[:-1], stop), step=(1,) * x.ndim)


def complex_order(x: Value) -> Value:
    """By real, then imaginary parts; then numbers with NaN in the imaginary part, in the real part, in both."""
    re, im = OPS["real"](x), OPS["imag"](x)
    bad_re, bad_im = (OPS["cast"](OPS["isnan"](part), dtype=np.dtype(np.uint8)) for part in (re, im))
    order = argsort(sort_keys(im))
    for part in (re, bad_im + bad_re + bad_re):
        following = argsort(sort_keys(take_along(part, order, x.ndim - 1)))
        order = take_along(order, following, x.ndim - 1)
    return order


def expand_sort(x: Value, *, axis: int) -> Sequence[Value]:
    """The sorting order, and x gathered in it."""
    order = along_axis(complex_order if x.dtype.kind == "c" else lambda y: argsort(sort_keys(y)), x, axis)
    return take_along(x, order, axis), order


def sorted_values(x: Value, *, axis: int) -> Value:
    """x in ascending order along an axis, for targets that sort rows without an order."""
    back, floats = numbers_of_words(x.dtype), x.dtype.kind in "fV"
    return along_axis(lambda y: back(sorted_rows(sort_words(y), floats=floats)), x, axis)


def expand_top_k(x: Value, *, axis: int, k: int) -> Sequence[Value]:
    """The start of the reversed order."""
    order = along_axis(lambda y: slice_last(argsort(reversed_sort_keys(y)), k), x, axis)
    return take_along(x, order, axis), order


def complex_argument_extreme(name: str, extreme: str, worst: float) -> Callable[..., Sequence[Value] | None]:
    """The first index of the extreme complex number: of a NaN, or by real, then imaginary parts."""

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
    """Pairwise products of halves until one number is left."""
    if x.dtype.kind != "c":
        return None
    kept = tuple([i for i in range(x.ndim) if i not in axes])
    moved = OPS["permute"](x, axes=(*kept, *axes)) if axes else x
    lead = tuple([x.shape[i] for i in kept])
    y = OPS["reshape"](moved, shape=(*lead, math.prod([x.shape[a] for a in axes])))
    while y.shape[-1] > 1:
        n = y.shape[-1]
        product = slice_last(y, n // 2) * slice_last(y, n // 2 * 2, n // 2)
        y = OPS["concat"](product, slice_last(y, n, n - 1), axis=len(lead)) if n % 2 else product
    if y.shape[-1] == 0:
        return (OPS["full"](value=1, shape=lead, dtype=x.dtype),)
    return (OPS["reshape"](y, shape=lead),)


def boolean_extreme(name: str) -> Callable[..., Sequence[Value] | None]:
    """The maximum or minimum of truth values as any or all."""

    def rule(x: Value, *, axes: tuple[int, ...]) -> Sequence[Value] | None:
        return (OPS[name](x, axes=axes),) if x.dtype.kind == "b" else None

    return rule


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {
    "sort": expand_sort,
    "partition": lambda x, *, axis, kth: expand_sort(x, axis=axis),  # a full sort partitions at every position
    "top_k": expand_top_k,
    "argmax": complex_argument_extreme("argmax", "max", -np.inf),
    "argmin": complex_argument_extreme("argmin", "min", np.inf),
    "prod": complex_product,
    "max": boolean_extreme("any"),
    "min": boolean_extreme("all"),
}
"""Expansion of each operation; None if it stays as it is."""
