"""Indexing: reading and writing at positions that are themselves arrays, with NumPy's meaning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.arithmetic import maximum
from wholestep.primitives.creation import cast, full, iota
from wholestep.primitives.family import (
    LinearPrimitive,
    Loops,
    Maybe,
    Primitive,
    Sample,
    axis_inside,
    expand,
    instantiate,
    zeros,
)
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast, permute, reshape
from wholestep.primitives.precision import FOLLOWS, WIDE
from wholestep.primitives.samples import dtype_kind

Axes = tuple[int, ...]


def picked(name: str, x: Type, indices: Sequence[Type], axes: Axes) -> tuple[Any, ...]:
    """The shape that indexing `axes` of x gives: the indices' shape, then x's other axes in order."""
    if len(indices) != len(axes) or not axes or list(axes) != sorted(set(axes)):
        raise ShapeError(f"{name}: {len(indices)} indices for axes {axes} of {x}")
    for axis in axes:
        axis_inside(name, axis, x.ndim)
    for index in indices:
        if index.dtype.kind not in "iu":
            raise DtypeError(f"{name}: an index is {index}, not an integer array")
        if index.shape != indices[0].shape:
            raise ShapeError(f"{name}: indices differ in shape: {', '.join(map(str, indices))}")
    return (*indices[0].shape, *[n for i, n in enumerate(x.shape) if i not in axes])


def fronted(x: NDArray, axes: Axes) -> NDArray:
    """x with the indexed axes first."""
    return x.transpose((*axes, *[i for i in range(x.ndim) if i not in axes]))


def batched(
    n: Any,
    operands: Sequence[Value],
    on: Sequence[bool],
    indices: Sequence[Value],
    on_indices: Sequence[bool],
    axes: Axes,
) -> tuple[list[Value], list[Value], Axes]:
    """Operands and indices with the batch as one more indexed axis in front, so the result has it in front too."""
    shape = (n, *indices[0].shape[1 if on_indices[0] else 0 :])
    row = iota(shape=shape, axis=0, dtype=np.dtype(np.int64))
    wide = [expand(i, n, o) for i, o in zip(indices, on_indices, strict=True)]
    return [expand(x, n, o) for x, o in zip(operands, on, strict=True)], [row, *wide], (0, *[a + 1 for a in axes])


class Gather(Loops, LinearPrimitive):
    """`x[..., i, ...]`: x read at index arrays of one shape, one per axis; negative ones count from the end.

    The result has the indices' shape first, then the axes of x that are not indexed. The dual of `scatter_add`.
    """

    kind = "indexing"
    precision = FOLLOWS

    def linear(self, node: Node) -> range:
        return range(1)

    def type(self, x: Type, *indices: Type, axes: Axes) -> Type:
        return array_type(picked("gather", x, indices, axes), x.dtype)

    def ref(self, x: NDArray, *indices: NDArray, axes: Axes) -> NDArray:
        return fronted(x, axes)[tuple(indices)]

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Axes) -> Value:
        x, *indices = node.inputs
        return scatter_add(zeros(x.type), gy, *indices, axes=axes)

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axes: Axes) -> Value:
        x, *indices = xs
        if not on[0]:
            return self(x, *[expand(i, n, o) for i, o in zip(indices, on[1:], strict=True)], axes=axes)
        if not any(on[1:]):
            out = self(x, *indices, axes=tuple([a + 1 for a in axes]))
            k = indices[0].ndim
            return permute(out, axes=(k, *range(k), *range(k + 1, out.ndim)))
        (x,), indices, axes = batched(n, [x], on[:1], indices, on[1:], axes)
        return self(x, *indices, axes=axes)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3, 2))
        i, j = np.array([[0, 2], [2, -1]]), np.array([[1, 1], [1, -3]])
        yield Sample((x, i), {"axes": (0,)})
        yield Sample((x, i, j), {"axes": (0, 1)})
        yield Sample((x, j % 2), {"axes": (2,)})
        yield Sample((x, np.array(1), np.array(0)), {"axes": (0, 2)})
        yield Sample((x, np.zeros((0,), np.int64)), {"axes": (1,)})


class Scatter(Loops, Primitive):
    """A writer at index arrays: operands (x, u, *indices), u shaped as `gather` would read there.

    `joined_by` is the operation that combines old and new elements, in row-major order of the indices; empty where the
    last write stays.
    """

    kind = "indexing"
    precision = FOLLOWS
    joined_by = ""

    def type(self, x: Type, u: Type, *indices: Type, axes: Axes) -> Type:
        shape = picked(self.name, x, indices, axes)
        if u.shape != shape or u.dtype != x.dtype:
            raise ShapeError(f"{self.name}: {u} does not fit the {shape} elements read from {x}")
        return x

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axes: Axes) -> Value:
        x, u, *indices = xs
        operands, indices, axes = batched(n, [x, u], on[:2], indices, on[2:], axes)
        return self(*operands, *indices, axes=axes)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(4, 3, 2))
        i, j = np.array([[0, 2], [2, -1]]), np.array([[1, 0], [0, -3]])
        yield Sample((x, rng.normal(size=(2, 2, 3, 2)), i), {"axes": (0,)})
        yield Sample((x, rng.normal(size=(2, 2, 2)), i, j), {"axes": (0, 1)})
        yield Sample((x, rng.normal(size=(2, 2, 4, 3)), j % 2), {"axes": (2,)})
        yield Sample((x, rng.normal(size=(3,)), np.array(1), np.array(0)), {"axes": (0, 2)})
        yield Sample((x, rng.normal(size=(0, 4, 2)), np.zeros((0,), np.int64)), {"axes": (1,)})


def joined_at(join: np.ufunc, x: NDArray, u: NDArray, indices: Sequence[NDArray], axes: Axes) -> NDArray:
    """x with the rows of u joined to it one after the other."""
    out = x.copy()
    # One axis of indices: those of more than 32 axes crash NumPy's `at`.
    rows = u.reshape(indices[0].size, *u.shape[indices[0].ndim :])
    join.at(fronted(out, axes), tuple([i.reshape(-1) for i in indices]), rows)
    return out


class LinearScatter(LinearPrimitive, Scatter):
    """A scatter that is linear in x and in u."""

    kind = "indexing"

    def linear(self, node: Node) -> range:
        return range(2)


class ScatterAdd(LinearScatter):
    """x with u added at the indices; updates of one element add up. The transpose of `gather`."""

    precision = WIDE
    joined_by = "add"

    def ref(self, x: NDArray, u: NDArray, *indices: NDArray, axes: Axes) -> NDArray:
        wide = dtypes.compute_dtype(x.dtype) if x.dtype != object else x.dtype
        return joined_at(np.add, x.astype(wide), u.astype(wide), indices, axes).astype(x.dtype, copy=False)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Axes) -> Sequence[Maybe]:
        return (gy if wrt[0] else None, gather(gy, *node.inputs[2:], axes=axes) if wrt[1] else None)


class ScatterExtremum(Scatter):
    """x with the larger or smaller of itself and u at the indices; ties share the derivative evenly."""

    def __init__(self, name: str, join: np.ufunc) -> None:
        super().__init__(name)
        self.join, self.joined_by = join, join.__name__

    def type(self, x: Type, u: Type, *indices: Type, axes: Axes) -> Type:
        if dtype_kind(x.dtype) not in "bif":
            raise DtypeError(f"{self.name}: {x} has no order")
        return super().type(x, u, *indices, axes=axes)

    def ref(self, x: NDArray, u: NDArray, *indices: NDArray, axes: Axes) -> NDArray:
        return joined_at(self.join, x, u, indices, axes)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (x, u, *indices), (y,), axes = node.inputs, node.outputs, node.params["axes"]
        here = cast(x.equals(y), dtype=x.dtype)
        written = cast(u.equals(gather(y, *indices, axes=axes)), dtype=x.dtype)
        dx, du = [instantiate(v, d) for v, d in zip((x, u), dxs[:2], strict=True)]
        moved = scatter_add(dx * here, du * written, *indices, axes=axes)
        ties = scatter_add(here, written, *indices, axes=axes)
        return (moved / maximum(ties, full(value=1, shape=x.shape, dtype=x.dtype)),)  # nothing ties with nan

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        i = np.array([2, 0, 2, -1])
        for dtype in (np.bool_, np.int32, np.float16):
            x, u = [(4 * rng.normal(size=n)).astype(dtype) for n in (3, 4)]
            yield Sample((x, u, i), {"axes": (0,)})
        yield Sample((np.array([1.0, 2.0, 2.0]), np.array([2.0, 1.0, 2.0, 3.0]), i), {"axes": (0,)}, smooth=False)


class ScatterSet(LinearScatter):
    """x with u written at the indices; where several meet at one place, the last in row-major order stays."""

    def ref(self, x: NDArray, u: NDArray, *indices: NDArray, axes: Axes) -> NDArray:
        out = x.copy()
        # NumPy writes in the order in which the indices lie in memory, so a transposed one must be copied.
        fronted(out, axes)[tuple([np.asarray(i, order="C") for i in indices])] = np.asarray(u, order="C")
        return out

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Axes) -> Sequence[Maybe]:
        _, u, *indices = node.inputs
        gx = self(gy, zeros(u.type), *indices, axes=axes) if wrt[0] else None
        if not wrt[1]:
            return (gx, None)
        gu = gather(gy, *indices, axes=axes)
        return (gx, select(self.stays(node, axes), gu, zeros(gu.type)))

    def stays(self, node: Node, axes: Axes) -> Value:
        """Marks of the writes that no later one overwrites."""
        x, u, *indices = node.inputs
        count = int(np.prod(indices[0].shape, dtype=np.int64))
        integer = np.dtype(np.int64)
        flat = iota(shape=(count,), axis=0, dtype=integer)
        order = reshape(flat, shape=indices[0].shape)
        board = zeros(array_type(tuple([x.shape[a] for a in axes]), integer))
        last = self(board, order, *indices, axes=tuple(range(len(axes))))
        won = gather(last, *indices, axes=tuple(range(len(axes)))).equals(order)
        spread: Value = broadcast(won, shape=u.shape, axes=tuple(range(order.ndim)))
        return spread


def take_along(x: Value, index: Value, axis: int) -> Value:
    """`np.take_along_axis`: x read along one axis at an index array of x's rank."""
    integer = np.dtype(np.int64)  # and not that of the index, which may be too narrow to count the other axes
    indices = [index if i == axis else iota(shape=index.shape, axis=i, dtype=integer) for i in range(x.ndim)]
    taken: Value = gather(x, *indices, axes=tuple(range(x.ndim)))
    return taken


gather = Gather()
scatter_add = ScatterAdd("scatter_add")
scatter_max = ScatterExtremum("scatter_max", np.maximum)
scatter_min = ScatterExtremum("scatter_min", np.minimum)
scatter = ScatterSet("scatter")
