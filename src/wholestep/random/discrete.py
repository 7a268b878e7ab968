"""Discrete distributions and orders: coins, integers, permutations, choices and categories."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.boundary.counts import is_integer
from wholestep.dims import Dim
from wholestep.errors import AxisError, DtypeError, ParameterError, RangeError, ShapeError, UnsupportedError
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, cast_to, checked, lift
from wholestep.ir.graph import NDArray, Value
from wholestep.ir.types import Shape
from wholestep.primitives.creation import full, like
from wholestep.primitives.functions import log
from wholestep.primitives.indexing import gather, scatter, take_along
from wholestep.primitives.logic import isfinite, less, select
from wholestep.primitives.movement import concat, permute, reshape, slice_
from wholestep.primitives.order import sort
from wholestep.primitives.reduction import all_, argmax, cumsum, max_
from wholestep.random.continuous import interpolate_below, standard_gumbel
from wholestep.random.keys import (
    WIDE,
    broadcast_parameters,
    drawn_numbers,
    float_of,
    integer,
    key_of,
    random_words,
    require_known,
    run_in_trace,
    shape_of,
    shift_right,
    tail_of,
    uint64_of_words,
    unit_fraction,
    valid_or_nan,
    words_per_number,
)

_INDEX, _DOUBLE = np.dtype(np.int64), np.dtype(np.float64)


@run_in_trace
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> NDArray:
    """Draw booleans, True with probability p.

    A p that a compiled program finds below 0 counts as 0, as does NaN, and one above 1 as 1.

    Shapes: key u32[2]; `p` of any real dtype broadcasts to `shape`, by default its own; bool of that shape, no
    derivative.
    Raises: ShapeError for a p that does not fit, ParameterError for one known to lie outside [0, 1], DtypeError or
    ShapeError for a bad key.

    >>> import wholestep as ws
    >>> ws.random.bernoulli(ws.random.key(0), [0.0, 1.0]).tolist()
    [False, True]
    """
    k, given = key_of("bernoulli", key), lift(p).value
    dtype = dtypes.compute_dtype(given.dtype) if dtypes.is_float(given.dtype) else _DOUBLE
    sizes, (chance,) = broadcast_parameters("bernoulli", shape, dtype, p)
    require_known("bernoulli", "p is outside [0, 1]", lambda x: (x >= 0) & (x <= 1), chance)
    return drawn_numbers(less(unit_fraction(random_words(k, sizes, words_per_number(dtype)), dtype), chance))


@run_in_trace
def rademacher(key: Any, shape: Any = (), dtype: Any = np.int64) -> NDArray:
    """Draw -1 and 1, equally likely, of any signed or floating dtype.

    Shapes: key u32[2]; numbers of `dtype` and `shape`.
    Raises: DtypeError for a dtype without -1, and DtypeError or ShapeError for a bad key.
    Source: the top bit of a word of `bits`.

    >>> import wholestep as ws
    >>> sorted(set(ws.random.rademacher(ws.random.key(0), (20,)).tolist()))
    [-1, 1]
    """
    wanted, sizes, k = checked(dtype), shape_of("rademacher", shape), key_of("rademacher", key)
    if wanted.kind in "bu":
        raise DtypeError(f"rademacher: dtype {wanted} has no -1", hint="int64, the default, float32 and others have")
    (word,) = random_words(k, sizes, 1)
    heads = shift_right(word, 31).equals(1)
    one = cast_to(like(word, 1), wanted)
    return drawn_numbers(select(heads, one, -one))


@run_in_trace
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = np.int64) -> NDArray:
    """Draw integers from [minval, maxval), of any integer dtype, all equally likely to one part in 2**32 or better.

    In a compiled program an empty range gives minval.

    The range is multiplied by a fraction of 64 random bits, 128 where the dtype has 64. `maxval` may be one more than
    the dtype holds.

    Shapes: key u32[2]; integer bounds broadcast to `shape`; integers of `dtype` and `shape`.
    Raises: DtypeError for a dtype or bounds that are not integer, ShapeError for bounds that do not fit, ParameterError
    for a range known to be empty, RangeError for a bound that the dtype cannot hold.
    Source: Lemire, "Fast random integer generation in an interval", 2019.

    >>> import wholestep as ws
    >>> bool(ws.random.randint(ws.random.key(0), (), 3, 4) == 3)
    True
    """
    wanted, k, sizes = checked(dtype), key_of("randint", key), shape_of("randint", shape)
    if not dtypes.is_integer(wanted):
        raise DtypeError(f"randint: dtype {wanted} is not an integer")
    if is_integer(minval) and is_integer(maxval) and maxval - minval == 2**64:
        _, _, low, high = random_words(k, sizes, 4)
        everything = uint64_of_words(low, high)
        return drawn_numbers(cast_to(everything + like(everything, minval & (2**64 - 1)), wanted))
    first, last, empty = _bounds(minval, maxval, wanted, sizes)
    require_known("randint", "the range is empty, since maxval does not exceed minval", np.logical_not, empty)
    start = cast_to(first, WIDE)
    span = cast_to(last, WIDE) - start + 1
    span = select(empty, like(span, 0), span)
    offset = (
        scaled128(random_words(k, sizes, 4), span)
        if wanted.itemsize == 8
        else scaled64(random_words(k, sizes, 2), span)
    )
    return drawn_numbers(cast_to(start + offset, wanted))


def _bounds(minval: Any, maxval: Any, dtype: np.dtype[Any], sizes: Shape) -> tuple[Value, Value, Value]:
    """The first and the last integer of a range in the dtype of the result, and where there is none."""
    first = _range_bound(minval, dtype, dtype, sizes)
    if is_integer(maxval):
        last = _range_bound(int(maxval) - 1, dtype, dtype, sizes) if maxval > np.iinfo(dtype).min else first - 1
        return first, last, last < first if maxval > np.iinfo(dtype).min else first.equals(first)
    own = lift(maxval).value.dtype
    roomy = dtype if not dtypes.is_integer(own) or np.can_cast(own, dtype, "safe") else own
    end = _range_bound(maxval, dtype, roomy, sizes)
    last = cast_to(end - 1, dtype)
    return first, last, (last < first) | end.equals(np.iinfo(roomy).min)


def _range_bound(x: Any, dtype: np.dtype[Any], roomy: np.dtype[Any], sizes: Shape) -> Value:
    """One bound of a range in the dtype `roomy`; raises RangeError where a known one is outside `dtype`."""
    limits = np.iinfo(dtype)
    if is_integer(x):
        if not limits.min <= int(x) <= limits.max:
            raise outside_of(dtype)
        return broadcast_to(lift(np.asarray(int(x), dtype)[()]).value, sizes)
    v = lift(x).value
    if not dtypes.is_integer(v.dtype):
        raise DtypeError(f"randint: a bound is {v.type}, not an integer")
    if broadcast_shapes("randint", [v.shape, sizes]) != sizes:
        raise ShapeError(f"randint: a bound of shape {v.shape} does not broadcast to shape {sizes}")
    if v.data is not None and v.data.size and not limits.min <= v.data.min() <= v.data.max() <= limits.max + 1:
        raise outside_of(dtype)
    return broadcast_to(cast_to(v, roomy), sizes)


def outside_of(dtype: np.dtype[Any]) -> RangeError:
    """The error for a bound of `randint` that the dtype of the result cannot hold."""
    return RangeError(
        f"randint: a bound lies outside the {dtype} of the result", hint="give a wider dtype=, or other bounds"
    )


def scaled64(parts: list[Value], span: Value) -> Value:
    """floor(r span / 2**64) for r = parts[1] * 2**32 + parts[0] and span up to 2**32, as uint64."""
    r0, r1 = [cast_to(w, WIDE) for w in parts]
    return shift_right(r1 * span + shift_right(r0 * span, 32), 32)


def scaled128(parts: list[Value], span: Value) -> Value:
    """floor(r span / 2**128) for r of four words, the lowest first, and span below 2**64: long multiplication."""
    mask = like(span, 0xFFFFFFFF)
    r = [cast_to(w, WIDE) for w in parts]
    low, high = span & mask, shift_right(span, 32)
    digits, carry = [], like(span, 0)
    for x in r:
        t = x * low + carry
        digits.append(t & mask)
        carry = shift_right(t, 32)
    digits.append(carry)
    carry, top = like(span, 0), like(span, 0)
    for i, x in enumerate(r):
        t = x * high + digits[i + 1] + carry
        top, carry = t & mask, shift_right(t, 32)
    return carry * 2**32 + top


def shuffled(k: Value, n: Any) -> Value:
    """0 to n - 1 in random order: the order of random 64-bit words, which meet with probability below n**2 / 2**65."""
    _, order = sort(integer(random_words(k, (n,), 2)), axis=0)
    return order


def checked_axis(name: str, axis: Any, x: Value) -> int:
    """A non-negative axis; raises AxisError outside the array."""
    found = operator.index(axis)
    if not -x.ndim <= found < x.ndim:
        raise AxisError(f"{name}: axis {found} is out of bounds for {x.type}")
    return found % x.ndim


def take_in_order(x: Value, order: Value, axis: int) -> Value:
    """x read at `order` along an axis; the axes of `order` stand in its place."""
    out: Value = gather(x, order, axes=(axis,))
    if axis == 0:
        return out
    k = order.ndim
    places = [*range(k, k + axis), *range(k), *range(k + axis, out.ndim)]
    moved: Value = permute(out, axes=tuple(places))
    return moved


@run_in_trace
def permutation(key: Any, x: Any, axis: int = 0, *, independent: bool = False) -> NDArray:
    """Put 0 to x - 1, or the slices of an array x along an axis, in random order; all orders are equally likely.

    With `independent` each line along the axis has an order of its own.

    Shapes: key u32[2]; i64[x] for an integer, or an array like x, of its dtype and differentiable in it.
    Raises: AxisError for an axis that is not there, ParameterError for a negative integer, ShapeError for an array
    without axes, DtypeError or ShapeError for a bad key.

    >>> import wholestep as ws
    >>> sorted(ws.random.permutation(ws.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    k = key_of("permutation", key)
    if isinstance(x, Dim):
        return drawn_numbers(shuffled(k, x))
    if is_integer(x):
        if x < 0:
            raise ParameterError(f"permutation: {x} elements, less than none")
        return drawn_numbers(shuffled(k, int(x)))
    v = lift(x).value
    if v.ndim == 0:
        raise ShapeError(
            f"permutation: {v.type} has no axis", hint="a number of elements is a plain integer, known to the program"
        )
    place = checked_axis("permutation", axis, v)
    if not independent:
        return drawn_numbers(take_in_order(v, shuffled(k, v.shape[place]), place))
    _, order = sort(integer(random_words(k, v.shape, 2)), axis=place)
    return drawn_numbers(take_along(v, order, place))


@run_in_trace
def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> NDArray:
    """Draw from 0 to a - 1, or slices of an array a along an axis, with replacement unless `replace` is False.

    `p` holds the weights of the n candidates, equal by default; they need not sum to 1. Differentiable in a. Where a
    compiled program finds weights that are refused otherwise, it draws n, which is no candidate: a BoundsError where
    `a` is an array.

    Shapes: key u32[2]; `a` an integer, or an array with n slices along `axis`; `p` floats [n]; i64 of `shape`, or an
    array of the dtype of `a` with the axes of `shape` in place of `axis`.
    Raises: ParameterError for weights known to be negative or all zero, or positive for fewer candidates than are drawn
    without replacement, and for no candidates; AxisError for an axis that is not there, ShapeError for weights that do
    not fit or for more draws than there are candidates without replacement.
    Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006, for weights without replacement.

    >>> import wholestep as ws
    >>> ws.random.choice(ws.random.key(0), 3, (2,), p=[0.0, 1.0, 0.0]).tolist()
    [1, 1]
    """
    k, sizes = key_of("choice", key), shape_of("choice", shape)
    source = None if is_integer(a) or isinstance(a, Dim) else lift(a).value
    place = 0 if source is None else checked_axis("choice", axis, source)
    n = a if source is None else source.shape[place]
    if isinstance(n, Dim):
        raise UnsupportedError(
            f"choice: the number of candidates is symbolic: {n}",
            hint="ws.random.randint(key, shape, 0, n) draws with replacement, ws.random.permutation(key, n) without",
        )
    count = int(np.prod(sizes, dtype=np.int64))
    if isinstance(n, int) and n < 1 and count:
        raise ParameterError(f"choice: there is nothing to choose from among {n} candidates")
    if not replace and count > n:
        raise ShapeError(f"choice: {count} draws without replacement from {n} candidates")
    weights = None if p is None else _probabilities(p, int(n))
    if replace:
        index = _with_replacement(k, sizes, int(n), weights)
    else:
        order = shuffled(k, int(n)) if weights is None else _by_weight(k, int(n), weights, count)
        index = reshape(slice_(order, start=(0,), stop=(count,), step=(1,)), shape=sizes)
    return drawn_numbers(index if source is None else take_in_order(source, index, place))


def _probabilities(p: Any, n: int) -> Value:
    v = lift(p).value
    v = cast_to(v, dtypes.compute_dtype(float_of("choice", v.dtype)) if dtypes.is_inexact(v.dtype) else _DOUBLE)
    if v.shape != (n,):
        raise ShapeError(f"choice: weights {v.type} for {n} candidates")
    (v,) = valid_or_nan("choice", "weights are negative, not finite or all zero", _are_weights, v)
    return v


def _are_weights(x: Any) -> Any:
    return (x >= 0) & np.isfinite(x) & np.any(x > 0)


def _with_replacement(k: Value, sizes: Shape, n: int, weights: Value | None) -> Value:
    if weights is None:
        return cast_to(scaled64(random_words(k, sizes, 2), full(value=n, shape=sizes, dtype=WIDE)), _INDEX)
    count = int(np.prod(sizes, dtype=np.int64))
    ends = cumsum(weights, axis=0, reverse=False)
    u = unit_fraction(random_words(k, (count,), words_per_number(weights.dtype)), weights.dtype)
    whole = broadcast_to(slice_(ends, start=(n - 1,), stop=(n,), step=(1,)), (count,))
    found: Value = reshape(passed(ends, interpolate_below(u, like(u, 0), whole)), shape=sizes)
    return found


def passed(ends: Value, x: Value) -> Value:
    """The number of the ascending `ends` at or below each x, by one stable sort of both, the ends first."""
    n, m = ends.shape[0], x.shape[0]
    _, order = sort(concat(ends, x, axis=0), axis=0)
    so_far = cumsum(cast_to(order < like(order, n), _INDEX), axis=0, reverse=False)
    board = full(value=0, shape=(n + m,), dtype=_INDEX)
    placed = scatter(board, so_far, order, axes=(0,))
    out: Value = slice_(placed, start=(n,), stop=(n + m,), step=(1,))
    return out


def _by_weight(k: Value, n: int, weights: Value, count: int) -> Value:
    """Candidates in the order of drawing without replacement: descending log(weight) + Gumbel noise.

    Those of no weight stand as n at the end, and n is all there is where weights are NaN.
    """
    what = f"{count} draws without replacement, from fewer candidates of positive weight"
    require_known("choice", what, lambda w: np.sum(w > 0) >= count, weights)
    noise = standard_gumbel(tail_of(k, (n,), weights.dtype))
    some = weights > 0
    heights = select(some, log(select(some, weights, like(weights, 1))) + noise, like(weights, -np.inf))
    _, order = sort(-heights, axis=0)
    drawable = some & broadcast_to(all_(weights.equals(weights), axes=(0,)), (n,))
    out: Value = select(gather(drawable, order, axes=(0,)), order, like(order, n))
    return out


@run_in_trace
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> NDArray:
    """Draw category numbers, int64, with probabilities softmax(logits) along an axis.

    The result is the place of the largest of logits + Gumbel noise, and has no derivative. Where a compiled program
    finds logits that are refused otherwise, it is the number of categories, which is none of them.

    Shapes: key u32[2]; logits of any real dtype, which without the axis broadcast to `shape`, by default their own;
    i64.
    Raises: ParameterError for logits known to be NaN, infinite or -inf for all categories, AxisError for an axis that
    is not there, ShapeError for a shape that does not fit, DtypeError or ShapeError for a bad key.
    Source: Gumbel, "Statistical theory of extreme values and some practical applications", 1954.

    >>> import numpy as np, wholestep as ws
    >>> int(ws.random.categorical(ws.random.key(0), [-np.inf, 0.0, -np.inf]))
    1
    """
    k, v = key_of("categorical", key), lift(logits).value
    dtype = dtypes.compute_dtype(float_of("categorical", v.dtype)) if dtypes.is_inexact(v.dtype) else _DOUBLE
    place = checked_axis("categorical", axis, v)
    v = cast_to(v, dtype)
    rows = [i for i in range(v.ndim) if i != place]
    v = permute(v, axes=(*rows, place)) if place != v.ndim - 1 else v
    sizes = v.shape[:-1] if shape is None else shape_of("categorical", shape)
    if broadcast_shapes("categorical", [v.shape[:-1], sizes]) != sizes:
        raise ShapeError(f"categorical: logits for shape {v.shape[:-1]} do not broadcast to shape {sizes}")
    noise = standard_gumbel(tail_of(k, (*sizes, v.shape[-1]), dtype))
    heights = broadcast_to(v, noise.shape) + noise
    found = argmax(heights, axis=len(sizes))
    require_known("categorical", "logits are NaN, infinite, or -inf for all categories", _are_logits, v)
    usable = isfinite(max_(heights, axes=(len(sizes),)))
    return drawn_numbers(select(usable, found, like(found, v.shape[-1])))


def _are_logits(x: Any) -> Any:
    return np.isfinite(np.max(x, axis=-1))
