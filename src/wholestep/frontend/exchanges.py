"""Arrays of other elements of a named axis: the largest, the smallest, those of a partner, and a part of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from wholestep import tree
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.axis_names import axis_size
from wholestep.frontend.batching import all_gather, axis_index
from wholestep.frontend.tracing import as_array, scope

T = TypeVar("T")


def pmax(x: T, axis_name: str) -> T:
    """The largest of the elements' x, place by place, for the `vmap` or the mesh's axis with this `axis_name`.

    Elements that tie share the gradient evenly; nan is larger than anything.

    Shapes: x a tree of real arrays of any shape; the result has them too.
    Raises: as `psum` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: ws.pmax(x, "i") - x, axis_name="i")(np.array([1.0, 3.0])).tolist()
    [2.0, 0.0]
    """
    return tree.map(lambda rows: np.max(rows, axis=0), all_gather(x, axis_name))


def pmin(x: T, axis_name: str) -> T:
    """The smallest of the elements' x, place by place, for the `vmap` or the mesh's axis with this `axis_name`.

    Elements that tie share the gradient evenly; nan is smaller than anything.

    Shapes: as `pmax`.
    Raises: as `psum` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: x - ws.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
    [0.0, 2.0]
    """
    return tree.map(lambda rows: np.min(rows, axis=0), all_gather(x, axis_name))


def ppermute(x: T, axis_name: str, perm: Iterable[tuple[int, int]]) -> T:
    """The x of another element: for each pair (source, target) of `perm` the target gets the x of the source.

    An element that is no target gets zeros. The elements are those of the `vmap` or the mesh's axis with this
    `axis_name`.

    Shapes: x a tree of arrays of any shape and dtype; the result has them too.
    Raises: as `psum` does, and ParameterError for an item that is no pair of numbers of elements, and for a target
    of two sources.

    >>> import numpy as np, wholestep as ws
    >>> around = [(i, (i + 1) % 3) for i in range(3)]
    >>> ws.vmap(lambda x: ws.ppermute(x, "i", around), axis_name="i")(np.array([1.0, 2.0, 3.0])).tolist()
    [3.0, 1.0, 2.0]
    """
    with scope("ppermute") as work:
        senders = senders_of(list(perm), axis_size(axis_name, "ppermute"))
        sender = as_array(senders, "ppermute")[axis_index(axis_name)]

        def received(rows: Any) -> Any:
            row = rows[np.maximum(sender, 0)]
            return row if senders.min() >= 0 else np.where(sender >= 0, row, np.zeros((), row.dtype))

        return work.leave(tree.map(received, all_gather(x, axis_name)))


def all_to_all(x: T, axis_name: str, split_axis: int = 0, concat_axis: int = 0) -> T:
    """The exchange of parts of x along a named axis: element k gets part k of every element's x, in their order.

    x is split into as many equal parts along `split_axis` as the `vmap` or the mesh's axis with this `axis_name` has
    elements, and the parts that arrive are joined along `concat_axis`, as by `jax.lax.all_to_all` with `tiled=True`.
    Processes send all of x to all others, as for `all_gather`.

    Shapes: x a tree of arrays of one axis or more and any dtype; `split_axis` becomes shorter by the number of
    elements, and `concat_axis` that many times longer.
    Raises: as `psum` does, and ShapeError for an axis that is not there, or that the elements do not divide.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: ws.all_to_all(x, "i"), axis_name="i")(np.array([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    with scope("all_to_all") as work:
        size, own = axis_size(axis_name, "all_to_all"), axis_index(axis_name)

        def received(rows: Any) -> Any:
            shape = rows.shape[1:]
            for axis in (split_axis, concat_axis):
                if not -len(shape) <= axis < len(shape):
                    raise ShapeError(f"all_to_all: axis {axis} of an array of shape {tuple(shape)}")
            at, to = split_axis % len(shape), concat_axis % len(shape)
            if shape[at] % size:
                raise ShapeError(f"all_to_all: {size} elements do not divide axis {at} of shape {tuple(shape)}")
            parts = rows.reshape(size, *shape[:at], size, shape[at] // size, *shape[at + 1 :])
            mine = np.moveaxis(parts, at + 1, 0)[own]
            rest = mine.shape[1:]
            return np.moveaxis(mine, 0, to).reshape(*rest[:to], size * rest[to], *rest[to + 1 :])

        return work.leave(tree.map(received, all_gather(x, axis_name)))


def senders_of(pairs: list[Any], size: Any) -> Any:
    """The source of each element, -1 where it has none; raises ParameterError for pairs that are none."""
    senders = np.full(size, -1)
    for pair in pairs:
        try:
            source, target = pair
            fits = 0 <= source < size and 0 <= target < size and source % 1 == target % 1 == 0
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ParameterError(
                f"ppermute: {pair!r} is no pair of two numbers of the {size} elements", hint="(source, target)"
            )
        if senders[target] >= 0:
            raise ParameterError(f"ppermute: element {target} has two sources, {senders[target]} and {source}")
        senders[target] = source
    return senders
