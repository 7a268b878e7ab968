"""x[index] and x[index] = v with NumPy's full meaning: slices are views, index arrays gather and scatter."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import BoundsError, ShapeError, UnsupportedError, ValueDependentError
from wholestep.frontend.array import Array, View, data_of
from wholestep.frontend.dispatch import HOOKS, is_traced
from wholestep.frontend.promotion import WEAK, assignable, broadcast_shapes, broadcast_to, cast_to, full_of, lift, wrap
from wholestep.frontend.selection import Selection, put, widen_mask
from wholestep.ir.graph import OPS, Value
from wholestep.primitives.indexing import Scatter, gather, scatter, scatter_add, scatter_max, scatter_min
from wholestep.primitives.logic import select
from wholestep.primitives.movement import flip, permute, reshape, slice_, steps_between, update_slice
from wholestep.words import with_article


class BasicIndexing(NamedTuple):
    """The part of an index made of slices, integers and new axes: slice, then flip, then reshape."""

    start: tuple[Any, ...]
    stop: tuple[Any, ...]
    step: tuple[Any, ...]
    flips: tuple[int, ...]
    shape: tuple[Any, ...]

    def sizes(self) -> tuple[Any, ...]:
        return tuple(map(steps_between, self.start, self.stop, self.step))

    def get(self, x: Value) -> Value:
        if self.sizes() != x.shape or any(s != 1 for s in self.step):
            x = slice_(x, start=self.start, stop=self.stop, step=self.step)
        if self.flips:
            x = flip(x, axes=self.flips)
        return x if x.shape == self.shape else reshape(x, shape=self.shape)

    def put(self, x: Value, new: Value) -> Value:
        sizes = self.sizes()
        if new.shape != sizes:
            new = reshape(new, shape=sizes)
        if self.flips:
            new = flip(new, axes=self.flips)
        if sizes == x.shape:
            return new
        return update_slice(x, new, start=self.start, step=self.step)


class IndexExpression(NamedTuple):
    """A parsed index: the basic part, then the index arrays and where their result goes."""

    basic: BasicIndexing
    layout: tuple[Any, ...]
    arrays: tuple[Value, ...]
    axes: tuple[int, ...]
    place: int
    scalar: bool


class Fresh(NamedTuple):
    """A boolean without axes: it indexes a new axis of size 1, which it keeps or empties."""

    places: Value


class IndexParts:
    """The parts of an index, collected item by item: a slice for each axis of an array, and index arrays."""

    def __init__(self, x: Array) -> None:
        self.x, self.place = x, 0
        self.start: list[Any] = []
        self.stop: list[Any] = []
        self.step: list[Any] = []
        self.flips: list[int] = []
        self.shape: list[Any] = []
        self.layout: list[Any] = []
        self.arrays: list[Any] = []
        self.axes: list[int] = []

    def add(self, item: Any, is_advanced: bool) -> None:
        """Take in an item; an integer beside index arrays is `is_advanced` like these."""
        if item is None or isinstance(item, Fresh):
            if item is not None:
                self.add_array(item.places)
            self.shape.append(1)
            self.layout.append(None)
            return
        axis = len(self.start)
        n = self.x.shape[axis]
        if is_advanced:
            if isinstance(item, int):
                inside(item, n, axis)
            self.add_array(item)
            a, b, s = 0, n, 1
            self.shape.append(n)
            self.layout.append(slice(None))
        elif isinstance(item, int):
            a, s = inside(item, n, axis), 1
            b = a + 1
            self.layout.append(item)
        else:
            a, b, s = bounds(item, n)
            if s < 0:
                count = len(range(a, b, s)) if isinstance(n, int) else n
                self.flips.append(axis)
                a, b, s = (a + s * (count - 1), a + 1, -s) if count else (0, 0, 1)
            self.shape.append(steps_between(a, b, s))
            self.layout.append(item)
        self.start.append(a)
        self.stop.append(b)
        self.step.append(s)

    def add_array(self, places: Any) -> None:
        """Take in an index array along the next axis."""
        if not self.arrays:
            self.place = len(self.shape)
        self.arrays.append(places)
        self.axes.append(len(self.shape))


def parse_index(x: Array, index: Any) -> IndexExpression:
    """Split an index into slices and arrays; raises IndexError and its kin as NumPy does."""
    items = [plain_item(x, item) for item in (index if isinstance(index, tuple) else (index,))]
    dots = any([item is Ellipsis for item in items])
    items, gap = expanded(x, items)
    advanced = [isinstance(item, Value | Fresh) for item in items]
    integers = [isinstance(item, int) for item in items]
    adjacent = False
    if any(advanced):
        advanced = [a or i for a, i in zip(advanced, integers, strict=True)]
        spread = [i for i, a in enumerate(advanced) if a]
        adjacent = spread[-1] - spread[0] + 1 == len(spread) and not spread[0] < gap <= spread[-1]
    own = IndexParts(x)
    for item, is_advanced in zip(items, advanced, strict=True):
        own.add(item, is_advanced)
    basic = BasicIndexing(tuple(own.start), tuple(own.stop), tuple(own.step), tuple(own.flips), tuple(own.shape))
    scalar = not own.shape and all(integers) and not dots
    place = own.place if adjacent else 0
    return IndexExpression(basic, tuple(own.layout), index_values(own.arrays), tuple(own.axes), place, scalar)


def index_values(arrays: Sequence[Any]) -> tuple[Value, ...]:
    """Index arrays as values of one shape."""
    if not arrays:
        return ()
    shape = broadcast_shapes("indexing", [a.shape for a in arrays if isinstance(a, Value)])
    integer = np.dtype(np.int64)
    return tuple([broadcast_to(a, shape) if isinstance(a, Value) else full_of(a, shape, integer) for a in arrays])


def inside(i: int, n: Any, axis: int) -> int:
    """A non-negative position; raises BoundsError outside the axis."""
    if isinstance(n, int) and not -n <= i < n:
        raise BoundsError(
            f"indexing: index {i} is out of bounds for axis {axis} with size {n}",
            hint=f"valid indices are {-n} to {n - 1}" if n else "the axis is empty",
        )
    return i + n if i < 0 else i


def bounds(item: slice, n: Any) -> tuple[Any, Any, int]:
    """start, stop and step of a slice on an axis of size n, which may be symbolic."""
    if isinstance(n, int):
        a, b, s = item.indices(n)
        return (a, max(a, b), s) if s > 0 else (a, b, s)
    step = 1 if item.step is None else item.step
    if step < 1:
        if (item.start, item.stop, step) == (None, None, -1):
            return n - 1, -1, -1
        raise UnsupportedError(
            f"indexing: a step of {step} along an axis of symbolic size {n}",
            hint="x[::-1] turns the axis round; take the steps after that",
        )
    ends = [0 if item.start is None else item.start, n if item.stop is None else item.stop]
    a, b = [n + e if isinstance(e, int) and e < 0 else e for e in ends]
    return a, b, step


def plain_item(x: Array, item: Any) -> Any:
    """One item of an index as an int, slice, None, Ellipsis, a value of integers, or a mask."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return slice(*[None if e is None else _bound(e) for e in (item.start, item.stop, item.step)])
    if isinstance(item, bool | np.bool_):
        return np.asarray(item)
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, Array) or is_traced(item):
        return traced_item(lift(item))
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        return data_of(lift(array).value) if array.ndim else array
    if array.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays"
            " are valid indices"
        )
    return int(array) if array.ndim == 0 else lift(array).value


