"""NumPy's functions on `x[mask]` with an abstract mask: reductions, elementwise functions, contractions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.frontend.array import Array
from wholestep.frontend.demands import demanded
from wholestep.frontend.dispatch import FUNCTIONS
from wholestep.frontend.promotion import cast_to, lift
from wholestep.frontend.selection import SELECTED, Selection, first
from wholestep.ir.graph import Value

WITH_WHERE = (np.sum, np.prod, np.any, np.all, np.mean, np.var, np.std)
"""Reductions with an argument `where=`, which takes the mask."""

EXTREMA = {np.max: -np.inf, np.amax: -np.inf, np.min: np.inf, np.amin: np.inf}
SKIPPING_NAN = (
    np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin, np.nanmedian, np.nanquantile,
    np.nanpercentile,
)  # fmt: skip
QUANTILES = {np.median: np.nanmedian, np.quantile: np.nanquantile, np.percentile: np.nanpercentile}
"""Each quantile with its NaN-skipping counterpart, since elements outside the mask are filled with NaN."""

ALONG_AN_AXIS = (np.cumsum, np.cumprod, np.sort, np.argsort, np.flip, np.roll)
"""Functions of one axis, which may be any but the axis of unknown length."""

ELEMENTWISE = (
    np.clip, np.where, np.round, np.around, np.nan_to_num, np.sinc, np.real, np.imag, np.angle, np.isclose, np.fix,
    np.i0, np.select, np.copy, np.zeros_like, np.ones_like, np.full_like,
)  # fmt: skip


def bound(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return dict(inspect.signature(FUNCTIONS[func]).bind(*args, **kwargs).arguments)


def elementwise(func: Any) -> Callable[..., Selection]:
    """A function that works on each element by itself, as one of chosen elements."""

    def on_chosen(*args: Any, **kwargs: Any) -> Selection:
        s = first(args, kwargs)
        given = [_operand(s, func.__name__, x) for x in args]
        named = {name: _operand(s, func.__name__, x) for name, x in kwargs.items()}
        return Selection(Array(FUNCTIONS[func](*given, **named).value), s.mask)

    return on_chosen


def _operand(s: Selection, name: str, x: Any) -> Any:
    """An argument at the whole array's shape, with ones where nothing is chosen."""
    if isinstance(x, list | tuple) and any(isinstance(item, Selection) for item in x):
        return [_operand(s, name, item) for item in x]
    if isinstance(x, Selection):
        return Selection(s.aligned(name, [x])[0], s.mask).filled(1)
    return s.aligned(name, [x])[0] if isinstance(x, Array | np.ndarray) and x.ndim else x


Body = Callable[[Selection, Any, dict[str, Any]], Any]
"""(the chosen, the whole array's axes, other arguments) -> the result of a reduction over the unknown length."""


def reduction(func: Any, body: Body) -> Callable[..., Any]:
    """A reduction of chosen elements: by the body where the axis of unknown length is among the axes, else as it is."""

    def on_chosen(*args: Any, **kwargs: Any) -> Any:
        given = bound(func, args, kwargs)
        s = given.pop(next(iter(given)))
        if not isinstance(s, Selection):
            first(args, kwargs).refuse(func.__name__)
        axis = given.pop("axis", None)
        axes = _axes(func.__name__, axis, s.ndim)
        shift = s.mask.ndim - 1
        if 0 not in axes:
            moved = tuple([a + shift for a in axes])
            made = FUNCTIONS[func](s.filled(1), axis=moved if isinstance(axis, tuple) else moved[0], **given)
            return Selection(Array(made.value), s.mask)
        keep, out = given.pop("keepdims", False), given.pop("out", None)
        if out is not None:
            s.refuse(f"{func.__name__}: out=", hint="assign the result instead")
        whole = tuple([*range(s.mask.ndim), *[a + shift for a in axes if a > 0]])
        made = body(s, whole, given)
        if keep is True:
            sizes = [1 if i in axes else n for i, n in enumerate((1, *s.rest))]
            made = FUNCTIONS[np.reshape](lift(made), tuple(sizes))
        return made

    return on_chosen


