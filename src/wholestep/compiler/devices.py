"""Devices: the places that a program can run on, by name: those with a backend, array libraries, the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wholestep.compiler.backends import BACKENDS, backend_maker
from wholestep.compiler.driver import compile_graph
from wholestep.compiler.dynamic_shapes import PerSizeProgram, compile_symbolic
from wholestep.compiler.reference import InterpretedProgram
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.export.targets import named_object
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.runtime.backend import Backend
from wholestep.runtime.delegates.libraries import LIBRARIES, is_delegate, library_named
from wholestep.runtime.delegates.memory import DelegatedMemory
from wholestep.runtime.executable import Executable
from wholestep.runtime.memory.buffer import HOST, DeviceMemory
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs


def compile_for_device(
    graph: Graph,
    resident: Sequence[tuple[int, int]],
    device: str,
    budget: MemoryBudget | None = None,
    streams: FileInputs = NO_FILE_INPUTS,
    winograd: bool = False,
) -> Executable:
    """The graph ready to run on a device, for one instance or many; `streams` says which inputs lie in files, and
    `winograd` whether convolutions may be computed by tiles.

    Raises ParameterError for an unknown device, BudgetError where `budget` is too small.
    """
    backend = backend_named(device)
    make: Callable[..., Executable] = InterpretedProgram
    if backend is not None:
        make = partial(compile_graph, backend=backend, winograd=winograd)
    elif is_delegate(device):
        make = partial(named_object(DELEGATED_PROGRAM), device=device)
    if not named_sizes(graph):
        return make(graph, resident, budget, streams)
    unit = CompilationUnit(graph, tuple(resident), budget, tuple(streams.inputs), winograd).checked()
    if backend is None:
        return PerSizeProgram(unit, make, f"the device {device!r} takes numbers for sizes")
    return compile_symbolic(unit, backend, make)


DELEGATED_PROGRAM = "wholestep.runtime.delegates.executable:DelegatedProgram"
"""The executables of array libraries, imported when one is asked for, since it is large."""
REFERENCE = "reference"
"""The device that is the interpreter, the oracle of the others."""


def check_device(name: str) -> None:
    """Raise ParameterError where no device has this name."""
    if not isinstance(name, str) or not (is_lowered(name) or name == REFERENCE or is_delegate(name)):
        known = ", ".join(map(repr, (*BACKENDS, REFERENCE, *LIBRARIES)))
        raise ParameterError(
            f"compile: no device is called {name!r}",
            hint=f"the devices are {known}",
        )


def check_winograd(name: str, winograd: object, device: str) -> None:
    """Raise ParameterError for a `winograd` that is no bool, UnsupportedError for True on a device without lowering."""
    if not isinstance(winograd, bool):
        raise ParameterError(
            f"{name}: winograd is {winograd!r}",
            hint="True computes convolutions of 3x3 windows by tiles where that pays, False computes them as written",
        )
    if winograd and not is_lowered(device):
        raise UnsupportedError(
            f"{name}: winograd=True on the device {device!r}, which runs operations as they are written",
            hint=f"leave winograd out, or take a device that code is made for: {', '.join(map(repr, BACKENDS))}",
        )


def is_lowered(name: str) -> bool:
    """True for a device that this compiler generates code for, and not for the interpreter or an array library."""
    return backend_maker(name) is not None


def backend_named(name: str) -> Backend | None:
    """The backend of a device, None for the interpreter and for libraries.

    Raises ParameterError where no device has this name.
    """
    check_device(name)
    make = backend_maker(name)
    return None if make is None else make()


def device_memory(name: str) -> DeviceMemory[Any]:
    """The memory of a device, in which resident state lies."""
    backend = backend_named(name)
    if backend is not None:
        return backend.memory
    return DelegatedMemory(library_named(name)) if is_delegate(name) else HOST
