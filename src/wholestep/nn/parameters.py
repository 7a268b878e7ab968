"""A model's arrays by path: taken out, put back, listed, chosen by pattern; and its modules by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from wholestep import dtypes, tree
from wholestep.errors import ParameterError, TreeError
from wholestep.ir.graph import NDArray
from wholestep.nn.annotations import FROZEN, FROZEN_UNDECAYED, UNDECAYED
from wholestep.nn.model_structure import Group, Kept, Leaf, ModuleBody
from wholestep.nn.module import Module
from wholestep.nn.traversal import ArrayPlace, ModelWalk, Rebuilt
from wholestep.words import matchable

T = TypeVar("T")


def split(model: Any) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """The parameters of a model by path, and its buffers and frozen arrays: `params, buffers = nn.split(model)`.

    `model` is a module, or a tree of arrays and modules. The arrays are the model's own; each comes once, under its
    first path.

    Shapes: two dictionaries of arrays, the model's own.
    Raises: as `buffers` does.

    >>> import numpy as np, wholestep as ws
    >>> params, buffers = ws.nn.split({"w": np.ones(2), "ids": ws.nn.frozen(np.arange(2))})
    >>> list(params), list(buffers)
    (['w'], ['ids'])
    """
    walk = ModelWalk(model)
    return by_path(walk.parameters), by_path(walk.kept)


def join(model: T, params: Mapping[str, Any] | None = None, buffers: Mapping[str, Any] | None = None) -> T:
    """A copy of a model with other arrays, `params` and `buffers` by path; None keeps those of the model.

    Shapes: dictionaries of arrays, whose shapes and dtypes may be others than those of the model.
    Raises: TreeError that lists the paths which are missing or unknown.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Module()
    >>> model.scale = np.ones(2)
    >>> ws.nn.join(model, {"scale": np.zeros(2)}).scale.tolist(), model.scale.tolist()
    ([0.0, 0.0], [1.0, 1.0])
    """
    walk = ModelWalk(model)
    leaves = [p.value for p in walk.parameters] if params is None else ordered(walk.parameters, params, "parameters")
    return Rebuilt(walk.structure, leaves, None if buffers is None else ordered(walk.kept, buffers, "buffers")).root


def named_parameters(model: Any) -> dict[str, NDArray]:
    """The parameters of a model by path, each once.

    Shapes: a dictionary of floating or complex arrays, those of the model.
    Raises: as `buffers` does.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.Module()
    >>> model.layers = [{"w": np.ones(2)}]
    >>> list(ws.nn.named_parameters(model))
    ['layers[0].w']
    """
    return split(model)[0]


def named_modules(model: Any) -> dict[str, Module]:
    """The modules of a model by path, each once and before its own parts; the model itself has the path "".

    `model` is a module, or a tree that contains some.

    Shapes: a dictionary of modules, the model's own.
    Raises: as `buffers` does.

    >>> import wholestep as ws
    >>> model = ws.nn.Sequential(ws.nn.Linear(2, 2, key=0), ws.nn.relu, ws.nn.BatchNorm(2))
    >>> [(path, type(part).__name__) for path, part in ws.nn.named_modules(model).items()]
    [('', 'Sequential'), ('layers[0]', 'Linear'), ('layers[2]', 'BatchNorm')]
    """
    return {tree.Path(path): module for path, module in ModelWalk(model).modules}


def buffers(model: Any) -> dict[str, NDArray]:
    """The buffers and frozen arrays of a model by path.

    A loss that is differentiated outside of a compiled step returns these, since its assignments are made in a copy:

    Shapes: a dictionary of arrays as the model holds them.
    Raises: TreeError for a model whose marks stand outside of fields.

    >>> import numpy as np, wholestep as ws
    >>> class Centred(ws.nn.Module):
    ...     def __init__(self):
    ...         self.gain, self.mean = np.ones(()), ws.nn.buffer(np.zeros(()))
    ...     def __call__(self, x):
    ...         self.mean = 0.5 * self.mean + 0.5 * x.mean()
    ...         return self.gain * (x - self.mean)
    >>> def loss(model, x):
    ...     return np.sum(model(x) ** 2), ws.nn.buffers(model)
    >>> model = Centred()
    >>> gradient, new = ws.grad(loss, has_aux=True)(model, np.array([1.0, 3.0]))
    >>> model = ws.nn.join(model, buffers=new)
    >>> float(model.mean)
    1.0
    """
    return split(model)[1]


def decay_flags(model: Any) -> dict[str, bool]:
    """The parameters of `model` to which weight decay applies, by path: see `nn.no_decay` and `Module.undecayed`.

    Shapes: a dictionary with a boolean for each parameter.
    Raises: as `buffers` does.

    >>> import numpy as np, wholestep as ws
    >>> class Affine(ws.nn.Module):
    ...     undecayed = ("bias",)
    ...     def __init__(self):
    ...         self.weight, self.bias = np.ones(2), np.zeros(2)
    >>> ws.nn.decay_flags(Affine())
    {'weight': True, 'bias': False}
    """
    return {place.path: place.decayed for place in ModelWalk(model).parameters}


def matching(model: Any, pattern: str) -> list[str]:
    """The paths of the parameters of `model` that match a pattern, in which `*` matches any characters.

    A pattern that names a part means all in it.

    Shapes: a list of paths.
    Raises: ParameterError for a pattern without a match.

    >>> import numpy as np, wholestep as ws
    >>> model = {"layers": [{"w": np.ones(1), "b": np.ones(1)} for _ in range(2)]}
    >>> ws.nn.matching(model, "layers[*].b"), ws.nn.matching(model, "layers[0]")
    (['layers[0].b', 'layers[1].b'], ['layers[0].b', 'layers[0].w'])
    """
    paths = list(named_parameters(model))
    found = [path for path in paths if tree.matches(pattern, path)]
    if not found:
        raise ParameterError(
            f"nn.matching: no parameter matches {pattern!r}",
            hint=matchable(paths),
        )
    return found


def unfrozen(model: T, only: str = "*") -> T:
    """A copy of a model with the same arrays, in which those that were frozen are parameters again.

    `only` is a pattern of paths as in `matching`: "layers[0]", "*.bias". Arrays of integers and booleans stay frozen,
    as they have no derivative. Tables that a layer freezes by itself are parameters afterwards, too, where they match.

    Shapes: a module, or a tree of arrays and modules; the same.
    Raises: ParameterError for a pattern that matches no frozen floating or complex array.

    >>> import numpy as np, wholestep as ws
    >>> model = ws.nn.frozen(ws.nn.MLP([2, 3, 1], key=0))
    >>> list(ws.nn.named_parameters(ws.nn.unfrozen(model, "layers[1]")))
    ['layers[1].weight', 'layers[1].bias']
    """
    walk = ModelWalk(model)
    frozen = {number: p for number, p in enumerate(walk.kept) if p.kind == FROZEN and dtypes.is_inexact(p.value.dtype)}
    chosen = {number: p for number, p in frozen.items() if any(tree.matches(only, path) for path in p.aliases)}
    if not chosen and only != "*":
        raise ParameterError(
            f"nn.unfrozen: no frozen array matches {only!r}",
            hint=f"frozen are {', '.join(p.path for p in frozen.values()) or 'none'}; * stands for any characters",
        )
    numbers = {number: len(walk.parameters) + place for place, number in enumerate(chosen)}
    leaves = [p.value for p in (*walk.parameters, *chosen.values())]
    return Rebuilt(with_leaves(walk.structure, numbers), leaves).root


def with_leaves(node: Any, numbers: Mapping[int, int]) -> Any:
    """A structure in which frozen arrays, by their numbers, are parameters of other numbers."""
    if isinstance(node, Kept):
        return Leaf(numbers[node.number]) if node.number in numbers else node
    if isinstance(node, Group):
        return replace(node, items=tuple([with_leaves(item, numbers) for item in node.items]))
    if not isinstance(node, ModuleBody):
        return node
    fields = tuple([with_leaves(field, numbers) for field in node.fields])
    freed = {name for name, field in zip(node.names, fields, strict=True) if isinstance(field, Leaf)}
    kept = {name: UNDECAYED if name in freed and mark == FROZEN_UNDECAYED else mark for name, mark in node.marks}
    marks = {name: mark for name, mark in kept.items() if name not in freed or mark != FROZEN}
    return replace(node, marks=tuple(sorted(marks.items())), fields=fields)


def by_path(places: list[ArrayPlace]) -> dict[str, Any]:
    """Arrays by their paths, which are inserted unchanged into longer paths: `params.layers[0].weight`."""
    return {tree.Path(place.path): place.value for place in places}


def ordered(places: list[ArrayPlace], given: Mapping[str, Any], what: str) -> list[Any]:
    """The given arrays in the order of their places; raises TreeError for missing and for unexpected names."""
    if len(given) == len(places) and all([place.path in given for place in places]):
        return [given[place.path] for place in places]
    wanted = [place.path for place in places]
    missing, unexpected = [p for p in wanted if p not in given], [p for p in given if p not in wanted]
    parts = [f"no {', '.join(missing)}"] if missing else []
    parts += [f"{', '.join(map(str, unexpected))} unexpected"] if unexpected else []
    raise TreeError(f"nn.join: these are not the model's {what}: {'; '.join(parts)}")
