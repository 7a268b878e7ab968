"""NumPy's grids and index tricks: meshgrid, r_, c_, sliding windows."""

from __future__ import annotations

from typing import Any

from wholestep import dtypes
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.array import Array, View
from wholestep.frontend.dispatch import WAYS_OUT, covers, is_traced
from wholestep.frontend.promotion import lift
from wholestep.ir.graph import Value
from wholestep.numpy.movement import broadcast_to, concatenate, moveaxis, normalized_axes, reshape, traced_array
from wholestep.numpy.outside import np
from wholestep.primitives.contraction import window
from wholestep.primitives.movement import permute


@covers(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """numpy.meshgrid."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    lines = [traced_array(x) for x in xi]
    made = [reshape(x, [x.size if i == order[k] else 1 for i in range(n)]) for k, x in enumerate(lines)]
    if not sparse:
        shape = tuple([lines[order.index(i)].size for i in range(n)])
        made = [broadcast_to(x, shape) for x in made]
    return tuple([Array(x.value) for x in made]) if copy else tuple(made)


@covers(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """numpy.lib.stride_tricks.sliding_window_view: a view that cannot be written."""
    if writeable:
        raise UnsupportedError("sliding_window_view: writeable=True is not covered; windows overlap")
    a = traced_array(x)
    sizes = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if axis is None:
        axes: tuple[int, ...] = tuple(range(a.ndim))
    else:
        given = axis if isinstance(axis, tuple | list) else (axis,)
        axes = tuple([normalized_axes("sliding_window_view", i, a.ndim)[0] for i in given])
    if len(sizes) != len(axes):
        raise ShapeError(f"sliding_window_view: {len(sizes)} window sizes for {len(axes)} axes of {a.type}")

    def get(v: Value) -> Value:
        for size, at in zip(sizes, axes, strict=True):
            last = [i for i in range(v.ndim) if i != at]
            found = window(permute(v, axes=(*last, at)), size=(size,), stride=(1,), dilation=(1,))
            n = found.ndim
            v = permute(found, axes=(*range(at), n - 2, *range(at, n - 2), n - 1))
        return v

    return a.view_through(View(get, None, lambda plain: np.lib.stride_tricks.sliding_window_view(plain, sizes, axes)))


WAYS_OUT[np.lib.stride_tricks.as_strided] = (
    "np.lib.stride_tricks.sliding_window_view(x, size)[::step] has the windows, np.broadcast_to(x, shape) the copies"
)


class Joiner:
    """The kind of numpy.r_ and numpy.c_: slices and arrays joined by an index expression."""

    def __init__(self, outside: Any, axis: int, ndmin: int, trans1d: int) -> None:
        self.outside = outside
        self.defaults = (axis, ndmin, trans1d)

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not is_traced(items):
            return self.outside[key]
        axis, ndmin, trans1d = self.defaults
        parts: list[Any] = []
        for place, item in enumerate(items):
            if isinstance(item, str):
                if place:
                    raise ValueError("special directives must be the first entry.")
                axis, ndmin, trans1d = _directive(item, self.defaults)
            else:
                parts.append(_grid_item(item, ndmin, trans1d))
        kinds = [item for item in parts if isinstance(item, int | float | complex)]
        arrays = [p if isinstance(p, Array) else None for p in parts]
        dtype = dtypes.promoted_dtype(*[a.dtype for a in arrays if a is not None], *kinds)
        wide = [
            _grid_item(lift(p).reshape(1), ndmin, -1) if a is None else a for p, a in zip(parts, arrays, strict=True)
        ]
        return concatenate([w.astype(dtype) for w in wide], axis)

    def __len__(self) -> int:
        return 0


def _directive(text: str, defaults: tuple[int, int, int]) -> tuple[int, int, int]:
    """The leading string of an index expression: "0,2,1"."""
    if text in ("r", "c"):
        raise UnsupportedError(f"r_: the matrix directive {text!r} is not covered")
    try:
        numbers = [int(n) for n in text.split(",")]
    except ValueError:
        raise ValueError(f"unknown special directive {text!r}") from None
    axis, ndmin, trans1d = [*numbers, *defaults[len(numbers) :]][:3]
    return axis, ndmin, trans1d


def _grid_item(item: Any, ndmin: int, trans1d: int) -> Any:
    """One item with at least ndmin axes; Python scalars are left for promotion."""
    if isinstance(item, slice):
        item = np.r_[item]
    if type(item) in (int, float, complex, bool):
        return item
    x = traced_array(item)
    missing = ndmin - x.ndim
    if x.ndim == 0:
        return reshape(x, (1,) * max(ndmin, 1))
    if missing <= 0:
        return x
    wide = reshape(x, (*[1] * missing, *x.shape))
    if trans1d == -1:
        return wide
    first = trans1d if trans1d >= 0 else trans1d + missing + 1
    return moveaxis(wide, list(range(missing, ndmin)), list(range(first, first + x.ndim)))


r_ = Joiner(np.r_, 0, 1, -1)
c_ = Joiner(np.c_, -1, 2, 0)
