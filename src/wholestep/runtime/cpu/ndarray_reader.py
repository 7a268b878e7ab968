"""Argument reading: native code checks the types of a tuple of arrays and writes their addresses into a table.

It reads the fields of CPython's ndarray objects, so that a call costs no Python for each array. The offsets of the
fields are verified once on arrays of every kind; where they do not hold, arguments are checked in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from wholestep.backends.cpu.support_ir.gather import GATHER_HEAD
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type
from wholestep.runtime.executable import check_count, fitting_array

C_ORDER_AND_ALIGNED = 0x101
"""NumPy's flags for an array that native code reads as it is."""

AddressRanges = Sequence[tuple[int, int]]
"""Address ranges in memory: the start and the end, which is excluded."""


def array_address(array: NDArray) -> int:
    """Return the address of the first element."""
    return int(array.__array_interface__["data"][0])


def array_extent(array: NDArray) -> tuple[int, int]:
    """Return the address range of an array in C order."""
    start = array_address(array)
    return start, start + array.nbytes


@cache
def array_object_layout() -> dict[str, int] | None:
    """Return the byte offsets of the fields of an ndarray object; None where they cannot be relied on."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    header = object.__basicsize__
    names = ("data", "ndim", "shape", "strides", "base", "dtype", "flags")
    found = {name: header + 8 * k for k, name in enumerate(names)}
    found |= {
        "tp": header - 8,
        "length": header,
        "items": tuple.__basicsize__,
        "type": id(np.ndarray),
        "wanted": C_ORDER_AND_ALIGNED,
    }
    square = np.zeros((3, 5), np.float32)
    trials = [square, square.T, square[:, 1:], np.zeros((), np.complex128), np.zeros((2, 0, 4), np.int8), square[1]]
    return found if all(_holds(found, trial) for trial in trials) else None


def _holds(at: dict[str, int], array: NDArray) -> bool:
    """Test the offsets on one array; every word that is read is inside the object."""
    if type(array).__basicsize__ < at["flags"] + 4:
        return False

    def word(name: str, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(array) + at[name]).value)

    pair = (array, array)
    second, length = (ctypes.c_int64.from_address(id(pair) + place).value for place in (at["items"] + 8, at["length"]))
    described = (
        word("tp") == id(np.ndarray) and word("data") == array_address(array) and word("dtype") == id(array.dtype)
    )
    if not (described and word("ndim", ctypes.c_int32) == array.ndim and second == id(array) and length == 2):
        return False
    shape = tuple(ctypes.c_int64.from_address(word("shape") + 8 * k).value for k in range(array.ndim))
    flags = word("flags", ctypes.c_int32)
    plain = array.flags.c_contiguous and array.flags.aligned
    return shape == array.shape and (flags & C_ORDER_AND_ALIGNED == C_ORDER_AND_ALIGNED) == plain


class ArgumentTypes:
    """The expected arrays in the reader's form; `array_address` is 0 where it cannot be used."""

    def __init__(self, types: Sequence[Type], slots: Sequence[int], names: Sequence[str], own: AddressRanges) -> None:
        self.types, self.slots, self.names, self.own = tuple(types), tuple(slots), tuple(names), tuple(own)
        where = array_object_layout()
        self.address = 0
        if where is not None:
            known = where | {"count": len(self.types), "ranges": len(self.own)}
            words = [known[name] for name in GATHER_HEAD]
            words += [bound for extent in self.own for bound in extent]
            for type_, slot in zip(self.types, self.slots, strict=True):
                words += [slot, id(type_.dtype), type_.nbytes, type_.ndim, *type_.shape]
            self._words = np.array(words, np.uint64)
            self.address = array_address(self._words)

    def admit(self, arrays: Sequence[Any], table: Any) -> tuple[NDArray, ...]:
        """Return the arrays in a form that native code reads, copied if needed, and store their addresses in `table`.

        Raises ShapeError or DtypeError for an array of another shape or dtype than the program expects.
        """
        check_count(arrays, len(self.types))
        admitted = tuple(
            self._one(array, type_, name) for array, type_, name in zip(arrays, self.types, self.names, strict=True)
        )
        for array, slot in zip(admitted, self.slots, strict=True):
            table[slot] = array_address(array)
        return admitted

    def _one(self, array: Any, wanted: Type, name: str) -> NDArray:
        array = fitting_array(array, wanted, name, np.ndarray)
        plain = np.require(np.asarray(array), requirements=("C", "A")).reshape(array.shape)
        start, end = array_extent(plain)
        apart = all(end <= low or high <= start for low, high in self.own)
        return plain if apart else plain.copy()
