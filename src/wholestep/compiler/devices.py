"""Devices: the places that a program can run on, by name, and the compiler of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep.compiler.compilation_unit import CompilationUnit
from wholestep.compiler.driver import compile_graph
from wholestep.compiler.dynamic_shapes import PerSizeProgram, compile_symbolic
from wholestep.compiler.reference import InterpretedProgram
from wholestep.errors import ParameterError
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.runtime.executable import Executable
from wholestep.runtime.memory.buffer import HOST, DeviceMemory
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs

ProgramFactory = Callable[[Graph, Sequence[tuple[int, int]], MemoryBudget | None, FileInputs], Executable]
"""Turns a graph, its resident pairs, a budget and what lies in files into a program."""


class Device(NamedTuple):
    """A device by its name."""

    name: str
    compile: ProgramFactory
    rerolls: bool = True
    """False where loops stay as they were written: the interpreter is the oracle of the others."""
    any_size: bool = True
    """True where one code can do for all symbolic sizes."""
    memory: DeviceMemory[Any] = HOST
    """Where resident state lies."""


DEVICES = {
    device.name: device
    for device in (
        Device("cpu", compile_graph),
        Device("reference", InterpretedProgram, rerolls=False, any_size=False),
    )
}

DEFAULT_DEVICE = "cpu"
"""The device of a program that names none."""


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
    if found.any_size:
        return compile_symbolic(unit, found.compile)
    return PerSizeProgram(unit, found.compile, f"the device {device!r} takes numbers for sizes")


def device_named(name: str) -> Device:
    """The device of this name; raises ParameterError where there is none."""
    found = DEVICES.get(name)
    if found is None:
        known = ", ".join(map(repr, DEVICES))
        raise ParameterError(
            f"compile: no device is called {name!r}",
            hint=f"this version compiles for the CPU only; the devices are {known}",
        )
    return found