def _axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction, non-negative; raises numpy.exceptions.AxisError as NumPy does."""
    if axis is None:
        return tuple(range(ndim))
    items = axis if isinstance(axis, tuple) else (axis,)
    for a in items:
        if not -ndim <= a < ndim:
            raise np.exceptions.AxisError(a, ndim, name)
    return tuple([a % ndim for a in items])


def with_where(func: Any) -> Body:
    """A reduction that has `where=`."""

    def body(s: Selection, axes: Any, given: dict[str, Any]) -> Any:
        mask = s.chosen()
        if given.get("where", True) is not True:
            extra = s.aligned(func.__name__, [given["where"]])[0]
            mask = mask & wide_of(extra, mask)
        return FUNCTIONS[func](s.full, axis=axes, **{**given, "where": Array(mask)})

    return body


def wide_of(x: Any, like: Value) -> Value:
    """A mask that broadcasts, at the shape of another."""
    made: Value = FUNCTIONS[np.broadcast_to](lift(x), like.shape).value
    return cast_to(made, np.dtype(bool))


def extremum(func: Any, fill: float, name: str) -> Body:
    """A maximum or minimum, which of nothing is an error when the program runs, in the name of a call."""

    def body(s: Selection, axes: Any, given: dict[str, Any]) -> Any:
        if given.get("where", True) is not True:
            s = Selection(
                s.full.value, s.chosen() & wide_of(s.aligned(func.__name__, [given.pop("where")])[0], s.chosen())
            )
        number = least(s.dtype, fill)
        other = number if "initial" in given else Array(something(s, number, name))
        x = s.filled(other.value if isinstance(other, Array) else other)
        return FUNCTIONS[func](x, axis=axes, **given)

    return body


def least(dtype: np.dtype[Any], fill: float) -> Any:
    """The number of a dtype that never wins."""
    if dtype.kind == "b":
        return fill > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if fill < 0 else np.iinfo(dtype).max
    return complex(fill, fill) if dtype.kind == "c" else fill


def something(s: Selection, number: Any, name: str) -> Value:
    """A number at the whole array's shape; an error of the call `name` where nothing is chosen."""
    alone = name in [f.__name__ for f in EXTREMA]
    way_out = "give initial=, the value of an empty choice" if alone else "call it inside ws.cond(mask.any(), ...)"
    what = f"{name}: no element to choose from: the mask chooses none\n{way_out}"
    found = demanded(FUNCTIONS[np.any](Array(s.mask)).value, s.dtype.type(number), what)
    made: Value = FUNCTIONS[np.broadcast_to](Array(found), s.full.shape).value
    return made


def skipping(func: Any) -> Body:
    """A NaN-skipping reduction; elements outside the mask are filled with NaN."""

    def body(s: Selection, axes: Any, given: dict[str, Any]) -> Any:
        s = s if dtypes.is_inexact(s.dtype) else s.astype(np.float64)
        return FUNCTIONS[func](s.filled(np.nan), axis=axes, **given)

    return body


def quantile(func: Any, among_nan: Any) -> Body:
    """A median or quantile: the one that skips NaN, and NaN where one is chosen."""

    def body(s: Selection, axes: Any, given: dict[str, Any]) -> Any:
        made = skipping(among_nan)(s, axes, given)
        if not dtypes.is_inexact(s.dtype):
            return made
        spoilt = FUNCTIONS[np.any](Array((s != s).full.value & s.chosen()), axis=axes)
        return FUNCTIONS[np.where](spoilt, np.asarray(np.nan, made.dtype), made)[()]

    return body


def position(func: Any, top: Any) -> Body:
    """argmax or argmin among the chosen, counted among them: the first that equals the extremum, or is NaN."""
    best_of = reduction(top, extremum(top, EXTREMA[top], func.__name__))

    def body(s: Selection, axes: Any, given: dict[str, Any]) -> Any:
        if len(axes) != s.full.ndim:
            s.refuse(func.__name__)
        best = best_of(s)
        wins = ((s == best) | (s != s)).full.value & s.chosen()
        flat = FUNCTIONS[np.ravel](Array(s.chosen()))
        place = FUNCTIONS[np.argmax](FUNCTIONS[np.ravel](Array(wins)))
        return FUNCTIONS[np.cumsum](flat)[place] - 1

    return body


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """numpy.count_nonzero."""
    return np.sum(a != 0, axis=axis, keepdims=keepdims)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """numpy.ptp."""
    most, least_ = [reduction(f, extremum(f, EXTREMA[f], "ptp")) for f in (np.max, np.min)]
    return most(a, axis=axis, keepdims=keepdims) - least_(a, axis=axis, keepdims=keepdims)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """numpy.average, with weights that the same mask chooses."""
    s = first((a, weights), {})
    if returned or not isinstance(a, Selection):
        s.refuse("average")
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    if not isinstance(weights, Selection) or (weights.rest != a.rest and axis not in (0, None)):
        s.refuse("average", "choose the weights with the same mask")
    w = weights if weights.ndim == a.ndim else weights[(slice(None), *[None] * len(a.rest))]
    return np.sum(w * a, axis=axis, keepdims=keepdims) / np.sum(w, axis=axis, keepdims=keepdims)


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """numpy.linalg.norm of chosen elements as one vector, or along the axes that the mask leaves whole."""
    if axis is None and (ord is None or x.ndim == 1):
        flat = FUNCTIONS[np.ravel](x.filled(0))
        if keepdims or ord not in (None, 1, 2, np.inf):
            x.refuse("norm")
        return FUNCTIONS[np.linalg.norm](flat, ord)
    axes = _axes("norm", axis, x.ndim)
    if 0 in axes:
        if len(axes) > 1 or ord not in (None, 1, 2, np.inf):
            x.refuse("norm")
        tall = FUNCTIONS[np.reshape](x.filled(0), (-1, *x.rest))
        return FUNCTIONS[np.linalg.norm](tall, ord, 0, keepdims)
    moved = tuple([a + x.mask.ndim - 1 for a in axes])
    made = FUNCTIONS[np.linalg.norm](x.filled(1), ord, moved if isinstance(axis, tuple) else moved[0], keepdims)
    return Selection(Array(made.value), x.mask)


