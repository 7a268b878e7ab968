"""Direct answers: calls of NumPy's functions with traced arrays and numbers alone, without NumPy's detour."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import FUNCTIONS, HOOKS, with_documented_errors

DISPATCHING = (np.ufunc, type(np.sum))
"""The types of functions that look for an answer of their arguments."""
SIMPLE = frozenset((Array, int, float, bool))


class DirectAnswer(NamedTuple):
    """An answer to calls of a NumPy function with so many traced arrays and numbers, without NumPy's detour."""

    operands: int
    answer: Callable[[Any, tuple[Any, ...]], Any]


def direct_answer(f: Any) -> DirectAnswer | None:
    """The direct answer of a ufunc with all its operands, and of a function that needs one argument, with that one."""
    if isinstance(f, np.ufunc):
        return DirectAnswer(f.nin, ufunc_answer)
    implementation = FUNCTIONS.get(f)
    if implementation is None:
        return None
    answer = functools.partial(with_documented_errors, implementation)
    return DirectAnswer(1, lambda f, args: answer(f, args, {})) if needs_one_argument(f) else None


def needs_one_argument(f: Any) -> bool:
    """Test whether a function written in Python has one parameter without a default, and takes no `*args`."""
    written = inspect.unwrap(f)
    code = getattr(written, "__code__", None)  # read in a twentieth of the time that a signature takes
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return False
    return bool(code.co_argcount - code.co_posonlyargcount - len(written.__defaults__ or ()) == 1)


def ufunc_answer(f: Any, args: tuple[Any, ...]) -> Any:
    """The call of a ufunc, as the protocol of traced arrays makes it."""
    return HOOKS.ufunc(f, *args, method="__call__")


def are_simple(args: tuple[Any, ...]) -> bool:
    """Test whether arguments are traced arrays and numbers alone, a traced array first."""
    for x in args:
        if type(x) not in SIMPLE:
            return False
    return bool(args) and type(args[0]) is Array
