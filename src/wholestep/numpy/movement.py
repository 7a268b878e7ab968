"""NumPy's functions that move elements: reshape, transpose, stack, split, flip, pad and their kin."""

from __future__ import annotations

import math
import operator
from typing import Any

from wholestep.dims import sampled
from wholestep.errors import AxisError, ParameterError, ShapeError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import FUNCTIONS, covers, is_traced
from wholestep.frontend.memory import may_be_transposed
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to as broadcast_value, lift, promoted, wrap
from wholestep.frontend.ufuncs import assign_out
from wholestep.ir.build import owned
from wholestep.numpy.outside import np
from wholestep.primitives.movement import concat, flip as flip_primitive, permute, reshape as reshape_primitive


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """A non-negative axis; raises AxisError outside the array."""
    found = operator.index(axis)
    if not -ndim <= found < ndim:
        raise AxisError(
            f"{name}: axis {found} is out of bounds for an array of {ndim} dimensions",
            hint=f"valid axes are {-ndim} to {ndim - 1}" if ndim else "the array has no axes",
        )
    return found % ndim


def normalized_axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Non-negative axes, all of them for None; raises AxisError outside the array and ShapeError for repeats."""
    if axes is None:
        return tuple(range(ndim))
    found = tuple([axis_of(name, a, ndim) for a in (axes if isinstance(axes, tuple | list) else (axes,))])
    if len(set(found)) != len(found):
        raise ShapeError(f"{name}: an axis is given twice in {axes}")
    return found


def view(x: Array, get: Any, put: Any, layout: Any) -> Array:
    """A view of x: NumPy writes through it, so it has a way back."""
    return x.view_through(View(get, put, layout))


MOST_AXES = 64
"""As many axes as NumPy's arrays may have."""


def check_depth(name: str, around: int) -> None:
    """Raise ShapeError for lists in each other that are no array any more."""
    if around >= MOST_AXES:
        raise ShapeError(
            f"{name}: lists lie more than {MOST_AXES} deep in each other",
            hint=f"an array has at most {MOST_AXES} axes: take the innermost values, and stack or reshape them",
        )


MOST_PARTS = 1_000_000
"""The parts that one call may make of an array, an operation each."""


def check_count(name: str, count: int) -> None:
    """Raise ParameterError for more parts than a program can be made of."""
    if count > MOST_PARTS:
        raise ParameterError(f"{name}: {count} parts are more than a program can be made of")


def traced_array(a: Any) -> Array:
    """Anything array-like as a traced array with memory: a NumPy scalar becomes a new 0-d array."""
    x = lift(a)
    return Array(x.value) if x._scalar else x


