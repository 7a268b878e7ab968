"""Settings of a step from outside its program: hyper-parameters by name, averaged weights, accumulated gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.optim.averaging import average
from wholestep.optim.hyper import (
    Range,
    check_agreement,
    checked_number,
    fields_below,
    fields_named,
    full_name,
    with_hyper,
)
from wholestep.train.program.engine import Engine

ANY_NUMBER = Range(-np.inf)


def hyper_changes(engine: Engine, changes: Mapping[str, Any]) -> dict[str, float]:
    """New hyper-parameters by their full names.

    Raises ParameterError for a name that is unknown or ambiguous, and for numbers that are out of range or contradict
    each other; DtypeError for a value that is no number.
    """
    known = engine.numbers
    found: dict[str, float] = {}
    for given, value in changes.items():
        name = full_name(known, given)
        if name is None:
            refuse_name(engine, given)
        else:
            found[name] = checked_number("step.set", given, value, known[name].range or ANY_NUMBER)
    now = {name: float(x) for name, x in engine.hyper.items()}
    check_agreement(with_hyper(engine.step_function.optimizer, {**now, **found}))
    return found


def refuse_name(engine: Engine, name: str) -> None:
    """Raise ParameterError for a name that is not that of exactly one hyper-parameter, with the reason."""
    known = [*engine.hyper, "key", "params", "buffers", *["loss_scale"] * (engine.step_function.scaling is not None)]
    hint = f"there are {', '.join(known)}"
    held = fields_named(engine.step_function.optimizer, name)
    what = "is not there to be set"
    if sum(isinstance(value, float | np.floating) for value in held) > 1:
        what = "is the name of several"
    elif any(callable(value) for value in held):
        what, hint = "is a schedule, which the program computes", "step.replace(optimizer=...) takes another one"
    raise ParameterError(f"step.set: {name} {what}", hint=hint)


def flush_accumulation(engine: Engine) -> dict[str, Any]:
    """Parameters and optimizer state after an update with the gradients that the optimizer has accumulated."""
    optimizer = engine.step_function.optimizer
    if not flushes(optimizer):
        if any([flushes(part) for _, _, part in fields_below(optimizer)]):
            raise UnsupportedError(
                f"step.flush: what gathers lies inside {type(optimizer).__name__}, which would not see the update",
                hint="put it outermost: ws.optim.accumulate(optimizer, steps) of all the others",
            )
        raise UnsupportedError(
            "step.flush: the optimizer gathers nothing",
            hint="ws.optim.accumulate(optimizer, steps) is the one that does",
        )
    current = with_hyper(optimizer, {name: float(x) for name, x in engine.hyper.items()})
    params, own = current.flush(engine.whole_optimizer(), engine.state.read("params"))
    shards = engine.step_function.shards
    return {"params": params, "optimizer": own if shards is None else shards.own_state(own)}


def flushes(optimizer: Any) -> bool:
    """Test whether an optimizer has a `flush` for the end of the data."""
    return callable(getattr(optimizer, "flush", None))


@contextmanager
def with_averaged_parameters(step: Any) -> Iterator[None]:
    """A context in which the averages of the parameters take their place; see `Step.averaged`."""
    state = step.state
    means = average(step._engine.whole_optimizer())
    mean = tree.map(lambda p, mean: mean.astype(p.dtype), state["params"], means)
    step.set(params=mean)
    try:
        yield
    finally:
        trained = step.steps != int(state["counters"]["step"])
        if trained:
            step.load_state(state)
        else:
            step.set(params=state["params"])
    if trained:
        raise UnsupportedError(
            "step.averaged: the step was trained while its parameters were averages",
            hint="the state of before the block is back; train outside of it",
        )
