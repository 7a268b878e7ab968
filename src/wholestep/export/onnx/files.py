"""ONNX files: models whose state comes in under the paths of a checkpoint, and goes out under `next.` and the path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wholestep.errors import UnsupportedError
from wholestep.export.core import export_core
from wholestep.export.onnx.patterns import SEARCHES
from wholestep.export.onnx.protobuf import Proto
from wholestep.export.onnx.table import ONNX, WORDS
from wholestep.export.onnx.writer import OnnxWriter, SharedNames, value_info
from wholestep.export.program import ExportedProgram
from wholestep.export.rules.complex_pairs import with_last_axis
from wholestep.passes.pipeline import run_passes

PLAIN, WITH_BITS = (18, 8), (26, 13)
"""The operator set and the version of the format that came with it: usually, and where bit patterns are read."""
TIDYING = ("pads_to_concat", "dce")
"""The passes over a graph in ONNX's words."""
MOST = (1 << 31) - 1
"""The size of the largest file that readers of the format take."""


def onnx_files(programs: Sequence[ExportedProgram], path: Path) -> Mapping[Path, bytes]:
    """A model for each program: the first under the path, the others with their names before the suffix."""
    found = {}
    for i, program in enumerate(programs):
        place = path if i == 0 else path.with_name(f"{path.stem}.{program.name}{path.suffix}")
        found[place] = onnx_model(program)
    return found


def onnx_model(program: ExportedProgram) -> bytes:
    """The bytes of a model; raises UnsupportedError for operations that ONNX lacks."""
    graph = run_passes(export_core(with_last_axis(program.graph), ONNX), TIDYING)
    names = program.outputs_apart
    shared = SharedNames(WORDS, SEARCHES, taken=frozenset((*program.inputs, *names)))
    w = OnnxWriter(shared, dict(zip(graph.inputs, program.inputs, strict=True)))
    for name, (i, axis) in program.size_places("onnx").items():
        shared.sizes[name] = w.op("Shape", program.inputs[i], start=axis, end=axis + 1)
    w.write(graph)
    for name, v in zip(names, graph.outputs, strict=True):
        w.nodes.append(Proto("Node", op_type="Identity", input=[w.get(v)], output=[name]))
    read = set(names_read(w.nodes))  # readers warn of a constant that nothing reads, as that of a loop of no steps
    opset, version = WITH_BITS if shared.reads_bits else PLAIN
    model = Proto(
        "Model",
        ir_version=version,
        producer_name="wholestep",
        graph=Proto(
            "Graph",
            name=program.name.encode(errors="backslashreplace").decode() or "program",
            node=w.nodes,
            initializer=[x for x in shared.initializers if x.name in read],
            input=[value_info(name, t) for name, t in zip(program.inputs, graph.in_types, strict=True)],
            output=[value_info(name, t) for name, t in zip(names, graph.out_types, strict=True)],
        ),
        opset_import=[Proto("OperatorSet", version=opset)],
        metadata_props=[Proto("Entry", key="wholestep.state", value=json.dumps(state_pairs(program, names)))],
    ).encoded()
    if len(model) > MOST:
        raise UnsupportedError(
            f"export to onnx: {program.name} takes {len(model):,} bytes, and a file may have {MOST:,}",
            hint="pass large arrays as parts of the batch instead of closing over them",
        )
    return model


def names_read(nodes: Sequence[Proto]) -> Iterator[str]:
    """The names that nodes read, and those of graphs inside them."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            if attribute.has("g"):
                yield from names_read(attribute.g.node)


def state_pairs(program: ExportedProgram, names: Sequence[str]) -> dict[str, str]:
    """The output that replaces each input of the state."""
    known = {name: out for name, out in zip(program.outputs, names, strict=True) if out != name}
    return {name: out for name, out in known.items() if name in program.inputs}
