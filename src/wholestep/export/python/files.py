"""Python files: programs printed as source, the functions that they use, and around each a function of dictionaries."""

from __future__ import annotations

import ast
import base64
import builtins
import keyword
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from wholestep.errors import UnsupportedError
from wholestep.export.program import ExportedProgram
from wholestep.export.python.jax import JAX
from wholestep.export.python.numpy import NUMPY
from wholestep.export.python.printer import printed_functions
from wholestep.export.python.tensorflow import TENSORFLOW
from wholestep.export.python.torch import TORCH
from wholestep.export.python.vocabulary import PythonTarget, Role
from wholestep.ir.graph import NDArray

SUPPORT = Path(__file__).parent / "support"
SHARED = ("arguments.py", "checkpoint_file.py", "host_support.py")
"""The support files whose functions all others use."""
BENEATH = {"litert_support.py": ("tensorflow_support.py",), "torch_fused_support.py": ("torch_support.py",)}
"""The support files that a file uses besides the shared ones."""
STANDARD = ("base64", "functools", "hashlib", "json", "os")
IMPORTED = (*STANDARD, "np")
"""The modules that a file may import besides the target's."""
WIDTH = 110
"""The width of a line of data."""

HEAD = '''"""{what}, for {target}; written by Wholestep.

{usage}
"""
'''

STEP_USAGE = """The state is a dictionary of arrays by path, and so is a batch: {batch}.

    state = load({state!r})
    for batch in batches:
        state, results = {name}(state, batch)
    save({state!r}, state, like={state!r})

`step.load` takes the saved file back."""

FUNCTION_USAGE = """Arrays go in and out as dictionaries by path: {given}.

    found = {name}(inputs)"""

CALL_ALONE = """

def {name}(inputs):
    \"\"\"inputs -> outputs, dictionaries of arrays by path.\"\"\"
    return dict(zip({upper}_OUTPUTS, {name}_program(*arrays_of(inputs, {upper}_INPUTS))))
"""
CALL = """

def {name}(state, batch):
    \"\"\"(state, batch) -> ({returns}), dictionaries of arrays by path.\"\"\"
    known = arrays_of({{**state, **batch}}, {upper}_INPUTS)
    found = dict(zip({upper}_OUTPUTS, {name}_program(*known)))
"""
WITH_STATE = """    after = {path: found.pop(path, x) for path, x in state.items()}
    return after, found
"""


def jax_files(programs: Sequence[ExportedProgram], path: Path) -> Mapping[Path, bytes]:
    """A Python file of JAX."""
    return {path: python_source(JAX, programs, path).encode()}


def tensorflow_files(programs: Sequence[ExportedProgram], path: Path) -> Mapping[Path, bytes]:
    """A Python file of TensorFlow."""
    return {path: python_source(TENSORFLOW, programs, path).encode()}


def torch_files(programs: Sequence[ExportedProgram], path: Path) -> Mapping[Path, bytes]:
    """A Python file of PyTorch."""
    return {path: python_source(TORCH, programs, path).encode()}


def numpy_files(programs: Sequence[ExportedProgram], path: Path) -> Mapping[Path, bytes]:
    """A Python file of NumPy."""
    return {path: python_source(NUMPY, programs, path).encode()}


def python_source(target: PythonTarget, programs: Sequence[ExportedProgram], path: Path) -> str:
    """The file of programs on one state, the step first, or of a function without state."""
    alone = not any([program.resident for program in programs])
    names = ["step" if program.resident else name_in_file(program.name, target, alone) for program in programs]
    graphs = [(f"{name}_program", each.graph, each.resident) for name, each in zip(names, programs, strict=True)]
    functions, constants = printed_functions(target, graphs)
    body = "\n\n\n".join(
        [functions, *[function_of_dictionaries(n, p, target, alone) for n, p in zip(names, programs, strict=True)]]
    )
    held = constants_text(constants)
    called = called_names(body) | ({"held_array"} if constants else set()) | (set() if alone else {"load", "save"})
    support = support_text(target.support, called)
    given = ascii(", ".join([programs[0].inputs[i] for i in programs[0].given]))[1:-1]
    if alone:
        usage = FUNCTION_USAGE.format(given=given, name=names[0])
    else:
        usage = STEP_USAGE.format(batch=given, name=names[0], state=path.with_suffix(".safetensors").name)
    what = "A function" if alone else "A training step"
    head = HEAD.format(what=what, target=target.title, usage=usage)
    imports = imports_text(target, f"{support}{body}")
    return "\n\n\n".join([f"{head}\n{imports}", *[part for part in (support, held, body) if part]]) + "\n"


