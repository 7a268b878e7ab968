"""Differences between the structures of two models: a field with another value, another buffer, another part."""

from __future__ import annotations

from typing import Any

from wholestep import tree
from wholestep.frontend.structures import Difference
from wholestep.nn.model_structure import Again, Fixed, Group, Kept, ModuleBody
from wholestep.words import type_in_words, with_article


def model_difference(before: Any, after: Any, path: str = "") -> Difference | None:
    """The first place at which two structures differ; None where there is none."""
    if before == after:
        return None
    if isinstance(before, Kept) and isinstance(after, Kept) and before.kind == after.kind:
        return Difference(path, f"another {before.kind} array", held=True)
    if type(before) is type(after) and isinstance(before, Group | ModuleBody) and before.cls is after.cls:
        (keys, items), (other_keys, others) = keys_and_items(before), keys_and_items(after)
        if keys == other_keys:
            return items_difference(path, keys, items, others)
        listed = (f"{before.cls.__name__} of {', '.join(map(str, each))}" for each in (keys, other_keys))
        return Difference(path, ", then ".join(listed))
    return Difference(path, f"{part_text(before)}, then {part_text(after)}")


def keys_and_items(node: Any) -> tuple[Any, Any]:
    """The keys and the items of a container, the names and the fields of a module."""
    return (node.keys, node.items) if isinstance(node, Group) else (node.names, node.fields)


def items_difference(path: str, keys: Any, before: Any, after: Any) -> Difference | None:
    """The first difference among the items of two containers or the fields of two modules."""
    pairs = zip(keys, before, after, strict=True)
    found = (model_difference(x, y, tree.access(path, key)) for key, x, y in pairs)
    return next(filter(None, found), Difference(path, "other marks, ties or an order of keys"))


def part_text(node: Any) -> str:
    """One part of a structure in a few words."""
    if isinstance(node, Fixed):
        text = repr(node)
        return text if len(text) < 40 else type_in_words(node.value)
    if isinstance(node, Kept):
        return f"{with_article(node.kind)} array"
    if isinstance(node, Group | ModuleBody):
        return with_article(node.cls.__name__)
    return "a part that was met before" if isinstance(node, Again) else "a parameter"
