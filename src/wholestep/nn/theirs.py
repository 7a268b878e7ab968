"""PyTorch's name and layout of each array of a model, from the `torch_names` and `torch_turned` of its layers."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.ir.graph import NDArray
from wholestep.nn.traversal import SEGMENT, ArrayPlace, ModelWalk, holder, lies_in_part


class Theirs(NamedTuple):
    """The correspondence of an array to PyTorch's tensors: their names, several where layers are stacked.

    `depths` are the axes along which tensors are stacked, `turned` is True for a transposed matrix, and `rows` are the
    rows of the tensor that the array holds, None for all. A tensor in equal `pieces`, as queries, keys and values may
    be, has a name for each piece.
    """

    path: str
    names: tuple[str, ...]
    depths: tuple[int, ...]
    turned: bool
    rows: slice | None
    pieces: int = 1

    def ours(self, tensors: list[NDArray]) -> NDArray:
        """Their tensors as our array."""
        if self.pieces > 1:
            tensors = [np.concatenate(tensors[i : i + self.pieces]) for i in range(0, len(tensors), self.pieces)]
        parts = [x if self.rows is None else x[self.rows] for x in tensors]
        parts = [x.swapaxes(-1, -2) if self.turned and x.ndim > 1 else x for x in parts]
        return np.stack(parts).reshape(*self.depths, *parts[0].shape) if self.depths else np.ascontiguousarray(parts[0])

    def tensors(self, ours: NDArray) -> list[NDArray]:
        """Our array as their tensors, copies."""
        x = ours.swapaxes(-1, -2) if self.turned and ours.ndim > 1 + len(self.depths) else ours
        parts = x.reshape(-1, *x.shape[len(self.depths) :])[: len(self.names) // self.pieces]
        return [np.array(piece, order="C") for part in parts for piece in np.split(part, self.pieces)]


def theirs(model: Any) -> Iterator[tuple[ArrayPlace, list[Theirs]]]:
    """Each array of a model, parameters first, with its PyTorch names, one for each of its paths."""
    walk = ModelWalk(model)
    modules = dict(walk.modules)
    ties = {
        tree.access(at, name): tree.access(at, tree.Path(target)) if at else target
        for at, module in walk.modules
        for name, target in module._ties.items()
    }
    for place in walk.places:
        others = [alias for alias, target in ties.items() if target in place.aliases]
        yield place, [beside(path, modules) for path in (*place.aliases, *others)]


def beside(path: str, modules: dict[str, Any]) -> Theirs:
    """PyTorch's name of the array at a path."""
    at, segments, depths = "", list[str](), list[int]()
    while True:
        module: Any = modules.get(at)
        if hasattr(module, "_stack"):
            levels = [spec.depth for spec in module._stack.levels()]
            segments += ["{}"] * len(levels)
            depths += levels
        if at == path:
            break
        matched, name = next_name(layer_of(module), path, at)
        at += matched
        segments += [name] if name else []
    owner = holder(path, modules)
    template = ".".join(segments)
    names = [template.format(*where) for where in itertools.product(*map(range, depths))]
    turned = path[len(owner) :].removeprefix(".") in getattr(layer_of(modules.get(owner)), "torch_turned", ())
    return Theirs(path, tuple(names), tuple(depths), turned, tensor_rows(path, modules))


def tensor_rows(path: str, modules: dict[str, Any]) -> slice | None:
    """The rows of a tensor that are ours, if a module on the way says so."""
    for at, module in modules.items():
        if lies_in_part(path, at):
            found = module._torch_rows(path[len(at) :].removeprefix("."))
            if found is not None:
                return slice(*found)
    return None


def layer_of(module: Any) -> Any:
    """The class whose `torch_names` apply to the fields of a module: for a stack the class of its layers."""
    return module._stack.levels()[-1].cls if hasattr(module, "_stack") else type(module)


def next_name(cls: Any, path: str, at: str) -> tuple[str, str]:
    """The next part of a path, and its name."""
    rest = path[len(at) :]
    for pattern, name in getattr(cls, "torch_names", {}).items():
        if match := compile_pattern(pattern).match(rest):
            return match[0], name.format(*match.groups())
    match = SEGMENT.match(rest)
    assert match is not None, path
    # The names are templates, in which a brace is written twice.
    return match[0], match[1] or str(ast.literal_eval(match[2])).replace("{", "{{").replace("}", "}}")


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of a path, in which [*] stands for a number between brackets."""
    body = re.escape(pattern).replace(re.escape("[*]"), r"\[([0-9]+)\]")
    return re.compile(rf"\.?{body}(?=[.\[]|\Z)")
