"""Arrays of other elements of a named axis: the largest, the smallest, and those of a partner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import ParameterError
from wholestep.frontend.axis_names import axis_size
from wholestep.frontend.batching import all_gather, axis_index
from wholestep.frontend.tracing import as_array, scope


def pmax(x: Any, axis_name: str) -> Any:
    """The largest of the elements' x, place by place, for the `vmap` or the mesh's axis with this name.

    Elements that tie share the gradient evenly; nan is larger than anything.

    Shapes: x a tree of real arrays of any shape; the result has them too.
    Raises: as `psum` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: ws.pmax(x, "i") - x, axis_name="i")(np.array([1.0, 3.0])).tolist()
    [2.0, 0.0]
    """
    return tree.map(lambda rows: np.max(rows, axis=0), all_gather(x, axis_name))


def pmin(x: Any, axis_name: str) -> Any:
    """The smallest of the elements' x, place by place, for the `vmap` or the mesh's axis with this name.

    Elements that tie share the gradient evenly; nan is smaller than anything.

    Shapes: as `pmax`.
    Raises: as `psum` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: x - ws.pmin(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
    [0.0, 2.0]
    """
    return tree.map(lambda rows: np.min(rows, axis=0), all_gather(x, axis_name))


def ppermute(x: Any, axis_name: str, perm: Iterable[tuple[int, int]]) -> Any:
    """The x of another element: for each pair (source, target) of `perm` the target gets what the source has.

    An element that is no target gets zeros. The elements are those of the `vmap` or the mesh's axis with this name.

    Shapes: x a tree of arrays of any shape and dtype; the result has them too.
    Raises: as `psum` does, and ParameterError for what is no pair of numbers of elements, and for a target of two
    sources.

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
