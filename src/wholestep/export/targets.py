"""Targets of exports by name: the suffixes of their files, and the functions that write these, imported on demand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wholestep.errors import ParameterError

Files = Mapping[Path, bytes]
"""The contents of files by their paths; the caller writes them."""
Writer = Callable[..., Files]
"""(programs on one state, the step first; a path) -> files at or beside it."""


class ExportTarget(NamedTuple):
    """One system that programs are written for."""

    suffixes: tuple[str, ...]
    """The suffixes of its files; one that several targets have does not choose between them."""
    writer: str
    """The `Writer`, as `module:name`."""
    vocabulary: str
    """The `Vocabulary` of its words, as `module:name`, which errors of other targets refer to."""
    options: tuple[str, ...] = ()
    """The options that its writer takes by name."""


TARGETS: dict[str, ExportTarget] = {
    "coreml": ExportTarget(
        (".mlpackage",),
        "wholestep.export.coreml.files:coreml_files",
        "wholestep.export.coreml.table:COREML",
        options=("narrow", "model_state"),
    ),
    "jax": ExportTarget((".py",), "wholestep.export.python.files:jax_files", "wholestep.export.python.jax:JAX"),
    "litert": ExportTarget(
        (".tflite",),
        "wholestep.export.litert.files:litert_files",
        "wholestep.export.litert.table:LITERT",
        options=("narrow",),
    ),
    "numpy": ExportTarget((".py",), "wholestep.export.python.files:numpy_files", "wholestep.export.python.numpy:NUMPY"),
    "onnx": ExportTarget((".onnx",), "wholestep.export.onnx.files:onnx_files", "wholestep.export.onnx.table:ONNX"),
    "tensorflow": ExportTarget(
        (".py",),
        "wholestep.export.python.files:tensorflow_files",
        "wholestep.export.python.tensorflow:TENSORFLOW",
    ),
    "torch": ExportTarget((".py",), "wholestep.export.python.files:torch_files", "wholestep.export.python.torch:TORCH"),
}
"""Every target, by the name that `to=` takes."""


NATIVE: dict[str, tuple[str, ...]] = {
    "object": (".o",),
    "c": (".c",),
    "wasm": (".wasm",),
    "page": (".html",),
    "module": (".mjs",),
    "npm": (),
}
"""The suffixes of targets for which a step's own plan is written, lowered by the caller, which has the step."""
IN_BROWSERS = ("page", "module", "npm")
"""The native targets that train by WebGPU in a browser, and hold the state themselves."""


def named_object(place: str) -> Any:
    """The object that `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def writer_of(target: str) -> Writer:
    """The writer of a target."""
    found: Writer = named_object(TARGETS[target].writer)
    return found


def checked_options(target: str, **options: bool) -> dict[str, bool]:
    """The options that are asked for; raises ParameterError for one that a target does not take."""
    wanted: dict[str, bool] = {name: True for name, value in options.items() if value}
    for name in wanted:
        if target not in TARGETS or name not in TARGETS[target].options:
            takes = [other for other, row in TARGETS.items() if name in row.options]
            raise ParameterError(
                f"export: a file for {target} is written without {name}=",
                hint=f"leave it out; it is for {' and '.join(takes)}",
            )
    return wanted


def target_for(path: Path, to: str | None) -> str:
    """The name of the target that is asked for, or that the suffix of a path means.

    Raises ParameterError for an unknown target, and where the suffix means none or several.

    >>> target_for(Path("step.py"), "jax")
    'jax'
    """
    suffixes = {name: target.suffixes for name, target in TARGETS.items()} | NATIVE
    known = ", ".join(suffixes)
    if to is not None:
        if to not in suffixes:
            raise ParameterError(f"export: there is no target {to!r}", hint=f"the targets are {known}")
        return to
    found = [name for name, own in suffixes.items() if path.name.endswith(own)]
    if len(found) != 1:
        means = f"may be for {', '.join(found)}" if found else "is the file of no target"
        raise ParameterError(f"export: {path.name} {means}", hint=f"say to=; the targets are {known}")
    return found[0]
