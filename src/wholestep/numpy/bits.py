"""NumPy's packing of truth values into the bits of bytes, and back."""

from __future__ import annotations

import operator
from typing import Any

from wholestep.errors import DtypeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import lift
from wholestep.numpy.movement import axis_of, ravel, traced_array
from wholestep.numpy.outside import np


def _rows(name: str, a: Any, axis: Any) -> tuple[Array, int]:
    """The array with the axis of its bits last, and that axis; None flattens."""
    x = traced_array(a)
    x = ravel(x) if axis is None or x.ndim == 0 else x
    place = 0 if axis is None else axis_of(name, axis, x.ndim)
    return lift(np.moveaxis(x, place, -1)), place


def _shifts(bitorder: str) -> Any:
    """The distance of each place's bit from the lowest one."""
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    return np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]


@covers(np.packbits)
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """numpy.packbits: whatever is not 0 is a bit."""
    shifts = _shifts(bitorder)
    rows, place = _rows("packbits", a, axis)
    if rows.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    *head, n = rows.shape
    count = -(-n // 8)
    bits = np.zeros((*head, 8 * count), np.uint8)
    bits = np.concatenate([lift(rows != 0).astype(np.uint8), bits[..., n:]], axis=-1)
    bytes_ = np.sum(lift(bits).reshape((*head, count, 8)) << shifts, axis=-1, dtype=np.uint8)
    return np.moveaxis(bytes_, -1, place)


@covers(np.unpackbits)
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """numpy.unpackbits; a negative `count` is the number of bits to leave out."""
    shifts = _shifts(bitorder)
    rows, place = _rows("unpackbits", a, axis)
    if rows.dtype != np.uint8:
        raise DtypeError(f"unpackbits: takes an array of uint8, not {rows.type}")
    *head, n = rows.shape
    bits = ((rows[..., None] >> shifts) & np.uint8(1)).reshape((*head, 8 * n))
    if count is not None:
        wanted = operator.index(count)
        if wanted < -8 * n:
            raise ValueError(f"-count ({-wanted}) larger than number of elements ({8 * n})")
        more = np.zeros((*head, max(wanted - 8 * n, 0)), np.uint8)
        bits = np.concatenate([bits[..., :wanted], more], axis=-1)
    return np.moveaxis(bits, -1, place)
