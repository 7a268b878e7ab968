"""Functions that flatten and unflatten trees at the border of another library, whose tracer may follow them.

Plain containers are therefore handled with loops over lists and dictionaries alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wholestep import tree
from wholestep.errors import TreeError
from wholestep.words import type_in_words

Flatten = Callable[[Any], list[Any]]
Unflatten = Callable[[Sequence[Any]], Any]


def sorted_keys(example: dict[Any, Any]) -> list[Any]:
    """The keys of a dictionary in the order of its leaves."""
    names = list(example)
    return [names[i] for i in tree.leaves(dict(zip(names, range(len(names)), strict=True)))]


def flatten_like(example: Any, path: str) -> Flatten:
    """A function that gives the leaves of a tree of the structure of an example; raises TreeError for another one."""
    if type(example) is dict:
        keys = sorted_keys(example)
        parts = [flatten_like(example[key], tree.access(path, key)) for key in keys]

        def of_dictionary(given: Any) -> list[Any]:
            if not isinstance(given, dict) or len(given) != len(keys) or any(key not in given for key in keys):
                raise TreeError(f"{path}: a dictionary of {', '.join(map(repr, keys))} is asked for")
            return [leaf for key, part in zip(keys, parts, strict=True) for leaf in part(given[key])]

        return of_dictionary
    if type(example) in (list, tuple):
        parts = [flatten_like(x, tree.access(path, i)) for i, x in enumerate(example)]

        def of_sequence(given: Any) -> list[Any]:
            if not isinstance(given, list | tuple) or len(given) != len(parts):
                count = len(given) if isinstance(given, list | tuple) else type_in_words(given)
                raise TreeError(f"{path}: {len(parts)} items are asked for, and {count} given")
            return [leaf for x, part in zip(given, parts, strict=True) for leaf in part(x)]

        return of_sequence
    if example is None:
        return lambda given: []
    structure = tree.structure(example)
    if structure == tree.structure(0):
        return lambda given: [given]
    return lambda given: tree.below(structure, given)


def unflatten_like(example: Any) -> Unflatten:
    """A function that puts leaves in the structure of an example, whose leaves are their places."""
    if isinstance(example, int):
        place = example
        return lambda leaves: leaves[place]
    if type(example) is dict:
        named = {key: unflatten_like(x) for key, x in example.items()}
        return lambda leaves: {key: part(leaves) for key, part in named.items()}
    if type(example) in (list, tuple):
        parts, kind = [unflatten_like(x) for x in example], type(example)
        return lambda leaves: kind([part(leaves) for part in parts])
    if example is None:
        return lambda leaves: None
    places, structure = tree.flatten(example)
    return lambda leaves: tree.unflatten(structure, [leaves[i] for i in places])
