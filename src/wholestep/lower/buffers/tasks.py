"""Tasks: kernels and routine calls with their memory effects; their buffer assignment; the state of one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from wholestep.dims import Size, most
from wholestep.errors import Where
from wholestep.ir.graph import NDArray, Value
from wholestep.kernel.index_arithmetic import row_major_strides
from wholestep.kernel.lang import Var, walk
from wholestep.lower.buffers.allocate import LiveInterval, align_size
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.kernels.scalar_codegen import Location
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout, MemoryLayoutBuilder, Placement
from wholestep.lower.program.program import FailureSite
from wholestep.lower.program.steps import Launch, MemRef, RoutineCall, Step
from wholestep.lower.target import Target

ARENA_SLOT, CONSTANT_SLOT = 0, 1


@dataclass(frozen=True, eq=False)
class Task:
    """The allocations that are read and written, and the steps that are emitted once these have addresses."""

    reads: tuple[Allocation, ...]
    writes: tuple[Allocation, ...]
    steps: Callable[[Assignment], tuple[Step, ...]]
    scratch: tuple[Allocation, ...] = ()
    """Allocations that are live only while the task runs."""
    check: bool = False
    """True if the program may fail here, so that no resident memory may have been written before."""
    bound: BoundKernel | None = None
    """The kernel and its operands, unless the task is a routine call or control flow."""
    copies_back: bool = False
    """True if the task only copies a result back to its resident memory."""
    inner: tuple[TaskGraph, ...] = ()
    """The nested task graphs in the order in which they run."""
    sends: bool = False
    """True if the task begins an asynchronous operation, such as a collective, which overlaps with later tasks."""
    waits: bool = False
    """True if the task waits for the end of an asynchronous operation."""


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """The tasks of a graph in execution order, and the arenas of their temporary allocations."""

    tasks: tuple[Task, ...]
    arena: Allocation
    file: Allocation
    """The arena of the temporary allocations that are placed in a file."""
    outside: frozenset[Allocation]
    """The allocations of the graph's inputs and outputs."""


@dataclass(frozen=True)
class GraphAssignment:
    """The buffer assignment of one task graph: the tasks that it runs, with those that recompute or spill values, and
    an offset for each of their temporary allocations."""

    tasks: tuple[Task, ...]
    placements: Mapping[Allocation, Placement]
    arena: Size
    """Bytes of the arena."""
    file: Size
    """Bytes of the arena in a file."""
    bound: int
    """The largest total size of simultaneously live allocations of the arena."""
    live_intervals: tuple[LiveInterval, ...]
    """The live intervals of the allocations in the arena."""

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena for the assumed sizes."""
        return most(self.arena)


@dataclass(frozen=True)
class Assignment:
    """The buffer assignment of a program: an address for every allocation, and the assignment of each task graph."""

    layout: MemoryLayout
    graphs: Mapping[TaskGraph, GraphAssignment]

    def address(self, p: Allocation) -> MemRef:
        """The memory reference of an allocation."""
        return self.layout.address(p)

    def steps(self, found: TaskGraph) -> tuple[Step, ...]:
        """The steps of a task graph."""
        return tuple([step for task in self.graphs[found].tasks for step in task.steps(self)])


@dataclass
class ProgramBuilder:
    """The state that all graphs of one program share: constants, failure sites, loop numbers, pins."""

    target: Target
    stored: Set[Value] = frozenset()
    """Values that are always materialized, also where fusion would recompute them: copies for contractions."""
    constants: dict[int, tuple[NDArray, Allocation]] = field(default_factory=dict)
    constant_bytes: int = 0
    sites: list[FailureSite] = field(default_factory=list)
    loops: int = 0
    pinned: dict[Allocation, str] = field(default_factory=dict)
    """The user's pins of values: "keep" or "recompute"."""
    layout: MemoryLayoutBuilder = field(default_factory=MemoryLayoutBuilder)
    """The aliases of allocations and their places in files, which are decided after the allocations are made."""

    def constant(self, value: NDArray) -> Allocation:
        """The allocation of an array that is part of the program."""
        found = self.constants.get(id(value))
        if found is None:
            place = Allocation(value.nbytes, MemRef(CONSTANT_SLOT, self.constant_bytes))
            self.constant_bytes += align_size(value.nbytes)
            found = self.constants[id(value)] = (value, place)
        return found[1]

    def site(self, kind: str, facts: tuple[Any, ...], where: Where) -> int:
        """Register a failure site; returns its status number, as 0 is success."""
        self.sites.append(FailureSite(kind, facts, where))
        return len(self.sites)

    def loop(self) -> int:
        """A new loop number."""
        self.loops += 1
        return self.loops - 1


def row_major_location(v: Value, place: Allocation) -> Location:
    """The location of a value in row-major order; it can be read only if all its strides are numbers."""
    return Location(place, row_major_strides(v.shape))


def kernel_task(made: BoundKernel) -> Task:
    """The task of one kernel."""
    pairs = list(zip(made.places, made.kernel.buffers, strict=True))
    loaded = {s.attr[0] for s in walk(made.kernel.body) if isinstance(s, Var) and s.op == "load"}

    blocked = made.blocked
    scratch = tuple([Allocation(n) for n in blocked.scratch]) if blocked is not None else ()

    def steps(at: Assignment) -> tuple[Step, ...]:
        # Operands in files are read once and in order; blocks read theirs several times.
        if blocked is None or any(map(at.layout.in_file, made.places)):
            return (Launch(made.kernel, tuple(map(at.address, made.places)), made.parallel, made.nodes),)
        return blocked.placed(list(map(at.address, (*made.places, *scratch))), made.nodes)

    reads, writes = [p for p, b in pairs if b in loaded], [p for p, b in pairs if b.written]
    return Task(tuple(reads), tuple(writes), steps, scratch, bound=made)


def copy_task(target: Allocation, source: Allocation, routine: str = "copy", where: Where = None) -> Task:
    """A task that copies the bytes of one allocation to another, within memory or to and from a file."""

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (RoutineCall(routine, (at.address(target), at.address(source)), (target.size,), where),)

    return Task((source,), (target,), steps)
