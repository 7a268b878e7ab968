"""estimate: what a step would take of memory, from shapes alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from wholestep import tree
from wholestep.dims import Dim
from wholestep.errors import UnsupportedError
from wholestep.frontend import outside
from wholestep.frontend.inspect import eval_shape
from wholestep.frontend.jit import jit
from wholestep.frontend.shapes import ShapeDtype
from wholestep.lower.budget.amount import amount
from wholestep.optim.hyper import hyper_of
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import Optimizer
from wholestep.runtime.compiled import Forecast, forecast
from wholestep.train import loops
from wholestep.train.bound import renamed
from wholestep.train.compile import check_options, check_unroll, state_parts
from wholestep.train.feed import Feed, Leaf, stand_in
from wholestep.train.models import taken
from wholestep.train.recipe import Recipe
from wholestep.train.rolling import check_roll, rolled_step
from wholestep.train.scaling import scaling_of
from wholestep.train.state import initial_bytes
from wholestep.train.stream import Stream, folder_of, outlined


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
    stream: Choice = None,
    folder: str | os.PathLike[str] | None = None,
) -> Forecast:
    """What `ws.compile` with these arguments would need on this processor, in bytes by what they are for.

    Parameters, buffers and batch are arrays or `ShapeDtype`s; `ws.eval_shape(lambda: Model(...))` gives a model of
    them. Nothing of their size is allocated, so that models far larger than this machine can be asked about; with
    `stream` the part of the state that it means is counted as lying in files, and with `folder` what a budget sends
    there; no file is made. The
    numbers are those of `step.memory`, to the byte, without the code, and `cost()` of the result is what `step.cost()`
    would say; where the batch has symbolic sizes they are expressions, and `memory.at(B=32)` has the numbers. Raises as
    `compile` does, and UnsupportedError where there is no one program for all sizes.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.eval_shape(lambda: ws.nn.MLP((4096, 65536, 4096), key=0))
    >>> batch = ws.ShapeDtype((32, 4096), np.float32)
    >>> memory = ws.estimate(lambda model, x: np.mean(model(x) ** 2), model, optimizer=ws.optim.adam(1e-3), batch=batch)
    >>> round(memory.state / 2**30, 1), memory.arena > 2**31
    (6.0, True)
    >>> round(memory.cost().contraction / 1e9)
    86
    """
    check_options("cpu", steps_per_call, guard, precision)
    check_roll(roll, stream)
    scaling = scaling_of(loss_scale, precision, guard, optimizer is not None)
    budget = amount(memory_budget)
    place = folder_of(folder, stream, budget)
    model, params, buffers = taken(shapes(outlined(params)), shapes(buffers))
    recipe = Recipe(
        loss,
        optimizer,
        buffers is not None,
        has_aux,
        guard,
        (),
        precision,
        scaling,
        model,
        budget if budget is None or place is None else budget.spilling(),
        unroll=unroll,
        roll=roll,
    )
    check_unroll(recipe, int(steps_per_call))
    state = state_parts(recipe, params, buffers, 0, abstract)
    whole = loops.whole(jit(recipe.step), int(steps_per_call), unroll)
    args = (state, hyper_of(optimizer), Feed(outside.taken(batch, "batch", "estimate"), "batch", "estimate").abstract())
    traced, _ = whole.prepare(args, {})
    paths, where = tree.paths(state), None if stream is None else Stream(stream, Path())
    files = frozenset() if where is None else where.paths(state)
    named = renamed(traced.graph, recipe.name, args, ("", "", "batch"))
    found = rolled_step(named, replace(recipe, stream=where), lambda ps: max(ps) < len(paths), "cpu")
    resident = len(paths) - sum([len(places) - 1 for places in found.groups])
    streamed = [i for i, path in enumerate(paths) if path in files]  # nothing is rolled then, and each has its place
    kept = initial_bytes(state, files)
    return forecast(found.graph, [(i, i) for i in range(resident)], recipe.budget, kept, streamed)


def abstract(f: Callable[..., Any], *args: Any) -> Any:
    """What a function would give, in arrays that take no memory."""
    return shapes(eval_shape(f, *args))


def shapes(given: Any) -> Any:
    """A tree with arrays that take no memory in the place of shapes."""
    return tree.map(lambda x: zeros(x) if isinstance(x, ShapeDtype) else x, given)


def zeros(x: ShapeDtype) -> Any:
    """Zeros of a shape, all of them the same one; raises UnsupportedError where a size is no number."""
    if any(isinstance(n, Dim) for n in x.shape):
        raise UnsupportedError(f"estimate: {x} has sizes without a number", hint="memory is known where every size is")
    return stand_in(Leaf("", x.type, False))
