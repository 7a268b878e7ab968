"""Parameters that no gradient of the loss reaches, so that a step would never train them: an error or a warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import DerivativeError, UnusedParameterWarning, Where, warn
from wholestep.optim.grouping import Divided
from wholestep.optim.paths import names
from wholestep.train.recipe import Recipe
from wholestep.train.watch import TreeWatch, Watch

MOST = 5
"""How many paths a message names."""


def check_unused(recipe: Recipe, params: Any, watches: Sequence[Watch | TreeWatch]) -> None:
    """Raise DerivativeError where no parameter is trained, and warn where some are not.

    `params` are those that were given, before the step copied them, and `watches` what the loss read from around it.
    Parameters whose optimizer is None are not meant to move. `allow_unused` of the recipe is True where nothing is to
    be said, and False where one parameter is enough for an error.
    """
    if recipe.optimizer is None or recipe.allow_unused or not recipe.unreached:
        return
    paths, still = names(params), unmoved(recipe.optimizer, params)
    missing = [paths[i] for i in recipe.unreached if i not in still]
    if not missing:
        return
    moving = len(paths) - len(still)
    outside, where, hint = read_from_outside(recipe, params, watches)
    if len(missing) == moving:
        raise DerivativeError(
            f"compile: the gradient of {recipe.name} reaches none of the {moving} parameters, so that nothing would be "
            f"trained: {listed(missing)}{outside}",
            where=where,
            hint=hint,
        )
    said = (
        f"compile: the gradient of {recipe.name} does not reach {len(missing)} of the {moving} parameters, which are "
        f"never trained: {listed(missing)}{outside}"
    )
    if recipe.allow_unused is False:
        raise DerivativeError(said, hint=hint)
    warn(said, UnusedParameterWarning, hint=hint)


def unmoved(optimizer: Any, params: Any) -> set[int]:
    """The numbers of the parameters that belong to no optimizer."""
    if not isinstance(optimizer, Divided):
        return set()
    members = optimizer.parts()
    return {i for i, part in enumerate(optimizer.assigned(params)) if members[part] is None}


def read_from_outside(recipe: Recipe, params: Any, watches: Sequence[Watch | TreeWatch]) -> tuple[str, Where, str]:
    """What the loss reads of the parameters from around it, where it does so, and what to write instead."""
    own = {id(x): name for name, x in zip(names(params), tree.leaves(params), strict=True) if isinstance(x, np.ndarray)}
    read = [(own[id(w.array)], w.where) for w in watches if id(w.array) in own]
    given = "model" if recipe.model is not None else "params"
    if not read:
        code = getattr(recipe.loss, "__code__", None)
        return "", None if code is None else (code, 0), "let the loss depend on them, or mean it: allow_unused=True"
    outside = {name for name, _ in read}
    what = listed([name for name in own.values() if name in outside])
    return (
        f"; it reads {what} from around it, as constants",
        read[0][1],
        f"use the argument: def {recipe.name if recipe.name.isidentifier() else 'loss'}({given}, batch)",
    )


def listed(paths: Sequence[str]) -> str:
    """The paths, of many the first few."""
    more = len(paths) - MOST
    return ", ".join(paths[:MOST]) + (f" and {more} more" if more > 0 else "")
