"""Native targets: writers of programs without Python as an object, as C and as WebAssembly, with their processors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from wholestep.compiler.backends import processor_backend
from wholestep.errors import UnsupportedError
from wholestep.export.c.source import c_source
from wholestep.export.native.block import MemoryBlock
from wholestep.export.native.wasm import wasm_module
from wholestep.export.targets import Files
from wholestep.lower.target import Target
from wholestep.runtime.backend import Backend


class NativeModel(Protocol):
    """A program in its memory block, with its texts: a step with its state file, or a function without state."""

    @property
    def prefix(self) -> str:
        """The prefix of all its names."""

    @property
    def title(self) -> str:
        """A short description."""

    @property
    def block(self) -> MemoryBlock:
        """The programs and the layout of their memory."""

    def header(self) -> str:
        """The C header."""

    def code_beside(self) -> tuple[str, str]:
        """The name, after the prefix, of the C file that accompanies the code of the programs, and its text."""

    def module(self, data_bytes: int) -> str:
        """The ES module for a program whose own data takes so many bytes."""


class NativeWriter(NamedTuple):
    """The default processor of a target, and the function that writes its files; a `portable` text uses no instruction
    that C has no words for."""

    processor: str
    write: Callable[[NativeModel, Backend, Path], Files]
    portable: bool = False


def model_files(target: str, path: Path, processor: str | None, made: Callable[[Target], NativeModel]) -> Files:
    """The files of a native program, which `made` lowers for the machine of the processor.

    Raises UnsupportedError for a processor without code generation.
    """
    writer = WRITERS[target]
    if target == "wasm" and processor not in (None, writer.processor):
        raise UnsupportedError(f"export to wasm: it is the processor, and not {processor}")
    backend = processor_backend(processor or writer.processor)
    machine = backend.target.portable() if writer.portable else backend.target
    return writer.write(made(machine), backend, path)


def object_files(model: NativeModel, backend: Backend, path: Path) -> Files:
    """An object for a processor, its header, and the C code that is compiled with it."""
    code = backend.export_object([f.program for f in model.block.functions], model.prefix)
    name, text = model.code_beside()
    beside = path.with_name(f"{model.prefix}_{name}.c")
    return {path: code, path.with_suffix(".h"): model.header().encode(), beside: text.encode()}


def c_files(model: NativeModel, backend: Backend, path: Path) -> Files:
    """C source, and its header."""
    source = c_source(model.prefix, model.title, model.block) + model.code_beside()[1]
    return {path: source.encode(), path.with_suffix(".h"): model.header().encode()}


def wasm_files(model: NativeModel, backend: Backend, path: Path) -> Files:
    """A module of WebAssembly, and the ES module that runs it."""
    programs = [f.program for f in model.block.functions]
    code = backend.export_object(programs, model.prefix)
    made = wasm_module(code, [f"{model.prefix}_run_{p.name}" for p in programs])
    return {path: made.code, path.with_suffix(".mjs"): model.module(made.data_bytes).encode()}


WRITERS: dict[str, NativeWriter] = {
    "object": NativeWriter("host", object_files),
    "c": NativeWriter("x86-64-v3", c_files, portable=True),
    "wasm": NativeWriter("wasm32", wasm_files),
}
"""The writer of each native target."""
