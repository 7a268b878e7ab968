"""Marks: values that are named, pinned in memory or cut off from derivatives, and are otherwise unchanged."""

from __future__ import annotations

from typing import Any, TypeVar

from wholestep import tree
from wholestep.errors import DtypeError
from wholestep.frontend.array import Array
from wholestep.frontend.selection import Selection
from wholestep.primitives.marks import (
    capture as capture_primitive,
    pin as pin_primitive,
    stop_gradient as stop_primitive,
)
from wholestep.words import type_in_words

T = TypeVar("T")


def stop_gradient(x: T) -> T:
    """The same values with a derivative of zero, for every array of a tree.

    Shapes: x an array of any shape and dtype, or a tree of them; the same.
    Raises: nothing of its own.

    >>> import wholestep as ws
    >>> ws.grad(lambda x: x * ws.stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    return _marked(x, stop_primitive, {})


def capture(label: str, x: T) -> T:
    """x under a `label`, by which `ws.frontier_grad` and the compiled step can ask for it; the value is unchanged.

    Shapes: an array of any shape and dtype, or a tree of them; the same.
    Raises: DtypeError for a label that is no text.

    >>> import wholestep as ws
    >>> ws.grad(lambda x: ws.capture("h", x * 2.0) * 3.0)(1.0)
    np.float64(6.0)
    """
    if not isinstance(label, str):
        raise DtypeError(
            f"capture: the label is {type_in_words(label)}, not text",
            hint="the label comes first: ws.capture('mean', x)",
        )
    return _marked(x, capture_primitive, {"label": label})


def keep(x: T) -> T:
    """x, which stays in memory until its last use, under any `memory_budget` of a step; the value is unchanged.

    A value that costs less to make than to read is stored nowhere, and nothing is changed by that.

    Shapes: an array of any shape and dtype, or a tree of them; the same.
    Raises: nothing of its own.

    >>> import numpy as np, wholestep as ws
    >>> ws.grad(lambda x: np.sum(np.tanh(ws.keep(x @ x))))(np.zeros((1, 1))).tolist()
    [[0.0]]
    """
    return _marked(x, pin_primitive, {"label": "keep"})


def recompute(x: T) -> T:
    """x, which is freed between the two uses furthest apart and recomputed; the value is unchanged.

    Unlike `checkpoint` it names one value and not all inside a function. It holds in compiled programs, with a
    `memory_budget` or without; `step.plan.decisions` lists the outcome. A value that cannot be recomputed, because its
    operands are no longer in memory, stays.

    Shapes: an array of any shape and dtype, or a tree of them; the same.
    Raises: nothing of its own.

    >>> import numpy as np, wholestep as ws
    >>> ws.grad(lambda x: np.sum(np.tanh(ws.recompute(x @ x))))(np.zeros((1, 1))).tolist()
    [[0.0]]
    """
    return _marked(x, pin_primitive, {"label": "recompute"})


def _marked(x: Any, primitive: Any, params: dict[str, Any]) -> Any:
    """A tree with every array of it under a mark."""

    def mark(leaf: Any) -> Any:
        return Array(primitive(leaf.value, **params), leaf._scalar) if isinstance(leaf, Array) else leaf

    return Selection(mark(x.full), x.mask) if isinstance(x, Selection) else tree.map(mark, x)
