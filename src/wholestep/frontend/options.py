"""Options that many functions of NumPy share, which mean nothing to a traced array: refused where NumPy refuses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wholestep.errors import ParameterError, UnsupportedError

ORDERS = ("C", "F", "A", "K")
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe", "same_value")
"""NumPy's rules of casting; the last is of NumPy 2.4, and an older one refuses it where it is used."""


def _one_of(known: tuple[Any, ...], shown: str) -> Callable[[Any], str]:
    """A test of an option that takes one of the `known` values; it returns the text `shown` for another, or ""."""

    def wrong(value: Any) -> str:
        return "" if any([value is one or (isinstance(value, str) and value == one) for one in known]) else shown

    return wrong


def _integral(value: Any) -> str:
    """A truth value in the place of which NumPy takes integers."""
    try:
        operator.index(value)
    except TypeError:
        return "True or False"
    return ""


def _number(value: Any) -> str:
    return "an integer" if _integral(value) and value is not None else ""


def _storage_order(value: Any) -> str:
    fits = value is None or (isinstance(value, str) and value.upper() in ORDERS)
    return "" if fits else ", ".join(map(repr, ORDERS))


def _sort_kind(value: Any) -> str:
    fits = value is None or (isinstance(value, str) and (value == "introselect" or value[:1].lower() in tuple("qhms")))
    return "" if fits else "'quicksort', 'heapsort', 'mergesort' or 'stable'"


OPTIONS: dict[str, Callable[[Any], str]] = {
    "order": _storage_order,
    "casting": _one_of(CASTINGS, ", ".join(map(repr, CASTINGS[:-1]))),
    "device": _one_of((None, "cpu"), "'cpu'"),
    "subok": _integral,
    "max_work": _number,
    "kind": _sort_kind,
}
"""The name of an option -> the values that it takes, in words, where it does not take one; empty where it does."""


def options_among(parameters: Iterable[str]) -> tuple[str, ...]:
    """The shared options among the parameters of a function.

    A function with both `kind` and `order` sorts: its `order` names fields. Alone, `kind` has another meaning.
    """
    names = set(parameters)
    if "kind" in names:
        return ("kind",) if "order" in names else ()
    return tuple([name for name in OPTIONS if name in names])


def check_options(function: str, names: Iterable[str], given: Mapping[str, Any]) -> None:
    """Raise UnsupportedError, a TypeError, or ParameterError, a ValueError, for an option that NumPy refuses too."""
    for name in names:
        if name in given:
            wanted = OPTIONS[name](given[name])
            if wanted:
                kind = ParameterError if isinstance(given[name], str) and name != "subok" else UnsupportedError
                raise kind(
                    f"{function}: {name}={given[name]!r} means nothing", hint=f"{name}= takes {wanted}, as in NumPy"
                )
