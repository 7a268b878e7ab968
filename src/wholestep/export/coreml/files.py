"""Core ML packages: a specification, the constants beside it, and a manifest that names both.

Names of inputs and outputs are identifiers there: `params.w` is `params_w`, and the table of all lies in the metadata.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.errors import UnsupportedError
from wholestep.export.core import export_core
from wholestep.export.coreml.table import COREML, WORDS
from wholestep.export.coreml.writer import HELD, MOST_AXES, MilNames, MilWriter, Var, mil_module, quiet
from wholestep.export.narrow import NARROW_TARGETS, checked_narrow
from wholestep.export.program import ExportedProgram
from wholestep.export.rules.complex_pairs import with_last_axis
from wholestep.ir.graph import Graph
from wholestep.ir.types import Type

DATA = "Data/com.apple.CoreML"
MODEL, WEIGHTS = f"{DATA}/model.mlmodel", f"{DATA}/weights/weight.bin"
"""The files of a package beside its manifest."""
DATED = ("com.github.apple.coremltools.conversion_date",)
"""Metadata that would make two files of one program differ."""


def coreml_files(
    programs: Sequence[ExportedProgram], path: Path, narrow: bool = False, model_state: bool = False
) -> Mapping[Path, bytes]:
    """The files of a package for each program: the first at the path, others with their names before the suffix."""
    found: dict[Path, bytes] = {}
    for i, program in enumerate(programs):
        place = path if i == 0 else path.with_name(f"{path.stem}.{program.name}{path.suffix}")
        found |= {place / name: content for name, content in coreml_package(program, narrow, model_state).items()}
    return found


def coreml_package(program: ExportedProgram, narrow: bool = False, model_state: bool = False) -> dict[str, bytes]:
    """The files of a package by their paths in it; raises UnsupportedError for operations that MIL lacks."""
    if program.sizes:
        raise UnsupportedError(
            f"export to coreml: {program.name} has sizes without numbers: {', '.join(program.sizes)}",
            hint="compile it for a batch whose sizes are numbers",
        )
    graph = export_core(
        checked_narrow(with_last_axis(program.graph), program, narrow, NARROW_TARGETS["coreml"]), COREML
    )
    inputs = list(zip(program.inputs, graph.in_types, strict=True))
    for name, t in (*inputs, *zip(program.outputs, graph.out_types, strict=True)):
        check_interface(name, t)
    names = identifiers((*program.inputs, *program.outputs_apart))
    interface = Interface(names[: len(inputs)], names[len(inputs) :], held_pairs(program, graph) if model_state else {})
    return package_files(mil_program(graph, interface), metadata(program, interface), interface.target)


class Interface(NamedTuple):
    """The names of a model's inputs and outputs, and which outputs replace which inputs inside it."""

    inputs: list[str]
    outputs: list[str]
    held: dict[int, int]
    """For the place of an input that is state of the model, that of the output that replaces it."""

    @property
    def target(self) -> str:
        """The oldest system that runs the model, as coremltools calls it."""
        return "iOS18" if self.held else "iOS17"


def held_pairs(program: ExportedProgram, graph: Graph) -> dict[int, int]:
    """The floats of the state, by places of inputs and outputs; raises UnsupportedError for values beyond float16."""
    found = {i: o for i, o in program.resident if dtypes.is_float(graph.in_types[i].dtype) and is_learned(program, i)}
    for i in found:
        value = np.asarray(program.state[program.inputs[i]])
        if np.abs(value[np.isfinite(value)]).max(initial=0) > np.finfo(np.float16).max:
            raise UnsupportedError(
                f"export to coreml: {program.inputs[i]} has numbers beyond float16, in which Core ML holds state",
                hint="leave model_state= out: state then goes in and out as float32",
            )
    return found


def is_learned(program: ExportedProgram, i: int) -> bool:
    """True for parameters, buffers and the optimizer state; False for counters and the scale of a loss."""
    return not program.inputs[i].startswith("counters.")


def check_interface(name: str, t: Type) -> None:
    """Raise UnsupportedError for an array that cannot go into a model, or come out."""
    if t.ndim > MOST_AXES or 0 in t.shape or t.dtype.name not in HELD:
        raise UnsupportedError(
            f"export to coreml: {name} is {t}, and arrays of Core ML have at most {MOST_AXES} axes, at least one "
            "element, and numbers of float32, float16 or int32"
        )


def identifiers(paths: Iterable[str]) -> list[str]:
    """Each path as an identifier that no other one has.

    >>> identifiers(["params.w", "params_w", "1"])
    ['params_w', 'params_w_2', '_1']
    """
    found: dict[str, None] = {}
    for path in paths:
        name = re.sub(r"[^A-Za-z0-9_]", "_", path)
        name = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
        count, own = 1, name
        while own in found:
            count += 1
            own = f"{name}_{count}"
        found[own] = None
    return list(found)


