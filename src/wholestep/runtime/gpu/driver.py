"""Drivers: the calls by which a program reaches a card, in an order that the card keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wholestep.ir.graph import NDArray


class KernelShape(NamedTuple):
    """The launch of a kernel of a module, by its name: workgroups, work items in each, and the bytes of shared memory
    that it has to ask for."""

    name: str
    groups: int
    threads: int
    shared: int = 0


class MemoryPlace(NamedTuple):
    """A place in memory of a card: what the driver allocated, and bytes from its start."""

    handle: Any
    offset: int


class DeviceClock(Protocol):
    """The times at which a card comes to places in the order of what is asked of it."""

    def restart(self) -> None:
        """Count from here on; all stamps are forgotten."""

    def stamp(self) -> None:
        """Note when the card comes to this place."""

    def read(self) -> list[float]:
        """The nanoseconds of the stamps, once all that was asked for is done; they are forgotten."""


class HostStaging(Protocol):
    """Memory of the host that a card reads by itself, so that nobody waits for it."""

    room: NDArray
    """The bytes, u8[n]."""

    def send(self, place: MemoryPlace, begin: int, end: int) -> None:
        """Write bytes of the room to where they lie in its copy at a place; nobody changes them until `wait` or a read
        has returned."""

    def wait(self) -> None:
        """Return when all that was asked for is done."""


class Driver(Protocol):
    """A card. What is asked of it happens in the order asked, and `read` waits for it."""

    @property
    def has_doubles(self) -> bool:
        """True for a device that computes with float64."""

    def identity(self) -> Mapping[str, Any]:
        """All properties that the text of kernels depends on, as JSON can hold them."""

    def allocate(self, nbytes: int) -> Any:
        """Return a handle of memory of unspecified contents."""

    def write(self, place: MemoryPlace, data: NDArray) -> None:
        """Write bytes, u8[n], which the caller may change afterwards."""

    def read(self, place: MemoryPlace, data: NDArray) -> None:
        """Read bytes into an array u8[n], once all that was asked for before is done."""

    def gather(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        """Read bytes at several places into arrays u8[n], as `read` does."""

    def copy(self, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> None:
        """Copy bytes; the places may overlap."""

    def compile(self, text: str) -> bytes:
        """Return what `build` takes for the text of a module: machine code, or the text where the card's own compiler
        makes that.
        """

    def build(self, code: bytes, kernels: Sequence[KernelShape]) -> Sequence[Any]:
        """Load a module, and return its kernels ready for `launch`."""

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        """Run a kernel on buffers at these places."""

    def repeat(self, kept: dict[Any, Any], key: Any, places: Sequence[MemoryPlace], work: Callable[[], None]) -> None:
        """Do what `work` launches and copies, which is the same for every call with this key and these places; `kept`
        holds whatever makes that quicker.
        """

    def staging(self, nbytes: int) -> HostStaging | None:
        """Memory of so many bytes from which the card copies; None where a driver has no such memory."""

    def clock(self) -> DeviceClock:
        """A clock of the card; raises UnsupportedError where it has none."""


def copied_through(driver: Driver, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> bool:
    """Copy by way of other memory where the places overlap, for a card that cannot; False where they do not."""
    if target.handle is not source.handle or abs(target.offset - source.offset) >= nbytes:
        return False
    between = MemoryPlace(driver.allocate(nbytes), 0)
    driver.copy(between, source, nbytes)
    driver.copy(target, between, nbytes)
    return True
