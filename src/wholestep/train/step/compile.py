"""compile: a loss, parameters and an optimizer become one program with a state of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from wholestep.collectives import Communicator
from wholestep.compiler import devices
from wholestep.compiler.backends import DEFAULT_DEVICE
from wholestep.errors import BudgetError, DtypeError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.frontend.source.entrance import as_asked
from wholestep.nn.module import Module
from wholestep.nn.trained import give
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import Optimizer
from wholestep.train.program.mesh import mesh_axis
from wholestep.train.program.microbatches import count_rows, part_sizes
from wholestep.train.program.shards import shards_of
from wholestep.train.program.step_function import StepFunction
from wholestep.train.state.loss_scaling import Scaling
from wholestep.train.state.model_state import split_model
from wholestep.train.state.offloaded_state import make_layers, stream_of
from wholestep.train.state.parameter_checks import warn_of_suspect_parameters
from wholestep.train.state.precision import WORKING, convert_floats
from wholestep.train.state.state import check_params, new_counters
from wholestep.train.step.held_state import base_key
from wholestep.train.step.options import shared_options
from wholestep.train.step.step import Step
from wholestep.words import type_in_words

Made = TypeVar("Made")


def compile(
    loss: Callable[..., Any],
    params: Any,
    *,
    optimizer: Optimizer | None = None,
    batch: Any,
    buffers: Any = None,
    has_aux: bool = False,
    device: str = DEFAULT_DEVICE,
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
    blocks: bool | None = None,
    winograd: bool = False,
    stream: Choice = None,
    folder: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow_unused: bool | None = None,
    grad_norm: bool = False,
    mesh: Mapping[str, Communicator] | None = None,
    shard: Literal["optimizer"] | None = None,
    rewrite: bool = True,
) -> Step:
    """Make one program of forward pass, backward pass and optimizer; the result is called with a batch.

    `loss(params, batch)` returns a real scalar. A module, or a tree with modules in it, may stand for `params`; the
    loss is then `loss(model, batch)`, and buffers that it assigns are carried along. With `buffers` it is
    `loss(params, buffers, batch) -> (loss, new_buffers)`; with `has_aux` its result has a further last item. A
    keyword-only parameter `key` gets a fresh random key each step. `batch` is an example batch of arrays or
    `ShapeDtype`s; with `steps_per_call=K` its arrays have a first axis of K batches. A call with other sizes compiles
    once for each shape; with `strict` it is a ShapeError. Without an `optimizer` the parameters stay as they are.
    `device` is the device of the step and its state: "cpu", or another one that devices.md names.

    The step owns copies of the parameters and updates its whole state in place, as if all of it were donated. Where the
    loss or a gradient is not finite the update is skipped and the result says so; `guard="loss"` tests the loss alone,
    `guard=None` nothing. `captures` names values, marked in the loss with `ws.capture`, that each result holds; with
    `grad_norm` it holds the norm of the gradients. `key` is a seed or a key.

    Mixed precision: `precision=None` takes arrays in the dtypes that they have, and parameters of float32 and float64
    together are a MixedPrecisionWarning. With "float32" or "float64" parameters, buffers and batches are converted to
    it. With "bfloat16" or "float16" parameters stay float32 and the loss is computed as `ws.autocast` says.
    `loss_scale` is a number, "dynamic", None, or "auto", which is "dynamic" for float16 and None elsewhere.

    `memory_budget` is the most memory that a program of the step may take: bytes, text such as "200MB", or a share such
    as "25%" of the arena that it takes without a limit. Values leave memory between two uses and are rematerialized
    (recomputed), the cheapest first; results stay the same to the bit. With `folder`, a value may also be written to a
    file there and read back, where that is predicted to be faster or the value cannot be recomputed.
    `step.plan.decisions` lists these values.

    `microbatch` is gradient accumulation within a step: the batch is split into equal parts of at most so many rows,
    and loss and gradients are averaged over them. That is right where the loss is a mean over rows, and equal to the
    whole batch to rounding. A loss that is neither proved to be such a mean nor found to be one on a few rows is a
    ParameterError; statistics of the batch, as those of `nn.BatchNorm`, are a BatchStatisticsWarning. "auto" takes the
    batch in as few parts as the budget allows.

    Each step's gradient takes the current parameters as leaves: with `unroll="stop"` no derivative goes through an
    update. With "through" the K steps of a call do the same, to the bit, and `result.hypergradients` holds in addition
    the derivative of the mean of their losses with respect to every hyper-parameter, through all K updates; it needs
    two steps a call or more. `ws.unroll` is for losses of trained parameters.

    Equal layers that the loss goes through in a Python loop become a loop of the program, where that is predicted to
    pay; `roll=True` rolls them wherever possible, `roll=False` nowhere. Attention that the loss writes out in arrays is
    computed by blocks where sequences are long (see nn.md); `blocks=False` leaves it as it is written, to the bit.

    `winograd=True` computes convolutions of 3x3 windows with a stride of 1 by tiles, with less than half of the
    products where channels are many (Winograd's minimal filtering, see semantics.md): rounding errors differ, and a
    value that is not finite spreads over a tile of 2x2 results. `step.explain()` lists these convolutions.

    With `stream`, the chosen parameters and buffers (a pattern of paths such as "layers.*", several, a table, or a
    function of the path) and their optimizer state lie in files in `folder`, as do the gradients and the residuals of a
    `ws.scan` over them. They pass through memory a few rows at a time; the numbers are the same to the bit.
    `ws.stacked` gives parameters that are made one layer at a time.

    Where no gradient of the loss reaches any parameter, nothing would be trained: a DerivativeError, which names the
    parameters that the loss reads from its closure instead. Where some are not reached, an UnusedParameterWarning names
    them. `allow_unused=True` allows both, and False raises an error for a single one. Parameters to which
    `ws.optim.groups` gives no optimizer are not counted. With `rewrite=False` the user's functions run as they stand
    (see language.md).

    With `mesh={"data": communicator}` this process is one of several that train together, each on the rows of the batch
    that it is given: loss, gradients and floating buffers are averaged over the processes before the guard and the
    update, added in the order of the ranks, which has the bits of `microbatch` on one process; other buffers are those
    of rank 0. Random keys differ between ranks. `ws.psum`, `ws.pmean` and `ws.axis_index` in the loss take the axis by
    its name. Every process compiles the same step on equal parameters; a batch of other sizes is a ShapeError.

    With `shard="optimizer"` each of N processes keeps 1/N of the optimizer's state: it updates its own part of every
    parameter, and the parts are gathered. That takes an optimizer that treats each element by itself, with norms by
    `ws.optim.clip_by_global_norm` or none; the numbers are the same to the bit except for the rounding of such a norm.
    A checkpoint holds the whole state, so that every process calls `save`, and any number of processes can load it.

    Shapes: trees of arrays, parameters floating or complex; `result.loss` is a scalar, with K steps a call [K].
    Raises: DtypeError for parameters without a derivative, ParameterError or UnsupportedError for options that are not
    there, DerivativeError where nothing is trained, CommunicationError where processes of a mesh differ, BudgetError
    where the budget cannot be kept, StorageError where the disk has no room for the files, and exceptions of the loss.

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
        loss = as_asked(loss, rewrite)
        devices.check_device(device)
        options = shared_options(
            optimizer=optimizer,
            has_aux=has_aux,
            captures=captures,
            steps_per_call=steps_per_call,
            guard=guard,
            precision=precision,
            loss_scale=loss_scale,
            memory_budget=memory_budget,
            microbatch=microbatch,
            unroll=unroll,
            roll=roll,
            blocks=blocks,
            winograd=winograd,
            stream=stream,
            folder=folder,
            grad_norm=grad_norm,
            device=device,
        )
        axis = mesh_axis(mesh)
        streamed = stream_of(stream, options["folder"], precision)
        batch = outside.taken_over(batch, "batch", "compile")
        model, parts, buffers = split_model(make_layers(params, streamed), buffers)
        refused = {"stream=": streamed is not None, "unroll='through'": unroll == "through"}
        step_function = StepFunction(
            loss,
            with_buffers=buffers is not None,
            model=model,
            stream=streamed,
            allow_unused=allow_unused,
            mesh=axis,
            shards=shards_of(shard, axis, optimizer, parts, refused),
            **options,
        )
        warn_of_suspect_parameters(parts, precision)
        state = state_parts(step_function, parts, buffers, key)
        made = partial(
            Step,
            parts=state,
            batch=batch,
            count=int(steps_per_call),
            device=device,
            strict=bool(strict) or axis is not None,
        )
        step = fewest_parts(made, step_function, microbatch, batch, int(steps_per_call))
        give(params, step, step_function.name)
        return step


def fewest_parts(
    made: Callable[[StepFunction], Made], step_function: StepFunction, microbatch: Any, batch: Any, count: int
) -> Made:
    """The result of `made` for a step of `count` steps a call; with `microbatch="auto"` that for the step with the
    fewest micro-batches that its budget allows."""
    if microbatch != "auto":
        return made(step_function)
    refused: BudgetError | None = None
    for size in (None, *part_sizes(count_rows(batch, int(count > 1)))):
        try:
            return made(replace(step_function, microbatch=size))
        except BudgetError as error:
            refused = error
    assert refused is not None
    raise refused


def state_parts(
    step_function: StepFunction,
    params: Any,
    buffers: Any,
    key: Any,
    make: Callable[..., Any] = lambda f, *args: f(*args),
) -> dict[str, Any]:
    """The parts of the initial state of a step; `make(f, *args)` makes the parts that are not given."""
    check_params(params, "params")
    if step_function.precision in WORKING:
        params, buffers = [
            make(partial(convert_floats, precision=step_function.precision), part) for part in (params, buffers)
        ]
    optimizer = make(step_function.begun, params)
    counters = new_counters(base_key("compile", key), step_function.scaling)
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
            f"compile: the loss is {type_in_words(loss)}, and params a function",
            hint="the loss comes first: ws.compile(loss, model, ...)",
        )
