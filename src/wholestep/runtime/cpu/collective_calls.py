"""Functions that compiled code calls for a collective: they pass the arrays at two addresses to the communicator."""

from __future__ import annotations

import ctypes
import math
import threading
from functools import cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.collectives import BEGUN, communicator_of
from wholestep.ir.graph import NDArray
from wholestep.runtime.cpu.exchanges import Exchanges

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
"""(source or null, target, memory of the exchange or null, number of elements, letters of the dtype's short name) -> 0,
or 1 where it has failed."""


class _Raised(threading.local):
    error: BaseException | None = None


_raised = _Raised()


def take_raised() -> BaseException | None:
    """The error of the collective that has failed last in this thread, once."""
    found, _raised.error = _raised.error, None
    return found


@cache
def collective_function(name: str) -> Any:
    """The function of a collective of an axis, such as `begin_psum.data`, for compiled code to call."""
    op, _, axis_name = name.partition(".")

    def call(source: int | None, target: int, room: int | None, count: int, letters: int) -> int:
        try:
            run_collective(op, axis_name, source or 0, target, room or 0, count, dtypes.from_letters(letters))
        except BaseException as error:  # nothing may pass through compiled code; the caller raises it again
            _raised.error = error
            return 1
        return 0

    return _functions.setdefault(name, SIGNATURE(call))  # of two threads that come at once both get the first one's


_functions: dict[str, Any] = {}
"""The functions whose addresses compiled code has, which must therefore live as long as the process."""


def run_collective(
    op: str, axis_name: str, source: int, target: int, room: int, count: int, dtype: np.dtype[Any]
) -> None:
    """Run one call: write the rank to the target; begin a collective of `count` elements at the source, and write its
    number to the target; or end the collective of the number at the source, and write its elements to the target.

    `room` is the address of the memory for an exchange.
    """
    word, _, collective = op.partition("_")
    if op == "axis_index":
        array_at_address(target, 1, dtype)[0] = communicator_of(axis_name).rank
    elif word == "begin":
        communicator = communicator_of(axis_name)
        given = array_at_address(source, count, dtype)
        shaped = given.reshape(communicator.size, -1) if collective == "psum_scatter" and count else given
        beside = communicator.size > 1 and getattr(communicator, "beside", True)
        number = EXCHANGES.begin(BEGUN[collective](axis_name, shaped, ArraysInRow(room)), beside)
        array_at_address(target, 1, np.dtype(np.int64))[0] = number
    else:
        number = int(array_at_address(source, 1, np.dtype(np.int64))[0])
        array_at_address(target, count, dtype)[...] = EXCHANGES.end(number).reshape(-1)


class ArraysInRow:
    """An allocator of consecutive arrays, from an address on."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __call__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
        found = array_at_address(self.address, math.prod(shape), dtype).reshape(shape)
        self.address += found.nbytes
        return found


EXCHANGES = Exchanges()


def collective_address(name: str) -> int:
    """The address of the function of a collective."""
    return int(ctypes.cast(collective_function(name), ctypes.c_void_p).value or 0)


def array_at_address(address: int, count: int, dtype: np.dtype[Any]) -> NDArray:
    """The elements at an address as an array."""
    if count == 0:
        return np.empty(0, dtype)
    held = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(held), np.uint8).view(dtype)
