"""Texts of sizes, read and written: the one that a text says, and a number with its thousands apart."""

from __future__ import annotations

import ast
import operator
from typing import Any

from wholestep.dims.size import Dim, Size, least


def spelled(text: str) -> Size:
    """Return the size of a text in the form that sizes print; raises ValueError for any other text.

    >>> spelled("(2*B + 3)//4") == (2*Dim("B") + 3)//4
    True
    """
    try:
        return parse_dim(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{text!r} is not a size") from None


def parse_dim(tree: ast.expr) -> Size:
    """Return the size of an expression's syntax tree; raises ValueError for any other expression."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return Dim(tree.id)
    if isinstance(tree, ast.BinOp) and type(tree.op) in OPERATIONS:
        made: Size = OPERATIONS[type(tree.op)](parse_dim(tree.left), parse_dim(tree.right))
        return made
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "min" and len(tree.args) == 2:
        return least(parse_dim(tree.args[0]), parse_dim(tree.args[1]))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -parse_dim(tree.operand)
    raise ValueError(f"{ast.unparse(tree)!r} is not a size")


OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
"""The operators of sizes in a text."""


def spelled_out(size: Size) -> str:
    """Return a number with its thousands apart, or the expression that it is.

    >>> spelled_out(65536), spelled_out(4*Dim("B"))
    ('65,536', '4*B')
    """
    return f"{size:,}" if isinstance(size, int) else str(size)
