"""Subjects of a handover: a function with its examples, or a step, as a program with its input and output trees."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.boundary.declared import callable_argument
from wholestep.errors import ArgumentError, UnsupportedError
from wholestep.export.narrow import NarrowTarget, check_wide
from wholestep.export.program import ExportedProgram
from wholestep.export.python.run import python_function
from wholestep.export.python.support.arguments import arrays_of
from wholestep.export.python.vocabulary import PythonTarget
from wholestep.frontend.array import Array
from wholestep.frontend.exporting import export_function
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Value
from wholestep.nn.module import Module
from wholestep.passes.pipeline import run_passes
from wholestep.primitives.creation import full
from wholestep.primitives.random import RandomBits
from wholestep.train.checkpoint.matching import root_of
from wholestep.train.checkpoint.steps import HYPER
from wholestep.train.handover.containers import Flatten, flatten_like, unflatten_like
from wholestep.train.state.model_state import ModelStructure, split_model
from wholestep.train.step.export import step_program
from wholestep.train.step.step import Step

InputTypes = Mapping[str, tuple[np.dtype[Any], tuple[int | str | None, ...]]]
NARROW = {int: np.dtype(np.int32), float: np.dtype(np.float32), complex: np.dtype(np.complex64)}
"""The dtypes of Python's numbers where a library has none of 64 bits."""
WIDE = frozenset("float64 int64 uint64 complex128".split())
"""Dtypes of 64 bits a number."""


class Check(NamedTuple):
    """A library as the check of arguments needs to know it."""

    dtype: Callable[[np.dtype[Any]], Any]
    """The function that gives the library's dtype."""
    array: Callable[[Any, np.dtype[Any]], Any]
    """The function that makes an argument for an input of a dtype an array of the library, where it may be one."""
    is_off: Callable[[], bool] | None = None
    """True while the library records a program in which sizes are arrays, which have no truth value."""
    placed: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    """The function that gives a program as one that makes arrays on the device of its arguments."""


class HandedProgram(NamedTuple):
    """A program with the functions that flatten its arguments and unflatten its results."""

    program: ExportedProgram
    flatten: Flatten
    """The function from the tuple of arguments to the program's inputs."""
    result: Any
    """The tree that is returned, with the places of outputs for its leaves."""
    call: str
    """The function that hands it over, for messages."""

    def check_narrow(self, target: NarrowTarget) -> None:
        """Raise UnsupportedError if the program has numbers of 64 bits which a target has not."""
        name, graph = self.program.name, run_passes(self.program.graph)
        inputs = [
            f"{where} is {dtype}" for where, (dtype, _) in self.program.input_types().items() if dtype.name in WIDE
        ]
        drawn = any([isinstance(node.op, RandomBits) for part in graph.family() for node in part.nodes])
        if inputs or drawn:
            what = inputs[0] if inputs else "random bits are drawn with integers of 64 bits"
            raise UnsupportedError(f"{self.call}: {name}: {what}, which {target.title} has not", hint=target.hint)
        check_wide(graph, target)

    def function(self, target: PythonTarget, check: Check) -> Callable[..., Any]:
        """The subject as a function of a library's arrays."""
        run = with_checked_types(
            python_function(self.program.graph, target), self.program.input_types(), check, self.call
        )
        flatten, unflatten, what = self.flatten, unflatten_like(self.result), self.call

        def call(*args: Any, **named: Any) -> Any:
            refuse_named(what, named)
            return unflatten(run(flatten(args)))

        call.__name__ = self.program.name if self.program.name.isidentifier() else "program"
        return call


def refuse_named(what: str, named: Mapping[str, Any]) -> None:
    """Raise ArgumentError for arguments that are given by name."""
    if named:
        raise ArgumentError(
            f"{what}: {', '.join(named)} given by name, and the program takes its arguments by position",
            hint="give them in the order of the examples, or make a function of them in that order",
        )


def with_checked_types(
    run: Callable[..., Any], types: InputTypes, check: Check, what: str
) -> Callable[[Sequence[Any]], Any]:
    """A program as a function of a list of a library's arrays, which must have the types of its inputs."""
    is_off, array, dtypes = check.is_off, check.array, [dtype for dtype, _ in types.values()]
    wanted = {name: (check.dtype(dtype), shape) for name, (dtype, shape) in types.items()}
    run = run if check.placed is None else check.placed(run)

    def call(leaves: Sequence[Any]) -> Any:
        leaves = [array(x, dtype) for x, dtype in zip(leaves, dtypes, strict=True)]
        if is_off is not None and is_off():
            return run(*leaves)
        try:
            arrays = arrays_of(dict(zip(wanted, leaves, strict=True)), wanted)
        except ValueError as problem:
            refuse_numpy(what, leaves, wanted)
            raise ArgumentError(
                f"{what}: {problem}",
                hint="give it examples of this type, or a ws.ShapeDtype with a ws.Dim; nothing is cast in silence",
            ) from None
        return run(*arrays)

    return call


def is_held(x: Any, dtype: np.dtype[Any]) -> bool:
    """True for a Python number that an input of this dtype holds."""
    return isinstance(x, int | float | complex) and np.can_cast(np.min_scalar_type(x), dtype)


