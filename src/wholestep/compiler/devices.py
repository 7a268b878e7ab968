"""Devices: the places that a program can run on, by name: those with a backend, and the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
    backend = backend_named(device)
    make = InterpretedProgram if backend is None else partial(compile_graph, backend=backend)
    if not named_sizes(graph):
        return make(graph, resident, budget, streams)
    unit = CompilationUnit(graph, tuple(resident), budget, tuple(streams.inputs)).checked()
    if backend is None:
        return PerSizeProgram(unit, make, f"the device {device!r} takes numbers for sizes")
    return compile_symbolic(unit, backend, make)


REFERENCE = "reference"
"""The device that is the interpreter, the oracle of the others."""


def check_device(name: str) -> None:
    """Raise ParameterError where no device has this name."""
    if name not in BACKENDS and name != REFERENCE:
        known = ", ".join(map(repr, (*BACKENDS, REFERENCE)))
        raise ParameterError(
            f"compile: no device is called {name!r}",
            hint=f"the devices are {known}",
        )


def backend_named(name: str) -> Backend | None:
    """The backend of a device, None for the interpreter; raises ParameterError where no device has this name."""
    check_device(name)
    return None if name == REFERENCE else BACKENDS[name]()


def device_memory(name: str) -> DeviceMemory[Any]:
    """The memory of a device, in which resident state lies."""
    backend = backend_named(name)
    return HOST if backend is None else backend.memory
