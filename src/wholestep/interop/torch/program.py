"""A reader of programs that torch.export made: their operators as plain data, which PyTorch is not needed to run."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.errors import MissingExtraError, ParameterError, UnsupportedError
from wholestep.interop.torch.operators import KEEP, OPERATORS, SIZES
from wholestep.words import type_in_words

MANY = 12
"""The most operators that an error lists."""
CHECK = "aten._linalg_check_errors.default"
"""The operator that raises the error that a factorization has reported."""


@dataclass(frozen=True, slots=True)
class TorchResult:
    """The result of an earlier step of a program, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class TorchBody:
    """A program inside of a program, which a control-flow operator calls."""

    program: TorchProgram


class ProgramInput(NamedTuple):
    """One input: its kind, its name or value, and for an array its dtype and sizes, None for one that varies."""

    kind: str
    name: Any
    dtype: np.dtype[Any] | None = None
    shape: tuple[int | None, ...] = ()


def kind_of_example(node: Any) -> tuple[np.dtype[Any] | None, tuple[int | None, ...]]:
    """The dtype and sizes of the tensor that an input was exported with; no dtype where it was none."""
    example = node.meta.get("val")
    if not hasattr(example, "dtype"):
        return None, ()
    return dtype_of(example.dtype), tuple(size if isinstance(size, int) else None for size in example.shape)


class OperatorCall(NamedTuple):
    """One operator: its name, its handler, its arguments, the number of its result, and PyTorch's line."""

    name: str
    handler: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]
    number: int
    line: str


@dataclass(frozen=True, slots=True)
class TorchProgram:
    """A program as a list of calls, with the kinds of its inputs and the results that it returns.

    An input has a kind and a name: "parameter", "buffer", "constant" or "given", or "fixed" with a value. `outputs` has
    for each result the buffer that it becomes, or None for one that is returned.
    """

    inputs: tuple[ProgramInput, ...]
    calls: tuple[OperatorCall, ...]
    results: tuple[Any, ...]
    outputs: tuple[str | None, ...]
    constants: Mapping[str, Any]


def torch_needed() -> Any:
    """The package torch; raises MissingExtraError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("from_torch_export: torch is not installed", hint="pip install torch") from None
    return torch


def exported(program: Any, examples: Sequence[Any]) -> Any:
    """PyTorch's program from one, from a module that is exported now, or from a file that PyTorch reads."""
    torch = torch_needed()
    if isinstance(program, torch.nn.Module):
        if not examples:
            raise ParameterError(
                f"from_torch_export: {type_in_words(program)} and no example",
                hint="from_torch_export(module, x) exports it for arrays like x",
            )
        given = tuple(torch.as_tensor(x) if isinstance(x, np.ndarray) else x for x in examples)
        return torch.export.export(program, given)
    if isinstance(program, str | os.PathLike):
        return torch.export.load(program)
    if not isinstance(program, torch.export.ExportedProgram):
        raise ParameterError(
            f"from_torch_export: {type_in_words(program)} is no program",
            hint="give what torch.export.export returns, the path of a .pt2 file, or a module and example inputs",
        )
    return program


def without_gradients(program: Any) -> Any:
    """A copy of a program in which all that has no gradient is detached: decomposing forgets `no_grad` around it."""
    detach = torch_needed().ops.aten.detach
    copied = copy.copy(program)
    copied._graph_module = copy.deepcopy(program.graph_module)
    for body in bodies_of(copied):
        for node in body.graph.nodes:
            if node.target is torch_needed().ops.aten.detach_.default:
                node.target = detach.default
            elif enables_gradients(node) is False:
                detach_inputs(getattr(body, node.args[1].target).graph, detach.default)
    return copied


def enables_gradients(node: Any) -> bool | None:
    """The setting of gradients by a node that runs a part of a program under one; None for other nodes."""
    return node.args[0] if str(node.target) == "wrap_with_set_grad_enabled" else None


def detach_inputs(graph: Any, detach: Any) -> None:
    """Detach the inputs of a part of a program, except for parts within it that enable gradients again."""
    for given in [node for node in graph.nodes if node.op == "placeholder" and hasattr(node.meta.get("val"), "detach")]:
        users = [user for user in given.users if not enables_gradients(user)]
        with graph.inserting_after(given):
            detached = graph.call_function(detach, (given,))
        detached.meta = dict(given.meta)
        for user in users:
            user.replace_input_with(given, detached)


