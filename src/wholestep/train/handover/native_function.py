"""Native functions: a function without state as C, an object or WebAssembly, by the code that writes native steps."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wholestep.export.native.block import MemoryBlock, NativeFunction, laid_out
from wholestep.export.native.function_code import RUN, function_code, function_header
from wholestep.export.native.limits import check_native, check_sizes
from wholestep.export.native.names import prefix_of
from wholestep.export.native.page_module import function_module
from wholestep.export.program import ExportedProgram
from wholestep.export.targets import Files
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.target import Target
from wholestep.train.step.native_plan import native_plan
from wholestep.train.step.native_writers import WRITERS, model_files

NATIVE_TARGETS = tuple(WRITERS)
"""The native targets for functions."""


class FunctionModel(NamedTuple):
    """A `NativeModel` of one function, laid out in a memory block."""

    prefix: str
    title: str
    block: MemoryBlock

    def header(self) -> str:
        """The C header."""
        return function_header(self.prefix, self.title, self.block)

    def code_beside(self) -> tuple[str, str]:
        """The name behind the prefix of the C file of the call, and its text."""
        return "call", function_code(self.prefix, self.block)

    def module(self, data_bytes: int) -> str:
        """The ES module for a program whose own data takes so many bytes."""
        return function_module(self.prefix, self.title, self.block, data_bytes)


def function_files(target: str, program: ExportedProgram, path: Path, processor: str | None) -> Files:
    """The files of a function as a native program.

    Raises UnsupportedError for an operation that needs a library, and for a processor without code generation.
    """
    return model_files(target, path, processor, lambda machine: function_model(program, path, target, machine))


def function_model(program: ExportedProgram, path: Path, kind: str, machine: Target) -> FunctionModel:
    """A function, lowered for a machine; raises UnsupportedError for an operation that needs a library."""
    prefix = prefix_of(path.stem, kind)
    check_sizes(kind, program.name, program.sizes, "give it examples")
    plan = native_plan(CompilationUnit(program.graph, winograd=program.winograd), machine)
    function = NativeFunction(RUN, plan.program, program.inputs, program.outputs_apart, plan.formulas)
    check_native([function], kind)
    return FunctionModel(prefix, f"the function {program.name}", laid_out([], [function]))
