"""Common subexpression elimination by value numbering."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from wholestep.contents import same_bits
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.passes.rewrite import rewrite
from wholestep.primitives.contraction import LETTERS

COMMUTATIVE = frozenset({"add", "mul", "equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor"})
"""Exact in either order. A maximum of 0.0 and -0.0 is its first operand, and a complex product may be fused."""


def cse(graph: Graph) -> Graph:
    """Compute equal things once, across the forward and the backward pass alike.

        a = sin(x); b = sin(x); c = add(a, y); d = add(y, b)
        -->
        a = sin(x); c = add(a, y)

    The body of a checkpoint is recomputed on purpose; it is a graph of its own, so nothing in it is merged.
    """
    known: dict[Any, Node] = {}

    def merged(node: Node) -> tuple[Value, ...] | None:
        twin = known.setdefault(value_number(node), node)
        return None if twin is node else twin.outputs

    return rewrite(graph, merged)


def value_number(node: Node) -> Any:
    """The key of a node, shared by nodes that compute the same function of the same operands."""
    return (computation(node), ordered_operands(node, node.inputs))


def computation(node: Node) -> Any:
    """The key of an operation with its parameters, shared by nodes that compute the same function."""
    name, params = node.op.name, node.params
    if name == "full":
        value = params["value"]
        return (name, type(value), repr(value), params["shape"], params["dtype"])
    if name == "contract":
        return (name, canonical_spec(params["spec"]))
    return (name, *[param_key(v) for v in params.values()])


def ordered_operands(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The operands of a node, in one order where either will do."""
    name = node.op.name
    if name in COMMUTATIVE and id(inputs[0]) > id(inputs[1]) and inputs[0].dtype.kind != "c":
        return (inputs[1], inputs[0])
    return inputs


@lru_cache(maxsize=4096)
def canonical_spec(spec: str) -> str:
    """A contraction's spec with labels renamed in the order in which they first appear."""
    labels = dict.fromkeys(c for c in spec if c not in ",->")
    return spec.translate({ord(c): new for c, new in zip(labels, LETTERS, strict=False)})


class ArrayContent:
    """An array compared by its bytes; only its head is hashed, so that large ones cost nothing until two are alike."""

    __slots__ = ("array",)

    def __init__(self, array: NDArray) -> None:
        self.array = array

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.dtype, self.array.reshape(-1)[:16].tobytes()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayContent):
            return NotImplemented
        a, b = self.array, other.array
        return a is b or same_bits(a, b)


def param_key(value: Any) -> Any:
    """A parameter as something that can be compared and hashed; arrays by content, numbers by type and sign of zero."""
    if type(value) in (tuple, str, int):
        return value
    if isinstance(value, np.ndarray):
        return ArrayContent(value)
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return (type(value), value)
