"""Collectives: communicators of named axes, sums over an axis in the order of its ranks, and the bytes they send."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from wholestep.dims import Size
from wholestep.errors import CommunicationError, ParameterError, UnsupportedError, Where

NDArray = npt.NDArray[Any]

GATHERED_BYTES = 4096
"""Arrays of at most this many bytes are sent whole to every rank, in one message: latency, not size, is their cost."""


class Communicator(Protocol):
    """The processes of one axis, each with a rank below their number.

    All of them call the same methods in the same order, with arrays of equal shapes and dtypes. A call returns when
    `receive` holds the answer, and raises where a process cannot be reached. A step calls them in a thread of its own,
    one call after another, while it goes on with its work; in the thread that called the step where an attribute
    `beside` is there and false.
    """

    rank: int
    size: int

    def all_gather(self, send: NDArray, receive: NDArray) -> None:
        """All-gather bytes: row i of `receive`, [size, n], becomes the `send`, [n], of rank i."""

    def all_to_all(self, send: NDArray, receive: NDArray) -> None:
        """Row i of `receive`, [size, n], is the row of rank i's `send`, [size, n], for this rank; both are bytes."""


class Link(NamedTuple):
    """A network between processes: the time of an empty message, and the bytes that a process sends a second.

    >>> import wholestep as ws
    >>> link = ws.mesh.Link(latency_seconds=2e-6, bytes_per_second=12.5e9)
    >>> round(link.seconds(ws.mesh.Traffic(messages=10, bytes=125_000)), 9)
    3e-05
    """

    latency_seconds: float
    bytes_per_second: float

    def seconds(self, traffic: Traffic) -> float:
        """The time of messages that a process sends one after another."""
        return traffic.messages * self.latency_seconds + traffic.bytes / self.bytes_per_second


class Traffic(NamedTuple):
    """The messages that one process sends to others, and their bytes.

    >>> import wholestep as ws
    >>> ws.mesh.Traffic(messages=2, bytes=16)
    Traffic(messages=2, bytes=16)
    """

    messages: int
    bytes: int


AXES: dict[str, Communicator] = {}
"""The communicator of each axis name in this process."""
_guard = threading.Lock()


def enter_axis(name: str, communicator: Communicator) -> None:
    """Name a communicator; raises ParameterError where another one, that is not equal to it, has the name."""
    with _guard:
        known = AXES.setdefault(name, communicator)
    if known != communicator:
        raise ParameterError(
            f"mesh: the axis {name!r} is that of another communicator in this process",
            hint="use one communicator for an axis, or give the axis another name",
        )


def communicator_of(name: str, who: str = "psum") -> Communicator:
    """The communicator of an axis; raises UnsupportedError for a name that neither a mesh nor a vmap has."""
    found = AXES.get(name)
    if found is None:
        raise UnsupportedError(
            f"{who}: there is no axis {name!r} here",
            hint=f"call it inside ws.vmap(f, axis_name={name!r}), or in a loss compiled with mesh={{{name!r}: ...}}",
        )
    return found


def failed(text: str, cause: BaseException | None, where: Where = None) -> CommunicationError:
    """The error of a collective that did not come to its end."""
    error = CommunicationError(
        f"{text}: {type(cause).__name__}: {cause}",
        where=where,
        hint="a process of the axis has ended or cannot be reached; start all of them again from the last checkpoint",
    )
    error.__cause__ = cause
    return error


def gather_bytes(name: str, own: bytes, who: str) -> NDArray:
    """The bytes of all ranks, u8[size, n]; raises CommunicationError where the all-gather fails."""
    communicator = communicator_of(name)
    rows = np.empty((communicator.size, len(own)), np.uint8)
    try:
        communicator.all_gather(np.frombuffer(bytearray(own), np.uint8), rows)
    except Exception as error:
        raise failed(f"{who}: the processes over {name!r} cannot agree", error) from error
    return rows


Exchange = Callable[[], NDArray]
"""The second half of a collective, after its operand is copied: the exchange with other ranks, for the result."""
Room = Callable[[tuple[int, ...], Any], NDArray]
"""An allocator of an exchange's memory: (shape, dtype) -> an uninitialized array."""


def sum_over_ranks(name: str, x: NDArray) -> NDArray:
    """The sum of the ranks' arrays, added from rank 0 on, so that its bits depend on no number of messages."""
    return begin_sum(name, x, np.empty)()


def gather_over_ranks(name: str, x: NDArray) -> NDArray:
    """The ranks' arrays, [...], as one, [size, ...], in the order of the ranks."""
    return begin_gather(name, x, np.empty)()


def scatter_sum_over_ranks(name: str, x: NDArray) -> NDArray:
    """This rank's row of the sum of the ranks' arrays, [size, ...], added from rank 0 on as `sum_over_ranks` adds."""
    return begin_scattered_sum(name, x, np.empty)()