def metadata(program: ExportedProgram, names: Interface) -> dict[str, str]:
    """The tables of a model: the path of each name, and for inputs of the state the output that replaces it."""
    outputs = zip(program.outputs, names.outputs, strict=True)
    shown = {out: path for o, (path, out) in enumerate(outputs) if o not in names.held.values()}
    paths = {**dict(zip(names.inputs, program.inputs, strict=True)), **shown}
    pairs = {path: out for out, path in shown.items() if path in program.inputs}
    return {"wholestep.paths": json.dumps(paths), "wholestep.state": json.dumps(pairs)}


def mil_program(graph: Graph, names: Interface) -> Any:
    """The program of MIL that computes a graph; scalars go in and out as arrays of one element."""
    mil, tools = mil_module(".converters.mil.mil"), mil_module("")
    builder, kinds = mil_module(".converters.mil").Builder, mil.types
    types = {"fp32": kinds.fp32, "fp16": kinds.fp16, "int32": kinds.int32, "bool": kinds.int32}
    given = {
        name: builder.state_tensor_placeholder(shape=t.shape or (1,), dtype=kinds.fp16)
        if i in names.held
        else builder.placeholder(shape=t.shape or (1,), dtype=types[HELD[t.dtype.name]])
        for i, (name, t) in enumerate(zip(names.inputs, graph.in_types, strict=True))
    }
    with mil.Function(given, opset_version=getattr(tools.target, names.target)) as function:
        w = MilWriter(WORDS, MilNames(frozenset((*names.inputs, *names.outputs))))
        for i, (v, name) in enumerate(zip(graph.inputs, names.inputs, strict=True)):
            x = function.inputs[name]
            x = w.cast(w.op("read_state", input=x), v.dtype) if i in names.held else x
            x = w.view(x, v.shape)
            w.whole[v] = w.op("not_equal", x=x, y=np.int32(0)) if v.dtype.kind == "b" else x
        found = w.write(graph)
        for i, o in names.held.items():
            after = w.cast(w.view(found[o], graph.out_types[o].shape or (1,)), np.float16)
            w.op("coreml_update_state", state=function.inputs[names.inputs[i]], value=after)
        shown = [(x, name) for o, (x, name) in enumerate(zip(found, names.outputs, strict=True))
                 if o not in names.held.values()]  # fmt: skip
        function.set_outputs([result_of(w, x, name) for x, name in shown])
    program = mil.Program()
    program.add_function("main", function)
    return program


def result_of(w: MilWriter, x: Var, name: str) -> Var:
    """A result as a model returns it: truths are 0 and 1."""
    x = w.view(x, tuple(x.shape) or (1,))
    if x.dtype is mil_module(".converters.mil.mil").types.bool:
        x = w.cast(x, np.int32)
    return w.mb.identity(x=x, name=name)


def package_files(program: Any, table: Mapping[str, str], target: str) -> dict[str, bytes]:
    """The files that coremltools makes of a program, without the passes that would change its arithmetic."""
    tools = mil_module("")
    with quiet():
        model = tools.convert(
            program, source="milinternal", convert_to="mlprogram", compute_precision=tools.precision.FLOAT32,
            minimum_deployment_target=getattr(tools.target, target), pass_pipeline=tools.PassPipeline.EMPTY,
            skip_model_load=True,
        )  # fmt: skip
    spec = model.get_spec()
    for name in DATED:
        spec.description.metadata.userDefined.pop(name, None)
    spec.description.metadata.userDefined.update(table)
    found = {MODEL: spec.SerializeToString(deterministic=True)}
    weights = Path(model.weights_dir or "", "weight.bin")
    if model.weights_dir and weights.is_file():
        found[WEIGHTS] = weights.read_bytes()
    return {"Manifest.json": manifest(found), **found}


def manifest(files: Iterable[str]) -> bytes:
    """The table of contents of a package, whose identifiers are made of the paths."""
    kinds = {MODEL: ("model.mlmodel", "CoreML Model Specification"), WEIGHTS: ("weights", "CoreML Model Weights")}
    entries = {}
    for file in files:
        name, what = kinds[file]
        place = f"com.apple.CoreML/{name}"
        entries[str(uuid.uuid5(uuid.NAMESPACE_URL, place))] = {
            "author": "com.apple.CoreML", "description": what, "name": name, "path": place,
        }  # fmt: skip
    root = str(uuid.uuid5(uuid.NAMESPACE_URL, "com.apple.CoreML/model.mlmodel"))
    return json.dumps(
        {"fileFormatVersion": "1.0.0", "itemInfoEntries": entries, "rootModelIdentifier": root}, indent=4
    ).encode()
