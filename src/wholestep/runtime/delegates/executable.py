"""Executables of an array library: the printed source of a graph, run there on the library's own arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.vocabulary import PythonTarget
from wholestep.export.targets import TARGETS, named_object
from wholestep.ir.graph import Graph, NDArray
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.runtime.delegates.index_status import with_index_status
from wholestep.runtime.delegates.libraries import library_named
from wholestep.runtime.delegates.memory import DelegatedArray
from wholestep.runtime.executable import BoundExecutable, Executable, UnfitArguments, check_count, fitting_array
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs

HOST_CALL = "on_host"
"""The function of printed sources that leaves a library for SciPy, and may raise there."""


class DelegatedProgram(Executable):
    """A graph as a function of a library's arrays.

    Raises UnsupportedError, before anything runs, for operations that the library has no words for, for a memory budget
    and for arrays in files.
    """

    def __init__(
        self,
        graph: Graph,
        resident: Sequence[tuple[int, int]],
        budget: MemoryBudget | None = None,
        streams: FileInputs = NO_FILE_INPUTS,
        *,
        device: str,
    ) -> None:
        if budget is not None:
            raise UnsupportedError(
                f"compile: the memory of the device {device!r} is planned by the library",
                hint="leave memory_budget out, or compile for the CPU",
            )
        if streams.inputs:
            raise UnsupportedError(
                f"compile: the device {device!r} takes no state that lies in files",
                hint="leave stream out, or compile for the CPU",
            )
        self.graph, self.resident, self.library = graph, tuple(resident), library_named(device)
        self.words: PythonTarget = named_object(TARGETS[self.library.name].vocabulary)
        self.checked, self.sites = with_index_status(graph)
        try:
            function = python_function(self.checked, self.words)
        except UnsupportedError as error:
            said = str(error).replace(f"export to {self.words.name}:", f"compile for the device {device!r}:", 1)
            error.args = (said,)
            raise
        # State that is given away is lost where a run fails: it is kept where one can.
        can_fail = bool(self.sites) or HOST_CALL in function.__globals__
        self.run = self.library.compile(function, () if can_fail else tuple([i for i, _ in self.resident]))

    def source(self) -> str:
        """The program as the library is given it."""
        return function_source(self.checked, self.words)[0]

    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        check_count(arrays, len(self.graph.inputs))
        kept = {i for i, _ in self.resident}
        with self.library.scope():
            values = [self.given(i, x) for i, x in enumerate(arrays)]
            values = [self.library.duplicate(x) if i in kept else x for i, x in enumerate(values)]
            return list(map(self.library.download, self.results(values)))

    def given(self, i: int, array: Any) -> Any:
        """An input as the library's array; raises ShapeError or DtypeError for one that does not fit."""
        found = fitting_array(array, self.graph.in_types[i], self.input_name(i), DelegatedArray)
        return found.value if isinstance(found, DelegatedArray) else self.library.upload(np.asarray(found))

    def results(self, values: Sequence[Any]) -> Sequence[Any]:
        """The outputs for arrays of the library; raises the error of the first site that failed, or LinAlgError."""
        try:
            found = self.run(*values)
        except self.library.matrix_errors as error:
            raise np.linalg.LinAlgError(f"a routine of {self.library.name} failed on a matrix") from error
        if not self.sites:
            return found
        failed, value = [int(self.library.download(x)) for x in found[:2]]
        if failed:
            site = self.sites[failed - 1]
            raise site.error.error(value, site.axis, site.size)
        return found[2:]

    def instance(self, state: Sequence[Any]) -> DelegatedInstance:
        return DelegatedInstance(self, state)


class DelegatedInstance(BoundExecutable):
    """A program on the places of its state, whose arrays each run replaces once all of it has succeeded."""

    def __init__(self, program: DelegatedProgram, state: Sequence[DelegatedArray]) -> None:
        self.program, self.state = program, tuple(state)
        graph = program.graph
        owned = {i: x for (i, _), x in zip(program.resident, self.state, strict=True)}
        self.owned = [
            fitting_array(owned[i], t, program.input_name(i), DelegatedArray) if i in owned else None
            for i, t in enumerate(graph.in_types)
        ]
        self.replacing = [o for _, o in program.resident]
        self.returned = program.fresh_outputs()

    def __call__(self, arrays: Sequence[Any], strict: bool = False) -> Sequence[NDArray]:
        program, library = self.program, self.program.library
        if strict:
            raise UnfitArguments
        check_count(arrays, self.owned.count(None))
        fresh = iter(arrays)
        with library.scope():
            values = [program.given(i, next(fresh)) if own is None else own.value for i, own in enumerate(self.owned)]
            found = program.results(values)
            for place, o in zip(self.state, self.replacing, strict=True):
                place.value = found[o]
            return [library.download(found[o]) for o in self.returned]

    def stop(self) -> None:
        """Nothing: a run of the library ends when it is done."""

    @property
    def trips(self) -> int:
        return 0
