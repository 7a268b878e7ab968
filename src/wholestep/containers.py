"""One container at a time: its items and their names, the same container of other items, and the order of its keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import optree

from wholestep.errors import TreeError
from wholestep.exits import UNBROKEN

SPACE = "wholestep"
"""The namespace of our registrations, which stay out of the user's other libraries; global ones still count."""


class Level(NamedTuple):
    """The items of one container, its other metadata from its class, and the name of each item."""

    children: list[Any]
    metadata: Any
    keys: list[Any]


@UNBROKEN
def one_level(node: Any) -> Level | None:
    """Return the items of one container; None for a leaf.

    >>> one_level({"a": [1], "b": 2}).children
    [[1], 2]
    """
    if optree.tree_is_leaf(node, namespace=SPACE):
        return None
    found = optree.tree_flatten_one_level(node, namespace=SPACE)
    return Level(list(found.children), found.metadata, list(getattr(type(node), "_fields", found.entries)))


@UNBROKEN
def rebuild(cls: type[Any], metadata: Any, children: Iterable[Any]) -> Any:
    """Make a container of this class again, as `one_level` took it apart.

    >>> rebuild(dict, ["a", "b"], [1, 2])
    {'a': 1, 'b': 2}
    """
    entry: Any = optree.register_pytree_node.get(cls, namespace=SPACE)
    return entry.unflatten_func(metadata, children)


@UNBROKEN
def key_orders(tree: Any) -> tuple[tuple[Hashable, ...], ...]:
    """The order of the keys of each dictionary in a tree, at any depth, which its structure leaves out.

    >>> key_orders([{"b": 1, "a": ({"c": 2}, 3)}])
    (('b', 'a'), ('c',))
    """
    found: list[tuple[Hashable, ...]] = []

    def note(node: Any) -> bool:
        if isinstance(node, dict):
            found.append(tuple(node))
        return False

    try:
        optree.tree_leaves(tree, note, namespace=SPACE)
    except RecursionError:
        raise too_deep() from None
    return tuple(found)


def too_deep() -> TreeError:
    """The error for containers that lie too deep in each other."""
    return TreeError(
        f"tree: containers lie more than {optree.MAX_RECURSION_DEPTH:,} deep in each other",
        hint="put the arrays into one list or dictionary, or stack them along an axis",
    )
