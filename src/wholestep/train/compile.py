"""compile: a loss, parameters and an optimizer become one program with a state of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from wholestep.errors import BudgetError, DtypeError, ParameterError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.lower.budget.amount import amount
from wholestep.nn.module import Module
from wholestep.nn.trained import give
from wholestep.optim.hyper import numbers
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import Optimizer, check_optimizer
from wholestep.runtime import devices
from wholestep.train.microbatches import check_microbatch, halvings, rows_of
from wholestep.train.models import taken
from wholestep.train.precision import PRECISIONS, WORKING, converted
from wholestep.train.recipe import GUARDS, UNROLLS, Recipe
from wholestep.train.rolling import check_roll
from wholestep.train.scaling import Scaling, scaling_of
from wholestep.train.state import check_params, new_counters
from wholestep.train.step import Step, base_key
from wholestep.train.stream import folder_of, stream_of, unpacked
from wholestep.train.suspect import check_suspect


def compile(
    loss: Callable[..., Any],
    params: Any,
    *,
    optimizer: Optimizer | None = None,
    batch: Any,
    buffers: Any = None,
    has_aux: bool = False,
    device: str = devices.DEFAULT,
    steps_per_call: int = 1,
    captures: Sequence[str] = (),
    guard: Literal["gradients", "loss"] | None = "gradients",
    key: Any = 0,
    memory_budget: int | str | None = None,
    microbatch: int | Literal["auto"] | None = None,
    precision: Literal["float32", "bfloat16", "float16", "float64"] | None = None,
    loss_scale: float | Scaling | Literal["dynamic", "auto"] | None = "auto",
    unroll: Literal["stop", "through"] = "stop",
    roll: bool | Literal["auto"] = "auto",
    stream: Choice = None,
    folder: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow_unused: bool | None = None,
    grad_norm: bool = False,
) -> Step:
    """Make one program of forward pass, backward pass and optimizer; the result is called with a batch.

    `loss(params, batch)` returns a real scalar. A module, or a tree with modules in it, may stand for `params`; the
    loss is then `loss(model, batch)`, and buffers that it assigns are carried along. With `buffers` it is
    `loss(params, buffers, batch) -> (loss, new_buffers)`; with `has_aux` what it returns has a further last item. A
    keyword-only parameter `key` gets a fresh random key each step. `batch` is an example of what a call is given,
    arrays or `ShapeDtype`s; with `steps_per_call=K` its arrays have a first axis of K batches. A call with other sizes
    compiles once for each shape; with `strict` it is a ShapeError. Without an optimizer the parameters stay as they
    are.

    The step owns copies of the parameters. Where the loss or a gradient is not finite the update is left out and the
    result says so; `guard="loss"` looks at the loss alone, `guard=None` at nothing. `captures` names values, marked in
    the loss with `ws.capture`, that each result holds; with `grad_norm` it holds the norm of the gradients. `key` is a
    seed or a key.

    `precision=None` takes arrays in the dtypes that they have, and parameters of float32 and float64 together are a
    MixedPrecisionWarning. With "float32" or "float64" parameters, buffers and batches are converted to it. With
    "bfloat16" or "float16" parameters stay float32 and the loss is computed as `ws.autocast` says.
    `loss_scale` is a number, "dynamic" (what "auto" means for float16), or None (what it means elsewhere).

    `memory_budget` is what a program of the step may take at most: bytes, text such as "200MB", or a share such as
    "25%" of the arena that it takes without a limit. Values leave memory between two uses and are made again, the
    cheapest first; results stay the same to the bit. With `folder`, a value may also be written to a file there and
    read back, where that is predicted to take less or it cannot be made again. `step.plan.decisions` lists them.

    `microbatch` takes the rows of the batch at most so many at a time, in equal parts, and averages loss and gradients:
    right where the loss is a mean over rows, and equal to the whole batch to rounding. A loss that is no such mean, as
    tried on a few rows, is a ParameterError; statistics of the batch, as those of `nn.BatchNorm`, are a
    BatchStatisticsWarning. "auto" takes the batch in as few parts as the budget allows.

    Each step's gradient takes the current parameters as leaves: with `unroll="stop"` nothing is differentiated through
    an update. With "through" the K steps of a call do the same, to the bit, and `result.hypergradients` holds besides
    the derivative of the mean of their losses with respect to every hyper-parameter, through all K updates; it needs
    two steps a call or more. `ws.unroll` is for losses of trained parameters.

    Equal layers that the loss goes through in a Python loop become a loop of the program, where that pays; `roll=True`
    wherever it can, `roll=False` nowhere.

    With `stream`, the parameters and buffers that it means (a pattern of paths such as "layers.*", several, a table, or
    a function of the path), and what the optimizer keeps for them, lie in files in `folder`, as do the gradients of a
    `ws.scan` over them and what it keeps of each layer. They pass through memory a few rows at a time; the numbers are
    the same to the bit. `ws.stacked` gives parameters that are made one layer at a time.

    Where no gradient of the loss reaches any parameter, nothing would be trained: a DerivativeError, which names the
    parameters that the loss reads from around it instead. Where some are not reached, an UnusedParameterWarning names
    them. `allow_unused=True` says nothing of either, and False makes an error of one. Those that `ws.optim.groups`
    gives no optimizer are not counted.

    Raises DtypeError for parameters without a derivative, ParameterError or UnsupportedError for options that are not
    there, DerivativeError where nothing is trained, BudgetError where the budget cannot be kept, StorageError where the
    disk has no room for the files, and whatever the loss raises.

    >>> import numpy as np, wholestep as ws
    >>> def loss(params, batch):
    ...     return np.mean((batch["x"] @ params["w"] - batch["y"]) ** 2)
    >>> batch = {"x": np.eye(2), "y": np.array([1.0, -1.0])}
    >>> step = ws.compile(loss, {"w": np.zeros(2)}, optimizer=ws.optim.sgd(0.5), batch=batch)
    >>> step(batch).loss, step(batch).loss, step.params["w"].tolist()
    (1.0, 0.25, [0.75, -0.75])
    >>> step.set(lr=1.0)
    >>> step(batch).loss, step.traces
    (0.0625, 1)
    """
    with UNBROKEN:
        check_loss(loss, params)
        check_optimizer("compile: optimizer", optimizer, optional=True)
        check_options(device, steps_per_call, guard, precision)
        check_roll(roll, stream)
        scaling = scaling_of(loss_scale, precision, guard, optimizer is not None)
        budget = amount(memory_budget)
        place = folder_of(folder, stream, budget)
        streamed = stream_of(stream, place, precision)
        batch = outside.taken(batch, "batch", "compile")
        model, parts, buffers = taken(unpacked(params, streamed), buffers)
        names = (captures,) if isinstance(captures, str) else tuple(captures)
        check_microbatch(microbatch, has_aux, bool(names))
        rows = None if microbatch == "auto" else microbatch
        recipe = Recipe(
            loss,
            optimizer,
            buffers is not None,
            has_aux,
            guard,
            names,
            precision,
            scaling,
            model,
            budget if budget is None or place is None else budget.spilling(),
            rows,
            unroll,
            roll,
            streamed,
            place,
            allow_unused,
            check_norm(grad_norm, optimizer),
        )
        check_unroll(recipe, int(steps_per_call))
        check_suspect(parts, precision)
        state = state_parts(recipe, parts, buffers, key)
        made = partial(Step, parts=state, batch=batch, count=int(steps_per_call), device=device, strict=bool(strict))
        auto = microbatch == "auto"
        step = smallest(made, recipe, rows_of(batch, int(steps_per_call > 1))) if auto else made(recipe)
        give(params, step, recipe.name)
        return step


def smallest(made: Callable[[Recipe], Step], recipe: Recipe, rows: int) -> Step:
    """The step whose batch is taken in as few parts as its budget allows."""
    refused: BudgetError | None = None
    for size in (None, *halvings(rows)):
        try:
            return made(replace(recipe, microbatch=size))
        except BudgetError as error:
            refused = error
    assert refused is not None
    raise refused


def check_norm(asked: bool, optimizer: Any) -> bool:
    """Whether the norm of the gradients was asked for; raises ParameterError where there are none."""
    if asked and optimizer is None:
        raise ParameterError("compile: grad_norm without an optimizer", hint="there are no gradients; give optimizer=")
    return bool(asked)


def check_unroll(recipe: Recipe, count: int) -> None:
    """Raise ParameterError where there is nothing to differentiate through, or no such option."""
    if recipe.unroll not in UNROLLS:
        known = ", ".join(map(repr, UNROLLS))
        raise ParameterError(f"compile: unroll is {recipe.unroll!r}; it is one of {known}")
    if recipe.unroll == "through" and count == 1:
        raise ParameterError(
            "compile: unroll='through' with one step a call: its loss comes before its update",
            hint="say steps_per_call=K with a K of 2 or more",
        )
    if recipe.unroll == "through" and not numbers(recipe.optimizer):
        raise ParameterError(
            "compile: unroll='through', and the optimizer has no hyper-parameters",
            hint="give an optimizer with floats in its fields, such as ws.optim.sgd(0.1)",
        )


def state_parts(
    recipe: Recipe, params: Any, buffers: Any, key: Any, make: Callable[..., Any] = lambda f, *args: f(*args)
) -> dict[str, Any]:
    """The parts of the state that a step begins with; `make(f, *args)` makes those that are not given."""
    check_params(params, "params")
    if recipe.precision in WORKING:
        params, buffers = [make(partial(converted, precision=recipe.precision), part) for part in (params, buffers)]
    optimizer = make(recipe.begun, params)
    counters = new_counters(base_key(key), recipe.scaling)
    return {"params": params, "buffers": buffers, "optimizer": optimizer, "counters": counters}


def check_loss(loss: Any, params: Any) -> None:
    """Raise DtypeError for a loss that is not a function."""
    if not callable(loss):
        raise DtypeError(
            f"compile: the loss is {loss!r:.60}, not a function",
            hint="write one: def loss(model, batch): return ws.nn.mse(model(batch['x']), batch['y'])",
        )
    if isinstance(loss, Module) and callable(params) and not isinstance(params, Module):
        raise DtypeError(
            f"compile: the loss is a {type(loss).__name__}, and params a function",
            hint="the loss comes first: ws.compile(loss, model, ...)",
        )


def check_options(device: str, count: Any, guard: Any, precision: Any) -> None:
    """Raise for an option that is not there."""
    devices.maker(device)
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise DtypeError(f"compile: steps_per_call is a {type(count).__name__}, not an integer")
    if count < 1:
        raise ParameterError(f"compile: steps_per_call is {count}; it must be 1 or more")
    if guard not in GUARDS:
        raise ParameterError(f"compile: guard is {guard!r}; it is one of {', '.join(map(repr, GUARDS))}")
    if precision is not None and precision not in PRECISIONS:
        known = ", ".join(map(repr, (None, *PRECISIONS)))
        raise ParameterError(f"compile: precision is {precision!r}; it is one of {known}")
