"""A graph with symbolic sizes ready to run: one code for all sizes where there can be one, else a program for each."""

from __future__ import annotations

import dataclasses
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from wholestep import forks
from wholestep.backends.cpu.target import host
from wholestep.dims import Dim, bind, substitute
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.sizes import graph_at
from wholestep.lower.symbolic import needs
from wholestep.runtime.artefact import Artefact, Slot
from wholestep.runtime.compiled import Described, artefact_of
from wholestep.runtime.memory import aligned
from wholestep.runtime.native import Loaded, NativeProgram, Room, loaded, own_room
from wholestep.runtime.program import Instance, Program

KEPT = 16
"""How many sizes are kept ready, those used last."""
SPECIAL = 8
"""How many sizes may have a code of their own."""

Resident = Sequence[tuple[int, int]]
Make = Callable[[Graph, Resident, Any], Program]
Sizes = dict[str, Any]


class Symbolic(Program):
    """A program that takes any size: `at` gives it for one. A subclass says how that is made, and in `why` what stands
    in the way of one code, if anything does."""

    why = ""

    def __init__(self, graph: Graph, resident: Resident, make: Make) -> None:
        self.graph = graph
        self.resident = tuple(resident)
        kept = {i for i, _ in resident}
        given = [t for i, t in enumerate(graph.in_types) if i not in kept]
        self.patterns = tuple([t.shape for t in given])
        self.open = tuple([k for k, t in enumerate(given) if any(isinstance(n, Dim) for n in t.shape)])
        self.needs = needs(graph)
        self.make = make
        self.special: OrderedDict[frozenset[tuple[str, int]], Program] = OrderedDict()
        """The sizes that have a code of their own."""
        self.made = 0
        self.programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()
        self.told: Callable[[Sizes, float], None] = lambda sizes, before: None
        """Told the sizes for which a program was compiled by itself, and when that began."""

    def sizes(self, arrays: Sequence[NDArray]) -> Sizes:
        """What the names are for these arrays; raises ShapeError where they do not agree."""
        found: Sizes = {}
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
                    hint="give a larger batch, or write the slice so that it fits every size",
                )
        return found

    @abstractmethod
    def general(self, sizes: Sizes, room: Room) -> Program:
        """The program for sizes that have no code of their own."""

    def at(self, sizes: Sizes, room: Room = own_room) -> Program:
        """The program for these sizes; its arena is had of `room`, where it can be."""
        return self.special.get(frozenset(sizes.items())) or self.general(sizes, room)

    def numbered(self, sizes: Sizes) -> Program:
        """The program compiled for these sizes alone."""
        before = time.perf_counter()
        made = self.make(graph_at(self.graph, sizes), self.resident, None)
        self.told(sizes, before)
        return made

    def specialize(self, sizes: Sizes) -> None:
        """Compile a code for these sizes alone, which is used for them from now on; the last SPECIAL ones are kept."""
        self.special[frozenset(sizes.items())] = self.numbered(sizes)
        if len(self.special) > SPECIAL:
            self.special.popitem(last=False)
        self.programs.clear()
        self.made += 1

    def key(self, arrays: Sequence[NDArray]) -> tuple[Any, ...]:
        """What tells sizes apart."""
        return tuple([arrays[k].shape for k in self.open])

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        kept = {i for i, _ in self.resident}
        given = [a for i, a in enumerate(arrays) if i not in kept]
        key = self.key(given)
        found = self.programs.get(key)
        if found is None:
            found = self.programs[key] = self.at(self.sizes(given))
            if len(self.programs) > KEPT:
                self.programs.popitem(last=False)
        return found(arrays)

    def instance(self, state: Sequence[NDArray]) -> Instance:
        return SymbolicInstance(self, state)


class PerSize(Symbolic):
    """Compiled for each size by itself; `why` says what stands in the way of one code."""

    def __init__(self, graph: Graph, resident: Resident, make: Make, why: str) -> None:
        super().__init__(graph, resident, make)
        self.why = why

    def general(self, sizes: Sizes, room: Room) -> Program:
        return self.numbered(sizes)


class AnySize(Described, Symbolic):
    """One code for all sizes."""

    def __init__(self, graph: Graph, resident: Resident, make: Make) -> None:
        super().__init__(graph, resident, make)
        self.target = host()
        self.artefact = artefact_of(graph, resident)

    @cached_property
    def loaded(self) -> Loaded:
        """The code, in this process."""
        return loaded(self.artefact)

    def general(self, sizes: Sizes, room: Room) -> Program:
        return NativeProgram(self.graph, artefact_at(self.artefact, sizes), self.loaded, room)


def artefact_at(artefact: Artefact, sizes: Mapping[str, int]) -> Artefact:
    """The artefact with numbers for its symbolic sizes."""

    def slot(s: Slot) -> Slot:
        shape = tuple([substitute(n, sizes) for n in s.shape])
        return dataclasses.replace(s, shape=shape, nbytes=substitute(s.nbytes, sizes))

    numbers = tuple([substitute(n, sizes) for n in artefact.sizes])
    return dataclasses.replace(artefact, slots=tuple([slot(s) for s in artefact.slots]), sizes=numbers)


class SymbolicInstance(Instance):
    """Resident state under programs for several sizes, which take turns and share the memory that they work in."""

    def __init__(self, program: Symbolic, state: Sequence[NDArray]) -> None:
        self.program = program
        self.state = tuple(state)
        self.made: OrderedDict[tuple[Any, ...], Instance] = OrderedDict()
        self.arena = aligned((0,), np.uint8)
        self.current: Instance | None = None
        self.seen = program.made
        self.lock: Any = threading.RLock()
        forks.heir(self)

    def _forked(self) -> None:
        """In a forked child: an arena that another thread was about to replace is nobody's."""
        if forks.abandoned(self.lock):
            self.lock = forks.Torn(
                "call: this process was forked while another thread ran the program on this state",
                hint="compile it in the child",
            )

    def room(self, nbytes: int) -> NDArray:
        """The arena; where it is too small, a larger one, and whoever has the old one is forgotten."""
        if nbytes > self.arena.nbytes:
            self.made.clear()
            self.current = None
            self.arena = aligned((nbytes,), np.uint8)
        return self.arena

    def __call__(self, arrays: Sequence[NDArray]) -> Sequence[NDArray]:
        with self.lock:
            if self.seen != self.program.made:
                self.made.clear()
                self.seen = self.program.made
            key = self.program.key(arrays)
            found = self.made.get(key)
            if found is None:
                found = self.program.at(self.program.sizes(arrays), self.room).instance(self.state)
                self.made[key] = found
                if len(self.made) > KEPT:
                    self.made.popitem(last=False)
            self.current = found
            return found(arrays)

    def stop(self) -> None:
        if self.current is not None:
            self.current.stop()

    @property
    def trips(self) -> int:
        return 0 if self.current is None else self.current.trips


def symbolic(graph: Graph, resident: Resident, make: Make) -> Symbolic:
    """The program of a graph with symbolic sizes on this processor; `make` compiles what has numbers."""
    try:
        return AnySize(graph, resident, make)
    except UnsupportedError as error:
        return PerSize(graph, resident, make, str(error))
