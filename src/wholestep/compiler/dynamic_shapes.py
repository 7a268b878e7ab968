"""A graph with symbolic sizes ready to run: one code for all sizes where there can be one, else a program for each."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import forks
from wholestep.compiler.driver import InspectableProgram, compile_unit
from wholestep.dims import Dim, bind, substitute
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.sizes import graph_at
from wholestep.lower.compilation_unit import CompilationUnit, ResidentPairs
from wholestep.lower.dynamic_shapes import size_constraints
from wholestep.runtime.backend import AllocateBytes, Backend
from wholestep.runtime.executable import BoundExecutable, Executable, UnfitArguments
from wholestep.runtime.memory.aligned import aligned_empty
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs

MAX_READY = 16
"""The number of sizes that are kept ready, least recently used first to go."""
MAX_SPECIALIZED = 8
"""The number of sizes that may have a code of their own."""

SizedCompiler = Callable[[Graph, ResidentPairs, None, FileInputs], Executable]
SizeBinding = dict[str, Any]


class SymbolicProgram(Executable):
    """A program of symbolic sizes, for which `at` returns the executable for given ones; a subclass compiles it, and
    states in `why` the reason against one code for all sizes, if there is one."""

    why = ""

    def __init__(self, unit: CompilationUnit, make: SizedCompiler) -> None:
        self.unit, self.graph, self.resident = unit, unit.graph, unit.resident
        kept = {i for i, _ in unit.resident}
        given = [t for i, t in enumerate(unit.graph.in_types) if i not in kept]
        self.patterns = tuple([t.shape for t in given])
        self.open = tuple([k for k, t in enumerate(given) if any(isinstance(n, Dim) for n in t.shape)])
        self.needs = size_constraints(unit.graph)
        self.make = make
        self.special: OrderedDict[frozenset[tuple[str, int]], Executable] = OrderedDict()
        """The sizes that have a code of their own."""
        self.made = 0
        self.programs: OrderedDict[tuple[Any, ...], Executable] = OrderedDict()
        self.told: Callable[[SizeBinding, float], None] = lambda sizes, before: None
        """A callback with the sizes of a separately compiled program, and the time at which its compilation began."""

    def sizes(self, arrays: Sequence[NDArray]) -> SizeBinding:
        """The numbers of the symbolic sizes for these arrays; raises ShapeError where they do not agree."""
        found: SizeBinding = {}
        pattern = [n for k in self.open for n in self.patterns[k]]
        try:
            bind(pattern, [n for k in self.open for n in arrays[k].shape], found)
        except ValueError as error:
            raise ShapeError(f"call: the sizes of the arrays do not fit the program: {error}") from None
        for need in self.needs:
            if substitute(need.size, found) < 0:
                given = ", ".join(f"{name} is {n}" for name, n in found.items())
                raise ShapeError(
                    f"call: the program needs {need.what}, and {given}",
                    where=need.where,
                    hint="give a larger batch, or write it so that it fits every size",
                )
        return found

    @abstractmethod
    def general(self, sizes: SizeBinding, room: AllocateBytes | None) -> Executable:
        """The program for sizes that have no code of their own."""

    def at(self, sizes: SizeBinding, room: AllocateBytes | None = None) -> Executable:
        """The program for these sizes; its arena is had of `room`, where it can be."""
        return self.special.get(frozenset(sizes.items())) or self.general(sizes, room)

    def numbered(self, sizes: SizeBinding) -> Executable:
        """The program compiled for these sizes alone."""
        before = time.perf_counter()
        made = self.make(graph_at(self.graph, sizes), self.resident, None, NO_FILE_INPUTS)
        self.told(sizes, before)
        return made

    def specialize(self, sizes: SizeBinding) -> None:
        """Compile a code for these sizes alone, which is used for them from now on; the last SPECIAL ones are kept."""
        self.special[frozenset(sizes.items())] = self.numbered(sizes)
        if len(self.special) > MAX_SPECIALIZED:
            self.special.popitem(last=False)
        self.programs.clear()
        self.made += 1

    def key(self, arrays: Sequence[NDArray]) -> tuple[Any, ...]:
        """The cache key of these arrays: the shapes with symbolic sizes."""
        return tuple([arrays[k].shape for k in self.open])

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        kept = {i for i, _ in self.resident}
        given = [a for i, a in enumerate(arrays) if i not in kept]
        key = self.key(given)
        found = self.programs.get(key)
        if found is None:
            found = self.programs[key] = self.at(self.sizes(given))
            if len(self.programs) > MAX_READY:
                self.programs.popitem(last=False)
        return found(arrays)

    def instance(self, state: Sequence[NDArray]) -> BoundExecutable:
        return SymbolicInstance(self, state)


class PerSizeProgram(SymbolicProgram):
    """A program compiled for each size separately; `why` is the reason against one code for all sizes."""

    def __init__(self, unit: CompilationUnit, make: SizedCompiler, why: str) -> None:
        super().__init__(unit, make)
        self.why = why

    def general(self, sizes: SizeBinding, room: AllocateBytes | None) -> Executable:
        return self.numbered(sizes)


class AnySizeProgram(InspectableProgram, SymbolicProgram):
    """A program of symbolic sizes with one code for all of them."""

    def __init__(self, unit: CompilationUnit, backend: Backend, make: SizedCompiler) -> None:
        super().__init__(unit, make)
        self.backend, self.code = backend, compile_unit(unit, backend)

    def general(self, sizes: SizeBinding, room: AllocateBytes | None) -> Executable:
        return self.code.at_sizes(sizes, room)


class SymbolicInstance(BoundExecutable):
    """Resident state with programs for several sizes, which run in turn and share one arena."""

    def __init__(self, program: SymbolicProgram, state: Sequence[NDArray]) -> None:
        self.program = program
        self.state = tuple(state)
        self.made: OrderedDict[tuple[Any, ...], BoundExecutable] = OrderedDict()
        self.arena = aligned_empty((0,), np.uint8)
        self.current: BoundExecutable | None = None
        self.seen = program.made
        self.lock: Any = threading.RLock()
        forks.heir(self)

    def _forked(self) -> None:
        """Make the instance unusable in a forked child if another thread was running it at the fork."""
        if forks.abandoned(self.lock):
            self.lock = forks.Torn(
                "call: this process was forked while another thread ran the program on this state",
                hint="compile it in the child",
            )

    def room(self, nbytes: int) -> NDArray:
        """The arena, replaced by a larger one where it is too small; instances over the old one are dropped."""
        if nbytes > self.arena.nbytes:
            self.made.clear()
            self.current = None
            self.arena = aligned_empty((nbytes,), np.uint8)
        return self.arena

    def __call__(self, arrays: Sequence[NDArray], strict: bool = False) -> Sequence[NDArray]:
        with self.lock:
            if self.seen != self.program.made:
                self.made.clear()
                self.seen = self.program.made
            try:
                key = self.program.key(arrays)
                found = self.made.get(key)
            except (AttributeError, LookupError, TypeError):  # an argument that is no array
                if not strict:
                    raise
                raise UnfitArguments from None
            if found is None and strict:
                raise UnfitArguments
            if found is None:
                found = self.program.at(self.program.sizes(arrays), self.room).instance(self.state)
                self.made[key] = found
                if len(self.made) > MAX_READY:
                    self.made.popitem(last=False)
            self.current = found
            return found(arrays, strict)

    def stop(self) -> None:
        if self.current is not None:
            self.current.stop()

    @property
    def trips(self) -> int:
        return 0 if self.current is None else self.current.trips


def compile_symbolic(unit: CompilationUnit, backend: Backend, make: SizedCompiler) -> SymbolicProgram:
    """The program of a graph with symbolic sizes; `make` compiles graphs with numbers for them."""
    try:
        return AnySizeProgram(unit, backend, make)
    except UnsupportedError as error:
        return PerSizeProgram(unit, make, str(error))
