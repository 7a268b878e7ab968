"""Devices: the places that a program can run on, by name: those with a backend, and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.compiler.backends import BACKENDS
from wholestep.compiler.driver import compile_graph
from wholestep.compiler.dynamic_shapes import PerSizeProgram, compile_symbolic
from wholestep.compiler.reference import InterpretedProgram
from wholestep.errors import ParameterError
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.runtime.backend import Backend
from wholestep.runtime.executable import Executable
from wholestep.runtime.memory.buffer import HOST, DeviceMemory
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs


class Device:
    """A device by its name; without a backend it is the interpreter, the oracle of the others."""

    def __init__(self, name: str, backend: Backend | None) -> None:
        self.name, self.backend = name, backend

    @property
    def rerolls(self) -> bool:
        """False where loops stay as they were written."""
        return self.backend is not None

    @property
    def memory(self) -> DeviceMemory[Any]:
        """The memory of resident state."""
        return HOST if self.backend is None else self.backend.memory

    def compile(
        self,
        graph: Graph,
        resident: Sequence[tuple[int, int]],
        budget: MemoryBudget | None = None,
        streams: FileInputs = NO_FILE_INPUTS,
    ) -> Executable:
        """The program of a graph whose sizes are all known."""
        if self.backend is None:
            return InterpretedProgram(graph, resident, budget, streams)
        return compile_graph(graph, resident, budget, streams, self.backend)


def compile_for_device(
    graph: Graph,
    resident: Sequence[tuple[int, int]],
    device: str,
    budget: MemoryBudget | None = None,
    streams: FileInputs = NO_FILE_INPUTS,
) -> Executable:
    """The graph ready to run on a device, for one instance or many; `streams` says which inputs lie in files.

    Raises ParameterError for an unknown device, BudgetError where `budget` is too small.
    """
    found = device_named(device)
    if not named_sizes(graph):
        return found.compile(graph, resident, budget, streams)
    unit = CompilationUnit(graph, tuple(resident), budget, tuple(streams.inputs)).checked()
    if found.backend is None:
        return PerSizeProgram(unit, found.compile, f"the device {device!r} takes numbers for sizes")
    return compile_symbolic(unit, found.backend, found.compile)


REFERENCE = "reference"
"""The device that is the interpreter."""


def check_device(name: str) -> None:
    """Raise ParameterError where no device has this name."""
    if name not in BACKENDS and name != REFERENCE:
        known = ", ".join(map(repr, (*BACKENDS, REFERENCE)))
        raise ParameterError(
            f"compile: no device is called {name!r}",
            hint=f"this version compiles for the CPU only; the devices are {known}",
        )


def device_named(name: str) -> Device:
    """The device of this name; raises ParameterError where there is none."""
    check_device(name)
    return Device(name, None if name == REFERENCE else BACKENDS[name]())
