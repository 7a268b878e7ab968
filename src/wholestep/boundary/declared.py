"""Arguments beside the types that their parameters declare: flags at each call, others where the call has failed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError
from wholestep.words import alternatives


def is_truth(x: Any) -> bool:
    """True for a truth, and for 0 and 1 as integers.

    >>> is_truth(False), is_truth(np.bool_(True)), is_truth(1), is_truth("False")
    (True, True, True, False)
    """
    return isinstance(x, bool | np.bool_) or (is_integer(x) and x in (0, 1))


WORDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("True or False", is_truth),
    int: ("an integer", lambda x: hasattr(x, "__index__") and not isinstance(x, bool)),
    float: ("a number", lambda x: hasattr(x, "__float__")),
    str: ("text", lambda x: isinstance(x, str)),
    NoneType: ("None", lambda x: x is None),
    os.PathLike: ("a path", lambda x: isinstance(x, os.PathLike)),
    Callable: ("a function", callable),
    Sequence: ("a sequence", lambda x: isinstance(x, Sequence | np.ndarray) and not isinstance(x, str | bytes)),
    Mapping: ("a mapping", lambda x: isinstance(x, Mapping)),
}
"""Declared types with their name in a message, and the test of a value; a parameter of another type takes any value."""

FLAGS = ("bool", "bool | None")
"""The annotations of parameters that are true or false, as they are written."""


def flags_of(f: Callable[..., Any]) -> list[tuple[int, str]]:
    """The parameters of a function that are flags, each with its place among the arguments; -1 for none by position."""
    code, declared = f.__code__, f.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    flags = [(i, name) for i, name in enumerate(names) if declared.get(name) in FLAGS]
    return [(i if i < code.co_argcount else -1, name) for i, name in flags]


def callable_argument(what: str, name: str, f: Any) -> Any:
    """An argument that is to be called later; raises ParameterError where it cannot be.

    >>> callable_argument("MLP", "activation", len) is len
    True
    """
    if not callable(f):
        raise ParameterError(f"{what}: {name} is {f!r:.40}; it must be a function")
    return f


def misfit(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """A sentence on the first argument of a call that is not of its declared type; None where all can be.

    >>> def scaled(x: float, path: str | os.PathLike[str]) -> None: ...
    >>> misfit(scaled, (2,), {"path": 3}), misfit(scaled, ("two", "here"), {})
    ('path is 3; it must be text or a path', "x is 'two'; it must be a number")
    """
    with suppress(TypeError, NameError):
        signature = inspect.signature(f, eval_str=True)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kinds = kinds_of(signature.parameters[name].annotation)
            if kinds and not any(test(value) for _, test in kinds):
                return f"{name} is {value!r:.40}; it must be {alternatives([word for word, _ in kinds])}"
    return None


def kinds_of(declared: Any) -> list[tuple[str, Callable[[Any], bool]]]:
    """The kinds of value that a declared type is made of; none of them where it takes any value."""
    origin = get_origin(declared) or declared
    if origin in (Union, UnionType):
        parts = [kinds_of(each) for each in get_args(declared)]
        return [kind for part in parts for kind in part] if all(parts) else []
    if origin is Literal:
        options = get_args(declared)
        return [(alternatives([repr(each) for each in options]), lambda x: isinstance(x, str | int) and x in options)]
    return [WORDS[origin]] if origin in WORDS else []
