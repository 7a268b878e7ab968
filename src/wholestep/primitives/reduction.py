"""Reductions: many elements to one, and prefix scans, which keep every step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.creation import cast, full, iota
from wholestep.primitives.family import LeadingBatch, LinearPrimitive, Loops, Maybe, Sample, axis_inside
from wholestep.primitives.logic import less, less_equal, select
from wholestep.primitives.movement import broadcast, pad, permute, reshape, slice_along
from wholestep.primitives.precision import FOLLOWS, WIDE
from wholestep.primitives.samples import draw, dtype_kind, sample_dtypes

Axes = tuple[int, ...]


def reduced_shape(shape: tuple[Any, ...], axes: Axes) -> tuple[Any, ...]:
    """The shape that is left when these axes are gone."""
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def spread_back(y: Value, shape: tuple[Any, ...], axes: Axes) -> Value:
    """A reduced value repeated over the axes that it lost."""
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    repeated: Value = broadcast(y, shape=shape, axes=kept)
    return repeated


@lru_cache(maxsize=4096)
def reduced_type(op: Reduction, x: Type, axes: Axes) -> Type:
    """The type of the result of a reduction along these axes, cached, as loops reduce the same types again."""
    for axis in axes:
        axis_inside(op.name, axis, x.ndim)
    if dtype_kind(x.dtype) not in op.takes:
        raise DtypeError(f"{op.name}: does not take {dtypes.short(x.dtype)}")
    if not op.empty and any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
        raise ShapeError(f"{op.name}: no element to choose from in {x} along axes {axes}")
    return array_type(reduced_shape(x.shape, axes), x.dtype)


class Reduction(Loops, LeadingBatch):
    """Combines the elements along `axes` with a ufunc's `reduce`."""

    kind = "reduction"

    def __init__(
        self,
        name: str,
        ufunc: np.ufunc,
        takes: str,
        fold: str,
        combiner: str = "",
        empty: bool = True,
        precision: str = FOLLOWS,
    ) -> None:
        super().__init__(name)
        self.fold = fold
        self.combiner = combiner
        self.precision = precision
        self.ufunc = ufunc
        self.takes = takes
        self.empty = empty

    def type(self, x: Type, *, axes: Axes) -> Type:
        return reduced_type(self, x, axes)

    def ref(self, x: NDArray, *, axes: Axes) -> Any:
        wide = dtypes.compute_dtype(x.dtype) if x.dtype != object else x.dtype
        # Without the dtype NumPy would add small integers in 64 bits.
        out = self.ufunc.reduce(x if wide is x.dtype else x.astype(wide), axis=axes, dtype=wide)
        return out if wide is x.dtype else out.astype(x.dtype)

    def permuted(self, params: dict[str, Any], axes: Axes) -> tuple[dict[str, Any], Axes]:
        reduced = tuple(sorted([axes[a] for a in params["axes"]]))
        left = [a for a in range(len(axes)) if a not in reduced]
        return {"axes": reduced}, tuple([left.index(a) for i, a in enumerate(axes) if i not in params["axes"]])

    def flops(self, node: Node) -> Any:
        return node.inputs[0].type.size

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in sample_dtypes(self.takes):
            yield Sample((draw(rng, (2, 3, 2), dtype),), {"axes": (0, 2)})
            yield Sample((draw(rng, (2, 3), dtype),), {"axes": (1,)})
            yield Sample((draw(rng, (), dtype),), {"axes": ()})
        dtype = sample_dtypes(self.takes)[0]
        if self.empty:
            yield Sample((draw(rng, (0, 3), dtype),), {"axes": (0,)})
        yield Sample((draw(rng, (3, 0), dtype),), {"axes": (0,)})
        yield Sample((draw(rng, (1, 1), dtype),), {"axes": (0, 1)})


class Sum(Reduction, LinearPrimitive):
    """The sum along `axes`: the dual of `broadcast`."""

    polynomial = True

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Axes) -> Value:
        return spread_back(gy, node.inputs[0].shape, axes)


class Prod(Reduction):
    """The product along `axes`; its derivative is exact where factors are zero."""

    polynomial = True

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (x,), (dx,), axes = node.inputs, dxs, node.params["axes"]
        assert dx is not None
        if len(axes) != 1:
            x, dx, axes = last(x, axes), last(dx, axes), (x.ndim - len(axes),)
        (axis,) = axes
        return (sum_(dx * products_of_others(x, axis), axes=(axis,)),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        x = rng.normal(size=(3, 3))
        x[0, 1] = x[1, 1] = x[2, 2] = 0.0
        yield Sample((x,), {"axes": (1,)})
        yield Sample((x,), {"axes": (0, 1)})


class Extremum(Reduction):
    """The largest or smallest element; ties share the derivative evenly."""

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (x,), (y,), axes = node.inputs, node.outputs, node.params["axes"]
        assert dxs[0] is not None
        hit: Value = cast(x.equals(spread_back(y, x.shape, axes)), dtype=x.dtype)
        return (sum_(dxs[0] * hit, axes=axes) / sum_(hit, axes=axes),)

    def ref(self, x: NDArray, *, axes: Axes) -> Any:
        return self.ufunc.reduce(x, axis=axes)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]]),), {"axes": (1,)}, smooth=False)


