"""Reductions, running reductions, windows and orders of lax."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
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


def window_reduction(kind: str) -> Callable[..., Any]:
    """The handler of a reduction over windows."""

    def run(
        x: Any,
        *,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
        **params: Any,
    ) -> Any:
        n = x.ndim
        between = [d - 1 for d in base_dilation or [1] * n]
        config = [(a, b, d) for (a, b), d in zip(padding, between, strict=True)]
        wide = padded(x, neutral(kind, x.dtype), config)
        apart = tuple(window_dilation or [1] * n)
        if any(d != 1 for d in apart):
            at = Slide(tuple(window_dimensions), tuple(window_strides), apart, ((0, 0),) * n)
            return WHOLE[kind](windows(wide, at), axis=tuple(range(n, 2 * n))).astype(x.dtype)
        for axis in reversed(range(n)):
            if window_dimensions[axis] > 1 or window_strides[axis] > 1:
                parts = taps(wide, axis, window_dimensions[axis], window_strides[axis])
                wide = functools.reduce(PAIRWISE[kind], parts)
        return wide

    return run


for kind in ("sum", "max", "min"):
    REDUCTIONS[f"reduce_window_{kind}"] = window_reduction(kind)

KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def kind_of_body(body: Any, name: str) -> str:
    """The kind of a reduction whose body is one operation; raises UnsupportedError for another."""
    calls = body.program.calls
    if len(calls) != 1 or calls[0].name not in KINDS:
        raise UnsupportedError(f"from_jax: {name} with a body other than add, mul, max or min is not covered")
    return KINDS[calls[0].name]


@entry("reduce_window")
def reduce_window(x: Any, begin: Any, *, jaxpr: Any, **params: Any) -> list[Any]:
    kind = kind_of_body(jaxpr, "reduce_window")
    made = window_reduction(kind)(x, **params)
    return [PAIRWISE[kind](made, wnp.asarray(begin, x.dtype))]


@entry("reduce")
def reduce(*given: Any, jaxpr: Any, dimensions: Sequence[int], **params: Any) -> list[Any]:
    if len(given) != 2:
        raise UnsupportedError("from_jax: reduce of several arrays at once is not covered")
    kind = kind_of_body(jaxpr, "reduce")
    x, begin = given
    return [PAIRWISE[kind](WHOLE[kind](x, axis=tuple(dimensions)).astype(x.dtype), wnp.asarray(begin, x.dtype))]


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
