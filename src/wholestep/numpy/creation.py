"""NumPy's ways to make arrays; inside a trace they can hold traced values."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import DECIDING, HOOKS, binds, covers, is_traced
from wholestep.frontend.promotion import (
    assignable,
    broadcast_to,
    cast_to,
    checked,
    full_of,
    lift,
    promoted,
    value_of,
    wrap,
)
from wholestep.ir.build import owned
from wholestep.numpy.movement import check_depth, concatenate, moveaxis, reshape, traced_array
from wholestep.numpy.outside import np
from wholestep.primitives.creation import iota
from wholestep.primitives.movement import concat, reshape as reshape_value


def assemble(nested: Any) -> Array:
    """A nested list with traced arrays in it, as one array; Python numbers have the dtypes np.array gives them."""
    if isinstance(nested, Array):
        return nested
    leaves: list[Any] = []
    shape = _collect(nested, leaves)
    values = [lift(leaf).value for leaf in leaves]
    dtype = checked(dtypes.promoted_dtype(*[v.dtype for v in values]))
    lines = [reshape_value(cast_to(v, dtype), shape=(v.type.size,)) for v in values]
    flat = concat(*lines, axis=0) if len(lines) > 1 else lines[0]
    return Array(reshape_value(flat, shape=shape))


def _collect(item: Any, leaves: list[Any], around: int = 0) -> tuple[Any, ...]:
    """The shape of a nested list, with so many around it; its arrays are appended in row-major order."""
    if isinstance(item, Array) or not is_traced(item):
        leaf = item if isinstance(item, Array) else np.asarray(item)
        leaves.append(leaf)
        return tuple(leaf.shape)
    check_depth("array", around)
    shapes = [_collect(part, leaves, around + 1) for part in item]
    if any(s != shapes[0] for s in shapes):
        raise ShapeError(
            f"array: the parts of a nested list differ in shape: {', '.join(map(str, dict.fromkeys(shapes)))}",
            hint="all rows must have one length",
        )
    return (len(shapes), *shapes[0])


HOOKS.assemble = assemble


def _supported(dtype: Any) -> bool:
    try:
        dtypes.check(dtype)
    except TypeError:
        return False
    return True


def _full_of(shape: Any, number: Any, dtype: Any) -> Array:
    sizes = tuple(shape) if np.iterable(shape) else (shape,)
    return Array(
        full_of(number, tuple([s if type(s).__name__ == "Dim" else operator.index(s) for s in sizes]), checked(dtype))
    )


FILLED = "(shape, dtype=None, order='C', *, device=None, like=None)"
CONVERTED = "(a, dtype=None, order=None, *, device=None, copy=None, like=None)"
ARRAY = "(object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, ndmax=0, like=None)"


def filled_with(outside: Any, number: int, what: str) -> Callable[..., Any]:
    """A function that makes arrays of one number."""

    def implementation(shape: Any, dtype: Any = None) -> Array:
        return _full_of(shape, number, np.float64 if dtype is None else dtype)

    bind = binds(outside, f"inside a trace {what}", creates=True, ignored="order device like", stated=FILLED)
    return bind(implementation)


zeros = filled_with(np.zeros, 0, "an array that takes traced values")
ones = filled_with(np.ones, 1, "an array that takes traced values")
empty = filled_with(np.empty, 0, "zeros that take traced values")


@binds(np.full, creates=True, ignored="order device like")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """numpy.full: inside a trace an array that takes traced values."""
    value = value_of(fill_value, None if dtype is None else checked(dtype))
    sizes = tuple(shape) if np.iterable(shape) else (shape if isinstance(shape, Dim) else operator.index(shape),)
    value = assignable(value, len(sizes))
    if value.ndim > len(sizes):
        raise ShapeError(
            f"full: {value.type} does not broadcast to shape {sizes}",
            hint="the value's shape must end in that of the array, or be one that broadcasts to it",
        )
    return Array(broadcast_to(value, sizes))


@binds(np.eye, creates=True, ignored="order device like")
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Array:
    """numpy.eye: inside a trace an array that takes traced values."""
    wanted, columns = checked(float if dtype is None else dtype), N if M is None else M
    if isinstance(N, Dim) or isinstance(columns, Dim):
        return (_places(N)[:, None] + k == _places(columns)).astype(wanted)  # type: ignore[no-any-return]
    return Array(value_of(np.eye(N, M, k, wanted)))


@covers(np.identity, creates=True)
def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """numpy.identity: inside a trace an array that takes traced values."""
    return eye(n, dtype=float if dtype is None else dtype)  # type: ignore[no-any-return]


@covers(np.tri, creates=True)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Array:
    """numpy.tri: inside a trace an array that takes traced values."""
    columns = N if M is None else M
    if isinstance(N, Dim) or isinstance(columns, Dim):
        return (_places(N)[:, None] + k >= _places(columns)).astype(checked(dtype))  # type: ignore[no-any-return]
    return Array(value_of(np.tri(N, M, k, checked(dtype))))


def _places(size: Any) -> Array:
    """The numbers 0, 1, ... up to a size, which may be symbolic."""
    return wrap(iota(shape=(size,), axis=0, dtype=np.dtype(np.int64)))


def _like(a: Any, number: Any, dtype: Any, shape: Any) -> Array:
    x = lift(a)
    made: Array = full(x.shape if shape is None else shape, number, x.dtype if dtype is None else dtype)
    return made


def like_with(outside: Any, number: int, what: str) -> Callable[..., Any]:
    """A function that makes arrays of one number like another array."""

    def implementation(**given: Any) -> Array:
        a = given.pop("prototype" if outside is np.empty_like else "a")
        return _like(a, number, given.get("dtype"), given.get("shape"))

    return binds(outside, f"inside a trace {what}", creates=True)(implementation)


zeros_like = like_with(np.zeros_like, 0, "an array that takes traced values")
ones_like = like_with(np.ones_like, 1, "an array that takes traced values")
empty_like = like_with(np.empty_like, 0, "zeros that take traced values")


@binds(np.full_like, creates=True, ignored="order subok device")
def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """numpy.full_like: inside a trace an array that takes traced values."""
    return _like(a, fill_value, dtype, shape)


@binds(np.array, creates=True, ignored="order subok ndmax like", stated=ARRAY)
def array(object: Any, dtype: Any = None, copy: Any = True, ndmin: int = 0) -> Any:
    """numpy.array: inside a trace an array that takes traced values; lists may hold traced arrays."""
    if not is_traced(object):
        plain = np.array(object, dtype, ndmin=ndmin)
        return Array(lift(plain).value) if _supported(plain.dtype) else plain
    made = convert_array(object, dtype, bool(copy), None if copy is None else copy)
    return reshape(made, (*[1] * (ndmin - made.ndim), *made.shape)) if made.ndim < ndmin else made


def convert_array(a: Any, dtype: Any, fresh: bool, copy: Any) -> Array:
    """An array of a dtype: the same one where nothing changes, unless it must be fresh."""
    x = lift(a)
    wanted = x.dtype if dtype is None else checked(dtype)
    same = isinstance(a, Array) and not x._scalar and wanted == x.dtype
    if same and not fresh:
        return x
    if not same and copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if wanted.kind not in "cb" and dtypes.is_complex(x.dtype):
        raise DtypeError(f"array: {x.type} as {dtypes.short(wanted)} would drop the imaginary part", hint="use x.real")
    return Array(owned(cast_to(x.value, wanted)))


def converting(outside: Any) -> Callable[..., Any]:
    """A function that takes anything for an array."""

    def implementation(a: Any, dtype: Any = None, copy: Any = None) -> Array:
        return convert_array(a, dtype, bool(copy), copy)

    remark = "the array itself where the dtype fits; lists may hold traced arrays"
    return binds(outside, remark, ignored="order device like", stated=CONVERTED)(implementation)


asarray, asanyarray = converting(np.asarray), converting(np.asanyarray)


@covers(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """numpy.ascontiguousarray."""
    return _contiguous(a, dtype, "C_CONTIGUOUS")


@covers(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """numpy.asfortranarray: a transposed copy, transposed back, where the memory runs by rows."""
    return _contiguous(a, dtype, "F_CONTIGUOUS")


def _contiguous(a: Any, dtype: Any, flag: str) -> Array:
    x = convert_array(a, dtype, False, None)
    x = x if x.ndim else reshape(x, (1,))
    if x.layout().flags[flag]:
        return x
    return Array(x.value) if flag[0] == "C" else Array(x.T.value).T


@covers(np.asarray_chkfinite)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """numpy.asarray_chkfinite; checked where the values are known."""
    x = convert_array(a, dtype, False, None)
    data = x.value.data
    if data is not None and dtypes.is_inexact(x.dtype) and not np.isfinite(data).all():
        raise ValueError("array must not contain infs or NaNs")
    return x


REQUIREMENTS = frozenset(
    "C C_CONTIGUOUS CONTIGUOUS F F_CONTIGUOUS FORTRAN A ALIGNED W WRITEABLE O OWNDATA E ENSUREARRAY".split()
)


@covers(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    """numpy.require."""
    wanted = {str(r).upper() for r in (requirements or ())}
    if not wanted <= REQUIREMENTS:
        raise ParameterError(
            f"require: requirements={requirements!r} means nothing", hint="it takes 'C', 'F', 'W' and the like"
        )
    if wanted & {"F", "F_CONTIGUOUS", "FORTRAN"}:
        return asfortranarray(a, dtype)
    return convert_array(a, dtype, False, None)


def _evenly(start: Any, stop: Any, num: Any, endpoint: bool) -> tuple[Array, Any]:
    """Evenly spaced numbers on a new first axis, and the step between them."""
    if isinstance(num, Dim):
        return _evenly_in_symbolic_number(start, stop, num, endpoint)
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    first, last = [Array(v) for v in promoted(start, stop, 0.0)[:2]]
    dtype = first.dtype
    gaps = count - 1 if endpoint else count
    whole = last - first
    step = whole / gaps if gaps > 0 else np.nan
    turn = np.arange(count, dtype=np.float64).reshape(-1, *[1] * lift(whole).ndim)
    made = lift(first + turn * (step if gaps > 0 else whole)).astype(dtype)
    if endpoint and count > 1:
        end = np.broadcast_to(last.astype(dtype), made.shape[1:])
        made = concatenate([made[:-1], lift(end)[None]], 0)
    return made, step


def _evenly_in_symbolic_number(start: Any, stop: Any, count: Dim, endpoint: bool) -> tuple[Array, Any]:
    """`_evenly` for a number that the program has when it runs: a single number is the start, and has no step."""
    first, last = [Array(v) for v in promoted(start, stop, 0.0)[:2]]
    whole, gaps = last - first, lift(count - 1 if endpoint else count)
    step = whole / np.maximum(gaps, 1)
    turn = arange(count, dtype=np.float64).reshape(-1, *[1] * lift(whole).ndim)
    made = lift(first + turn * step).astype(first.dtype)
    made = np.where((turn == gaps) & (gaps > 0), last, made) if endpoint else made
    return lift(made), np.where(gaps > 0, step, np.nan)


@binds(np.linspace, ignored="device")
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: Any = 0
) -> Any:
    """numpy.linspace, differentiable in both ends."""
    made, step = _evenly(start, stop, num, endpoint)
    if dtype is not None:
        made = np.floor(made) if np.dtype(dtype).kind in "iu" else made
        made = made.astype(dtype)
    made = moveaxis(made, 0, axis) if axis != 0 else made
    return (made, step) if retstep else made


@covers(np.logspace)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: Any = 0
) -> Any:
    """numpy.logspace, differentiable in both ends and the base."""
    made = np.power(base, _evenly(start, stop, num, endpoint)[0])
    made = made if dtype is None else made.astype(dtype)
    return moveaxis(made, 0, axis) if axis != 0 else made


@covers(np.geomspace)
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: Any = 0) -> Any:
    """numpy.geomspace, differentiable in both ends."""
    first, last = lift(start) * 1.0, lift(stop) * 1.0
    for end in (first, last):
        if end.value.data is not None and np.any(end.value.data == 0):
            raise ValueError("Geometric sequence cannot include zero")
    exponents = _evenly(np.zeros(()), np.log(last / first), num, endpoint)[0]
    made = lift(first * np.exp(exponents))
    if num > 1 and endpoint:
        made = concatenate([made[:-1], lift(np.broadcast_to(last.astype(made.dtype), made.shape[1:]))[None]], 0)
    made = made if dtype is None else made.astype(dtype)
    return moveaxis(made, 0, axis) if axis != 0 else made


@covers(np.arange)
def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **named: Any) -> Array:
    """numpy.arange, differentiable in start and step; the values decide the length, so they must be known."""
    given = {**dict(zip(("start", "stop", "step"), args, strict=False)), **named}
    start, stop, step = given.get("start_or_stop", given.get("start", 0)), given.get("stop"), given.get("step", 1)
    if stop is None:
        start, stop = 0, start
    whole = isinstance(start, Dim | int) and isinstance(stop, Dim | int) and isinstance(step, int) and step > 0
    count = (stop - start + step - 1) // step if whole else None
    if isinstance(count, Dim):
        made: Array = _places(count) if (start, step) == (0, 1) else _places(count) * step + start
        return made if dtype is None else made.astype(dtype)
    plain = [x.known("arange")[()] if isinstance(x, Array) else x for x in (start, stop, step)]
    made = traced_array(start) + np.arange(len(np.arange(*plain))) * step
    return made if dtype is None else made.astype(dtype)


@covers(np.fromfunction)
def fromfunction(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """numpy.fromfunction."""
    return function(*np.indices(shape, dtype=dtype), **kwargs)


@covers(np.fromiter, creates=True)
def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Any:
    """numpy.fromiter, which consumes the iterator once; an array of plain items is plain."""
    items = list(itertools.islice(iter, None if count < 0 else count))
    if not is_traced(items):
        return np.fromiter(items, dtype, count)
    made = assemble(items)
    if made.ndim != 1:
        raise ShapeError(f"fromiter: an array of numbers has an axis, and items of {made.type} have more")
    if len(items) < count:
        raise ParameterError(f"fromiter: the iterator has {len(items)} items, and {count} were asked for")
    return made.astype(dtype)


DECIDING.add(np.fromiter)