class Arg(Loops, LeadingBatch):
    """The first position of the largest or smallest element along one axis."""

    kind = "reduction"
    flat = True
    precision = FOLLOWS

    def __init__(self, name: str, function: Any, extreme: str) -> None:
        super().__init__(name)
        self.extreme = extreme
        self.function = function

    def type(self, x: Type, *, axis: int) -> Type:
        axis_inside(self.name, axis, x.ndim)
        if isinstance(x.shape[axis], int) and x.shape[axis] == 0:
            raise ShapeError(f"{self.name}: no element to choose from in {x} along axis {axis}")
        return array_type(reduced_shape(x.shape, (axis,)), np.dtype(np.int64))

    def ref(self, x: NDArray, *, axis: int) -> Any:
        return np.asarray(self.function(x, axis=axis), np.int64)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in sample_dtypes("bif"):
            yield Sample((draw(rng, (2, 3), dtype),), {"axis": 1})
        yield Sample((np.array([1.0, 3.0, 3.0]),), {"axis": 0})
        yield Sample((rng.normal(size=(2, 0)),), {"axis": 0})

    def flops(self, node: Node) -> Any:
        return node.inputs[0].type.size


class Running(Loops, LeadingBatch):
    """Combines along one axis and keeps every step; `reverse` runs from the end."""

    kind = "reduction"
    polynomial = True

    def __init__(self, name: str, ufunc: np.ufunc) -> None:
        super().__init__(name)
        self.ufunc = ufunc

    def type(self, x: Type, *, axis: int, reverse: bool) -> Type:
        axis_inside(self.name, axis, x.ndim)
        if dtype_kind(x.dtype) == "b":
            raise DtypeError(f"{self.name}: does not take {dtypes.short(x.dtype)}")
        return x

    def ref(self, x: NDArray, *, axis: int, reverse: bool) -> NDArray:
        wide = dtypes.compute_dtype(x.dtype) if x.dtype != object else x.dtype
        run = np.flip(x, axis) if reverse else x
        out = self.ufunc.accumulate(run, axis, wide).astype(x.dtype, copy=False)
        return np.flip(out, axis) if reverse else out

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in sample_dtypes("fci"):
            yield Sample((draw(rng, (2, 4), dtype),), {"axis": 1, "reverse": False})
        yield Sample((rng.normal(size=(3, 2)),), {"axis": 0, "reverse": True})
        yield Sample((np.array([2.0, 0.0, 3.0, 0.0, 5.0]),), {"axis": 0, "reverse": False})
        yield Sample((rng.normal(size=(0, 2)),), {"axis": 0, "reverse": False})
        yield Sample((rng.normal(size=(1,)),), {"axis": 0, "reverse": True})


class Cumsum(Running, LinearPrimitive):
    """The running sum: transposed, it runs the other way."""

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis: int, reverse: bool) -> Value:
        return self(gy, axis=axis, reverse=not reverse)


class Cumprod(Running):
    """The running product, with a derivative that stays exact where factors are zero.

    Its tangent obeys d[k] = x[k] d[k-1] + y[k-1] dx[k], a linear recurrence, solved by doubling: log2(n) steps of
    (a, d) -> (a a', a d' + d) with a', d' from 2**j places before (Hillis and Steele, 1986).
    """

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (x,), (y,), (dx,) = node.inputs, node.outputs, dxs
        assert dx is not None
        axis, step = node.params["axis"], -1 if node.params["reverse"] else 1
        a, d = x, dx * shifted(y, step, axis)
        while abs(step) < x.shape[axis]:
            d = d + a * shifted(d, step, axis, fill=0)
            a = a * shifted(a, step, axis)
            step *= 2
        return (d,)


def products_of_others(x: Value, axis: int) -> Value:
    """For each element the product of all others along an axis."""
    left = shifted(cumprod(x, axis=axis, reverse=False), 1, axis)
    return left * shifted(cumprod(x, axis=axis, reverse=True), -1, axis)


def last(x: Value, axes: Axes) -> Value:
    """x with these axes merged into one last axis."""
    kept = [i for i in range(x.ndim) if i not in axes]
    moved = permute(x, axes=(*kept, *axes))
    merged: Value = reshape(moved, shape=(*[x.shape[i] for i in kept], math.prod([x.shape[a] for a in axes])))
    return merged


def shifted(x: Value, step: int, axis: int, fill: int = 1) -> Value:
    """x moved `step` places along an axis, `fill` coming in; against the axis where step is negative."""
    size = x.shape[axis]
    count = min(abs(step), size)
    kept = slice_along(x, axis, *((0, size - count) if step > 0 else (count, size)))
    nothing = (0,) * x.ndim
    room = tuple([count if i == axis else 0 for i in range(x.ndim)])
    padded: Value = pad(
        kept, before=room if step > 0 else nothing, after=nothing if step > 0 else room, interior=nothing
    )
    if fill == 0:
        return padded
    place = iota(shape=x.shape, axis=axis, dtype=np.dtype(np.int64))
    edge = full(value=count if step > 0 else size - count, shape=x.shape, dtype=place.dtype)
    inside = less_equal(edge, place) if step > 0 else less(place, edge)
    found: Value = select(inside, padded, full(value=fill, shape=x.shape, dtype=x.dtype))
    return found


sum_ = Sum("sum", np.add, "ifc", "add", "add", precision=WIDE)
prod = Prod("prod", np.multiply, "ifc", "mul", precision=WIDE)
max_ = Extremum("max", np.maximum, "bif", "max", "maximum", empty=False)
min_ = Extremum("min", np.minimum, "bif", "min", "minimum", empty=False)
any_ = Reduction("any", np.logical_or, "b", "or", "bitwise_or")
all_ = Reduction("all", np.logical_and, "b", "and", "bitwise_and")
argmax = Arg("argmax", np.argmax, "max")
argmin = Arg("argmin", np.argmin, "min")
cumsum = Cumsum("cumsum", np.add)
cumprod = Cumprod("cumprod", np.multiply)
