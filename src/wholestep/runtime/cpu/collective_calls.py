"""Functions that compiled code calls for a collective: the arrays at two addresses, handed to the communicator."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.collectives import communicator_of, gather_over_ranks, scatter_sum_over_ranks, sum_over_ranks
from wholestep.ir.graph import NDArray

SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""(source or null, target, number of elements, letters of the dtype's short name) -> 0, or 1 where it has failed."""


class _Raised(threading.local):
    error: BaseException | None = None


_raised = _Raised()


def take_raised() -> BaseException | None:
    """The error of the collective that has failed last in this thread, once."""
    found, _raised.error = _raised.error, None
    return found


@cache
def collective_function(name: str) -> Any:
    """The function of a collective of an axis, such as `psum.data`, for compiled code to call."""
    op, _, axis_name = name.partition(".")

    def call(source: int | None, target: int, count: int, letters: int) -> int:
        try:
            out = array_at_address(target, count, dtypes.from_letters(letters))
            run_collective(op, axis_name, source or 0, out)
        except BaseException as error:  # nothing may pass through compiled code; the caller raises it again
            _raised.error = error
            return 1
        return 0

    return SIGNATURE(call)


def run_collective(op: str, axis_name: str, source: int, out: NDArray) -> None:
    """Fill the result of a collective from the operand at an address."""
    if op == "axis_index":
        out[...] = communicator_of(axis_name).rank
    elif op == "psum":
        out[...] = sum_over_ranks(axis_name, array_at_address(source, out.size, out.dtype))
    elif op == "all_gather":
        own = out.size // communicator_of(axis_name).size
        out[...] = gather_over_ranks(axis_name, array_at_address(source, own, out.dtype)).reshape(-1)
    else:
        size = communicator_of(axis_name).size
        rows = array_at_address(source, size * out.size, out.dtype).reshape(size, out.size)
        out[...] = scatter_sum_over_ranks(axis_name, rows)


def collective_address(name: str) -> int:
    """The address of the function of a collective."""
    return int(ctypes.cast(collective_function(name), ctypes.c_void_p).value or 0)


def array_at_address(address: int, count: int, dtype: np.dtype[Any]) -> NDArray:
    """The elements at an address as an array."""
    if count == 0:
        return np.empty(0, dtype)
    held = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(held), np.uint8).view(dtype)
