"""Trees of Python's own lists, tuples and dictionaries, taken apart and put together by functions made for one tree.

Classes of other nodes may register readers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from wholestep import tree

Reader = Callable[[Any, list[Any]], bool]
"""Adds the leaves of a tree to a list; False for another tree, or another order of keys, which the function may see.

Any object in the place of a leaf counts as one."""
Builder = Callable[[Sequence[Any]], Any]
"""Makes a tree around its leaves."""
MAX_DEPTH = 32
_MAKERS: dict[type, Callable[[Any], Reader | None]] = {}
"""The functions that make readers for nodes of a class and of its subclasses."""


def register_reader(cls: type, make: Callable[[Any], Reader | None]) -> None:
    """Register the function that makes a reader for trees like an example, a node of a class around any leaves."""
    _MAKERS[cls] = make


def reader(structure: tree.TreeDef) -> Reader | None:
    """The reader of a structure; None where it has other containers, or many in each other.

    >>> found = []
    >>> reader(tree.structure({"b": 0, "a": [0, 0]}))({"b": 3, "a": [1, 2]}, found), found
    (True, [1, 2, 3])
    """
    return _reader(tree.unflatten(structure, range(structure.num_leaves)), 0)


def builder(structure: tree.TreeDef) -> Builder | None:
    """The builder of a structure; None where it has other containers, or many in each other.

    >>> builder(tree.structure({"b": 0, "a": [0, 0]}))([1, 2, 3])
    {'b': 3, 'a': [1, 2]}
    """
    return _builder(tree.unflatten(structure, range(structure.num_leaves)), 0)


def _reader(example: Any, depth: int) -> Reader | None:
    kind = type(example)
    if kind is int:
        return _read_leaf
    if example is None:
        return _read_none
    make = next((_MAKERS[base] for base in kind.__mro__ if base in _MAKERS), None)
    if make is not None:
        return make(example)
    if depth > MAX_DEPTH or kind not in (list, tuple, dict):
        return None
    order = tuple(example) if kind is dict else None
    keys = None if order is None else sorted(order, key=lambda key: _first(example[key]))
    items = example if keys is None else [example[key] for key in keys]
    readers = [_reader(item, depth + 1) for item in items]
    return None if None in readers else _reader_of_items(kind, order, keys, readers)


def _first(example: Any) -> int:
    """The first leaf of a tree of numbers that rise."""
    return min(tree.leaves(example), default=-1)


def _reader_of_items(kind: Any, order: Any, keys: Sequence[Any] | None, readers: Sequence[Any]) -> Reader:
    count, plain = len(readers), all([own is _read_leaf for own in readers])
    choose = None if keys is None else _chosen(keys)

    def read(x: Any, found: list[Any]) -> bool:
        if type(x) is not kind or len(x) != count:
            return False
        if choose is not None:
            if tuple(x) != order:
                return False
            x = choose(x)
        if plain:
            found += x
            return True
        for own, item in zip(readers, x, strict=True):
            if not own(item, found):
                return False
        return True

    return read


def _read_leaf(x: Any, found: list[Any]) -> bool:
    found.append(x)
    return True


def _read_none(x: Any, found: list[Any]) -> bool:
    return x is None


def _chosen(keys: Sequence[Any]) -> Callable[[Any], Any]:
    """The function that gives the items at some keys."""
    if len(keys) == 1:
        only = keys[0]
        return lambda x: (x[only],)
    return itemgetter(*keys) if keys else lambda x: ()


def _builder(example: Any, depth: int) -> Builder | None:
    kind = type(example)
    if kind is int:
        return itemgetter(example)
    if example is None:
        return lambda leaves: None
    if depth > MAX_DEPTH or kind not in (list, tuple, dict):
        return None
    items = list(example.values()) if kind is dict else example
    if all([type(item) is int for item in items]):
        choose = _chosen(items)
    else:
        builders = [_builder(item, depth + 1) for item in items]
        if None in builders:
            return None
        choose = _each(builders)
    if kind is dict:
        keys = tuple(example)
        return lambda leaves: dict(zip(keys, choose(leaves), strict=True))
    return lambda leaves: kind(choose(leaves))


def _each(builders: Sequence[Any]) -> Builder:
    """The function that makes several trees."""
    return lambda leaves: [make(leaves) for make in builders]
