"""Notes on errors in a forward pass: the path of the part of the model that raised them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wholestep.boundary.frames import cut_frames
from wholestep.errors import WholestepError
from wholestep.frontend.source.entrance import ordinary
from wholestep.nn.traversal import ModelWalk


def noted(call: Callable[..., Any]) -> Callable[..., Any]:
    """The `__call__` of a module, which adds to an error the path of the submodule that raised it."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return ordinary(call)(self, *args, **kwargs)
        except Exception as error:  # any exception is raised again, with a note
            note(error, self)
            cut_frames(error)
            raise

    return called


def note(error: Exception, module: Any) -> None:
    """Add the path of the submodule whose call raised first; an outer module's note replaces that of an inner one."""
    first = vars(error).setdefault("raised_in", module)
    try:
        found = [path for path, part in ModelWalk(module, waiting=True).modules if part is first]
    except WholestepError:  # an error of the walk must not replace the one to be reported
        return
    if found and found[0]:
        old = vars(error).get("said_of_it")
        vars(error)["said_of_it"] = text = f"  in {found[0]} ({type(first).__name__}) of {type(module).__name__}"
        vars(error)["__notes__"] = [x for x in vars(error).get("__notes__", []) if x != old]
        error.add_note(text)
