"""Functions as files: without a state, for ONNX, Core ML, LiteRT, Python, C, objects and WebAssembly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wholestep.errors import ArgumentError, UnsupportedError
from wholestep.export.targets import TARGETS, checked_options, target_for, writer_of
from wholestep.frontend.exporting import export_function
from wholestep.train.handover.native_function import NATIVE_TARGETS, function_files
from wholestep.train.handover.subjects import check_examples
from wholestep.train.step.export import check_no_processor, write_files
from wholestep.train.step.step import Step


def to_file(
    f: Callable[..., Any],
    path: str | Path,
    *examples: Any,
    to: str | None = None,
    narrow: bool = False,
    processor: str | None = None,
) -> tuple[Path, ...]:
    """Write a function, a compiled one too, for another system: ONNX, Core ML, LiteRT, Python source, C or WebAssembly.

    The target is the one that `to` names, or by default that of the suffix of `path`. `to="jax"`, `"numpy"`,
    `"tensorflow"` and `"torch"` write source: a function of one dictionary of arrays, which these libraries
    differentiate. Inputs are named by the paths of the arguments, and outputs by `output` and paths into it.
    `narrow=True` makes float64 float32 and int64 int32 for Core ML, which has no numbers of 64 bits, and float64 alone
    for LiteRT. `step.export` writes a step, and functions on its state.

    `f.c`, `f.o` and `f.wasm` are the function as a program without Python: in C `int f(void *memory, ...)` takes a
    pointer for each argument and each result, and its header says their shapes. A derivative is written as the function
    `ws.value_and_grad(g)`. An object is for `processor`, and the sums of C source are in the order of its vectors, as
    `step.export` says.

    Shapes: those of the examples, which are arrays or `ShapeDtype`s; the paths of the files that were written.
    Raises: UnsupportedError for operations that the target has no words for and for targets of other kinds,
    ParameterError for an unknown target and for a path that begins no name in C, ArgumentError for a step,
    ExportError where a file cannot be written.

    >>> import numpy as np, pathlib, tempfile, wholestep as ws
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = ws.to_file(ws.jit(lambda x: np.sin(x) * x), pathlib.Path(folder, "f.onnx"), np.ones(3))
    ...     files += ws.to_file(ws.grad(lambda x: np.sum(x**3)), pathlib.Path(folder, "slope.c"), np.ones(3))
    >>> [file.name for file in files]
    ['f.onnx', 'slope.c', 'slope.h']
    """
    if isinstance(f, Step):
        raise ArgumentError("to_file: this is a step, with a state beside it", hint="step.export(path) writes it")
    place = Path(path)
    target = target_for(place, to)
    if target not in (*TARGETS, *NATIVE_TARGETS):
        raise UnsupportedError(
            f"to_file: a function is written for {', '.join([*TARGETS, *NATIVE_TARGETS])}, and not for {target}",
            hint="step.export writes a step with its state, and the functions that are attached to it",
        )
    options = checked_options(target, narrow=narrow)
    check_examples(f, examples, "to_file")
    program, _ = export_function(f, examples)
    if target in NATIVE_TARGETS:
        files = function_files(target, program, place, processor)
    else:
        check_no_processor(target, processor)
        files = writer_of(target)([program], place, **options)
    write_files(files)
    return (*files,)
