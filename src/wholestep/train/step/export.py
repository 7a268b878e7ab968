"""The export of a step with its state as a file of another system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from wholestep import tree
from wholestep.boundary.public import bounded
from wholestep.errors import ExportError, ParameterError, UnsupportedError
from wholestep.export.program import ExportedProgram
from wholestep.export.targets import (
    IN_BROWSERS,
    NATIVE,
    Files,
    checked_options,
    named_object,
    target_for,
    writer_of,
)
from wholestep.frontend.exporting import result_paths
from wholestep.ir.build import lean
from wholestep.ir.graph import Graph
from wholestep.train import checkpoint
from wholestep.train.checkpoint.filesystem import DISK, make_folder, put_file
from wholestep.train.checkpoint.steps import HYPER, state_buffers
from wholestep.train.program import step_loops
from wholestep.train.program.engine import Engine
from wholestep.train.program.step_function import GRAD_NORM, PRINTED
from wholestep.train.state.captured_arrays import check_unchanged
from wholestep.train.step.attached import Attached, AttachedProgram
from wholestep.words import type_in_words

STATE_SUFFIX = ".safetensors"
"""The suffix of the state beside an exported program."""
NATIVE_FILES = "wholestep.train.step.native_export:native_files"
"""The function that lowers a step for native targets, imported on first use."""
PAGE_FILES = "wholestep.train.step.page_export:page_files"
"""The function that writes a step for browsers."""


@bounded
class ExportedStep:
    """A step that can be written for other systems."""

    __slots__ = ()

    _engine: Engine
    _lock: AbstractContextManager[Any]

    def export(
        self,
        path: checkpoint.Where,
        to: str | None = None,
        attach: Mapping[str, Any] | None = None,
        processor: str | None = None,
        data: Any = None,
        shuffle: bool | None = None,
        narrow: bool = False,
        model_state: bool = False,
    ) -> tuple[Path, ...]:
        """Write the whole step, forward, backward and update, as a program of another system, and its state beside it.

        The target is the one that `to` names, or by default that of the suffix of the path. The state is the file that
        `save` writes, under the same name with the suffix `.safetensors`; `load` reads a state trained by the exported
        program where the target writes that file. `attach` has further functions on the same state by their names:
        results of `step.attach`, called or given a batch before, or functions that take the step's own batch. Each file
        is replaced in one instant, and none is written where the target lacks an operation: one error names all of
        these.

        `model.o`, `model.c` and `model.wasm` are the step as a program without Python, with a C header or an ES module
        beside it. An object is for `processor`: "x86-64-v3", "aarch64", "cortex-m4" and others, this machine's by
        default; C source runs everywhere, and its sums are in the order of a processor's vectors.

        `train.html` is one page that trains in a browser by WebGPU, over the rows of `data` in the order of
        `run(data, drop_last=True)`, or with `shuffle=False` in their own. The state is in the page, which saves and
        loads checkpoints, and computes the functions of `attach` for inputs that a person types or drops there.
        `train.mjs` is the same as an ES module with its types beside it, with or without `data`; `to="npm"` makes a
        package of it in the folder `path`.

        `model.mlpackage` is a package for Core ML, which has no numbers of 64 bits: `narrow=True` makes float64 float32
        and int64 int32. With `model_state=True` the floats of the state lie in the model, in float16, as Core ML has
        them. `model.tflite` is a model for LiteRT, with a signature for the step and one for each function of `attach`;
        it has no floats of 64 bits, and `narrow=True` makes them float32.

        Shapes: those of the step; the paths of the files that were written.
        Raises: UnsupportedError for operations that the target has no words for and for a processor that no objects are
        made for, ParameterError for an unknown target, ExportError where a file cannot be written.

        >>> import numpy as np, pathlib, tempfile, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = step.export(pathlib.Path(folder, "line.py"), to="jax")
        >>> [file.name for file in files]
        ['line.py', 'line.safetensors']
        """
        place = Path(path)
        target, state = target_for(place, to), path_of_state(place)
        options = checked_options(target, narrow=narrow, model_state=model_state)
        with self._lock:
            if target in IN_BROWSERS:
                check_no_processor(target, processor)
                entries = native_entries(self, attach or {})
                page: Files = named_object(PAGE_FILES)(target, self._engine, place, data, shuffle is not False, entries)
                write_files(page)
                return (*page,)
            if data is not None or shuffle is not None:
                raise ParameterError(f"export: a file for {target} holds no data", hint="a page does: train.html")
            if target in NATIVE:
                entries = native_entries(self, attach or {})
                files: Files = named_object(NATIVE_FILES)(target, self._engine, place, processor, entries)
            else:
                check_no_processor(target, processor)
                programs = [step_program(self._engine), *attached_programs(self, attach or {})]
                files = writer_of(target)(programs, place, **options)
            write_files(files)
            checkpoint.save_step(self._engine, state, None, None, None)
        return (*files, state)


def path_of_state(place: Path) -> Path:
    """The file of the state beside a program; raises ParameterError for a program that would be that file itself."""
    state = place.with_suffix(STATE_SUFFIX)
    if state == place:
        raise ParameterError(
            f"export: {place.name} is where the state goes, beside the program", hint="name the program model.py"
        )
    return state


def write_files(files: Files) -> None:
    """Write each of these files in one instant; raises ExportError where that fails."""
    for path, content in files.items():
        try:
            make_folder(path.parent)
            put_file(DISK, path, [content])
        except OSError as error:
            raise ExportError(f"export: {path} could not be written: {error.strerror or error}") from error


def step_program(engine: Engine) -> ExportedProgram:
    """A call of a step as it was traced, before rewrites for this library's programs alone, such as stacked layers."""
    function = engine.step_function
    call = step_loops.call_function(engine.one, engine.count, function)
    traced = engine.trace(call, engine.signature)
    check_unchanged(engine.watches, "export", whole=True)
    state = tuple(engine.state.paths)
    inputs = (*state, *tree.paths(engine.hyper, HYPER), *[leaf.path for leaf in engine.signature.leaves])
    shape = tree.unflatten(traced.function.structure, range(len(traced.graph.outputs)))
    kept = [(path, i) for i, path in enumerate((*state, "loss", "finite"))]
    kept += named_extras(*shape[3:])
    outputs = tuple([traced.graph.outputs[i] for _, i in kept])
    nodes = lean(traced.graph.nodes, outputs)
    graph = Graph(traced.graph.inputs, nodes, outputs, traced.graph.name, traced.graph.input_names)
    pairs = tuple(traced.resident(len(state)))
    return ExportedProgram(function.name, graph, inputs, tuple([name for name, _ in kept]), pairs, state_values(engine))


