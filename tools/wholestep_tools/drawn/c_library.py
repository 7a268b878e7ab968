"""Graphs as C: many of them in one source, compiled once by the system's compiler, and called in this process."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wholestep.compiler.backends import processor_backend
from wholestep.export.c.source import c_source
from wholestep.export.native.block import ALIGNMENT, MemoryBlock, NativeFunction, laid_out
from wholestep.export.native.limits import check_native
from wholestep.ir.graph import Graph, NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.train.step.native_plan import native_plan

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
"""The options under which no source may have a warning."""
PREFIX = "model"


class CLibrary:
    """Graphs in one block of memory, by name, as functions of one shared library."""

    def __init__(self, graphs: Mapping[str, Graph], folder: Path, *flags: str) -> None:
        machine = processor_backend("host").target
        functions = [native_function(name, graph, machine) for name, graph in graphs.items()]
        self.block: MemoryBlock = laid_out([], functions)
        self.placed = {f.program.name: f for f in self.block.functions}
        self.source = folder / f"{PREFIX}.c"
        self.source.write_text(c_source(PREFIX, "graphs", self.block), encoding="ascii")
        made = folder / f"{PREFIX}.so"
        assert COMPILER is not None
        options = [*(flags or ("-O1", "-march=native")), *STRICT, "-fPIC", "-shared"]
        given = [COMPILER, *options, str(self.source), "-o", str(made), "-lm"]
        done = subprocess.run(given, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr[:4000])
        self.code = ctypes.CDLL(str(made))
        self.memory = np.zeros(self.block.nbytes + ALIGNMENT, np.uint8)
        self.start = -self.memory.ctypes.data % ALIGNMENT

    def __call__(self, name: str, args: Sequence[NDArray]) -> list[NDArray] | int:
        """The results of one graph, or the number of the place that failed."""
        f = self.placed[name]
        for place, x in zip(f.inputs, args, strict=True):
            self.at(place.offset, x.nbytes)[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        code = int(getattr(self.code, f"{PREFIX}_run_{name}")(ctypes.c_void_p(self.memory.ctypes.data + self.start)))
        if code:
            return code
        found = [(y, self.at(y.offset, int(y.type.nbytes)).view(y.type.dtype)) for y in f.outputs]
        return [x.reshape(y.type.shape).copy() for y, x in found]

    def formulas(self, name: str) -> tuple[str, ...]:
        """The functions of libraries whose place formulas take in a graph."""
        return self.placed[name].formulas

    def at(self, offset: int, nbytes: int) -> NDArray:
        """Some bytes of the block."""
        return self.memory[self.start + offset :][:nbytes]


def native_function(name: str, graph: Graph, machine: object) -> NativeFunction:
    """A graph, lowered for C; raises UnsupportedError for operations that need a library."""
    plan = native_plan(CompilationUnit(graph), machine)  # type: ignore[arg-type]
    inputs = tuple([f"x{i}" for i in range(len(graph.inputs))])
    outputs = tuple([f"y{i}" for i in range(len(graph.outputs))])
    made = NativeFunction(name, plan.program, inputs, outputs, plan.formulas)
    check_native([made], "c")
    return made
