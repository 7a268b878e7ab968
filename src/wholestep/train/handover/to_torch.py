"""PyTorch: a function or a step as a function of tensors, or as a module with parameters and buffers of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import ArgumentError
from wholestep.export.python.run import defined_function, function_source
from wholestep.export.python.torch import TORCH
from wholestep.ir.graph import NDArray
from wholestep.nn.module import Module
from wholestep.train.handover.containers import flatten_like, unflatten_like
from wholestep.train.handover.subjects import (
    Check,
    InputTypes,
    applied,
    check_examples,
    function_subject,
    is_held,
    refuse_named,
    subject_of,
    with_checked_types,
)
from wholestep.train.handover.to_jax import installed
from wholestep.train.state.model_state import split_model


def to_torch(f: Callable[..., Any], *examples: Any, module: bool = False) -> Callable[..., Any]:
    """A function, model or step as a function of tensors, which torch differentiates, compiles and exports.

    It takes and returns trees as `f` does here, for arguments of the shapes and dtypes of the examples; a step becomes
    `step(state, batch)`, as `to_jax` says. With `module` the result is a `torch.nn.Module`: of a model, its parameters
    and buffers are those of the module, by the same paths, and it is called as the model is; of a function, so are the
    arrays of its first argument. Its state is a copy.

    Shapes: those of the examples, which are arrays or `ShapeDtype`s.
    Raises: UnsupportedError for operations that torch has no words for, ArgumentError for a step as a module,
    MissingExtraError where torch is not installed.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Linear(3, 2, key=0)
    >>> net = ws.to_torch(model, np.ones((4, 3), np.float32), module=True)
    >>> sorted(net.state_dict())
    ['bias', 'weight']
    """
    torch = installed("torch")
    if not module:
        subject = subject_of(f, examples, "to_torch")
        return subject.function(TORCH, check_of(torch))
    if isinstance(f, Module):
        structure, params, buffers = split_model(f, None)
        assert structure is not None
        check_examples(f, examples, "to_torch")
        return module_of(torch, applied(structure), params, buffers or {}, examples)
    if not callable(f) or hasattr(f, "_engine") or not examples:
        raise ArgumentError(
            "to_torch: a module is made of a model, or of a function and the parameters that it takes first",
            hint="to_torch(step) without module= is a function of state and batch",
        )
    params, *rest = examples
    return module_of(torch, lambda params, buffers, *xs: f(params, *xs), params, {}, tuple(rest))


def module_of(
    torch: Any, f: Callable[..., Any], params: Any, buffers: Any, examples: tuple[Any, ...]
) -> Callable[..., Any]:
    """A module around a function of parameters, buffers and inputs."""
    subject = function_subject(f, (params, buffers, *examples), "to_torch")
    arrays = tree.leaves((params, buffers))
    paths = [*dotted(tree.paths(params)), *dotted(tree.paths(buffers))]
    names = tuple([*paths, *tree.paths(examples, "arguments")])
    program = replace(subject.program, inputs=names)
    source, constants = function_source(program.graph, TORCH)
    inputs = tree.unflatten(tree.structure(examples), range(len(names) - len(paths)))
    made: Any = module_of_source(source, constants, program.input_types(), (tuple(paths), inputs, subject.result))
    trained = len(tree.leaves(params))
    for i, (path, x) in enumerate(zip(paths, arrays, strict=True)):
        hold(torch, made, path, np.array(x), i < trained)
    return cast(Callable[..., Any], made)


def module_of_source(source: str, constants: Sequence[NDArray], types: InputTypes, trees: tuple[Any, ...]) -> Any:
    """A module that computes what a text says, without arrays; copies and pickles of a module are made by it.

    `trees` are the paths of the arrays that the module holds, and its inputs and its results, of places.
    """
    torch: Any = installed("torch")
    paths, inputs, results = trees
    program = defined_function(source, constants, "program for PyTorch")
    run = with_checked_types(program, types, check_of(torch), "to_torch")
    flatten, unflatten = flatten_like(inputs, "to_torch: arguments"), unflatten_like(results)

    class ExportedModule(torch.nn.Module):  # type: ignore[misc]
        """A module of a function and its arrays, as parameters and buffers."""

        def forward(self, *inputs: Any, **named: Any) -> Any:
            """Call it."""
            refuse_named("to_torch", named)
            return unflatten(run([*[array_at(self, path) for path in paths], *flatten(inputs)]))

        def __reduce__(self) -> tuple[Any, ...]:
            return module_of_source, (source, constants, types, trees), self.__dict__

    return ExportedModule()


def check_of(torch: Any) -> Check:
    """The check of tensors."""

    def dtype_of(dtype: np.dtype[Any]) -> Any:
        return getattr(torch, dtype.name)

    def array_of(x: Any, dtype: np.dtype[Any]) -> Any:
        if is_held(x, dtype):
            return torch.tensor(x, dtype=dtype_of(dtype))
        return torch.tensor(x) if isinstance(x, int | float | complex) else x

    return Check(dtype_of, array_of, torch.jit.is_tracing, lambda run: made_beside(torch, run))


def made_beside(torch: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """A program that makes its tensors where its arguments are, but in `torch.compile`, which enters no device."""

    def here(*leaves: Any) -> Any:
        if torch.compiler.is_compiling():
            return run(*leaves)
        default = torch.empty(()).device
        others = [x.device for x in leaves if isinstance(x, torch.Tensor) and x.device != default]
        if not others:
            return run(*leaves)
        with others[0]:
            return run(*leaves)

    return here


def dotted(paths: Iterable[str]) -> list[str]:
    """Paths as torch names arrays: `layers[0].weight` is `layers.0.weight`."""
    return [path.replace("[", ".").replace("]", "").replace("'", "").strip(".") or "value" for path in paths]


def array_at(module: Any, path: str) -> Any:
    """The array of a module at a path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def hold(torch: Any, module: Any, path: str, x: NDArray, trained: bool) -> None:
    """Register an array in a module, in modules inside it by the words of its path."""
    *above, last = path.split(".")
    for name in above:
        if name not in module._modules:
            module.add_module(name, torch.nn.Module())
        module = module._modules[name]
    value = tensor(torch, x)
    if trained and dtypes.is_inexact(x.dtype):
        module.register_parameter(last, torch.nn.Parameter(value))
    else:
        module.register_buffer(last, value)


def tensor(torch: Any, x: NDArray) -> Any:
    """An array as a tensor of its own."""
    if x.dtype.name == "bfloat16":
        return torch.tensor(x.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(x)