def named_extras(aux: Any, captures: dict[str, Any], *through: Any) -> Iterator[tuple[str, int]]:
    """(name, place) of the results of a step other than its state, loss and flag, without printed values."""
    parts = {"aux": aux, "captures": {k: v for k, v in captures.items() if k not in (PRINTED, GRAD_NORM)}}
    parts["grad_norm"] = captures.get(GRAD_NORM)
    parts["hypergradients"] = through[0] if through else None
    for name, part in parts.items():
        yield from zip(tree.paths(part, name), tree.leaves(part), strict=True)


def state_values(engine: Engine) -> dict[str, Any]:
    """The state and the hyper-parameters by their paths, in arrays of their own."""
    read = engine.state.host_array
    found = {path: x if path.startswith(HYPER) else read(x) for path, x in state_buffers(engine).items()}
    return {path: x.copy() for path, x in found.items()}


def native_entries(step: Any, attach: Mapping[str, Any]) -> dict[str, AttachedProgram]:
    """The functions on the state of a step by name, attached and compiled, for native targets."""
    return {name: attached_to(step, f)[1] for name, f in checked_names(attach).items()}


def attached_programs(step: Any, attach: Mapping[str, Any]) -> Iterator[ExportedProgram]:
    """Functions on the state of a step as programs."""
    for name, f in checked_names(attach).items():
        yield attached_program(name, attached_to(step, f))


def checked_names(attach: Mapping[str, Any]) -> Mapping[str, Any]:
    """The functions by name; raises ParameterError for an invalid name, and for what is no function."""
    if not isinstance(attach, Mapping):
        raise ParameterError(
            f"export: attach= is {type_in_words(attach)}, and functions have names there",
            hint='attach={"predict": f}',
        )
    for name, f in attach.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ParameterError(f"export: {name!r} is no name of a function")
        if not callable(f):
            raise ParameterError(f"export: attach has {type_in_words(f)} under {name}, which is no function")
    return attach


def check_no_processor(target: str, processor: str | None) -> None:
    """Raise ParameterError for a processor given with a target that is independent of it."""
    if processor is not None:
        raise ParameterError(
            f"export: a file for {target} is for no processor, and processor= is {processor!r}",
            hint='leave processor= out, or write an object: to="object"',
        )


def attached_to(step: Any, f: Callable[..., Any]) -> tuple[Attached, AttachedProgram]:
    """An attached function with its last used program; other functions are attached, for the step's batch or none."""
    engine: Engine = step._engine
    found = f if isinstance(f, Attached) else Attached(f, lambda: engine, lambda: step._lock, training=False)
    if found.engine() is not engine:
        raise ParameterError(f"export: {found.name} is attached to another step")
    if found.current is engine and found.entries:
        return found, next(reversed(found.entries.values()))
    takes_batch = found.takes_batch()
    if found is f and takes_batch:
        raise UnsupportedError(
            f"export: {found.name} has no program yet", hint="give it a batch: step.attach(f, batch=...)"
        )
    return found, found.entry(engine.signature.abstract() if takes_batch else (), found.needs_key)


def attached_program(name: str, found: tuple[Attached, AttachedProgram]) -> ExportedProgram:
    """A function on the state as a program, with the step's names of parameters and buffers."""
    attached, entry = found
    engine = attached.current
    check_unchanged(entry.watches, "export", whole=True)
    parts = ("params", "buffers") if engine.step_function.with_buffers else ("params",)
    state = [path for part in parts for path in tree.paths(engine.state.tree[part], part)]
    inputs = (*state, *entry.inputs)
    known = state_values(engine)
    outputs = tuple(result_paths(entry.traced))
    return ExportedProgram(name, entry.traced.graph, inputs, outputs, state={path: known[path] for path in state})
