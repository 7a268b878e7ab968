"""Differences between structures of trees, in words for messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep import containers, tree
from wholestep.errors import EscapedError
from wholestep.spelling import access_to, below_root
from wholestep.words import type_in_words

HELD = (
    "the arrays that a module holds beside its parameters belong to its structure; nn.split(model) takes it apart into"
    " dictionaries of arrays, which optimizers take too, and nn.join(model, params, buffers) puts it together"
)
"""The way out where structures differ in the frozen arrays or buffers of a module."""


class Difference(NamedTuple):
    """The path of the first place at which two structures differ, what is there, and whether a module holds it."""

    path: str
    words: str
    held: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"

    @property
    def hint(self) -> str | None:
        """The way out, where there is one for every program."""
        return HELD if self.held else None


_TOLD: dict[type, Callable[[Any, Any], Difference | None]] = {}
"""The functions that find the difference of two metadata, by the type of the metadata."""


def tell_by(metadata: type, difference: Callable[[Any, Any], Difference | None]) -> None:
    """Register the function that finds the first difference of two metadata of a type, those of a class of nodes."""
    _TOLD[metadata] = difference


def first_difference(before: Any, after: Any, path: str, upper: bool = False) -> Difference | None:
    """The first place at which two trees have different structures; None where there is none.

    With `upper` the second tree may have any subtree in the place of a leaf of the first one.

    >>> str(first_difference(({"a": 1}, 2), ({"a": [1]}, 2), "carry"))
    'carry[0].a: a leaf, then a list'
    """
    one, other = containers.one_level(before), containers.one_level(after)
    if upper and one is None and before is not None:
        return None
    if one is None or other is None or type(before) is not type(after):
        alike = one is None and other is None and (before is None) == (after is None)
        return None if alike else Difference(path, f"{node_text(before, one)}, then {node_text(after, other)}")
    told = _TOLD.get(type(one.metadata))
    if told is not None:
        found = told(one.metadata, other.metadata)
        return (
            None
            if found is None
            else found._replace(path=tree.access(path, tree.Path(found.path)) if found.path else path)
        )
    if one.keys != other.keys:
        return Difference(path, f"{keys_text(one.keys)}, then {keys_text(other.keys)}")
    for key, x, y in zip(one.keys, one.children, other.children, strict=True):
        below = first_difference(x, y, below_root(path, access_to(key)), upper)
        if below is not None:
            return below
    return None if one.metadata == other.metadata else Difference(path, f"another {type(before).__name__}")


tree.tell_differences(functools.partial(first_difference, upper=True))


def node_text(node: Any, level: containers.Level | None) -> str:
    """A node in a few words."""
    return "None" if node is None else "a leaf" if level is None else type_in_words(node)


def keys_text(keys: Sequence[Any]) -> str:
    """The keys of a container, or its length."""
    return f"{len(keys)} items" if all(isinstance(key, int) for key in keys) else f"the keys {list(keys)}"


def structure_change(before: tree.TreeDef, after: tree.TreeDef) -> str:
    """The first difference of two structures of arguments, (positional, by name), in words.

    >>> structure_change(tree.structure(([1, 2], {})), tree.structure(([1, (2,)], {})))
    'argument 1: a leaf, then a tuple'
    """
    try:
        args, kwargs = zip(*[tree.unflatten(x, [0] * x.num_leaves) for x in (before, after)], strict=True)
    except EscapedError:
        return "a module holds another traced array"
    if len(args[0]) != len(args[1]):
        return f"positional ones: {len(args[0])}, then {len(args[1])}"
    for i, (x, y) in enumerate(zip(*args, strict=True)):
        found = first_difference(x, y, f"argument {i}")
        if found is not None:
            return str(found)
    return str(first_difference(kwargs[0], kwargs[1], "the keywords"))
