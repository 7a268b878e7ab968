"""Passes and lowering ask a primitive for facts: its name is compared in few places outside `primitives`.

Exports are tables from names to the words of other systems, and imports tables the other way; they are not counted.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "wholestep"
BY_NAME = ("primitives", "export", "interop")
"""The packages whose task is to know each primitive by its name."""
COMPARISONS_AT_MOST = 20
LOOKUPS_AT_MOST = 12


def is_name_of_primitive(node: ast.expr) -> bool:
    """True for an expression such as `node.op.name` or `op.name`."""
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "op") or (
        isinstance(owner, ast.Name) and owner.id in ("op", "primitive")
    )


def is_lookup(node: ast.AST) -> bool:
    """True for a table's entry by the name of a primitive: `TABLE[op.name]`, `TABLE.get(op.name)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return bool(node.args) and is_name_of_primitive(node.args[0])
    return isinstance(node, ast.Subscript) and is_name_of_primitive(node.slice)


def nodes_outside() -> Iterator[tuple[str, ast.AST]]:
    """Every syntax node of the other modules, with its place."""
    for file in sorted(SOURCE.rglob("*.py")):
        module = file.relative_to(SOURCE)
        if module.parts[0] not in BY_NAME:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                yield f"{module}:{getattr(node, 'lineno', 0)}", node


def test_few_places_know_a_primitive_by_name() -> None:
    compared, looked_up = [], []
    for place, node in nodes_outside():
        if isinstance(node, ast.Compare) and any(map(is_name_of_primitive, (node.left, *node.comparators))):
            compared.append(place)
        if is_lookup(node):
            looked_up.append(place)
    assert len(compared) <= COMPARISONS_AT_MOST, compared
    assert len(looked_up) <= LOOKUPS_AT_MOST, looked_up
