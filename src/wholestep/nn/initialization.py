"""Models with their parameters drawn: from the key of each path, or left at zero for weights that are put in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wholestep.errors import CheckpointError
from wholestep.nn.keys import drawing_nothing
from wholestep.nn.module import Module
from wholestep.nn.parameters import named_parameters
from wholestep.nn.traversal import lies_in_part
from wholestep.nn.waiting import HINT, PathKey, apart, draw_waiting, waiting_in

T = TypeVar("T")


def initialized(model: T, key: Any) -> T:
    """A copy of a model in which every layer that was made without a key is drawn with that of its path.

    `model` is a module, or a tree that contains some. The key of a path is that of the path before it with the last
    name or number folded in: `layers[0]` has `fold_in(fold_in(key, "layers"), 0)`, and the layer there equals one that
    its class makes with this `key=`. A layer at two paths is drawn once, for the first of them. `key` is a seed or a
    key. Layers that are drawn already stay as they are, in copies that share their arrays.

    Shapes: a key u32[2]; a model of the arrays that its layers draw.
    Raises: DtypeError or ShapeError for a bad key, and the exceptions of the layers' constructors.

    >>> import wholestep as ws
    >>> model = ws.nn.initialized([ws.nn.Linear(3, 8), ws.nn.relu, ws.nn.Linear(8, 2)], key=0)
    >>> by_hand = ws.nn.Linear(8, 2, key=ws.random.fold_in(ws.random.key(0), 2))
    >>> bool((model[2].weight == by_hand.weight).all())
    True
    """
    made: T = apart(model, {})
    draw_waiting(made, PathKey(key))
    return made


def filled_model(operation: str, model: Any, fill: Callable[[Any], Any]) -> Any:
    """A model, or the one that a function makes, as `fill` copies it with arrays from elsewhere.

    Arrays that are not drawn yet are zeros for `fill`. Raises CheckpointError where one of them has got no numbers.
    """
    if callable(model) and not isinstance(model, Module):
        model = model()
    waiting = [at.path() for at, _ in waiting_in(model)]
    if not waiting:
        return fill(model)
    with drawing_nothing():
        drawn = initialized(model, 0)
    filled = fill(drawn)
    now = named_parameters(filled)
    left = [path for path, x in named_parameters(drawn).items() if now[path] is x]
    open_ones = [path for path in left if any(lies_in_part(path, part) for part in waiting)]
    if open_ones:
        raise CheckpointError(f"{operation}: {', '.join(open_ones)} are not drawn, and not in the file", hint=HINT)
    return filled
