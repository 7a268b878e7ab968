"""Objects of the user's classes, made with a rewritten constructor or `__post_init__`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from wholestep.frontend.source.members import member_of

PLAIN_DERIVATIONS = [vars(kind)["__init_subclass__"] for kind in (object, Generic)]
"""The functions that Python calls as it derives a class, where the user has stated none."""


def constructed(kind: type, construct: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """An object of a class whose constructor is rewritten."""
    made: Any = object.__new__(kind)
    if construct(made, *args, **kwargs) is not None:
        raise TypeError("__init__() should return None")
    return made


def is_completed(kind: Any) -> bool:
    """Test whether `completed` makes the objects of a dataclass: each has a dictionary, or its class can be derived
    from without running code of the user's."""
    return bool(kind.__dictoffset__) or (
        type(kind) is type and member_of(kind, "__init_subclass__") in PLAIN_DERIVATIONS
    )


def completed(kind: Any, after: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """An object of a dataclass, whose constructor Python has written, with a rewritten `__post_init__`."""
    made: Any
    if kind.__dictoffset__:
        made = object.__new__(kind)

        def completing(*own: Any, **named: Any) -> Any:
            del vars(made)["__post_init__"]
            return after(made, *own, **named)

        vars(made)["__post_init__"] = completing  # the constructor finds it before the class's
    else:
        made = object.__new__(class_until_completed(kind, after))
    kind.__init__(made, *args, **kwargs)
    return made


def class_until_completed(kind: type, after: Callable[..., Any]) -> Any:
    """The class that an object with slots has until its constructor calls `__post_init__`."""

    def completing(made: Any, *own: Any, **named: Any) -> Any:
        object.__setattr__(made, "__class__", kind)
        return after(made, *own, **named)

    return type(kind.__name__, (kind,), {"__slots__": (), "__post_init__": completing})
