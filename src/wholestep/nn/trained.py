"""Models that were given to a step, which trains a copy: their repr names the place of that copy."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from wholestep import tree
from wholestep.frontend.assignments import is_module

_given: dict[int, tuple[weakref.ref[Any], weakref.ref[Any], str]] = {}


def give(model: Any, step: Any, loss: str) -> None:
    """Note that a step trains a copy of the modules in a tree, for as long as both are there."""
    for part in tree.flatten(model, is_module)[0]:
        if is_module(part):
            # When a model is gone, its number may become that of another object.
            _given[id(part)] = weakref.ref(part, partial(_given.pop, id(part))), weakref.ref(step), loss


def note_of(model: Any) -> str:
    """A line for the repr of a model that was given to a step; empty for every other one."""
    _, step, loss = _given.get(id(model), (None, None, ""))
    if step is None or step() is None:
        return ""
    return f"\n# as it was given to the step of {loss}, which trains a copy: step.model"
