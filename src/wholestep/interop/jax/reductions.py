"""Reductions, running reductions, windows and orders of lax."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.batching import vmap
from wholestep.frontend.derivatives import vjp
from wholestep.interop.handlers import Handlers
from wholestep.interop.jax.structure import padded
from wholestep.nn.ordering import stable_order, top_k
from wholestep.nn.windows import Slide, taps, windows

REDUCTIONS = Handlers()
entry = REDUCTIONS.entry


def over_axes(f: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a reduction over axes."""
    return lambda x, *, axes, **params: f(x, axis=tuple(axes))


def kept(f: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction that keeps the dtype of its operand, where NumPy's makes integers wider."""
    return lambda x, axis: f(x, axis=axis).astype(x.dtype)


def over_mapped(f: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a collective over axes that `jax.vmap(axis_name=)` named, which are positions by now."""

    def handler(x: Any, *, axes: Sequence[int | str], **params: Any) -> Any:
        named = [axis for axis in axes if isinstance(axis, str)]
        if named:
            raise UnsupportedError(
                f"from_jax: a collective over the axis {named[0]!r} of a mesh of devices",
                hint="jax.vmap(f, axis_name=...) maps over it on one device",
            )
        return f(x, axis=tuple(axes))

    return handler


REDUCTIONS.update(
    {
        "psum": over_mapped(kept(wnp.sum)),
        "pmax": over_mapped(wnp.max),
        "pmin": over_mapped(wnp.min),
        "reduce_sum": over_axes(kept(wnp.sum)),
        "reduce_prod": over_axes(kept(wnp.prod)),
        "reduce_max": over_axes(wnp.max),
        "reduce_min": over_axes(wnp.min),
        "reduce_and": over_axes(
            lambda x, axis: wnp.all(x, axis=axis) if dtypes.is_bool(x.dtype) else folded(np.bitwise_and, x, axis)
        ),
        "reduce_or": over_axes(
            lambda x, axis: wnp.any(x, axis=axis) if dtypes.is_bool(x.dtype) else folded(np.bitwise_or, x, axis)
        ),
        "reduce_xor": over_axes(
            lambda x, axis: (
                wnp.sum(x, axis=axis) % 2 == 1 if dtypes.is_bool(x.dtype) else folded(np.bitwise_xor, x, axis)
            )
        ),
        "argmax": lambda x, *, axes, index_dtype, **params: wnp.argmax(x, axis=axes[0]).astype(index_dtype),
        "argmin": lambda x, *, axes, index_dtype, **params: wnp.argmin(x, axis=axes[0]).astype(index_dtype),
        "cumsum": lambda x, **params: running(lambda a, axis: wnp.cumsum(a, axis=axis).astype(a.dtype), x, **params),
        "cumprod": lambda x, **params: running(lambda a, axis: wnp.cumprod(a, axis=axis).astype(a.dtype), x, **params),
        "cummax": lambda x, **params: running(lambda a, axis: np.maximum.accumulate(a, axis=axis), x, **params),
        "cummin": lambda x, **params: running(lambda a, axis: np.minimum.accumulate(a, axis=axis), x, **params),
        "cumlogsumexp": lambda x, **params: running(lambda a, axis: np.logaddexp.accumulate(a, axis=axis), x, **params),
    }
)


def folded(ufunc: np.ufunc, x: Any, axes: Sequence[int]) -> Any:
    """A reduction by a ufunc, one axis after another."""
    for axis in sorted(axes, reverse=True):
        x = ufunc.reduce(x, axis=axis)
    return x


def running(f: Callable[..., Any], x: Any, *, axis: int, reverse: bool = False, **params: Any) -> Any:
    """A running reduction, from the last element to the first where `reverse` says so."""
    return wnp.flip(f(wnp.flip(x, axis=axis), axis), axis=axis) if reverse else f(x, axis)


PAIRWISE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "max": lambda best, x: wnp.where((x > best) | (x != x), x, best),
    "min": lambda best, x: wnp.where((x < best) | (x != x), x, best),
    "prod": operator.mul,
}
WHOLE: dict[str, Callable[..., Any]] = {"sum": wnp.sum, "max": wnp.max, "min": wnp.min, "prod": wnp.prod}


def neutral(kind: str, dtype: Any) -> Any:
    """The element that changes no result of a reduction."""
    if kind in ("sum", "prod"):
        return np.asarray(int(kind == "prod"), dtype)
    if dtypes.is_float(dtype):
        return np.asarray(-np.inf if kind == "max" else np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.asarray(limits.min if kind == "max" else limits.max, dtype)


def with_outside(
    x: Any, outside: Any, padding: Sequence[tuple[int, int]], base_dilation: Sequence[int] | None = None
) -> Any:
    """An array as windows see it, with a value before, after and between its elements."""
    between = [d - 1 for d in base_dilation or [1] * x.ndim]
    return padded(x, outside, [(a, b, d) for (a, b), d in zip(padding, between, strict=True)])


def window_parts(
    x: Any,
    outside: Any,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
    **params: Any,
) -> Any:
    """All windows of an array [results, window]."""
    apart = tuple(window_dilation or [1] * x.ndim)
    at = Slide(tuple(window_dimensions), tuple(window_strides), apart, ((0, 0),) * x.ndim)
    return windows(with_outside(x, outside, padding, base_dilation), at)


def window_reduction(kind: str) -> Callable[..., Any]:
    """The handler of a reduction over windows."""

    def run(x: Any, *, window_dilation: Sequence[int] | None = None, **params: Any) -> Any:
        n, outside = x.ndim, neutral(kind, x.dtype)
        if any(d != 1 for d in window_dilation or ()):
            parts = window_parts(x, outside, window_dilation=window_dilation, **params)
            return WHOLE[kind](parts, axis=tuple(range(n, 2 * n))).astype(x.dtype)
        sizes, steps = params["window_dimensions"], params["window_strides"]
        wide = with_outside(x, outside, params["padding"], params.get("base_dilation"))
        for axis in reversed(range(n)):
            if sizes[axis] > 1 or steps[axis] > 1:
                wide = functools.reduce(PAIRWISE[kind], taps(wide, axis, sizes[axis], steps[axis]))
        return wide

    return run


for kind in ("sum", "max", "min"):
    REDUCTIONS[f"reduce_window_{kind}"] = window_reduction(kind)

KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def kind_of_body(body: Any) -> str | None:
    """The kind of a reduction whose body is one operation on its two arguments; None for another."""
    program = body.program
    if len(program.calls) != 1 or sorted(map(str, program.calls[0].args)) != sorted(map(str, program.inputs)):
        return None
    return KINDS.get(program.calls[0].name)


def body_on_arrays(body: Any, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The body of a reduction, which is one of numbers, on arrays of one shape."""
    shape = left[0].shape
    return [wnp.reshape(a, shape) for a in vmap(body)(*[wnp.reshape(a, (-1,)) for a in (*left, *right)])]


def reduced_by_body(body: Any, begin: Sequence[Any], xs: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """Arrays reduced by any associative body, neighbors first, so that their order is kept; and then with `begin`."""
    rest = list(xs)
    for axis in sorted(axes, reverse=True):
        rest = [wnp.moveaxis(x, axis, 0) for x in rest]
        if not len(rest[0]):
            rest = [wnp.broadcast_to(b, (1, *x.shape[1:])) for b, x in zip(begin, rest, strict=True)]
        while len(rest[0]) > 1:
            even = len(rest[0]) // 2 * 2
            pairs = body_on_arrays(body, [x[:even:2] for x in rest], [x[1:even:2] for x in rest])
            rest = [wnp.concatenate([a, x[even:]]) for a, x in zip(pairs, rest, strict=True)]
        rest = [x[0] for x in rest]
    return body_on_arrays(body, [wnp.broadcast_to(b, x.shape) for b, x in zip(begin, rest, strict=True)], rest)


@entry("reduce_window")
def reduce_window(*given: Any, jaxpr: Any, **params: Any) -> list[Any]:
    xs, begin = given[: len(given) // 2], given[len(given) // 2 :]
    kind = kind_of_body(jaxpr)
    if kind is not None and len(xs) == 1:
        return [PAIRWISE[kind](window_reduction(kind)(xs[0], **params), wnp.asarray(begin[0], xs[0].dtype))]
    n = xs[0].ndim
    parts = [window_parts(x, b, **params) for x, b in zip(xs, begin, strict=True)]
    return reduced_by_body(jaxpr, begin, parts, range(n, 2 * n))


@entry("reduce")
def reduce(*given: Any, jaxpr: Any, dimensions: Sequence[int], **params: Any) -> list[Any]:
    xs, begin = given[: len(given) // 2], given[len(given) // 2 :]
    kind = kind_of_body(jaxpr)
    if kind is None or len(xs) > 1:
        return reduced_by_body(jaxpr, begin, xs, dimensions)
    whole = WHOLE[kind](xs[0], axis=tuple(dimensions)).astype(xs[0].dtype)
    return [PAIRWISE[kind](whole, wnp.asarray(begin[0], xs[0].dtype))]


@entry("select_and_scatter_add")
def select_and_scatter_add(
    source: Any, x: Any, *, select_prim: Any, window_dimensions: Any, window_strides: Any, padding: Any, **params: Any
) -> Any:
    kind = "max" if "ge" in str(select_prim) else "min"
    options = {"window_dimensions": window_dimensions, "window_strides": window_strides, "padding": padding}
    _, back = vjp(lambda a: window_reduction(kind)(a, **options), x)
    return back(source)[0]


@entry("sort")
def sort(*xs: Any, dimension: int, num_keys: int = 1, **params: Any) -> list[Any]:
    order = stable_order(xs[num_keys - 1], dimension)
    for x in reversed(xs[: num_keys - 1]):
        again = stable_order(wnp.take_along_axis(x, order, dimension), dimension)
        order = wnp.take_along_axis(order, again, dimension)
    return [wnp.take_along_axis(x, order, axis=dimension) for x in xs]


@entry("top_k")
def largest(x: Any, *, k: int, axis: int = -1, **params: Any) -> list[Any]:
    values, places = top_k(x, k, axis)
    return [values, places.astype(np.int32)]


@entry("approx_top_k")
def approx_top_k(x: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **params: Any) -> list[Any]:
    if is_max_k:
        return largest(x, k=k, axis=reduction_dimension)
    values, order = largest(-x, k=k, axis=reduction_dimension)
    return [-values, order]