def bodies_of(program: Any) -> list[Any]:
    """The graphs of a program: its own, and those of its branches, loops and parts."""
    return [body for body in program.graph_module.modules() if isinstance(body, torch_needed().fx.GraphModule)]


def decomposed(program: Any) -> Any:
    """The program decomposed to core operators and the larger operators that have handlers."""
    torch, program = torch_needed(), without_gradients(program)
    bodies = bodies_of(program)
    if any("wrap_with_autocast" in str(node.target) for body in bodies for node in body.graph.nodes):
        program = program.run_decompositions(
            {}
        )  # writes the casts, which operators that are kept whole would go without
    table = torch.export.default_decompositions()
    for name in KEEP:
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return program.run_decompositions(table)


def to_numpy(x: Any) -> Any:
    """A tensor as an array of its own; other values are returned unchanged."""
    if not hasattr(x, "detach"):
        return x
    torch, tensor = torch_needed(), x.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().copy().view(dtypes.check("bfloat16"))
    return tensor.resolve_conj().resolve_neg().numpy().copy()


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Our dtype for one of PyTorch; raises DtypeError for a dtype that the language does not have."""
    name = str(dtype).removeprefix("torch.")
    return dtypes.check({"complex32": "complex64"}.get(name, name))


def read_program(program: Any) -> TorchProgram:
    """A program in core operators as plain data; raises UnsupportedError that lists all operators without a handler."""
    signature = program.graph_signature
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    outputs = []
    for spec in signature.output_specs:
        kind = spec.kind.name
        if kind == "TOKEN":
            continue
        if kind not in ("USER_OUTPUT", "BUFFER_MUTATION", "LOSS_OUTPUT"):
            raise UnsupportedError(
                f"from_torch_export: the program changes {spec.target} ({kind.lower().replace('_', ' ')})",
                hint="buffers may change; export a module that leaves its inputs and parameters as they are",
            )
        outputs.append(spec.target if kind == "BUFFER_MUTATION" else None)
    missing: dict[str, str] = {}
    reader = GraphReader(program.graph_module, specs, missing)
    inputs, calls, results = reader.read()
    refuse_missing(missing)
    constants = {name: to_numpy(x) for name, x in program.constants.items()}
    return TorchProgram(inputs, calls, results, tuple(outputs), constants)


def refuse_missing(missing: Mapping[str, str]) -> None:
    """Raise UnsupportedError for operators without handlers, each with PyTorch's line."""
    if missing:
        lines = [f"  {name}{line and f'   at {line}'}" for name, line in list(missing.items())[:MANY]]
        more = len(missing) - MANY
        raise UnsupportedError(
            f"from_torch_export: {len(missing)} operators of PyTorch are not covered\n"
            + "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])]),
            hint="write that part of the module in other operators; docs/import.md has the list",
        )


