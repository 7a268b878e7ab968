"""Public functions and classes: their errors have short tracebacks, and their arguments are checked."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, TypeVar

from wholestep.boundary.answers import answered, called
from wholestep.boundary.declared import flags_of, is_ours, is_truth
from wholestep.boundary.frames import cut_frames, cut_in_loops
from wholestep.errors import ParameterError

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
ENTRANCES = ("__init__", "__call__", "__getattr__", "__getitem__", "__len__", "__iter__")


def boundary(f: F) -> F:
    """The function wrapped for callers from outside.

    Its errors lose the frames of this package; arguments that do not fit its parameters are an `ArgumentError` that
    names the parameter to use, and flags that are neither true nor false a `ParameterError`. A call without an error
    costs one call of a Python function more.
    """
    if not isinstance(f, FunctionType) or f.__code__.co_filename == boundary.__code__.co_filename:
        return f
    shorten, answer, flags, check = cut_frames, answered, flags_of(f), check_flags
    body = cut_in_loops(f) if isgeneratorfunction(f) else f

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if flags:
                check(f, flags, args, kwargs)
            try:
                return body(*args, **kwargs)
            except (TypeError, ValueError, AttributeError) as error:
                known = answer(f, args, kwargs, error)
                if known is None:
                    raise
                raise known from None
        except BaseException as error:
            shorten(error)
            raise

    # The globals are those of the function's own module, so that doctest and pickle find it where it was defined.
    made = FunctionType(called.__code__, f.__globals__, f.__name__, None, called.__closure__)
    functools.update_wrapper(made, f)
    made.__wrapped__ = getattr(f, "__wrapped__", f)  # type: ignore[attr-defined]
    return made  # type: ignore[return-value]


def check_flags(
    f: Callable[..., Any], flags: Sequence[tuple[int, str]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise ParameterError where a call gives a flag that is neither true nor false."""
    for place, name in flags:
        given = args[place] if 0 <= place < len(args) else kwargs.get(name)
        if given is not None and not is_truth(given):
            raise ParameterError(f"{called(f, args)}: {name} is {given!r:.40}; it must be True or False")


def bounded(cls: C) -> C:
    """A class whose constructor, call, public methods and properties are boundaries, each in its place."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ENTRANCES:
            continue
        if isinstance(member, FunctionType) and cut_frames.__name__ not in member.__code__.co_names:
            setattr(cls, name, boundary(member))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(boundary(member.fget), member.fset, member.fdel, member.__doc__))
    return cls


def published(thing: Any) -> Any:
    """A public object as callers get it; a wrapped function replaces the one in the module that defines it."""
    if isinstance(thing, type):
        if not issubclass(thing, BaseException) and is_ours(thing) and not getattr(thing, "_is_protocol", False):
            for base in filter(is_ours, thing.__mro__):
                init = vars(base).get("__init__")
                if isinstance(init, FunctionType):
                    type.__setattr__(base, "__init__", boundary(init))
        return thing
    if not (isinstance(thing, FunctionType) and is_ours(thing)):
        return thing
    made, home = boundary(thing), sys.modules[str(thing.__module__)]
    if getattr(home, made.__name__, None) is thing:
        setattr(home, made.__name__, made)
    return made
