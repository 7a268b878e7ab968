"""Arguments beside the declared types: flags at each call, all of a layer, others where the call has failed."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from wholestep.boundary.counts import is_integer
from wholestep.errors import ParameterError
from wholestep.words import alternatives, with_article


def is_truth(x: Any) -> bool:
    """True for a truth, and for 0 and 1 as integers.

    >>> is_truth(False), is_truth(np.bool_(True)), is_truth(1), is_truth("False")
    (True, True, True, False)
    """
    return isinstance(x, bool | np.bool_) or (is_integer(x) and x in (0, 1))


Kind = tuple[str, Callable[[Any], bool]]
"""A name for values in a message, and the test of a value."""

WORDS: dict[Any, Kind] = {
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

OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The kinds of parameters that stand for any number of arguments."""

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

    >>> callable_argument("loader", "transform", len) is len
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
        signature, declared = declared_kinds(f)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kinds = declared[name]
            if kinds and not any(test(value) for _, test in kinds):
                return f"{name} is {value!r:.40}; it must be {alternatives([word for word, _ in kinds])}"
    return None


@functools.cache
def declared_kinds(f: Callable[..., Any]) -> tuple[inspect.Signature, Mapping[str, list[Kind]]]:
    """The signature of a function, and for each parameter the kinds of value that it takes; none where it takes any."""
    signature = inspect.signature(f, eval_str=True)
    single = {name: p.annotation for name, p in signature.parameters.items() if p.kind not in OPEN_ENDED}
    return signature, {name: kinds_of(single.get(name)) for name in signature.parameters}


def kinds_of(declared: Any) -> list[Kind]:
    """The kinds of value that a declared type is made of; none of them where it takes any value."""
    origin = get_origin(declared) or declared
    if origin in (Union, UnionType):
        parts = [kinds_of(each) for each in get_args(declared)]
        return [kind for part in parts for kind in part] if all(parts) else []
    if origin is Literal:
        options = get_args(declared)
        return [(alternatives([repr(each) for each in options]), lambda x: isinstance(x, str | int) and x in options)]
    if isinstance(origin, type) and is_ours(origin):
        return [(with_article(origin.__name__), lambda x: isinstance(x, origin))]
    return [WORDS[origin]] if origin in WORDS else []


def is_ours(thing: Any) -> bool:
    """Test whether a function or a class was defined by Wholestep.

    >>> is_ours(is_ours), is_ours(str)
    (True, False)
    """
    return str(getattr(thing, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]
