"""Programs of PyTorch as functions of parameters, buffers and inputs, which differentiate, batch and compile."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from wholestep import numpy as wnp, random, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.interop.torch.draws import DRAWS
from wholestep.interop.torch.operators import CALLED_WITH_KEY
from wholestep.interop.torch.program import (
    ProgramInput,
    TorchBody,
    TorchProgram,
    TorchResult,
    decomposed,
    exported,
    read_program,
    to_numpy,
)
from wholestep.interop.torch.promotion import kind_of
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import as_key, key_needed
from wholestep.nn.windows import type_text
from wholestep.words import type_in_words

HINT = "torch.export.export(module, args, dynamic_shapes=...) makes a program for more than one size"


def from_torch_export(program: Any, *examples: Any) -> tuple[TorchFunction, dict[str, NDArray], dict[str, NDArray]]:
    """A program of PyTorch as a function here, with its parameters and its buffers: `f, params, buffers = ...`.

    `program` is what `torch.export.export` returns, the path of a .pt2 file, which PyTorch reads, or a module, which is
    exported for the inputs that follow, `examples`, in the mode that it is in: `module.train()` or `module.eval()`.
    Then `outputs, new_buffers = f(params, buffers, *inputs)`, with inputs and outputs in the containers that they have
    there, and `key=` where the program draws random numbers, as dropout does in training. It is a function like any
    other: `ws.grad`, `ws.vmap`, `ws.jit` and `ws.compile` take it, and PyTorch is not needed to run it.

    `params` and `buffers` are dictionaries by PyTorch's names. Tied parameters are one, under their first name;
    parameters that do not require a gradient are among the buffers. Buffers that the program assigns, such as running
    statistics, have their new values in `new_buffers`.

    Shapes: inputs of the shapes that were exported, any where a size was exported as dynamic; dtypes of the same kind.
    Raises: UnsupportedError that lists all operators which are not covered, ParameterError for an argument that is not
    a program, and MissingExtraError where PyTorch is not installed; from the function ShapeError, DtypeError and
    TreeError for inputs that do not fit.

    >>> f, params, buffers = ws.from_torch_export(net.train(), images)  # doctest: +SKIP
    >>> scores, buffers = f(params, buffers, images, key=0)  # doctest: +SKIP
    """
    if isinstance(program, str | os.PathLike) and examples:
        raise ParameterError("from_torch_export: a file has no use for examples", hint="leave them out")
    core = decomposed(exported(program, examples))
    function = TorchFunction(core)
    held = {**core.constants, **core.state_dict}
    trained: dict[str, NDArray] = {}
    kept: dict[str, NDArray] = {}
    for entry in function.program.inputs:
        if entry.kind in ("parameter", "buffer"):
            first = function.names[entry.name]
            place = trained if entry.kind == "parameter" and held[first].requires_grad else kept
            if first not in place:
                place[tree.Path(first)] = to_numpy(held[first])
    return function, trained, kept


class TorchFunction:
    """A program of PyTorch, called with parameters, buffers and inputs; it returns outputs and new buffers."""

    def __init__(self, core: Any) -> None:
        self.program = read_program(core)
        self.names = first_names({**core.constants, **core.state_dict})
        self.inputs = pattern_of(core.call_spec.in_spec)
        self.outputs = pattern_of(core.call_spec.out_spec)

    def __call__(self, params: Any, buffers: Any, *inputs: Any, key: Any = None, **named: Any) -> Any:
        given: dict[int, Any] = {}
        match(self.inputs, (inputs, named), "inputs", given)
        held = {"parameter": {**buffers, **params}, "buffer": buffers}
        order = iter(range(len(given)))
        values = []
        for entry in self.program.inputs:
            if entry.kind == "given":
                values.append(checked(entry, given[next(order)]))
            elif entry.kind == "fixed":
                next(order)
                values.append(entry.name)
            elif entry.kind == "constant":
                values.append(self.program.constants[entry.name])
            else:
                values.append(checked(entry, found_at(held[entry.kind], self.names[entry.name], entry.kind)))
        made = run(self.program, values, None if key is None else as_key(key))
        new, returned = dict(buffers), []
        for name, value in zip(self.program.outputs, made, strict=True):
            if name is None:
                returned.append(value)
            else:
                new[tree.Path(self.names[name])] = value
        return filled(self.outputs, returned), new

    def __repr__(self) -> str:
        sizes = [entry for entry in self.program.inputs if entry.kind == "given"]
        return f"TorchFunction of {len(self.program.calls)} operators and {len(sizes)} inputs"


def run(program: TorchProgram, given: Sequence[Any], key: Any) -> list[Any]:
    """The results of a program for its inputs."""
    values = list(given)

    def argument(x: Any) -> Any:
        if isinstance(x, TorchResult):
            return values[x.number]
        if isinstance(x, list):
            return [argument(item) for item in x]
        if isinstance(x, slice):
            return slice(argument(x.start), argument(x.stop), argument(x.step))
        return partial(called, x.program, key) if isinstance(x, TorchBody) else x

    for call in program.calls:
        options = {name: argument(x) for name, x in call.options.items()}
        try:
            if call.name.partition(".")[0] in CALLED_WITH_KEY:
                options["key"] = key_for(call.name, key, call.number)
            values.append(call.handler(*[argument(x) for x in call.args], **options))
        except Exception as error:
            error.add_note(f"  in PyTorch's {call.name}{call.line and f' at {call.line}'}")
            raise
    return [argument(x) for x in program.results]


def called(program: TorchProgram, key: Any, *given: Any) -> Any:
    """The results of a program inside of another one."""
    return run(program, given, key)


def key_for(name: str, key: Any, number: int) -> Any:
    """The key of one operator; raises ParameterError where it draws for certain and there is none."""
    if key is None:
        return key_needed(f"{name} of PyTorch", key) if name in DRAWS else None
    return random.fold_in(key, number)


def first_names(tensors: Mapping[str, Any]) -> dict[str, str]:
    """For each name the first one of the same tensor."""
    known: dict[Any, str] = {}
    found = {}
    for name, x in tensors.items():
        whole = hasattr(x, "untyped_storage") and x.numel() > 0
        place = (x.untyped_storage().data_ptr(), x.storage_offset(), x.shape, x.stride()) if whole else name
        found[name] = known.setdefault(place, name)
    return found


def found_at(held: Mapping[str, Any], name: str, kind: str) -> Any:
    """A parameter or buffer by its name; raises TreeError where it is missing."""
    if name not in held:
        raise TreeError(f"from_torch_export: no {kind} {name!r} among those that the function is called with")
    return held[name]


def checked(entry: ProgramInput, x: Any) -> Any:
    """An argument as an array; raises DtypeError or ShapeError where the program was exported for another."""
    if entry.dtype is None:
        return x
    a = wnp.asarray(x)
    sizes = ", ".join("any" if size is None else str(size) for size in entry.shape)
    if kind_of(a.dtype) != kind_of(entry.dtype):
        raise DtypeError(f"from_torch_export: {entry.name} is {type_text(a)}, and was exported as {entry.dtype}")
    fits = [size is None or size == n for size, n in zip(entry.shape, a.shape, strict=False)]
    if a.ndim != len(entry.shape) or not all(fits):
        said = f"from_torch_export: {entry.name} is {type_text(a)}, and was exported as [{sizes}]"
        raise ShapeError(said, hint=HINT if entry.kind == "given" else None)
    return a


def pattern_of(spec: Any) -> Any:
    """A structure of PyTorch's as plain containers around the numbers of their leaves."""
    return plain(spec.unflatten(list(range(spec.num_leaves))))