def refuse_numpy(what: str, leaves: Sequence[Any], types: Mapping[str, tuple[Any, Any]]) -> None:
    """Raise ArgumentError for an array of NumPy that was given in the place of another library's tensor."""
    for path, x in zip(types, leaves, strict=True):
        if isinstance(x, np.ndarray) and not isinstance(types[path][0], np.dtype):
            raise ArgumentError(
                f"{what}: {path} is a NumPy array, and the program takes tensors",
                hint="torch.from_numpy and tf.constant make tensors; with module=True a model of torch has its own",
            )


def check_examples(f: Any, examples: tuple[Any, ...], call: str) -> None:
    """Raise ArgumentError where a function cannot be called with the examples, or with none where it takes some.

    A value that is no function is a ParameterError.
    """
    callable_argument(call, "f", f)
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*examples)
    except TypeError as error:
        name = getattr(f, "__name__", type(f).__name__)
        raise ArgumentError(
            f"{call}: {len(examples)} examples for {name}{signature}: {error}",
            hint="examples are one array, or ws.ShapeDtype, like each argument that it will be called with",
        ) from None


def with_narrow_numbers(f: Any, examples: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A function whose Python numbers enter with 32 bits and still promote by their kind, and its examples."""
    leaves, structure = tree.flatten(examples)
    narrow = [NARROW[type(x)] if type(x) in NARROW and is_held(x, NARROW[type(x)]) else None for x in leaves]
    if isinstance(f, Step) or not any(narrow):
        return f, examples

    @functools.wraps(f, updated=())
    def g(*args: Any) -> Any:
        given = zip(tree.leaves(args), narrow, strict=True)
        return f(*tree.unflatten(structure, [Array(x.value, True, True) if kind else x for x, kind in given]))

    held = [x if kind is None else kind.type(x) for x, kind in zip(leaves, narrow, strict=True)]
    return g, tree.unflatten(structure, held)


def function_subject(f: Callable[..., Any], examples: tuple[Any, ...], call: str) -> HandedProgram:
    """A function, for arguments like the examples."""
    fixed = [x for x in tree.leaves(examples) if isinstance(x, bool)]
    if fixed:
        raise ArgumentError(
            f"{call}: an example is {fixed[0]}, and a Python bool is a part of the program and no input of it",
            hint=f"np.bool_({fixed[0]}) is an input; functools.partial(f, name={fixed[0]}) says that it stays",
        )
    program, function = export_function(f, examples)
    result = tree.unflatten(function.structure, range(len(function.scalars)))
    return HandedProgram(program, flatten_like(examples, f"{call}: arguments"), result, call)


def step_subject(step: Step, call: str) -> HandedProgram:
    """A step as a function `(state, batch) -> (state, results)`, with the hyper-parameters as they are now."""
    with step._lock:
        engine = step._engine
        program = with_numbers(step_program(engine), HYPER)
        parts, batch = engine.state.abstract(), engine.signature.abstract()
        count = len(engine.state.paths)
    state = tree.unflatten(tree.structure(parts), range(count))
    results = {name: i for i, name in enumerate(program.outputs) if i >= count}
    return HandedProgram(program, flatten_like((parts, batch), f"{call}: (state, batch)"), (state, results), call)


def with_numbers(program: ExportedProgram, root: str) -> ExportedProgram:
    """A program with the current values of a part of the state as constants in place of inputs."""
    fixed = {i: program.state[name] for i, name in enumerate(program.inputs) if root_of(name) == root}
    left = [i for i in range(len(program.inputs)) if i not in fixed]

    def write(*given: Value) -> list[Value]:
        values = dict(zip(left, given, strict=True))
        for i, x in fixed.items():
            values[i] = full(value=x.item(), shape=(), dtype=x.dtype)
        return inline(program.graph, [values[i] for i in range(len(program.inputs))])

    types = program.graph.in_types
    graph, _ = build(write, [types[i] for i in left], name=program.graph.name)
    state = {name: x for name, x in program.state.items() if root_of(name) != root}
    return replace(program, graph=graph, inputs=tuple([program.inputs[i] for i in left]), state=state)


def subject_of(f: Any, examples: tuple[Any, ...], call: str) -> HandedProgram:
    """The subject of an argument of `to_jax`, `to_torch` or `to_tensorflow`."""
    if isinstance(f, Step):
        if examples:
            raise ArgumentError(f"{call}: a step needs no examples", hint="it has those that it was compiled with")
        return step_subject(f, call)
    check_examples(f, examples, call)
    if isinstance(f, Module):
        structure, params, buffers = split_model(f, None)
        assert structure is not None
        g = applied(structure)
        return function_subject(lambda *xs: g(params, buffers, *xs), examples, call)
    return function_subject(f, examples, call)


def applied(structure: ModelStructure) -> Callable[..., Any]:
    """A model in evaluation mode as a function of its parameters, its buffers and the arguments of its call."""
    whole = structure.function(lambda model, xs: model(*xs), training=False)

    def call(params: Any, buffers: Any, *xs: Any) -> Any:
        return whole(params, *([buffers] if structure.kept else []), xs)

    return call