def _bound(e: Any) -> Any:
    if type(e) is Array and data_of(e.value) is None:
        raise ValueDependentError(
            "indexing: a slice has a bound whose value is not known while the program is being written, "
            f"{with_article(e.type)}",
            hint="x[start + np.arange(n)] is a window of n elements from any place on; a size that is known beforehand"
            " is static: ws.jit(f, static_argnames=...)",
        )
    return e if type(e).__name__ == "Dim" else operator.index(e)


def traced_item(item: Array) -> Any:
    """A traced index: integers stay traced; a mask must be known, since the shape depends on it."""
    kind = item.dtype.kind
    if kind in "iu":
        return item.value
    if kind != "b":
        raise IndexError(f"arrays used as indices must be of integer or boolean type, not {item.type}")
    if data_of(item.value) is None:
        raise ValueDependentError(
            f"boolean indexing: the value of a traced {item.type} is not known while the program is being written",
            hint="np.where(mask, x, other) keeps the shape; a mask over the leading axes, as in x[mask] and"
            " np.moveaxis(x, axis, 0)[mask], need not be known",
        )
    return np.broadcast_to(data_of(item.value), item.shape)


def expanded(x: Array, items: list[Any]) -> tuple[list[Any], int]:
    """The items of an index, one for each axis, masks as integers and the ellipsis as slices; and the ellipsis's place.

    The place counts where the ellipsis stands for no axis, too: it keeps the arrays on its two sides apart.
    """
    flat: list[Any] = []
    for item in items:
        if isinstance(item, np.ndarray):
            if item.ndim == 0:
                flat.append(Fresh(lift(np.zeros(int(item), np.int64)).value))
            else:
                if not any([i is Ellipsis for i in flat]):
                    check_mask(x, item, sum(map(_axes_used, flat)))
                flat += [lift(i).value for i in np.nonzero(item)]
        else:
            flat.append(item)
    used = sum(_axes_used(item) for item in flat)
    if used > x.ndim:
        raise BoundsError(
            f"indexing: too many indices: the array is {x.ndim}-dimensional, but {used} were indexed",
            hint="drop some of them, or add axes first",
        )
    dots = [i for i, item in enumerate(flat) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(flat)
    return [*flat[:at], *[slice(None)] * (x.ndim - used), *flat[at + 1 :]], at


def _axes_used(item: Any) -> int:
    return 0 if item is None or item is Ellipsis or isinstance(item, Fresh) else 1


def check_mask(x: Array, mask: Any, axis: int) -> None:
    """Raise BoundsError where the sizes of a mask are not those of the axes that it indexes."""
    for i, n in enumerate(mask.shape):
        if axis + i >= x.ndim or x.shape[axis + i] != n:
            raise BoundsError(
                f"indexing: boolean index of shape {mask.shape} does not match {x.type} from axis {axis}",
                hint="a mask has one element for each element it chooses among",
            )


def lone_mask(x: Array, index: Any) -> Array | None:
    """The mask of `x[mask]` where the index is one boolean array over the leading axes."""
    item = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(item, list):
        item = lift(item) if is_traced(item) else np.asarray(item)
    if isinstance(item, Array | np.ndarray) and item.dtype.kind == "b" and item.ndim > 0:
        check_mask(x, item, 0)
        return lift(item)
    return None


def unknown_mask(x: Array, index: Any) -> tuple[Value, Any] | None:
    """(mask, further index) of `x[mask]` and `x[mask, i]` where the mask has no value yet; None elsewhere."""
    head, tail = (index[0], index[1:]) if isinstance(index, tuple) and index else (index, ())
    if not is_traced(head) or type(head) is tuple:
        return None
    mask = lift(head)
    if mask.dtype.kind != "b" or data_of(mask.value) is not None:
        return None
    check_mask(x, mask, 0)
    return mask.value, tail


def getitem(x: Array, index: Any) -> Any:
    """Read: a view for slices, a copy for index arrays, a scalar where every axis has an integer."""
    if isinstance(index, Selection) and index.dtype.kind in "iu":
        return Selection(getitem(x, index.filled(0)).value, index.mask)
    found = unknown_mask(x, index)
    if found is not None:
        mask, tail = found
        chosen = Selection(x.value, mask)
        return Selection(chosen.full[chosen.behind((slice(None), *tail))], mask) if tail else chosen
    where = parse_index(x, index)
    if where.arrays:
        return wrap(read_at_index(x.value, where))
    if where.scalar:
        return Array(where.basic.get(x.value), True)
    layout = where.layout
    return x.view_through(View(where.basic.get, where.basic.put, lambda plain: plain[layout], layout))


def read_at_index(x: Value, where: IndexExpression) -> Value:
    """The elements at an index: slices, then a gather, then its axes moved to NumPy's position for them."""
    out: Value = gather(where.basic.get(x), *where.arrays, axes=where.axes)
    k = where.arrays[0].ndim
    if where.place == 0:
        return out
    order = [*range(k, k + where.place), *range(k), *range(k + where.place, out.ndim)]
    return permute(out, axes=tuple(order))


WRITERS: dict[str, Scatter] = {op.joined_by: op for op in (scatter, scatter_add, scatter_max, scatter_min)}
"""The scatter for each operation that combines old and new elements; "" is plain assignment."""


def write_at_index(x: Value, where: IndexExpression, new: Value, join: str) -> Value:
    """x with `new` at the index, or combined with the old elements by the operation `join`."""
    if not where.arrays:
        return where.basic.put(x, OPS[join](where.basic.get(x), new) if join else new)
    k = where.arrays[0].ndim
    if where.place:
        order = [*range(where.place, where.place + k), *range(where.place), *range(where.place + k, new.ndim)]
        new = permute(new, axes=tuple(order))
    return where.basic.put(x, WRITERS[join](where.basic.get(x), new, *where.arrays, axes=where.axes))


def result_shape(where: IndexExpression) -> tuple[Any, ...]:
    """The shape of the elements that the index selects."""
    if not where.arrays:
        return where.basic.shape
    rest = [n for i, n in enumerate(where.basic.shape) if i not in where.axes]
    return (*rest[: where.place], *where.arrays[0].shape, *rest[where.place :])


def setitem(x: Array, index: Any, new: Any, join: str = "") -> None:
    """Write into x and all arrays that share its memory; `join` names an operation on old and new elements."""
    found = unknown_mask(x, index)
    if found is not None:
        mask, tail = found
        put(x[Selection(x.value, mask).behind((slice(None), *tail))] if tail else x, mask, new, join)
        return
    if isinstance(new, Selection):
        new.refuse("assignment of chosen elements", "read and write with one mask: y[m] = f(x[m])")
    v = full_of(new, (), x.dtype) if type(new) in WEAK else cast_to(lift(new).value, x.dtype)
    plain = lone_mask(x, index)
    if plain is not None and not join and v.ndim <= x.ndim - plain.ndim:
        x.write(select(widen_mask(plain.value, x.shape), broadcast_to(v, x.shape), x.value))
        return
    where = parse_index(x, index)
    if is_same_view(x, where, new):
        return
    x.write(write_at_index(x.value, where, fitted(v, result_shape(where), x), join))


def is_same_view(x: Array, where: IndexExpression, new: Any) -> bool:
    """Test whether `new` is x[index] itself: `x[index] += v` has written it already, and assigns it once more."""
    if not isinstance(new, Array) or new._parent is not x or new._view is None:
        return False
    return not where.arrays and new._view.index == where.layout


def fitted(v: Value, shape: tuple[Any, ...], x: Array) -> Value:
    """A value repeated to the shape of the place it is written to; leading axes of size 1 may be dropped."""
    v = assignable(v, len(shape))
    if v.ndim > len(shape) or broadcast_shapes("assignment", [v.shape, shape]) != shape:
        raise ShapeError(
            f"assignment: {v.type} does not fit a place of shape {shape} in {x.type}",
            hint="the value must broadcast to what the index reads",
        )
    return broadcast_to(v, shape)


HOOKS.getitem = getitem
HOOKS.setitem = setitem
