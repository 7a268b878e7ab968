"""Readers of models: the arrays of a model whose structure is known, without a walk that finds the structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import containers
from wholestep.frontend.frozen import thawed
from wholestep.frontend.plain_trees import Reader
from wholestep.nn.model_structure import Again, Fixed, Group, Kept, Leaf, ModuleBody

PartReader = Callable[[Any, list[Any], list[Any]], bool]
"""Adds the parameters of a part of a model to one list and its modules to another; False for a part of another
structure."""


def model_reader(example: Any) -> Reader | None:
    """The reader of models of the example's structure; None where it holds containers that Python does not have.

    >>> import wholestep as ws
    >>> model, found = ws.nn.Linear(3, 2, key=0), []
    >>> model_reader(model)(model, found), [x.shape for x in found], model_reader(model)(model.eval(), found)
    (True, [(3, 2), (2,)], False)
    """
    level = containers.one_level(example)
    kept: set[int] = set()
    read = None if level is None else part_reader(level.metadata, kept)
    if read is None:
        return None
    known = frozenset(kept)

    def whole(model: Any, found: list[Any]) -> bool:
        parameters: list[Any] = []
        if not read(model, parameters, []):
            return False
        own = set(map(id, parameters))
        if len(own) < len(parameters) or not known.isdisjoint(own):
            return False  # arrays that are tied now
        found += parameters
        return True

    return whole


def part_reader(node: Any, kept: set[int]) -> PartReader | None:
    """The reader of one part of a structure; `kept` collects the identities of arrays that are no parameters."""
    if isinstance(node, Leaf):
        return parameter_reader(node.number)
    if isinstance(node, Kept):
        array = node.array.array
        kept.add(id(thawed(array)))
        return lambda x, parameters, modules: x is array
    if isinstance(node, Again):
        number = node.number
        return lambda x, parameters, modules: x is modules[number]
    if isinstance(node, Fixed):
        value = node.value
        return lambda x, parameters, modules: x is value or node == Fixed(x)
    if isinstance(node, ModuleBody):
        return module_reader(node, kept)
    return container_reader(node, kept) if isinstance(node, Group) else None


def parameter_reader(number: int) -> PartReader:
    """The reader of a parameter: the next one, or one that was read before."""

    def read(x: Any, parameters: list[Any], modules: list[Any]) -> bool:
        if number < len(parameters):
            return x is parameters[number]
        parameters.append(x)
        return type(x) is np.ndarray

    return read


def module_reader(body: ModuleBody, kept: set[int]) -> PartReader | None:
    """The reader of a module by its fields."""
    readers = [part_reader(field, kept) for field in body.fields]
    each = each_reader(readers)
    if each is None:
        return None
    cls, names, marks, ties = body.cls, body.names, dict(body.marks), dict(body.ties)

    def read(x: Any, parameters: list[Any], modules: list[Any]) -> bool:
        if type(x) is not cls or x._pending is not None or x._odd:
            return False
        modules.append(x)
        fields = vars(x)
        alike = tuple(fields) == names and x._marks == marks and x._ties == ties
        return alike and each(fields.values(), parameters, modules)

    return read


def container_reader(group: Group, kept: set[int]) -> PartReader | None:
    """The reader of a list, a tuple or a dictionary; None for other containers."""
    cls, keys, order, count = group.cls, group.keys, group.order.keys, len(group.items)
    readers = [part_reader(item, kept) for item in group.items]
    each = each_reader(readers)
    if each is None or cls not in (list, tuple, dict):
        return None

    def read(x: Any, parameters: list[Any], modules: list[Any]) -> bool:
        if type(x) is not cls or len(x) != count:
            return False
        if cls is not dict:
            return each(x, parameters, modules)
        return tuple(x) == order and each([x[key] for key in keys], parameters, modules)

    return read


def each_reader(readers: Sequence[PartReader | None]) -> PartReader | None:
    """The reader of several parts; None where one of them has none."""
    found = [read for read in readers if read is not None]
    if len(found) < len(readers):
        return None

    def read(parts: Any, parameters: list[Any], modules: list[Any]) -> bool:
        for own, x in zip(found, parts):  # noqa: B905  # they are as many
            if not own(x, parameters, modules):
                return False
        return True

    return read
