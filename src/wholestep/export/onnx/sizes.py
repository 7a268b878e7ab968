"""Symbolic sizes in ONNX: lists of one integer, computed of the sizes that the inputs have."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from wholestep.dims import Dim

OPERATORS: Mapping[type[ast.operator], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Pow: "Pow"}


class NodeWriter(Protocol):
    """A writer of ONNX nodes, as far as sizes need one."""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Write a node, and return the name of its result."""
        ...

    def ints(self, numbers: Iterable[Any]) -> str:
        """The name of a list of whole numbers."""
        ...


def size_computed(w: NodeWriter, size: Dim, known: Mapping[str, str]) -> str:
    """The name of a list of one integer, a size, given the names of the lists of its symbols.

    2*B + 1    -->    t1 = Mul([2], B); t2 = Add(t1, [1])
    """
    return computed(w, ast.parse(str(size), mode="eval").body, known)


def computed(w: NodeWriter, tree: ast.expr, known: Mapping[str, str]) -> str:
    """The name of the value of an expression of sizes, parsed from their printed form."""
    part: Callable[[ast.expr], str] = lambda inner: computed(w, inner, known)  # noqa: E731
    match tree:
        case ast.Constant(value=int(n)):
            return w.ints([n])
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return w.op("Neg", part(inner))
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return floor_quotient(w, part(left), part(right))
        case ast.BinOp(left=left, op=op, right=right):
            return w.op(OPERATORS[type(op)], part(left), part(right))
        case ast.Call(args=[left, right]):
            return w.op("Min", part(left), part(right))
    raise AssertionError(ast.unparse(tree))


def floor_quotient(w: NodeWriter, x: str, y: str) -> str:
    """x // y of a positive y: Mod has the sign of y, and Div cuts to zero."""
    return w.op("Div", w.op("Sub", x, w.op("Mod", x, y)), y)