def by_columns(x: Array, order: str) -> bool:
    """Test whether this order= of an array means that the first index runs fastest."""
    if order in ("C", "K"):
        return False
    if order not in ("F", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return order == "F" or bool(x.layout().flags.fnc)


@covers(np.reshape)
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """numpy.reshape: a view where the memory allows it, a copy elsewhere, as NumPy decides."""
    x = traced_array(a)
    wanted = tuple(shape) if np.iterable(shape) else (shape,)
    sizes = [s if type(s).__name__ == "Dim" else operator.index(s) for s in wanted]
    if by_columns(x, order):
        return transpose(reshape(transpose(x), sizes[::-1], copy=copy))
    sizes = fill_in(x, sizes)
    new, old = tuple(sizes), x.shape
    made = view(
        x,
        lambda v: v if v.shape == new else reshape_primitive(v, shape=new),
        lambda base, v: v if v.shape == old else reshape_primitive(v, shape=old),
        lambda plain: np.reshape(plain, sampled(new), copy=False),
    )
    if copy or not shares(made):
        if copy is False:
            raise ShapeError(f"reshape: {x.type} to {new} needs a copy, and copy=False forbids it")
        return Array(made.value)
    return made


def fill_in(x: Array, sizes: list[Any]) -> list[Any]:
    """-1 replaced by the size that is left; raises ShapeError where the number of elements differs."""
    unknown = [i for i, s in enumerate(sizes) if isinstance(s, int) and s < 0]
    if len(unknown) > 1:
        raise ShapeError("reshape: only one size can be left to -1")
    if unknown:
        known = math.prod([s for i, s in enumerate(sizes) if i != unknown[0]])
        if isinstance(known, int) and not known:
            raise ShapeError(
                f"reshape: -1 in {tuple(sizes)} may be any size, since another size is 0",
                hint="write the size in place of -1",
            )
        sizes[unknown[0]] = x.size // known
    if math.prod(sizes) != x.size:
        raise ShapeError(
            f"reshape: {x.type} has {x.size} elements, shape {tuple(sizes)} has {math.prod(sizes)}",
            hint="the number of elements stays the same; -1 stands for the size that is left",
        )
    return sizes


def shares(x: Array) -> bool:
    """Test whether NumPy could make this view without copying."""
    parent = x._parent
    assert parent is not None
    if parent._parent is None and parent._strides is None:
        return True
    try:
        x.layout()
    except ValueError:
        return False
    return True


@covers(np.ravel)
def ravel(a: Any, order: str = "C") -> Array:
    """numpy.ravel: a view of a contiguous array, a copy of any other."""
    x = traced_array(a)
    if order == "K":
        strides = x.layout().strides
        x = transpose(x, sorted(range(x.ndim), key=lambda i: -abs(strides[i])))
    elif by_columns(x, order):
        x = transpose(x)
    made = reshape(x, (-1,))
    return made if not may_be_transposed(x) or x.layout().flags.c_contiguous else Array(made.value)


class FlatIterator(Array):
    """x.flat: the elements in row-major order. Reading copies; writing reaches x, short values again and again."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found if found._scalar else Array(found.value)

    def __setitem__(self, index: Any, new: Any) -> None:
        v = traced_array(new)
        if v.ndim and not is_traced(index):
            v = cycled(v, np.empty(self.shape[0], bool)[index].size)
        super().__setitem__(index, v)


def flat_view(x: Array) -> FlatIterator:
    """The elements in row-major order as one axis; writes to it reach x, in every memory layout of x."""
    old, size = x.shape, x.size
    way = View(
        lambda v: reshape_primitive(v, shape=(size,)),
        lambda base, v: reshape_primitive(v, shape=old),
        lambda plain: np.empty(size, plain.dtype),
    )
    made = FlatIterator(way.get(x.value))
    made._parent, made._view = x, way
    made._seen = x._root()._version
    return made


FUNCTIONS[np.ndarray.flat] = flat_view


def cycled(values: Any, count: int) -> Array:
    """The values again and again, `count` in all."""
    flat = ravel(traced_array(values))
    times = -(-count // max(flat.size, 1))
    return (concatenate([flat] * times, 0) if times > 1 else flat)[:count]  # type: ignore[no-any-return]


@covers(np.transpose)
def transpose(a: Any, axes: Any = None) -> Array:
    """numpy.transpose: a view."""
    x = lift(a)
    if x._scalar and not axes:
        return x
    given = axes if axes is None or np.ndim(axes) == 0 else tuple(axes)
    order = tuple(reversed(range(x.ndim))) if axes is None else normalized_axes("transpose", given, x.ndim)
    if len(order) != x.ndim:
        raise ShapeError(f"transpose: axes {axes} do not match {x.type}")
    back = tuple([order.index(i) for i in range(x.ndim)])
    return view(
        x,
        lambda v: permute(v, axes=order),
        lambda base, v: permute(v, axes=back),
        lambda plain: np.transpose(plain, order),
    )


@covers(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Array:
    """numpy.swapaxes: a view."""
    x = lift(a)
    i, j = axis_of("swapaxes", axis1, x.ndim), axis_of("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return transpose(x, order)


@covers(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """numpy.moveaxis: a view."""
    x = lift(a)
    sources, targets = normalized_axes("moveaxis", source, x.ndim), normalized_axes("moveaxis", destination, x.ndim)
    if len(sources) != len(targets):
        raise ShapeError(f"moveaxis: {len(sources)} sources and {len(targets)} destinations")
    order = [i for i in range(x.ndim) if i not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return transpose(x, order)


@covers(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Array:
    """numpy.squeeze: a view without axes of size 1."""
    x = lift(a)
    if x._scalar:
        return x
    gone = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else normalized_axes("squeeze", axis, x.ndim)
    for i in gone:
        if x.shape[i] != 1:
            raise ShapeError(f"squeeze: axis {i} of {x.type} has size {x.shape[i]}, not 1")
    return reshape(x, tuple([n for i, n in enumerate(x.shape) if i not in gone]))


@covers(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Array:
    """numpy.expand_dims: a view with new axes of size 1."""
    x = lift(a)
    many = axis if isinstance(axis, tuple | list) else (axis,)
    places = normalized_axes("expand_dims", tuple(many), x.ndim + len(many))
    rest = iter(x.shape)
    return reshape(x, tuple([1 if i in places else next(rest) for i in range(x.ndim + len(many))]))


@covers(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Array:
    """numpy.broadcast_to: a view that cannot be written."""
    x = traced_array(array)
    wanted = tuple(shape) if np.iterable(shape) else (shape,)
    if broadcast_shapes("broadcast_to", [x.shape, wanted]) != wanted:
        raise ShapeError(f"broadcast_to: {x.type} does not broadcast to {wanted}")
    return view(x, lambda v: broadcast_value(v, wanted), None, lambda plain: np.broadcast_to(plain, sampled(wanted)))


@covers(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Array, ...]:
    """numpy.broadcast_arrays: views, which can be written where no array has to grow."""
    arrays = [traced_array(a) for a in args]
    shape = broadcast_shapes("broadcast_arrays", [a.shape for a in arrays])
    if all([a.shape == shape for a in arrays]):
        return tuple(arrays)
    return tuple([broadcast_to(a, shape) for a in arrays])


@covers(np.flip)
def flip(m: Any, axis: Any = None) -> Array:
    """numpy.flip: a view in reverse order."""
    x = traced_array(m)
    axes = normalized_axes("flip", axis, x.ndim)
    return view(
        x,
        lambda v: flip_primitive(v, axes=axes),
        lambda base, v: flip_primitive(v, axes=axes),
        lambda plain: np.flip(plain, axes),
    )


@covers(np.concatenate)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Array:
    """numpy.concatenate."""
    items = [traced_array(a) for a in arrays]
    if not items:
        raise ShapeError("concatenate: need at least one array")
    values = promoted(*items)
    if axis is None:
        values = [reshape(wrap(v), (-1,)).value for v in values]
        axis = 0
    first = values[0]
    if first.ndim == 0:
        raise ShapeError("concatenate: zero-dimensional arrays cannot be concatenated", hint="use np.stack")
    place = axis_of("concatenate", axis, first.ndim)
    for v in values:
        same = v.ndim == first.ndim and all(
            m == n for i, (m, n) in enumerate(zip(v.shape, first.shape, strict=True)) if i != place
        )
        if not same:
            raise ShapeError(
                f"concatenate: {first.type} and {v.type} differ beyond axis {place}",
                hint="all sizes but the one along the axis must agree",
            )
    made = wrap(concat(*values, axis=place) if len(values) > 1 else owned(values[0]))
    made = made if dtype is None else made.astype(dtype, casting=casting)
    return made if out is None else assign_out("concatenate", out, made, casting)


@covers(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Array:
    """numpy.stack."""
    items = [traced_array(a) for a in arrays]
    if not items:
        raise ShapeError("stack: need at least one array")
    for item in items:
        if item.shape != items[0].shape:
            raise ShapeError(f"stack: {items[0].type} and {item.type} differ in shape")
    place = axis_of("stack", axis, items[0].ndim + 1)
    return concatenate([expand_dims(a, place) for a in items], place, out, dtype=dtype, casting=casting)