def begin_sum(name: str, x: NDArray, room: Room) -> Exchange:
    """The exchange of `sum_over_ranks`.

    Where the array is large each rank adds up one part of all elements, and the parts are gathered: a rank sends
    2 (N - 1) / N of the array's bytes, as in Rabenseifner's algorithm.
    """
    communicator = communicator_of(name)
    if is_gathered(x.nbytes):
        gather = begin_gather(name, x.reshape(-1), room)
        return lambda: added_in_order(gather()).reshape(x.shape)
    send, rows = [room(shape, x.dtype) for shape in areas_of_sum(x.size, x.itemsize, communicator.size)]
    flat = send.reshape(-1)
    flat[: x.size], flat[x.size :] = x.reshape(-1), 0

    def exchange() -> NDArray:
        communicator.all_to_all(as_bytes(send), as_bytes(rows))
        communicator.all_gather(as_bytes(added_in_order(rows)), as_bytes(send))
        return flat[: x.size].reshape(x.shape)

    return exchange


def begin_gather(name: str, x: NDArray, room: Room) -> Exchange:
    """The exchange of `gather_over_ranks`."""
    communicator = communicator_of(name, "all_gather")
    own, rows = [room(shape, x.dtype) for shape in areas_of_gather(x.size, x.itemsize, communicator.size)]
    own[...] = x.reshape(-1)

    def exchange() -> NDArray:
        communicator.all_gather(as_bytes(own), as_bytes(rows))
        return rows.reshape((communicator.size, *x.shape))

    return exchange


def begin_scattered_sum(name: str, x: NDArray, room: Room) -> Exchange:
    """The exchange of `scatter_sum_over_ranks`."""
    communicator = communicator_of(name, "psum_scatter")
    send, rows = [room(shape, x.dtype) for shape in areas_of_scattered_sum(x.size, x.itemsize, communicator.size)]
    send[...] = x.reshape(send.shape)

    def exchange() -> NDArray:
        communicator.all_to_all(as_bytes(send), as_bytes(rows))
        return added_in_order(rows).reshape(x.shape[1:])

    return exchange


Areas = tuple[tuple[int, ...], tuple[int, ...]]


def areas_of_sum(count: int, itemsize: int, size: int) -> Areas:
    """The shapes of a rank's send and receive buffers in an all-reduce of `count` elements over `size` ranks."""
    if is_gathered(count * itemsize):
        return areas_of_gather(count, itemsize, size)
    part = part_of_sum(count, size)
    return (size, part), (size, part)


def areas_of_gather(count: int, itemsize: int, size: int) -> Areas:
    """The shapes of a rank's send and receive buffers in an all-gather of `count` elements over `size` ranks."""
    return (count,), (size, count)


def areas_of_scattered_sum(count: int, itemsize: int, size: int) -> Areas:
    """The shapes of a rank's send and receive buffers in a reduce-scatter, which leaves it one row of the sum."""
    return (size, count // size), (size, count // size)


AREAS: dict[str, Callable[[int, int, int], Areas]] = {
    "psum": areas_of_sum,
    "all_gather": areas_of_gather,
    "psum_scatter": areas_of_scattered_sum,
}
BEGUN: dict[str, Callable[[str, NDArray, Room], Exchange]] = {
    "psum": begin_sum,
    "all_gather": begin_gather,
    "psum_scatter": begin_scattered_sum,
}
"""The exchange of each collective, and the memory that it takes."""


def exchange_bytes(collective: str, count: Size, itemsize: int, size: int) -> Size:
    """The memory that the exchange of a collective takes of its room, at most where the number of elements is symbolic.

    >>> exchange_bytes("psum", 10_000, 4, 2), exchange_bytes("psum", 10, 4, 2), exchange_bytes("all_gather", 10, 4, 2)
    (80000, 120, 120)
    """
    if isinstance(count, int):
        return itemsize * sum(map(math.prod, AREAS[collective](count, itemsize, size)))
    most: Size = (1 + size) * GATHERED_BYTES + 2 * (count + size) * itemsize
    if collective == "all_gather":
        most = (1 + size) * count * itemsize
    return most


def is_gathered(nbytes: int) -> bool:
    """True for an array of so few bytes that a sum sends it whole to every rank."""
    return nbytes <= GATHERED_BYTES


def part_of_sum(count: int, size: int) -> int:
    """The elements that each rank adds up of a large array; those of the last ranks may be padding."""
    return -(-count // size)


def traffic_of_sum(count: int, itemsize: int, size: int) -> Traffic:
    """The messages and bytes that each of `size` ranks sends in `sum_over_ranks`, one message to each other rank a call
    of the communicator."""
    if is_gathered(count * itemsize):
        return traffic_of_rows(count * itemsize, size)
    return Traffic(2 * (size - 1), 2 * (size - 1) * part_of_sum(count, size) * itemsize)


def traffic_of_rows(nbytes: int, size: int) -> Traffic:
    """The messages and bytes that each of `size` ranks sends where each has a row of `nbytes` for each other one."""
    return Traffic(size - 1, (size - 1) * nbytes)


def added_in_order(rows: NDArray) -> NDArray:
    """The sum of rows, [size, n], from the first on, beginning with zeros, as a loop over micro-batches adds; it takes
    the place of the first row."""
    total: NDArray = rows[0]
    total += np.zeros((), rows.dtype)
    for row in rows[1:]:
        total += row
    return total


def as_bytes(x: NDArray) -> NDArray:
    """A contiguous array as bytes: the last axis for rows, all of it for a flat one."""
    return x.reshape(x.shape if x.ndim == 1 else (x.shape[0], math.prod(x.shape[1:]))).view(np.uint8)
