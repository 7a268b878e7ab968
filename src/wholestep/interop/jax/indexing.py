"""Gathers and scatters of lax, as reads and writes at arrays of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.frontend.batching import vmap
from wholestep.frontend.control import while_loop
from wholestep.frontend.dispatch import is_traced
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers

INDEXING = Handlers()
entry = INDEXING.entry


def window_index(
    shape: Sequence[int],
    starts: Any,
    sizes: Sequence[int],
    start_map: Sequence[int],
    dropped: Sequence[int],
    batched: Sequence[int],
    index_batched: Sequence[int],
    mode: str,
) -> tuple[list[int], list[Any], Any, list[int]]:
    """Windows of an array of some shape: their indexed axes, an index for each, and the mask of windows inside.

    Indices broadcast to the batch axes of `starts`, then the windows' own axes; these are the last item, in order.
    Windows that would stick out are moved inside; `valid` is None where none can, and where moving them is asked for.
    """
    lead = starts.shape[:-1]
    indexed = [i for i in range(len(shape)) if i in start_map or i in batched or sizes[i] != shape[i]]
    own = [i for i in indexed if i not in dropped and i not in batched]
    index, valid = [], None
    for axis in indexed:
        place: Any = np.zeros((1,) * len(lead), np.int64)
        if axis in start_map:
            begin = starts[..., list(start_map).index(axis)].astype(np.int64)
            last = shape[axis] - sizes[axis]
            if mode != "clip":
                inside = (begin >= 0) & (begin <= last)
                valid = inside if valid is None else valid & inside
            place = wnp.clip(begin, 0, last)
        elif axis in batched:
            at = index_batched[list(batched).index(axis)]
            place = np.arange(shape[axis]).reshape([-1 if i == at else 1 for i in range(len(lead))])
        place = wnp.reshape(place, (*wnp.shape(place), *[1] * len(own)))
        if axis in own:
            offset = [-1 if i == own.index(axis) else 1 for i in range(len(own))]
            place = place + np.arange(sizes[axis]).reshape(offset)
        index.append(place)
    if valid is not None and not is_traced(valid) and bool(np.all(valid)):
        valid = None
    return indexed, index, valid, own


def mode_of(mode: Any) -> str:
    """The treatment of windows that stick out: "clip", "fill", or "promise", as XLA treats those that should not.

    It reads such a window moved inside, without a derivative, and writes none.
    """
    name = str(getattr(mode, "name", mode)).lower()
    return "clip" if "clip" in name else "fill" if "fill" in name or "drop" in name else "promise"


@entry("gather")
def gather(
    x: Any, starts: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any = None, **params: Any
) -> Any:
    d = dimension_numbers
    indexed, index, valid, own = window_index(
        x.shape,
        starts,
        slice_sizes,
        d.start_index_map,
        d.collapsed_slice_dims,
        d.operand_batching_dims,
        d.start_indices_batching_dims,
        mode_of(mode),
    )
    whole = [i for i in range(x.ndim) if i not in indexed]
    lead = starts.ndim - 1
    made = wnp.transpose(x, (*indexed, *whole))
    if indexed:
        shape = (*starts.shape[:-1], *[slice_sizes[i] for i in own])
        at = tuple(wnp.broadcast_to(i, shape) for i in index)
        made = (wnp.array(made) if is_traced(at) else made)[at]
    else:
        made = wnp.broadcast_to(made, (*starts.shape[:-1], *made.shape))
    if valid is not None:
        kept = valid.reshape(*valid.shape, *[1] * (made.ndim - lead))
        promised = mode_of(mode) == "promise"
        outside = stop_gradient(made) if promised else np.asarray(filling(x.dtype, fill_value), x.dtype)
        made = wnp.where(kept, made, outside)
    return arranged(made, lead, [*own, *whole], d.offset_dims)


def filling(dtype: Any, value: Any) -> Any:
    """The value of elements outside: nan, or the integer that JAX takes for it."""
    if value is not None:
        return value
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtypes.is_bool(dtype):
        return True
    return np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min


def arranged(x: Any, lead: int, axes: list[int], offsets: Sequence[int]) -> Any:
    """An array [batch axes, window axes] with the window axes, in their order, at given places of the result."""
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    places = dict(zip(offsets, order, strict=True))
    batch = iter(range(lead))
    return wnp.transpose(x, tuple(lead + places[i] if i in places else next(batch) for i in range(x.ndim)))


def scattered(write: Callable[[Any, Any, Any], None]) -> Callable[..., Any]:
    """The handler of a scatter, given the function that writes updates at an index."""

    def run(x: Any, starts: Any, updates: Any, *, dimension_numbers: Any, mode: Any = None, **params: Any) -> Any:
        d = dimension_numbers
        if not x.ndim:  # one element, which every update is for
            made = wnp.array(wnp.reshape(x, (1,)))
            write(made, np.zeros(updates.size, np.int64), wnp.reshape(updates, (-1,)))
            return wnp.reshape(made, ())
        dropped = sorted([*d.inserted_window_dims, *d.operand_batching_dims])
        window = [i for i in range(x.ndim) if i not in dropped]
        sizes = [1] * x.ndim
        for axis, place in zip(window, d.update_window_dims, strict=True):
            sizes[axis] = updates.shape[place]
        indexed, index, valid, own = window_index(
            x.shape,
            starts,
            sizes,
            d.scatter_dims_to_operand_dims,
            d.inserted_window_dims,
            d.operand_batching_dims,
            d.scatter_indices_batching_dims,
            mode_of(mode),
        )
        whole = [i for i in range(x.ndim) if i not in indexed]
        batch = [i for i in range(updates.ndim) if i not in d.update_window_dims]
        at = dict(zip(window, d.update_window_dims, strict=True))
        rows = wnp.transpose(updates, (*batch, *[at[i] for i in [*own, *whole]]))
        if not indexed:
            indexed, index, whole = [whole[0]], [np.arange(x.shape[whole[0]])], whole[1:]
            rows = rows.reshape(rows.shape[len(batch) :]) if not starts.size or starts.ndim == 1 else rows
        made = wnp.array(wnp.transpose(x, (*indexed, *whole)))
        if valid is not None:  # one more row takes the updates whose index is out of bounds
            made = wnp.array(wnp.pad(made, [(0, 1 if i == 0 else 0) for i in range(made.ndim)]))
            index[0] = wnp.where(valid.reshape(*valid.shape, *[1] * len(own)), index[0], x.shape[indexed[0]])
        shape = rows.shape[: rows.ndim - len(whole)]
        write(made, tuple(wnp.broadcast_to(i, shape) for i in index), rows)
        made = made if valid is None else made[: x.shape[indexed[0]]]
        return wnp.transpose(made, tuple(int(i) for i in np.argsort([*indexed, *whole])))

    return run


def put(x: Any, index: Any, rows: Any) -> None:
    """Replace elements of x by rows."""
    x[index] = rows


replaced, added = scattered(put), scattered(np.add.at)


@entry("scatter")
def scatter(x: Any, starts: Any, updates: Any, *, update_jaxpr: Any = None, **params: Any) -> Any:
    """Elements replaced by updates, or, as in `x.at[i].apply(f)`, by a function of themselves, once for each index."""
    if update_jaxpr is None:
        return replaced(x, starts, updates, **params)
    zero, flat = np.zeros((), x.dtype), wnp.reshape(x, (-1,))
    times = added(wnp.zeros(x.shape, np.int32), starts, wnp.ones(updates.shape, np.int32), **params).reshape(-1)

    def again(turn: Any, now: Any) -> Any:
        made = vmap(lambda a: update_jaxpr(a, zero)[0])(now)
        return wnp.where(turn < times, made, now)

    if not is_traced(times):
        for turn in range(int(np.max(times, initial=0))):
            flat = again(turn, flat)
    else:
        _, flat = while_loop(lambda c: wnp.any(c[0] < times), lambda c: (c[0] + 1, again(*c)), (np.int32(0), flat))
    return wnp.reshape(flat, x.shape)


INDEXING.update(
    {
        "scatter-add": added,
        "scatter-sub": scattered(np.subtract.at),
        "scatter_mul": scattered(np.multiply.at),
        "scatter-mul": scattered(np.multiply.at),
        "scatter_min": scattered(np.minimum.at),
        "scatter-min": scattered(np.minimum.at),
        "scatter_max": scattered(np.maximum.at),
        "scatter-max": scattered(np.maximum.at),
    }
)
