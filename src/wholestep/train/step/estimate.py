"""estimate: the predicted memory and cost of a step, from shapes alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from wholestep.train.step.compile import state_parts
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
    memory_budget: int | str | None = None,
    unroll: str = "stop",
    roll: Any = "auto",
    blocks: bool | None = None,
    winograd: bool = False,
    stream: Choice = None,
    folder: str | os.PathLike[str] | None = None,
) -> Forecast:
    """The memory that `ws.compile` with these arguments would need on this processor, in bytes by purpose.

    Arguments are those of `compile`; parameters, buffers and batch are arrays or `ShapeDtype`s;
    `ws.eval_shape(lambda: Model(...))` gives a model of them. Nothing of their size is allocated, so that models far
    larger than this machine can be asked about; with `stream` the part of the state that it means is counted as lying
    in files, and with `folder` what a budget sends there; no file is made. The numbers are those of `step.memory`, to
    the byte, without the code, and `cost()` of the result is what `step.cost()` would say; where the batch has symbolic
    sizes they are expressions, and `memory.at(B=32)` has the numbers.

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
    options = shared_options(
        optimizer,
        steps_per_call,
        guard,
        precision,
        loss_scale,
        memory_budget,
        unroll,
        roll,
        blocks,
        winograd,
        DEFAULT_DEVICE,
        stream,
        folder,
    )
    model, params, buffers = split_model(shapes_as_arrays(outline_layers(params)), shapes_as_arrays(buffers))
    step_function = StepFunction(
        loss, with_buffers=buffers is not None, has_aux=has_aux, captures=(), model=model, **options
    )
    state = state_parts(step_function, params, buffers, 0, abstract_outputs)
    signature = BatchSignature(outside.taken_over(batch, "batch", "estimate"), "batch", "estimate")
    call = step_loops.call_function(
        jit(step_function.step, blocks=blocks, winograd=winograd), int(steps_per_call), unroll
    )
    roots = ("", "", signature.root)
    traced = trace_step(call, (state, hyper_of(optimizer), signature.abstract()), step_function.name, roots)
    paths, offloaded = tree.paths(state), None if stream is None else OffloadedState(stream, Path())
    files = frozenset() if offloaded is None else offloaded.paths(state)
    step_function = replace(step_function, stream=offloaded)
    traced = rewrite_step(traced, step_function, lambda ps: max(ps) < len(paths), DEFAULT_DEVICE)
    streamed = [i for i, path in enumerate(paths) if path in files]  # nothing is stacked then, and each has its place
    given = [path for path, x in zip(paths, tree.leaves(state), strict=True) if is_given(x)]
    kept = initial_bytes(state, [*files, *given])
    return forecast_memory(traced.graph, traced.resident(len(paths)), step_function.budget, kept, streamed, winograd)


def abstract_outputs(f: Callable[..., Any], *args: Any) -> Any:
    """The results of a function as arrays that take no memory."""
    return shapes_as_arrays(eval_shape(f, *args))


def shapes_as_arrays(given: Any) -> Any:
    """A tree with arrays that take no memory in the place of shapes."""
    return tree.map(lambda x: zeros_without_memory(x) if isinstance(x, ShapeDtype) else x, given)


def zeros_without_memory(x: ShapeDtype) -> Any:
    """Zeros of a shape, all of them the same one; raises UnsupportedError where a size is no number."""
    if any(isinstance(n, Dim) for n in x.shape):
        raise UnsupportedError(f"estimate: {x} has sizes without a number", hint="memory is known where every size is")
    return placeholder(LeafSignature("", x.type, False))
