"""Core ML packages: a specification, the constants beside it, and a manifest that names both.

Names of inputs and outputs are identifiers there: `params.w` is `params_w`, and the table of all lies in the metadata.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.export.core import export_core
from wholestep.export.coreml.narrow import checked_narrow
from wholestep.export.coreml.table import COREML, WORDS
from wholestep.export.coreml.writer import HELD, MOST_AXES, MilNames, MilWriter, Var, mil_module, quiet
from wholestep.export.program import ExportedProgram
from wholestep.export.rules.complex_pairs import with_last_axis
from wholestep.ir.graph import Graph
from wholestep.ir.types import Type

NEXT = "next."
DATA = "Data/com.apple.CoreML"
MODEL, WEIGHTS = f"{DATA}/model.mlmodel", f"{DATA}/weights/weight.bin"
"""The files of a package beside its manifest."""
DATED = ("com.github.apple.coremltools.conversion_date",)
"""Metadata that would make two files of one program differ."""


def coreml_files(programs: Sequence[ExportedProgram], path: Path, narrow: bool = False) -> Mapping[Path, bytes]:
    """The files of a package for each program: the first at the path, others with their names before the suffix."""
    found: dict[Path, bytes] = {}
    for i, program in enumerate(programs):
        place = path if i == 0 else path.with_name(f"{path.stem}.{program.name}{path.suffix}")
        found |= {place / name: content for name, content in coreml_package(program, narrow).items()}
    return found


def coreml_package(program: ExportedProgram, narrow: bool = False) -> dict[str, bytes]:
    """The files of a package by their paths in it; raises UnsupportedError for what MIL has no words for."""
    if program.sizes:
        raise UnsupportedError(
            f"export to coreml: {program.name} has sizes without numbers: {', '.join(program.sizes)}",
            hint="compile it for a batch whose sizes are numbers",
        )
    graph = export_core(checked_narrow(with_last_axis(program.graph), program, narrow), COREML)
    for name, t in (
        *zip(program.inputs, graph.in_types, strict=True),
        *zip(program.outputs, graph.out_types, strict=True),
    ):
        check_interface(name, t)
    names = identifiers((*program.inputs, *[NEXT + n if n in program.inputs else n for n in program.outputs]))
    inputs, outputs = names[: len(program.inputs)], names[len(program.inputs) :]
    return package_files(mil_program(graph, inputs, outputs), metadata(program, inputs, outputs))


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


def metadata(program: ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """The tables of a model: the path of each name, and for inputs of the state the output that replaces it."""
    paths = {**dict(zip(inputs, program.inputs, strict=True)), **dict(zip(outputs, program.outputs, strict=True))}
    pairs = {path: out for path, out in zip(program.outputs, outputs, strict=True) if path in program.inputs}
    return {"wholestep.paths": json.dumps(paths), "wholestep.state": json.dumps(pairs)}


def mil_program(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """The program of MIL that computes a graph; scalars go in and out as arrays of one element."""
    mil, tools = mil_module(".converters.mil.mil"), mil_module("")
    builder, kinds = mil_module(".converters.mil").Builder, mil.types
    types = {"fp32": kinds.fp32, "fp16": kinds.fp16, "int32": kinds.int32, "bool": kinds.int32}
    given = {
        name: builder.placeholder(shape=t.shape or (1,), dtype=types[HELD[t.dtype.name]])
        for name, t in zip(inputs, graph.in_types, strict=True)
    }
    with mil.Function(given, opset_version=tools.target.iOS17) as function:
        w = MilWriter(WORDS, MilNames(frozenset((*inputs, *outputs))))
        for v, name in zip(graph.inputs, inputs, strict=True):
            x = w.view(function.inputs[name], v.shape)
            w.whole[v] = w.op("not_equal", x=x, y=np.int32(0)) if v.dtype.kind == "b" else x
        found = w.write(graph)
        function.set_outputs([interface(w, x, name) for x, name in zip(found, outputs, strict=True)])
    program = mil.Program()
    program.add_function("main", function)
    return program


def interface(w: MilWriter, x: Var, name: str) -> Var:
    """A result as a model returns it: truths are 0 and 1."""
    x = w.view(x, tuple(x.shape) or (1,))
    if x.dtype is mil_module(".converters.mil.mil").types.bool:
        x = w.cast(x, np.int32)
    return w.mb.identity(x=x, name=name)


def package_files(program: Any, table: Mapping[str, str]) -> dict[str, bytes]:
    """The files that coremltools makes of a program, without the passes that would change its arithmetic."""
    tools = mil_module("")
    with quiet():
        model = tools.convert(
            program, source="milinternal", convert_to="mlprogram", compute_precision=tools.precision.FLOAT32,
            minimum_deployment_target=tools.target.iOS17, pass_pipeline=tools.PassPipeline.EMPTY, skip_model_load=True,
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