def name_in_file(name: str, target: PythonTarget, alone: bool) -> str:
    """The name of a function in a file: its own, or `program` if its own would hide a name that the file uses.

    Raises UnsupportedError for a function beside a step, which is called by its name.
    """
    modules = [line.split()[-1].partition(".")[0] for line in target.imports]
    used = {"step", *modules, *IMPORTED, *dir(builtins), *keyword.kwlist} | support_functions(target.support).keys()
    if name.isidentifier() and name not in used:
        return name
    if alone:
        return "program"
    raise UnsupportedError(
        f"export: a function named {name} would hide what a file for {target.title} uses",
        hint="attach it under another name",
    )


def function_of_dictionaries(name: str, program: ExportedProgram, target: PythonTarget, alone: bool) -> str:
    """The types of a program's inputs, the names of its outputs, and its function of dictionaries."""
    upper = name.upper()
    lines = [f"{upper}_INPUTS = {typed_rows(program, target)}", f"{upper}_OUTPUTS = {in_rows(program.outputs)}"]
    if alone:
        role, text = Role.ALONE, CALL_ALONE.format(name=name, upper=upper).strip("\n")
    else:
        role, returns = (Role.STEP, "state, results") if program.resident else (Role.BESIDE, "results")
        text = CALL.format(name=name, upper=upper, returns=returns).strip("\n")
        text += "\n" + (WITH_STATE if program.resident else "    return found\n")
    return "\n".join(lines) + "\n\n\n" + target.decorated(text.rstrip(), role)


def typed_rows(program: ExportedProgram, target: PythonTarget) -> str:
    """The types of the inputs as a dictionary, one a line."""
    rows = [
        f"    {name!a}: ({target.dtype(dtype)}, {shape!a})," for name, (dtype, shape) in program.input_types().items()
    ]
    return "\n".join(["{", *rows, "}"])


def in_rows(names: Sequence[str]) -> str:
    """A tuple of strings, one a line."""
    return "\n".join(["(", *[f"    {name!a}," for name in names], ")"])


def constants_text(constants: Sequence[NDArray]) -> str:
    """The arrays that a program holds, by their bytes."""
    rows = []
    for x in constants:
        dtype = "bfloat16" if x.dtype.name == "bfloat16" else x.dtype.newbyteorder("<").str
        data = base64.b85encode(x.tobytes()).decode()
        pieces = [data[i : i + WIDTH] for i in range(0, len(data), WIDTH)] or [""]
        rows += [
            f"    held_array({dtype!r}, {tuple(map(int, x.shape))},",
            *[f"        {p!r}" for p in pieces],
            "    ),",
        ]
    return "\n".join(["CONSTANTS = (", *rows, ")"]) if rows else ""


@cache
def support_functions(file: str) -> dict[str, str]:
    """The functions and tables of a support file by their names, as text, and those beneath it that it lacks."""
    text = (SUPPORT / file).read_text(encoding="utf-8")
    beneath = () if file in SHARED else BENEATH.get(file, SHARED)
    found = {k: v for name in beneath for k, v in support_functions(name).items()}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            found[name] = "\n".join([*filter(None, [found.get(name)]), ast.get_source_segment(text, node) or ""])
    return found


def called_names(text: str) -> frozenset[str]:
    """The names that Python source reads or binds, apart from those of attributes and the words of strings."""
    return frozenset([node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)])


def support_text(file: str, called: Iterable[str]) -> str:
    """The functions of a support file among these names, and those that they use, in their order."""
    known = support_functions(file)
    used: set[str] = set()
    waiting = list(called)
    while waiting:
        name = waiting.pop()
        if name in known and name not in used:
            used.add(name)
            waiting += called_names(known[name])
    return "\n\n\n".join([text for name, text in known.items() if name in used])


def imports_text(target: PythonTarget, text: str, setup: bool = True) -> str:
    """The imports that a text uses, the standard library's first."""
    standard = [f"import {name}" for name in STANDARD if f"{name}." in text]
    others = [line for line in ("import numpy as np", *target.imports) if f"{line.split()[-1]}." in text + target.setup]
    return "\n".join([*standard, *[""] * bool(standard), *others]) + target.setup * setup
