"""The entrance of a user's function into a trace: its rewritten copy runs, unless that is switched off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from wholestep.frontend.source.calls import HOOK, of_builtin, of_function, of_instance, of_method
from wholestep.frontend.source.rewriting import switched_off
from wholestep.ir.build import current


def ordinary(f: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function as a transform calls it, inside of its trace."""
    if switched_off.depth or current() is None:
        return f
    return entered_form(f)


def followed(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that the library calls for the user, among arrays that the user's functions have made."""
    if switched_off.depth or current() is None:
        return f
    return HOOK.call(f)


def as_asked(f: Callable[..., Any], rewrite: bool) -> Callable[..., Any]:
    """A function as the option `rewrite` of a transform asks for it."""
    return f if rewrite else verbatim(f)


def verbatim(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs as it stands, like all functions that it calls: nothing is rewritten while it runs."""

    @functools.wraps(f)
    def as_it_stands(*args: Any, **kwargs: Any) -> Any:
        switched_off.depth += 1
        try:
            return f(*args, **kwargs)
        finally:
            switched_off.depth -= 1

    return as_it_stands


def entered_form(f: Any) -> Any:
    """The rewritten form of a function, a method, a partial application or an object with a call of its own.

    A function of NumPy, SciPy or `math` is answered as a call of it is.
    """
    kind = type(f)
    if kind is FunctionType:
        return of_function(f) if (f.__module__ or "").partition(".")[0] != "wholestep" else f
    if kind is BuiltinFunctionType:
        return of_builtin(f)
    if kind is MethodType:
        return of_method(f)
    if kind is functools.partial:
        inner = entered_form(f.func)
        return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
    return f if kind.__module__.partition(".")[0] in (*OTHERS, "builtins", "functools") else of_instance(f)


OTHERS = ("wholestep", "numpy", "scipy")
