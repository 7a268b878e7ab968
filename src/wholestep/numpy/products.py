"""NumPy's cross product."""

from __future__ import annotations

from typing import Any

from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import promoted
from wholestep.numpy.movement import axis_of, moveaxis, stack, traced_array
from wholestep.numpy.outside import np


@covers(np.cross)
def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    """numpy.cross."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = [Array(v) for v in promoted(traced_array(a), traced_array(b))]
    x = moveaxis(x, axis_of("cross", axisa, x.ndim), -1)
    y = moveaxis(y, axis_of("cross", axisb, y.ndim), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError("cross: incompatible dimensions for cross product (dimension must be 2 or 3)")
    flat = x.shape[-1] == 2 and y.shape[-1] == 2
    last = x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    if flat:
        return last
    third = [v[..., 2] if v.shape[-1] == 3 else None for v in (x, y)]
    made = [_cross_component(x, y, third, 1), np.negative(_cross_component(x, y, third, 0)), last]
    wide = np.broadcast_arrays(*made)
    return Array(moveaxis(stack(list(wide), -1), -1, axisc).value)


def _cross_component(x: Any, y: Any, third: list[Any], i: int) -> Any:
    """x[i] * y[2] - x[2] * y[i], a missing third component being zero."""
    first = x[..., i] * third[1] if third[1] is not None else None
    second = third[0] * y[..., i] if third[0] is not None else None
    if first is None:
        return np.negative(second)
    return first if second is None else first - second