def plain(x: Any) -> Any:
    """Containers as tuples, lists and dictionaries."""
    if isinstance(x, Mapping):
        return {key: plain(item) for key, item in x.items()}
    if isinstance(x, tuple | list):
        items = [plain(item) for item in x]
        return items if isinstance(x, list) else tuple(items)
    if x is None or type(x) is int:
        return x
    raise ParameterError(
        f"from_torch_export: {type_in_words(x)} among inputs or outputs",
        hint="export a module that takes and returns tensors in tuples, lists and dictionaries",
    )


def match(pattern: Any, given: Any, path: str, found: dict[int, Any]) -> None:
    """Enter the leaves of an argument by the numbers of a pattern; raises TreeError if their structures differ."""
    if type(pattern) is int:
        found[pattern] = given
        return
    if isinstance(pattern, dict):
        keys = list(given) if isinstance(given, Mapping) else None
        if keys is None or set(keys) != set(pattern):
            raise TreeError(f"from_torch_export: {path} has {keys}, and was exported with {list(pattern)}")
        pairs = [(key, pattern[key], given[key]) for key in pattern]
    elif pattern is None:
        return
    else:
        if not isinstance(given, tuple | list) or len(given) != len(pattern):
            count = len(given) if isinstance(given, tuple | list) else type_in_words(given)
            raise TreeError(f"from_torch_export: {path} has {count}, and was exported with {len(pattern)} items")
        pairs = [(i, pattern[i], given[i]) for i in range(len(pattern))]
    for key, inner, item in pairs:
        match(inner, item, tree.access(path, key), found)


def filled(pattern: Any, values: Sequence[Any]) -> Any:
    """The containers of a pattern around values."""
    if type(pattern) is int:
        return values[pattern]
    if isinstance(pattern, dict):
        return {key: filled(item, values) for key, item in pattern.items()}
    if isinstance(pattern, tuple | list):
        items = [filled(item, values) for item in pattern]
        return items if isinstance(pattern, list) else tuple(items)
    return pattern
