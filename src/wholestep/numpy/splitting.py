"""NumPy's functions that cut arrays apart; every part is a view."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, covers
from wholestep.numpy.movement import axis_of, check_count, moveaxis, traced_array
from wholestep.numpy.outside import np


@covers(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    """numpy.array_split: views, the first ones longer where the division leaves a rest."""
    x = traced_array(ary)
    place = axis_of("array_split", axis, x.ndim)
    size = x.shape[place]
    if hasattr(indices_or_sections, "__len__"):
        cuts = [0, *[operator.index(i) for i in indices_or_sections], size]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise ShapeError("array_split: the number of sections must be larger than 0")
        check_count("array_split", count)
        cuts = list(itertools.accumulate(((size + count - 1 - i) // count for i in range(count)), initial=0))
    head = (slice(None),) * place
    return [x[(*head, slice(a, b))] for a, b in itertools.pairwise(cuts)]


@covers(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    """numpy.split: views of equal size, or cut at the given places."""
    x = traced_array(ary)
    if not hasattr(indices_or_sections, "__len__"):
        count = operator.index(indices_or_sections)
        size = x.shape[axis_of("split", axis, x.ndim)]
        if count <= 0 or size % count:
            raise ShapeError(f"split: {x.type} does not divide into {count} equal parts along axis {axis}")
    return array_split(x, indices_or_sections, axis)


def split_along(outside: Any, least: int, axis: Callable[[int], int]) -> Callable[..., Any]:
    """The implementation of a `split` along a fixed axis, for arrays of at least `least` axes."""

    def implementation(ary: Any, indices_or_sections: Any) -> list[Array]:
        x = traced_array(ary)
        if x.ndim < least:
            raise ShapeError(f"{outside.__name__}: only works on arrays of {least} or more dimensions")
        return split(x, indices_or_sections, axis(x.ndim))

    return binds(outside, "views")(implementation)


hsplit = split_along(np.hsplit, 1, lambda ndim: 1 if ndim > 1 else 0)
vsplit = split_along(np.vsplit, 2, lambda ndim: 0)
dsplit = split_along(np.dsplit, 3, lambda ndim: 2)


@covers(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """numpy.unstack: views along an axis."""
    a = traced_array(x)
    if a.ndim == 0:
        raise ShapeError("unstack: the array has no axes")
    return tuple(moveaxis(a, axis, 0))
