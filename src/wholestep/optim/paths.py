"""Parameters by name, and their choice by a predicate, a table or patterns."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from wholestep import tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.words import matchable

Choice: TypeAlias = Callable[[str], bool] | Mapping[str, bool] | str | Sequence[str] | None
"""A choice of parameters: a function of the path, a table of paths, a pattern, or several; None for all."""


_whole: ContextVar[Sequence[str] | None] = ContextVar(
    "the paths of all parameters, of which there is a part", default=None
)


@contextlib.contextmanager
def among_all(params: Any) -> Iterator[None]:
    """Inside, choices are of parts of these parameters: a pattern must match one of them all, and none of a part."""
    before = _whole.set(_whole.get() or parameter_paths(params))
    try:
        yield
    finally:
        _whole.reset(before)


def parameter_paths(params: Any) -> list[str]:
    """The path of each parameter; a key of a flat dictionary, such as `layers[0].weight`, is the path itself."""
    return [re.sub(r"^\['([^']*)'\]", r"\1", path) for path in tree.paths(params)]


def chosen_parameters(who: str, choice: Choice, params: Any) -> list[bool]:
    """A boolean for each parameter: True where the choice includes it.

    Raises ParameterError for a pattern that no path matches or a table that lacks one, DtypeError for another kind of
    choice.
    """
    if choice is None:
        return [True] * len(tree.leaves(params))
    paths = parameter_paths(params)
    if callable(choice):
        return [bool(choice(path)) for path in paths]
    if isinstance(choice, Mapping):
        missing = [path for path in paths if path not in choice]
        if missing:
            raise ParameterError(f"{who}: the table says nothing of {', '.join(missing)}")
        return [bool(choice[path]) for path in paths]
    patterns = list(choice) if isinstance(choice, Iterable) and not isinstance(choice, str) else [choice]
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise DtypeError(f"{who}: {choice!r} is no function of a path, table of paths, or pattern")
    check_patterns(who, patterns, _whole.get() or paths)
    return [any(tree.matches(pattern, path) for pattern in patterns) for path in paths]


def check_patterns(who: str, patterns: Sequence[str], paths: Sequence[str]) -> None:
    """Raise ParameterError where a pattern matches nothing."""
    for pattern in patterns:
        if not any(tree.matches(pattern, path) for path in paths):
            raise ParameterError(
                f"{who}: no parameter matches {pattern!r}",
                hint=matchable(paths),
            )
