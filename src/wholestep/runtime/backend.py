"""Backend: the one object through which the compiler reaches a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wholestep.dims import Size
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.program.placed import PlacedProgram
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, RoutineCall
from wholestep.lower.target import Target
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.executable import Executable
from wholestep.runtime.memory.buffer import HOST, DeviceMemory
from wholestep.runtime.memory.mapped_arrays import FileInputs

AllocateBytes = Callable[[int], NDArray]
"""Allocates the bytes of an arena or scratch file."""


class TimedEvent(NamedTuple):
    """A kernel, a routine, or a thread's share of a kernel, with its begin and end in nanoseconds."""

    step: int
    share: bool
    thread: int
    begin: float
    end: float


class ProfileRecord(NamedTuple):
    """The timing of one run."""

    seconds: float
    """The seconds from call to return."""
    runs: tuple[int, ...]
    """The number of runs of each step."""
    nanoseconds: tuple[float, ...]
    """The total time of all runs of each step."""
    events: tuple[TimedEvent, ...]
    """The events, in the order in which they ended."""
    missing: int
    """The number of events that exceeded the capacity of the record."""


class Profiler(Protocol):
    """A program on copies of its resident buffers, with a clock around its kernels and routines."""

    @property
    def timed(self) -> Sequence[tuple[Launch | RoutineCall, ...]]:
        """The kernels and routines that are timed, in the order of their numbers: those of one launch together."""

    def __call__(self, arrays: Sequence[NDArray]) -> ProfileRecord:
        """Run once on the state after the last run, and return the timing."""


class LoadedCode(ABC):
    """The compiled code of one program in this process; executables of several sizes share it."""

    nbytes: int
    """The bytes of the code."""
    arena: Size
    """The bytes of a run's scratch memory."""

    @abstractmethod
    def executable(self, streams: FileInputs) -> Executable:
        """The executable of a program whose sizes are all known; `streams` names the inputs in files."""

    @abstractmethod
    def at_sizes(self, sizes: Mapping[str, int], arena: AllocateBytes | None) -> Executable:
        """The executable for these numbers of the symbolic sizes; `arena`, if given, allocates its arena."""


class Backend(ABC):
    """A device: lowering decisions, code generation, loading, memory and rates.

    `target` makes the decisions of lowering, and `memory` holds the resident state.
    """

    target: Target
    memory: DeviceMemory[Any] = HOST

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """All properties of device and code generator that compiled code depends on, as JSON can hold them."""

    def rates(self) -> Rates:
        """The rates of this machine that programs are planned with: by default those that the target assumes."""
        return self.target.rates

    @abstractmethod
    def source(self, plan: LoweredProgram) -> str:
        """The text of a program before it is machine code."""

    @abstractmethod
    def compile(self, unit: CompilationUnit, plan: LoweredProgram) -> CacheEntry:
        """Generate the code of a unit, as it was lowered."""

    @abstractmethod
    def load(self, unit: CompilationUnit, entry: CacheEntry) -> LoadedCode:
        """Load the code of a unit into this process."""

    def export_object(self, programs: Sequence[PlacedProgram], prefix: str) -> bytes:
        """Programs as a relocatable object, with a function for each; raises UnsupportedError where there is none."""
        raise UnsupportedError(f"export: the device {self.target.name!r} makes no objects")

    def profiler(
        self, unit: CompilationUnit, plan: LoweredProgram, code: LoadedCode, streams: FileInputs, state: Sequence[Any]
    ) -> Profiler:
        """A profiler, which runs a program with a clock around its steps; raises UnsupportedError without a clock."""
        raise UnsupportedError(f"profile: the device {self.target.name!r} has no clock for its kernels")