class GraphReader:
    """A graph of torch.fx being read: the numbers of its results, and the operators without a handler."""

    def __init__(self, module: Any, specs: Mapping[str, Any], missing: dict[str, str]) -> None:
        self.module, self.specs, self.missing = module, specs, missing
        self.numbers: dict[Any, Any] = {}
        self.tokens: set[Any] = set()
        self.count = 0

    def number(self, node: Any) -> None:
        """Give a node the next number."""
        self.numbers[node] = TorchResult(self.count)
        self.count += 1

    def read(self) -> tuple[tuple[ProgramInput, ...], tuple[OperatorCall, ...], tuple[Any, ...]]:
        """Inputs, calls and results."""
        inputs: list[ProgramInput] = []
        calls: list[OperatorCall] = []
        results: tuple[Any, ...] = ()
        for node in self.module.graph.nodes:
            if self.is_token(node):
                self.tokens.add(node)
            elif node.op == "placeholder":
                self.number(node)
                inputs.append(self.input(node))
            elif node.op == "get_attr":
                self.numbers[node] = self.attribute(node)
            elif node.op == "call_function":
                self.number(node)
                calls.append(self.call(node))
            elif node.op == "output":
                # The test of a loop returns its one result alone.
                found = node.args[0] if isinstance(node.args[0], tuple | list) else node.args
                results = tuple(self.argument(x) for x in found if x not in self.tokens)
        return tuple(inputs), tuple(calls), results

    def is_token(self, node: Any) -> bool:
        """Test whether a node only orders the error checks of factorizations, which the factorizations here contain."""
        if node.op == "placeholder":
            spec = self.specs.get(node.name)
            return spec is not None and spec.kind.name == "TOKEN"
        effect = effect_of(node)
        if effect is not None:
            return str(effect) == CHECK
        return takes_first(node) and node.args[0] in self.tokens

    def input(self, node: Any) -> ProgramInput:
        """An input of the kind that the signature states."""
        spec = self.specs.get(node.name)
        kind = spec.kind.name if spec is not None else "USER_INPUT"
        if kind == "USER_INPUT":
            if spec is not None and type(spec.arg).__name__ == "ConstantArgument":
                return ProgramInput("fixed", spec.arg.value)
            return ProgramInput("given", node.name, *kind_of_example(node))
        kinds = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}
        if spec is None or kind not in kinds:
            raise UnsupportedError(f"from_torch_export: an input of the kind {kind.lower()} is not covered")
        return ProgramInput(kinds[kind], spec.target, *kind_of_example(node))

    def attribute(self, node: Any) -> Any:
        """A tensor or a program that the module holds."""
        found = self.module
        for part in node.target.split("."):
            found = getattr(found, part)
        if hasattr(found, "graph"):
            inputs, calls, results = GraphReader(found, {}, self.missing).read()
            return TorchBody(TorchProgram(inputs, calls, results, (None,) * len(results), {}))
        return to_numpy(found)

    def call(self, node: Any) -> OperatorCall:
        """A call of an operator, or of a function of Python on sizes."""
        target = node.target
        line = line_of(node)
        schema = getattr(target, "_schema", None)
        if schema is None and not hasattr(target, "namespace"):
            name = target.__name__
            handler = SIZES.get(name)
        else:
            name = str(getattr(target, "_opname", None) or target.name()).rpartition("::")[2]
            whole = f"{name}.{getattr(target, '_overloadname', '')}"
            name = whole if whole in OPERATORS else name
            handler = OPERATORS.get(name)
            if name.endswith("_with_indices") and all(map(takes_first, node.users)):
                handler = alone(OPERATORS[name.removesuffix("_with_indices")])
        if handler is None:
            self.missing.setdefault(str(effect_of(node) or target), line)
            handler = OPERATORS["clone"]
        args = tuple(self.argument(x) for x in node.args)
        options = {key: self.argument(x) for key, x in node.kwargs.items()}
        if name.startswith("as_strided"):
            options["held"] = [int(n) for n in node.args[0].meta["val"].stride()]
        return OperatorCall(name, handler, args, options, self.numbers[node].number, line)

    def argument(self, x: Any) -> Any:
        """An argument as plain data."""
        if isinstance(x, list | tuple):
            return [self.argument(item) for item in x]
        if isinstance(x, slice):
            return slice(*[self.argument(item) for item in (x.start, x.stop, x.step)])
        if x is None or isinstance(x, bool | int | float | complex | str):
            return x
        if type(x).__name__ == "dtype":
            return dtype_of(x)
        if hasattr(x, "op") and hasattr(x, "graph"):
            return None if x in self.tokens else self.numbers[x]
        return str(x)


def alone(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that returns only the first of an operator's results, as a tuple; the others are not read."""
    return lambda *args, **options: (f(*args, **options),)


def effect_of(node: Any) -> Any:
    """The operator that a node calls for its side effect; None for other nodes."""
    return node.args[1] if getattr(node.target, "__name__", "") == "with_effects" else None


def takes_first(user: Any) -> bool:
    """Test whether a user of a tuple takes its first item alone."""
    return getattr(user.target, "__name__", "") == "getitem" and user.args[1] == 0


def line_of(node: Any) -> str:
    """The user's last line that made a node, `model.py:12:  return self.fc(x)`, or nothing."""
    text = [line.strip() for line in (node.meta.get("stack_trace") or "").strip().split("\n")]
    places = [i for i, line in enumerate(text) if line.startswith("File ")]
    if not places:
        return ""
    parts = text[places[-1]].removeprefix("File ").split(", ")
    source = text[places[-1] + 1] if places[-1] + 1 < len(text) else ""
    file = os.path.basename(parts[0].strip('"'))
    return f"{file}:{parts[1].removeprefix('line ')}:  {source}" if len(parts) > 1 else file
