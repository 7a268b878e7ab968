"""estimate: the predicted memory and cost of a step, from shapes alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from wholestep import tree
from wholestep.compiler.backends import DEFAULT_DEVICE
from wholestep.compiler.driver import forecast_memory
from wholestep.compiler.memory_report import Forecast
from wholestep.dims import Dim
from wholestep.errors import UnsupportedError
from wholestep.frontend import outside
from wholestep.frontend.inspect import eval_shape
from wholestep.frontend.jit import jit
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.source.entrance import as_asked
from wholestep.optim.hyper import hyper_of
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import Optimizer
from wholestep.train.program import step_loops
from wholestep.train.program.step_function import StepFunction
from wholestep.train.program.traced_step import rewrite_step, trace_step
from wholestep.train.state.batch_signature import BatchSignature, LeafSignature, placeholder
from wholestep.train.state.beginning import is_given
from wholestep.train.state.model_state import split_model
from wholestep.train.state.offloaded_state import OffloadedState, outline_layers
from wholestep.train.state.state import initial_bytes
from wholestep.train.step.compile import fewest_parts, state_parts
from wholestep.train.step.options import shared_options


def estimate(
    loss: Callable[..., Any],
    params: Any,
    *,
    optimizer: Optimizer | None = None,
    batch: Any,
    buffers: Any = None,
    has_aux: bool = False,
    steps_per_call: int = 1,
    guard: Any = "gradients",
    precision: str | None = None,
    loss_scale: Any = "auto",
    captures: Sequence[str] = (),
    memory_budget: int | str | None = None,
    microbatch: int | Literal["auto"] | None = None,
    unroll: str = "stop",
    roll: Any = "auto",
    blocks: bool | None = None,
    winograd: bool = False,
    stream: Choice = None,
    folder: str | os.PathLike[str] | None = None,
    grad_norm: bool = False,
    rewrite: bool = True,
) -> Forecast:
    """The memory that `ws.compile` with these arguments would need on this processor, in bytes by purpose.

    Arguments are those of `compile`; parameters, buffers and batch are arrays or `ShapeDtype`s;
    `ws.eval_shape(lambda: Model(...))` gives a model of them. No array of their size is allocated, so that the models
    may be far larger than this machine; the part of the state that `stream` chooses counts as files, and so do values
    that a budget moves to `folder`; no file is made. The numbers are those of `step.memory`, to the byte, without the
    code, and `cost()` of the result equals `step.cost()`; where the batch has symbolic sizes they are expressions, and
    `memory.at(B=32)` has the numbers. A loss under `microbatch` is not checked to be a mean over rows, since that takes
    values, which only `compile` has.

    Shapes: those of `compile`, symbolic sizes too; the numbers are bytes, those of `cost()` operations and bytes.
    Raises: as `compile` does, and UnsupportedError where there is no one program for all sizes.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.eval_shape(lambda: ws.nn.MLP((4096, 65536, 4096), key=0))
    >>> batch = ws.ShapeDtype((32, 4096), np.float32)
    >>> memory = ws.estimate(lambda model, x: np.mean(model(x) ** 2), model, optimizer=ws.optim.adam(1e-3), batch=batch)
    >>> round(memory.state / 2**30, 1), memory.arena > 2**31
    (6.0, True)
    >>> round(memory.cost().contraction / 1e9)
    86
    """
    loss = as_asked(loss, rewrite)
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
        device=DEFAULT_DEVICE,
    )
    model, params, buffers = split_model(shapes_as_arrays(outline_layers(params)), shapes_as_arrays(buffers))
    step_function = StepFunction(loss, with_buffers=buffers is not None, model=model, **options)
    state = state_parts(step_function, params, buffers, 0, abstract_outputs)
    batch = outside.taken_over(batch, "batch", "estimate")
    made = partial(
        forecast_step,
        state=state,
        signature=BatchSignature(batch, "batch", "estimate"),
        count=int(steps_per_call),
        stream=stream,
    )
    return fewest_parts(made, step_function, microbatch, batch, int(steps_per_call))


def forecast_step(
    step_function: StepFunction, state: dict[str, Any], signature: BatchSignature, count: int, stream: Choice
) -> Forecast:
    """The forecast for `count` steps a call of a step function, on batches of a signature."""
    traced_steps = jit(step_function.step, blocks=step_function.blocks, winograd=step_function.winograd)
    call = step_loops.call_function(traced_steps, count, step_function)
    roots = ("", "", signature.root)
    args = (state, hyper_of(step_function.optimizer), signature.abstract())
    traced = trace_step(call, args, step_function.name, roots)
    paths, offloaded = tree.paths(state), None if stream is None else OffloadedState(stream, Path())
    files = frozenset() if offloaded is None else offloaded.paths(state)
    step_function = replace(step_function, stream=offloaded)
    traced = rewrite_step(traced, step_function, lambda ps: max(ps) < len(paths), DEFAULT_DEVICE)
    streamed = [i for i, path in enumerate(paths) if path in files]  # without stacks, each array has its own place
    given = [path for path, x in zip(paths, tree.leaves(state), strict=True) if is_given(x)]
    kept = initial_bytes(state, [*files, *given])
    resident = traced.resident(len(paths))
    return forecast_memory(traced.graph, resident, step_function.budget, kept, streamed, step_function.winograd)


def abstract_outputs(f: Callable[..., Any], *args: Any) -> Any:
    """The results of a function as placeholders, which take no memory."""
    return shapes_as_arrays(eval_shape(f, *args))


def shapes_as_arrays(given: Any) -> Any:
    """A tree with its shapes replaced by placeholders, which take no memory."""
    return tree.map(lambda x: zeros_without_memory(x) if isinstance(x, ShapeDtype) else x, given)


def zeros_without_memory(x: ShapeDtype) -> Any:
    """An array of zeros with strides of 0; raises UnsupportedError for a symbolic size."""
    if any(isinstance(n, Dim) for n in x.shape):
        raise UnsupportedError(f"estimate: {x} has sizes without a number", hint="memory is known where every size is")
    return placeholder(LeafSignature("", x.type, False))
