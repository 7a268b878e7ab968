"""Copied calls: a function that is called on many arrays of equal types is traced once, its operations are copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep.frontend.array import Array
from wholestep.frontend.memory import may_be_transposed
from wholestep.ir.build import copy_stretch, current
from wholestep.ir.graph import Node, Value

Results = dict[str, Any]


class FirstCall(NamedTuple):
    """The first call on arrays of some types: its operands, its operations, and its results."""

    given: list[Value]
    nodes: list[Node]
    results: dict[str, Array]


class CopiedCalls:
    """A function (arrays, *rest) -> results by name, which is traced once for arrays of equal types and the same rest.

    The function may depend on nothing of its arrays but their types, and has no side effects: a later call repeats the
    operations of the first one on its own operands, in the same order; values that depend on no operand are computed
    once. A call is traced where it may depend on more: outside of traces and in eager ones, for arrays that are
    constants or not in row-major order, and where its operations hold constant arrays, which a program stores once.
    """

    def __init__(self, f: Callable[..., Results]) -> None:
        self.f = f
        self.known: dict[Any, FirstCall | None] = {}

    def __call__(self, arrays: Sequence[Any], *rest: Any) -> Results:
        key = call_key(arrays, rest)
        if key is None:
            return self.f(arrays, *rest)
        if key in self.known:
            found = self.known[key]
            return self.f(arrays, *rest) if found is None else repeat_call(found, arrays)
        builder = current()
        assert builder is not None
        start = len(builder.nodes)
        made = self.f(arrays, *rest)
        nodes = builder.nodes[start:]
        plain = all([type(x) is Array and not may_be_transposed(x) for x in made.values()])
        literal = any([node.op.literal for node in nodes])
        given = [x.value for x in arrays]
        self.known[key] = FirstCall(given, dependent(nodes, given), dict(made)) if plain and not literal else None
        return made


def call_key(arrays: Sequence[Any], rest: Sequence[Any]) -> Any:
    """The key of calls with equal operations; None for a call that has to be traced."""
    builder = current()
    if builder is None or builder.evaluate is not None or not builder.recording:
        return None
    places: dict[Value, int] = {}
    key: list[Any] = [id(builder), *map(id, rest)]
    for x in arrays:
        if type(x) is not Array or may_be_transposed(x):
            return None
        v = x.value
        if v.builder is not builder or (v.node is not None and (v.node.op.uniform or v.node.op.literal)):
            return None
        key.append((v.type, x._scalar, x._weak, places.setdefault(v, len(places))))
    return tuple(key)


def dependent(nodes: Sequence[Node], given: Sequence[Value]) -> list[Node]:
    """The operations that depend on any of the `given` values, and all collectives."""
    reached, found = set(given), []
    for node in nodes:
        if node.op.collective or not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            found.append(node)
    return found


def repeat_call(first: FirstCall, arrays: Sequence[Array]) -> Results:
    """The results of a call with copies of an earlier call's operations."""
    env = copy_stretch(first.nodes, dict(zip(first.given, [x.value for x in arrays], strict=True)))
    return {name: Array(env.get(x.value, x.value), x._scalar, x._weak) for name, x in first.results.items()}