def matmul(a: Any, b: Any) -> Any:
    """a @ b: rows by a matrix, or two arrays of which the axis of unknown length is contracted."""
    s = first((a, b), {})
    if not isinstance(a, Selection):
        s.refuse(
            "matmul", "X[mask] @ w, and v[mask] @ X[mask] for one mask, are covered; else (X * mask[:, None]).T @ y"
        )
    if isinstance(b, Selection):
        if a.ndim > 1 or b.ndim > 2:
            s.refuse("matmul")
        b = Selection(s.aligned("matmul", [b])[0], s.mask) if b.ndim == a.ndim else b
        axes = list(range(s.mask.ndim))
        return FUNCTIONS[np.tensordot](a.filled(0), b.filled(0), (axes, axes))
    if a.ndim < 2:
        s.refuse("matmul")
    return Selection(Array(FUNCTIONS[np.matmul](a.filled(1), b).value), a.mask)


def vdot(a: Any, b: Any) -> Any:
    """numpy.vdot of elements that one mask chooses."""
    if not isinstance(a, Selection) or not isinstance(b, Selection):
        first((a, b), {}).refuse("vdot")
    return matmul(np.conjugate(a.ravel()), b.ravel())


def along_an_axis(func: Any) -> Callable[..., Selection]:
    """A function of one axis that the mask leaves whole."""

    def on_chosen(*args: Any, **kwargs: Any) -> Selection:
        given = bound(func, args, kwargs)
        s = given.pop(next(iter(given)))
        axis = given.pop("axis", inspect.signature(FUNCTIONS[func]).parameters["axis"].default)
        if not isinstance(s, Selection) or not isinstance(axis, int) or axis % s.ndim == 0:
            first(args, kwargs).refuse(func.__name__)
        made = FUNCTIONS[func](s.filled(1), axis=axis % s.ndim + s.mask.ndim - 1, **given)
        return Selection(Array(made.value), s.mask)

    return on_chosen


def attribute(name: str) -> Callable[..., Any]:
    """The function of an attribute's name."""
    return lambda a: getattr(a, name)


SELECTED.update({f: elementwise(f) for f in ELEMENTWISE})
SELECTED.update({f: along_an_axis(f) for f in ALONG_AN_AXIS})
SELECTED.update({f: reduction(f, with_where(f)) for f in WITH_WHERE})
SELECTED.update({f: reduction(f, extremum(f, fill, f.__name__)) for f, fill in EXTREMA.items()})
SELECTED.update({f: reduction(f, skipping(f)) for f in SKIPPING_NAN})
SELECTED.update({f: reduction(f, quantile(f, among_nan)) for f, among_nan in QUANTILES.items()})
SELECTED.update({np.argmax: reduction(np.argmax, position(np.argmax, np.max))})
SELECTED.update({np.argmin: reduction(np.argmin, position(np.argmin, np.min))})
SELECTED.update({np.count_nonzero: count_nonzero, np.ptp: ptp, np.average: average, np.linalg.norm: norm})
SELECTED.update({np.matmul: matmul, np.dot: matmul, np.vdot: vdot})
SELECTED.update({np.ravel: Selection.ravel, np.reshape: Selection.reshape})
SELECTED.update({np.ndim: attribute("ndim"), np.shape: attribute("shape"), np.size: attribute("size")})
