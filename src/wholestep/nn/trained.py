"""Models that were given to a step, which trains a copy: their repr names the place of that copy."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from wholestep import tree

_given: dict[int, tuple[weakref.ref[Any], weakref.ref[Any], str]] = {}


def give(model: Any, step: Any, loss: str) -> None:
    """Note that a step trains a copy of the modules in a tree, for as long as both are there."""
    for part in tree.flatten(model, is_module)[0]:
        if is_module(part):
            # When a model is gone, its number may become that of another object.
            _given[id(part)] = weakref.ref(part, partial(_given.pop, id(part))), weakref.ref(step), loss


def is_module(x: Any) -> bool:
    """Test whether a node is a module, without asking for the class, which asks this module."""
    return bool(getattr(type(x), "_is_module", False))


def note_of(model: Any) -> str:
    """A line for the repr of a model that was given to a step; empty for every other one."""
    _, step, loss = _given.get(id(model), (None, None, ""))
    if step is None or step() is None:
        return ""
    return f"\n# as it was given to the step of {loss}, which trains a copy: step.model"
