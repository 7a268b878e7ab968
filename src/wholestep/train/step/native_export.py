"""Native exports of a step: the plans of its own program and of attached functions, laid out in one block of memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.compiler.driver import CompiledProgram
from wholestep.errors import UnsupportedError
from wholestep.export.native.block import MemoryBlock, NativeFunction, PlacedArray, StateArray, laid_out
from wholestep.export.native.header import step_header
from wholestep.export.native.limits import check_native, check_sizes
from wholestep.export.native.names import check_function_name, prefix_of
from wholestep.export.native.page_module import step_module
from wholestep.export.native.state_code import StateFile, state_code
from wholestep.export.targets import Files
from wholestep.ir.types import array_type
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.target import Target
from wholestep.runtime.executable import Executable
from wholestep.train.checkpoint import metadata, safetensors_header, write
from wholestep.train.checkpoint.steps import HYPER, saved_arrays, step_facts
from wholestep.train.program.engine import Engine
from wholestep.train.state.captured_arrays import check_unchanged
from wholestep.train.step.attached import AttachedProgram
from wholestep.train.step.native_plan import native_plan
from wholestep.train.step.native_writers import model_files

STEP = "step"


class NativeStep(NamedTuple):
    """A `NativeModel` of a step: the step and its attached functions in a memory block, and the file of the state."""

    prefix: str
    title: str
    block: MemoryBlock
    file: StateFile

    def header(self) -> str:
        """The C header."""
        return step_header(self.prefix, self.title, self.block, self.file.nbytes)

    def code_beside(self) -> tuple[str, str]:
        """The name behind the prefix of the C file of memory and state file, and its text."""
        return "state", state_code(self.prefix, self.block, self.file)

    def module(self, data_bytes: int) -> str:
        """The ES module for a program whose own data takes so many bytes."""
        return step_module(self.prefix, self.title, self.block, self.file, data_bytes)


def native_files(
    target: str, engine: Engine, path: Path, processor: str | None, attached: Mapping[str, AttachedProgram]
) -> Files:
    """The files of a step and functions on its state as a native program, without the file of the state.

    Raises UnsupportedError for an operation that needs a library, and for a processor without code generation.
    """
    return model_files(target, path, processor, lambda machine: native_model(engine, path, target, machine, attached))


def native_model(
    engine: Engine, path: Path, kind: str, machine: Target, attached: Mapping[str, AttachedProgram]
) -> NativeStep:
    """A step and functions on its state, lowered for a machine; raises UnsupportedError where one needs a library."""
    prefix = prefix_of(path.stem, kind)
    for name in attached:
        check_function_name(name)
    state = state_arrays(engine)
    check_unchanged(engine.watches, "export", whole=True)
    functions = [step_plan(engine, kind, machine)]
    functions += [attached_plan(engine, name, entry, kind, machine) for name, entry in attached.items()]
    check_native(functions, kind)
    block = laid_out(state, functions)
    name = engine.step_function.name
    return NativeStep(prefix, f"a training step of {name}", block, state_file(engine, block.state))


def state_arrays(engine: Engine) -> list[StateArray]:
    """The layout of the state's arrays and the hyper-parameters in memory; stacked arrays are rows of one array."""
    places = {p: (group[0], k) for group in engine.state.stacks or {} for k, p in enumerate(group)}
    arrays, found = engine.state.arrays, []
    for p, (path, x) in enumerate(zip(engine.state.paths, arrays, strict=True)):
        home, row = places.get(p, (p, 0))
        found.append(StateArray(path, array_type(x.shape, x.dtype), home, row * x.nbytes))
    hyper = tree.paths(engine.hyper, HYPER)
    for k, (path, x) in enumerate(zip(hyper, engine.head, strict=True)):
        found.append(StateArray(path, array_type(x.shape, x.dtype), len(arrays) + k))
    return found


def step_plan(engine: Engine, kind: str, machine: Target) -> NativeFunction:
    """The step's own program, as it was rerolled and optimized, lowered for a machine."""
    program = engine.main.program
    unit = unit_of(program, "the step", kind)
    later = {p for group in engine.state.stacks or {} for p in group[1:]}
    count = len(engine.state.arrays)
    given = [p for p in range(count) if p not in later] + [count + k for k in range(len(engine.head))]
    inputs: tuple[int | str, ...] = (*given, *[leaf.path for leaf in engine.signature.leaves])
    resident = {o for _, o in unit.resident}
    named = ["loss", "finite"]
    extras: Any = tree.unflatten(engine.main.extras, range(len(engine.main.scalars)))
    for name, part in zip(("aux", "captures", "hypergradients"), extras, strict=False):
        named += tree.paths(part, name)
    names = iter(named)
    outputs = tuple(["" if o in resident else next(names) for o in range(len(unit.graph.outputs))])
    plan = native_plan(unit, machine)
    return NativeFunction(STEP, plan.program, inputs, outputs, plan.formulas)


def attached_plan(engine: Engine, name: str, entry: AttachedProgram, kind: str, machine: Target) -> NativeFunction:
    """A function on the state, lowered for a machine."""
    unit = unit_of(entry.program, name, kind)
    numbers = {id(x): p for p, x in enumerate(engine.state.arrays)}
    parts = ("params", "buffers") if engine.step_function.with_buffers else ("params",)
    state = [numbers[id(x)] for part in parts for x in tree.leaves(engine.state.tree[part])]
    function = entry.traced
    outputs = tree.paths(tree.unflatten(function.structure, range(len(function.scalars))), "output")
    inputs: tuple[int | str, ...] = (*state, *entry.inputs)
    plan = native_plan(unit, machine)
    return NativeFunction(name, plan.program, inputs, tuple(outputs), plan.formulas)


def unit_of(program: Executable, what: str, kind: str) -> CompilationUnit:
    """The compilation unit of a program."""
    unit = program.unit if isinstance(program, CompiledProgram) else CompilationUnit(program.graph, program.resident)
    check_sizes(kind, what, unit.sizes)
    if unit.streamed:
        raise UnsupportedError(f"export to {kind}: {what} keeps state in files", hint="compile it without stream=")
    return unit


def state_file(engine: Engine, placed: tuple[PlacedArray, ...]) -> StateFile:
    """The file that `step.save` would write for this state, without the contents of the arrays."""
    arrays = saved_arrays(engine)
    found = write.checksummed_tensors(arrays)
    facts = metadata.encode_metadata(write.complete_facts(arrays, found, step_facts(engine)), "export")
    head = safetensors_header.encoded([(item.name, item.array, safetensors_header.BLANK) for item in found], facts)
    own = {array.path: array for array in placed}
    return StateFile(unsealed(head), [own[item.name] for item in found])


def unsealed(head: bytes) -> bytes:
    """A header with zeros for its seal."""
    at = head.index(safetensors_header.stamp("")[:-1]) + len(safetensors_header.stamp("")) - 1
    return head[:at] + safetensors_header.BLANK.encode() + head[at + 64 :]
