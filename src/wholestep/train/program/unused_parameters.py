"""Parameters that no gradient of the loss reaches, so that a step would never train them: an error or a warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import DerivativeError, UnusedParameterWarning, Where, warn
from wholestep.optim.grouping import Divided
from wholestep.optim.paths import parameter_paths
from wholestep.train.program.step_function import StepFunction
from wholestep.train.state.captured_arrays import Watch
from wholestep.words import first_few

MAX_LISTED = 5
"""The number of paths that a message names."""


def check_unused(step_function: StepFunction, params: Any, watches: Sequence[Watch]) -> None:
    """Raise DerivativeError where no parameter is trained, and warn where some are not.

    `params` are those that were given, before the step copied them, and `watches` the objects outside the loss that it
    reads. Parameters whose optimizer is None are not meant to be trained. `step_function.allow_unused` is True for no
    check at all, and False for an error where a single parameter is not trained.
    """
    if step_function.optimizer is None or step_function.allow_unused:
        return
    paths = parameter_paths(params)
    if not paths:
        raise DerivativeError(
            "compile: there are no parameters, and an optimizer to train them",
            hint="floating arrays in params, or in fields of a model that are not frozen; else leave optimizer= out",
        )
    still = without_optimizer(step_function.optimizer, params)
    missing = [paths[i] for i in step_function.unreached if i not in still]
    if not missing:
        return
    moving = len(paths) - len(still)
    outside, where, hint = read_from_outside(step_function, params, watches)
    if len(missing) == moving:
        raise DerivativeError(
            f"compile: the gradient of {step_function.name} reaches none of the {moving} parameters, so that nothing "
            f"would be trained: {first_few(missing, MAX_LISTED)}{outside}",
            where=where,
            hint=hint,
        )
    said = (
        f"compile: the gradient of {step_function.name} does not reach {len(missing)} of the {moving} parameters, "
        f"which are never trained: {first_few(missing, MAX_LISTED)}{outside}"
    )
    if step_function.allow_unused is False:
        raise DerivativeError(said, hint=hint)
    warn(said, UnusedParameterWarning, hint=hint)


def without_optimizer(optimizer: Any, params: Any) -> set[int]:
    """The numbers of the parameters that belong to no optimizer."""
    if not isinstance(optimizer, Divided):
        return set()
    members = optimizer.parts()
    return {i for i, part in enumerate(optimizer.assigned(params)) if members[part] is None}


def read_from_outside(step_function: StepFunction, params: Any, watches: Sequence[Watch]) -> tuple[str, Where, str]:
    """The parameters that the loss reads from its closure, the line where it does so, and the way out."""
    own = {
        id(x): name
        for name, x in zip(parameter_paths(params), tree.leaves(params), strict=True)
        if isinstance(x, np.ndarray)
    }
    read = [(own[id(w.array)], w.where) for w in watches if id(w.array) in own]
    given = "model" if step_function.model is not None else "params"
    if not read:
        code = getattr(step_function.loss, "__code__", None)
        return "", None if code is None else (code, 0), "let the loss depend on them, or mean it: allow_unused=True"
    outside = {name for name, _ in read}
    what = first_few([name for name in own.values() if name in outside], MAX_LISTED)
    return (
        f"; it reads {what} from around it, as constants",
        read[0][1],
        f"use the argument: def {step_function.name if step_function.name.isidentifier() else 'loss'}({given}, batch)",
    )
