"""LiteRT models: one file with a signature for each program, whose inputs and outputs have the paths of a checkpoint.

A program is printed as TensorFlow source, which runs here once, and TensorFlow converts the recorded graph.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.export.converters import converter_module
from wholestep.export.litert.table import LITERT
from wholestep.export.narrow import NARROW_TARGETS, checked_narrow
from wholestep.export.program import ExportedProgram
from wholestep.export.python.run import python_function
from wholestep.export.rules.complex_pairs import with_last_axis
from wholestep.ir.graph import Graph
from wholestep.ir.types import Type

HELD = {name: np.dtype(name) for name in "float32 int32 int64 bool int8 int16 uint8".split()}
"""The dtypes in which arrays go in and out."""
HELD |= {"uint32": np.dtype(np.int32), "uint16": np.dtype(np.int16)}
"""Runtimes in Java have no larger integers without a sign: those go in and out by their bits."""
ALONE = "program"
"""The signature of a function whose name is none."""
REFUSED = re.compile(r"^\s*(tf\.\w+\(.*?\)) ->|error: (.*)", re.MULTILINE)
"""An operation, or an error about one, in a message of the converter."""


def litert_files(programs: Sequence[ExportedProgram], path: Path, narrow: bool = False) -> Mapping[Path, bytes]:
    """A model with a signature for each program."""
    return {path: litert_model(programs, narrow)}


def litert_model(programs: Sequence[ExportedProgram], narrow: bool = False) -> bytes:
    """The bytes of a model; raises UnsupportedError for operations that LiteRT lacks."""
    signatures: dict[str, Signature] = {}
    for program in programs:
        name = signature_of(program)
        if name in signatures:
            raise UnsupportedError(
                f"export to litert: two programs have the signature {name}", hint="attach it under another name"
            )
        signatures[name] = signature(program, narrow)
    tf = tensorflow_module("")
    with quiet_tensorflow(), tempfile.TemporaryDirectory() as folder:
        recorded = {name: each.concrete_function(tf) for name, each in signatures.items()}
        tf.saved_model.save(tf.Module(), folder, signatures=recorded)
        give_names(Path(folder, "saved_model.pb"), signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[*signatures])
        return checked_model(tf, converter)


def signature_of(program: ExportedProgram) -> str:
    """The name of a program in a model: `step` for one."""
    return "step" if program.resident else program.name if program.name.isidentifier() else ALONE


class Signature(NamedTuple):
    """A program as a model has it: a graph of float32, and the names of its inputs and outputs."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def concrete_function(self, tf: Any) -> Any:
        """The function of tensors, recorded by TensorFlow under the names x0, x1, … and y0, y1, …."""
        f: Callable[..., Any] = python_function(self.graph, LITERT)
        kinds = [t.dtype for t in self.graph.in_types]

        def apply(*xs: Any) -> dict[str, Any]:
            given = [x if HELD[d.name] == d else tf.cast(x, d.name) for x, d in zip(xs, kinds, strict=True)]
            made = zip(f(*given), self.graph.out_types, strict=True)
            return {f"y{i}": tf.cast(y, HELD[t.dtype.name].name) for i, (y, t) in enumerate(made)}

        held = [(t.shape, HELD[t.dtype.name].name) for t in self.graph.in_types]
        given = [tf.TensorSpec(shape, dtype, name=f"x{i}") for i, (shape, dtype) in enumerate(held)]
        return tf.function(apply, autograph=False).get_concrete_function(*given)


def signature(program: ExportedProgram, narrow: bool) -> Signature:
    """A program without numbers of 64 bits but integers, and whose arrays can go into a model and come out."""
    if program.sizes:
        raise UnsupportedError(
            f"export to litert: {program.name} has sizes without numbers: {', '.join(program.sizes)}",
            hint="compile it for a batch whose sizes are numbers",
        )
    graph = checked_narrow(with_last_axis(program.graph), program, narrow, NARROW_TARGETS["litert"])
    for names, types in ((program.inputs, graph.in_types), (program.outputs, graph.out_types)):
        for name, t in zip(names, types, strict=True):
            check_litert_array(name, t)
    return Signature(graph, program.inputs, program.outputs)


def check_litert_array(name: str, t: Type) -> None:
    """Raise UnsupportedError for an array that cannot go into a model, or come out."""
    if 0 in t.shape or t.dtype.name not in HELD:
        raise UnsupportedError(
            f"export to litert: {name} is {t}, and arrays of LiteRT have at least one element, and numbers of "
            f"{', '.join(HELD)}",
            hint='precision="float32", or no precision at all, has no halves' if t.dtype.itemsize == 2 else "",
        )


def give_names(path: Path, signatures: Mapping[str, Signature]) -> None:
    """Name the inputs and outputs of a SavedModel by the paths of a checkpoint, which are no names of parameters."""
    model = tensorflow_module(".core.protobuf.saved_model_pb2").SavedModel()
    model.ParseFromString(path.read_bytes())
    for name, each in signatures.items():
        table = model.meta_graphs[0].signature_def[name]
        for known, letter, paths in ((table.inputs, "x", each.inputs), (table.outputs, "y", each.outputs)):
            arrays = [known.pop(f"{letter}{i}") for i in range(len(paths))]
            for own, array in zip(paths, arrays, strict=True):
                known[own].CopyFrom(array)
    path.write_bytes(model.SerializeToString(deterministic=True))


def checked_model(tf: Any, converter: Any) -> bytes:
    """The model that a converter makes, once LiteRT has found a kernel for each operation of it."""
    failure = tensorflow_module(".lite.python.convert_phase").ConverterError
    try:
        model: bytes = converter.convert()
        run_with_zeros(tf.lite.Interpreter(model_content=model))
    except (failure, RuntimeError, ValueError) as error:
        found = dict.fromkeys([operation or said for operation, said in REFUSED.findall(str(error))])
        raise UnsupportedError(
            f"export to litert: LiteRT does not take {', '.join(found) or str(error).strip()[-300:]}",
            hint='to="tensorflow" writes the same program as source',
        ) from None
    return model


def run_with_zeros(interpreter: Any) -> None:
    """Run each signature once, since kernels say only then which shapes they do not take."""
    for name in interpreter.get_signature_list():
        run = interpreter.get_signature_runner(name)
        run(**{path: np.zeros(known["shape"], known["dtype"]) for path, known in run.get_input_details().items()})


def tensorflow_module(name: str) -> Any:
    """A module of TensorFlow; raises UnsupportedError where that is not installed."""
    return converter_module(f"tensorflow{name}", "litert", "a model is converted by TensorFlow", "tensorflow")


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """A context in which TensorFlow logs only errors."""
    logs = [logging.getLogger(name) for name in ("absl", "tensorflow")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
