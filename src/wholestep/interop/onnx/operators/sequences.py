"""Sequences and optional values of ONNX, as Python's tuples and None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, axis_within, integer, integers


class TensorSequence(tuple[Any, ...]):
    """A sequence of arrays, which is one value of a graph."""

    __slots__ = ()


def of_sequence(x: Any) -> TensorSequence:
    """A value that must be a sequence."""
    if not isinstance(x, TensorSequence):
        raise ModelError("an array, where a sequence must be")
    return x


def construct(node: OnnxNode, *xs: Any) -> Any:
    """A sequence of arrays."""
    return (TensorSequence(xs),)


def empty_sequence(node: OnnxNode) -> Any:
    """An empty sequence."""
    return (TensorSequence(),)


def item_at(node: OnnxNode, xs: Any, place: Any) -> Any:
    """One array of a sequence."""
    return of_sequence(xs)[axis_within(integer(place, "the place"), len(xs))]


def inserted(node: OnnxNode, xs: Any, x: Any, place: Any = None) -> Any:
    """A sequence with one array more, at its end or before a place."""
    items = [*of_sequence(xs)]
    items.insert(len(items) if place is None else integer(place, "the place"), x)
    return (TensorSequence(items),)


def erased(node: OnnxNode, xs: Any, place: Any = None) -> Any:
    """A sequence without its last array, or without that of a place."""
    items = [*of_sequence(xs)]
    del items[axis_within(-1 if place is None else integer(place, "the place"), len(items))]
    return (TensorSequence(items),)


def length_of(node: OnnxNode, xs: Any) -> Any:
    """The number of arrays."""
    return np.array(len(of_sequence(xs)), np.int64)


def split_to_sequence(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    """Parts of an axis as a sequence: of one element, of one size, or of sizes."""
    axis = axis_within(node.get("axis", 0), x.ndim)
    n = x.shape[axis]
    if sizes is None:
        parts = wnp.split(x, n, axis=axis) if n else []
        return (TensorSequence(parts if node.get("keepdims", 1) else [wnp.squeeze(p, axis) for p in parts]),)
    given = integers(sizes, "the sizes")
    if not sizes.ndim:
        if given[0] < 1:
            raise ModelError(f"parts of {given[0]}")
        ends = [*range(given[0], n, given[0])]
    else:
        ends = [int(k) for k in np.cumsum(given)[:-1]]
    return (TensorSequence(wnp.split(x, ends, axis=axis)),)


def concat_from_sequence(node: OnnxNode, xs: Any) -> Any:
    """The arrays of a sequence behind each other, or on a new axis."""
    f = wnp.stack if node.get("new_axis", 0) else wnp.concatenate
    return f(list(of_sequence(xs)), axis=node.need("axis"))


def optional(node: OnnxNode, x: Any = None) -> Any:
    """A value, or none."""
    return (x,)


def has_element(node: OnnxNode, x: Any = None) -> Any:
    """True if there is a value."""
    return np.array(x is not None)


def get_element(node: OnnxNode, x: Any = None) -> Any:
    """The value of an optional; raises ModelError for an empty one."""
    if x is None:
        raise ModelError("there is no element")
    return (x,)


TABLE: Mapping[str, Handler] = {
    "SequenceConstruct": construct,
    "SequenceEmpty": empty_sequence,
    "SequenceAt": item_at,
    "SequenceInsert": inserted,
    "SequenceErase": erased,
    "SequenceLength": length_of,
    "SplitToSequence": split_to_sequence,
    "ConcatFromSequence": concat_from_sequence,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}
