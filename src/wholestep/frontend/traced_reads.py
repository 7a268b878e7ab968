"""The traced arrays that a function has from around it: in its closure, its defaults, its arguments and its object."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from wholestep import containers
from wholestep.frontend.closure_reads import MOST, closure_values, of_a_library
from wholestep.frontend.dispatch import is_traced
from wholestep.frontend.tracing import PLAIN

SKIPPED = (*PLAIN, str, bytes, type, type(None), ModuleType, BuiltinFunctionType)
"""Objects that hold no traced arrays."""


def reads_traced(f: Any) -> bool:
    """Test whether a function, an object that is called, or anything of the user's that it names holds a traced array.

    >>> reads_traced(functools.partial(max, 1))
    False
    """
    waiting: list[Any] = [f]
    seen: dict[int, Any] = {}
    while waiting and len(seen) <= MOST:
        x = waiting.pop()
        if is_traced(x):
            return True
        if not isinstance(x, SKIPPED) and id(x) not in seen:
            seen[id(x)] = x
            waiting += held_objects(x)
    return False


def held_objects(x: Any) -> Iterable[Any]:
    """The objects that a function, a container or an object of a class holds."""
    if isinstance(x, functools.partial):
        return (x.func, *x.args, *x.keywords.values())
    if isinstance(x, MethodType):
        return (x.__self__, x.__func__)
    attributes = getattr(x, "__dict__", None)
    held = dict(attributes) if type(attributes) is dict else {}
    if isinstance(x, FunctionType):
        return (*(() if of_a_library(x) else closure_values(x)), held.get("__wrapped__"))
    level = containers.one_level(x)
    call = type(x).__call__ if callable(x) else None
    return (*held.values(), call) if level is None else level.children
