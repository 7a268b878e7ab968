"""Algebra that is exact for every input: infinities, NaN and the sign of zero included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import copied, rewrite
from wholestep.primitives.family import number_of

Rule = Callable[[Node], Value | Node | None]


def simplify(graph: Graph) -> Graph:
    """Drop operations that change nothing, and merge those that undo or repeat each other.

        a = mul(x, full(1)); b = reshape(reshape(a, shape=(6,)), shape=(2, 3)); c = neg(neg(b))
        -->
        c = reshape(x, shape=(2, 3))

    `x + 0` stays (it turns -0.0 into 0.0), and so does `x * 0` (it is NaN where x is infinite).
    """
    return rewrite(graph, lambda node: RULES[node.op.name](node) if node.op.name in RULES else None)


def _is(v: Value, number: int) -> bool:
    found = number_of(v)
    return isinstance(found, bool | int | float | complex) and found == number


def _mul(node: Node) -> Value | None:
    x, y = node.inputs
    if x.dtype.kind == "c":
        return None  # (a + bi)(1 + 0i) is not exact where a part is infinite
    return x if _is(y, 1) else y if _is(x, 1) else None


def _div(node: Node) -> Value | None:
    x, y = node.inputs
    return x if _is(y, 1) and x.dtype.kind != "c" else None


def _sub(node: Node) -> Value | None:
    x, y = node.inputs
    zero = number_of(y)
    return x if _is(y, 0) and str(zero) != "-0.0" and x.dtype.kind != "c" else None


def _made_by(v: Value, name: str) -> Node | None:
    return v.node if v.node is not None and v.node.op.name == name and len(v.node.outputs) == 1 else None


def _twice_is_nothing(node: Node) -> Value | None:
    inner = _made_by(node.inputs[0], node.op.name)
    return inner.inputs[0] if inner is not None and inner.params == node.params else None


def _reshape(node: Node) -> Value | Node | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    inner = _made_by(x, "reshape")
    if inner is None:
        return None
    source = inner.inputs[0]
    return source if source.shape == node.outputs[0].shape else copied(node, (source,), node.params)


def _permute(node: Node) -> Value | Node | None:
    axes = node.params["axes"]
    if axes == tuple(range(len(axes))):
        return node.inputs[0]
    inner = _made_by(node.inputs[0], "permute")
    if inner is None:
        return None
    merged = tuple([inner.params["axes"][a] for a in axes])
    if merged == tuple(range(len(axes))):
        return inner.inputs[0]
    return copied(node, inner.inputs, {"axes": merged})


def _broadcast(node: Node) -> Value | Node | None:
    x = node.inputs[0]
    if x.shape == node.outputs[0].shape:
        return x
    inner = _made_by(x, "broadcast")
    if inner is None:
        return None
    axes = tuple([node.params["axes"][a] for a in inner.params["axes"]])
    return copied(node, inner.inputs, {"shape": node.params["shape"], "axes": axes})


def _slice(node: Node) -> Value | None:
    x = node.inputs[0]
    return x if x.shape == node.outputs[0].shape else None


def _pad(node: Node) -> Value | None:
    x = node.inputs[0]
    return x if x.shape == node.outputs[0].shape else None


def _no_axes(node: Node) -> Value | None:
    return node.inputs[0] if not node.params["axes"] else None


def _cast(node: Node) -> Value | None:
    return node.inputs[0] if node.inputs[0].type is node.outputs[0].type else None


def _select(node: Node) -> Value | None:
    _, x, y = node.inputs
    return x if x is y else None


def _concat(node: Node) -> Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


RULES: dict[str, Callable[[Node], Any]] = {
    "mul": _mul,
    "div": _div,
    "sub": _sub,
    "neg": _twice_is_nothing,
    "conj": _twice_is_nothing,
    "bitwise_not": _twice_is_nothing,
    "flip": lambda node: _no_axes(node) or _twice_is_nothing(node),
    "reshape": _reshape,
    "permute": _permute,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "sum": _no_axes,
    "max": _no_axes,
    "min": _no_axes,
    "cast": _cast,
    "select": _select,
    "concat": _concat,
}
