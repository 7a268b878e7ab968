"""Order: sorting and choosing the largest; each returns where its values came from, and the derivative follows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import LeadingBatch, Loops, Maybe, Sample, Several, axis_inside
from wholestep.primitives.indexing import take_along
from wholestep.primitives.precision import FOLLOWS
from wholestep.primitives.samples import draw, sample_dtypes

_INDEX = np.dtype(np.int64)


def comparable(x: NDArray) -> NDArray:
    """The array, bfloat16 as float32, since NumPy sorts NaN last only in its own dtypes."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


class Ordering(Several, LeadingBatch):
    """(values, indices): values are x read at indices along `axis`, so their tangent is the tangent read there."""

    kind = "order"
    precision = FOLLOWS
    takes = "bifc"

    def values(self, x: Type, **params: Any) -> Type:
        return x

    def type(self, x: Type, *, axis: int, **params: Any) -> tuple[Type, Type]:
        axis_inside(self.name, axis, x.ndim)
        found = self.values(x, axis=axis, **params)
        return found, array_type(found.shape, _INDEX)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        assert dxs[0] is not None
        return (take_along(dxs[0], node.outputs[1], node.params["axis"]), None)

    def extra(self, size: int) -> dict[str, Any]:
        """Further parameters that a sample along an axis of this size needs."""
        return {}

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in sample_dtypes(self.takes):
            yield Sample((draw(rng, (2, 5), dtype),), {"axis": 1, **self.extra(5)})
        yield Sample((rng.normal(size=(4, 2)),), {"axis": 0, **self.extra(4)})
        yield Sample((rng.normal(size=(1,)),), {"axis": 0, **self.extra(1)})
        yield Sample((rng.normal(size=(0, 3)),), {"axis": 1, **self.extra(3)})
        yield Sample((np.array([2.0, 1.0, 2.0, 1.0]),), {"axis": 0, **self.extra(4)}, smooth=False)


class Sort(Ordering):
    """Ascending and stable; NaN last."""

    def ref(self, x: NDArray, *, axis: int) -> tuple[NDArray, NDArray]:
        order = np.argsort(comparable(x), axis=axis, kind="stable")
        return np.take_along_axis(x, order, axis), order


class TopK(Ordering):
    """The k largest, largest first; the first of equals comes first."""

    takes = "bif"

    def values(self, x: Type, *, axis: int = -1, k: int = 0, **params: Any) -> Type:
        if isinstance(x.shape[axis], int) and not 0 <= k <= x.shape[axis]:
            raise ShapeError(f"top_k: k = {k} is outside 0 to {x.shape[axis]}, the size of axis {axis} of {x}")
        if x.dtype.kind == "c":
            raise DtypeError(f"top_k: complex numbers such as {x} have no order")
        return array_type((*x.shape[:axis], k, *x.shape[axis + 1 :]), x.dtype)

    def ref(self, x: NDArray, *, axis: int, k: int) -> tuple[NDArray, NDArray]:
        backwards = np.flip(comparable(x), axis)
        order = x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)
        order = np.take(order, np.arange(k), axis)
        return np.take_along_axis(x, order, axis), order

    def extra(self, size: int) -> dict[str, Any]:
        return {"k": min(2, size)}


class Partition(Ordering):
    """Elements around the places `kth` they would have in sorted order, permuted as NumPy permutes them."""

    def ref(self, x: NDArray, *, axis: int, kth: tuple[int, ...]) -> tuple[NDArray, NDArray]:
        values = np.partition(comparable(x), kth, axis).astype(x.dtype)
        order = np.empty(x.shape, np.int64)
        places = np.argsort(comparable(values), axis=axis, kind="stable")
        np.put_along_axis(order, places, np.argsort(comparable(x), axis=axis, kind="stable"), axis)
        return values, order

    def extra(self, size: int) -> dict[str, Any]:
        return {"kth": (size // 2,)}


class Cummax(Loops, Ordering):
    """The largest so far, and where it was; the first of equals stays."""

    takes = "bif"
    ufunc: Any = np.maximum
    better: Any = np.greater

    def values(self, x: Type, **params: Any) -> Type:
        if x.dtype.kind == "c":
            raise DtypeError(f"{self.name}: not covered for complex numbers such as {x}")
        return x

    def ref(self, x: NDArray, *, axis: int) -> tuple[NDArray, NDArray]:
        values = self.ufunc.accumulate(x, axis)
        moved, seen = np.moveaxis(x, axis, 0), np.moveaxis(values, axis, 0)
        order = np.zeros(seen.shape, np.int64)
        for k in range(1, len(seen)):
            new = self.better(moved[k], seen[k - 1]) | (moved[k] != moved[k])
            order[k] = np.where(new, k, order[k - 1])
        return values, np.moveaxis(order, 0, axis)


class Cummin(Cummax):
    """The smallest so far, and where it was; the first of equals stays."""

    ufunc = np.minimum
    better = np.less


sort = Sort()
top_k = TopK("top_k")
partition = Partition()
cummax = Cummax()
cummin = Cummin()
