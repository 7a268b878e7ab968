"""Drivers: the calls by which a program reaches a card, in an order that the card keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from wholestep import forks
from wholestep.ir.graph import NDArray


class KernelShape(NamedTuple):
    """The launch of a kernel of a module, by its name: workgroups, work items in each, and the bytes of shared memory
    that the launch must request."""

    name: str
    groups: int
    threads: int
    shared: int = 0


class MemoryPlace(NamedTuple):
    """A place in memory of a card: the driver's handle of an allocation, and an offset in bytes."""

    handle: Any
    offset: int


class DeviceClock(Protocol):
    """A clock of the times at which a card reaches positions in the sequence of its commands."""

    def restart(self) -> None:
        """Restart the clock, and discard all stamps."""

    def stamp(self) -> None:
        """Record the time at which the card reaches this position."""

    def read(self) -> list[float]:
        """The nanoseconds of the stamps, which are then discarded; waits for all earlier commands."""


class HostStaging(Protocol):
    """Memory of the host that a card reads asynchronously."""

    room: NDArray
    """The bytes, u8[n]."""

    def send(self, place: MemoryPlace, begin: int, end: int) -> None:
        """Copy bytes from `begin` to `end` to the same offsets at a place; the caller must not change them until `wait`
        or a read has returned."""

    def wait(self) -> None:
        """Wait for all earlier commands."""


class Driver(Protocol):
    """A card, which runs its commands in order; `read` waits for all earlier ones."""

    @property
    def has_doubles(self) -> bool:
        """True for a device that computes with float64."""

    def identity(self) -> Mapping[str, Any]:
        """All properties that the text of kernels depends on, as JSON values."""

    def allocate(self, nbytes: int) -> Any:
        """Return a handle of memory of unspecified contents."""

    def write(self, place: MemoryPlace, data: NDArray) -> None:
        """Write bytes, u8[n], which the caller may change afterwards."""

    def read(self, place: MemoryPlace, data: NDArray) -> None:
        """Read bytes into an array u8[n], after all earlier commands."""

    def gather(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        """Read bytes at several places into arrays u8[n], as `read` does."""

    def copy(self, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> None:
        """Copy bytes; the places may overlap."""

    def compile(self, text: str) -> bytes:
        """Return the argument of `build` for the text of a module: machine code, or the text itself where the card's
        own compiler compiles it.
        """

    def build(self, code: bytes, kernels: Sequence[KernelShape]) -> Sequence[Any]:
        """Load a module, and return its kernels ready for `launch`."""

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        """Run a kernel on buffers at these places."""

    def repeat(self, kept: dict[Any, Any], key: Any, places: Sequence[MemoryPlace], work: Callable[[], None]) -> None:
        """Run the launches and copies of `work`, which are the same for every call with this key and these places;
        `kept` caches recordings of them, such as graphs.
        """

    def staging(self, nbytes: int) -> HostStaging | None:
        """Staging memory of `nbytes` bytes, from which the card copies; None where a driver has no such memory."""

    def clock(self) -> DeviceClock:
        """A clock of the card; raises UnsupportedError where it has none."""


class LockedDriver:
    """A driver whose calls from several threads wait for each other, and raise ForkedError in a forked child.

    Unless a driver overrides it, the card's own compiler compiles the text of a module, launches are not recorded, and
    there is no staging memory.
    """

    api: ClassVar[str]
    """The name of the interface by which the cards are reached."""
    cards: ClassVar[str] = "devices"
    """The word of that interface for them."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        forks.heir(self)

    def _forked(self) -> None:
        """In a forked child: the card is the parent's."""
        self.lock = forks.Torn(
            f"call: this process was forked from one that uses {self.api}, whose {self.cards} stay with the parent",
            hint=f"start processes by spawn, or use {self.api} in the child alone",
        )

    def compile(self, text: str) -> bytes:
        return text.encode()

    def repeat(self, kept: dict[Any, Any], key: Any, places: Sequence[MemoryPlace], work: Callable[[], None]) -> None:
        work()

    def staging(self, nbytes: int) -> HostStaging | None:
        return None


def copied_through(driver: Driver, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> bool:
    """Copy through temporary memory where the places overlap, for a card that cannot; False where they do not."""
    if target.handle is not source.handle or abs(target.offset - source.offset) >= nbytes:
        return False
    between = MemoryPlace(driver.allocate(nbytes), 0)
    driver.copy(between, source, nbytes)
    driver.copy(target, between, nbytes)
    return True
