"""The text of a function, found by the place of its code: the statement or lambda whose compilation gives that code."""

from __future__ import annotations
import __future__

import ast
import itertools
import linecache
from collections.abc import Iterator
from inspect import CO_NESTED
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.Lambda

FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag

OUTER = "around"
"""The name of the function that stands around a recompiled one; its parameters are the free variables."""

_parsed: dict[str, tuple[list[str], ast.Module]] = {}
"""The last text of a file that was parsed as a whole, and its tree."""


class Definition(NamedTuple):
    """A function's node in the text, and what its compilation there depends on."""

    node: Function
    ordinal: int
    """Which of the codes of its name is its own."""
    imported: tuple[str, ...]
    """The names that its file imports, since calls of their attributes are compiled in another way."""


def definition(code: CodeType, module: dict[str, Any]) -> Definition | None:
    """The definition whose compilation gives this very code; None where the text is not to be had, or has changed."""
    lines = linecache.getlines(code.co_filename, module)
    if not lines or not all(name.isidentifier() for name in code.co_freevars):
        return None
    piece = fragment(code, lines)
    found = None if piece is None else matching_definition(piece, code, likely_imports(code, module))
    if found is not None:
        return found
    whole = parsed_file(code.co_filename, lines)
    return None if whole is None else matching_definition(whole, code, imports(whole))


def matching_definition(tree: ast.Module, code: CodeType, imported: tuple[str, ...]) -> Definition | None:
    """The definition in a tree that compiles to a code."""
    for node in candidates(tree, code):
        for ordinal, found in enumerate(codes_named(compiled(node, code, imported), code.co_name)):
            if patched(found, code) == code:
                return Definition(node, ordinal, imported)
    return None


def likely_imports(code: CodeType, module: dict[str, Any]) -> tuple[str, ...]:
    """The globals of a code that come from other modules, as far as their values tell."""
    names = dict.fromkeys(name for one in nested_codes(code) for name in one.co_names)
    known = [(name, module[name]) for name in names if name in module]
    return tuple([n for n, x in known if isinstance(x, ModuleType) or _home(x) not in (None, module.get("__name__"))])


def _home(x: Any) -> Any:
    return x.__module__ if isinstance(x, type | FunctionType) else None


def imports(tree: ast.Module) -> tuple[str, ...]:
    """The names that a module imports at its own level."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= dict.fromkeys(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return tuple(sorted(found.keys() - {"*"}))


def fragment(code: CodeType, lines: list[str]) -> ast.Module | None:
    """The lines that a code covers, parsed by themselves; None where they are no statement."""
    first = code.co_firstlineno
    last = max([n for one in nested_codes(code) for _, n, *_ in one.co_positions() if n is not None], default=first)
    text = "".join(lines[first - 1 : last])
    indented = text[:1] in " \t"
    try:
        tree = ast.parse(("if 1:\n" if indented else "") + text)
    except (SyntaxError, ValueError):
        return None
    ast.increment_lineno(tree, first - (2 if indented else 1))
    return tree


def parsed_file(filename: str, lines: list[str]) -> ast.Module | None:
    """A whole file as a tree, parsed once while its text stays."""
    known = _parsed.get(filename)
    if known is not None and known[0] == lines:
        return known[1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    _parsed[filename] = (lines, tree)
    return tree


def candidates(tree: ast.Module, code: CodeType) -> Iterator[Function]:
    """The functions of a tree that begin where a code does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                yield node
        elif isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *[d.lineno for d in node.decorator_list]]) == code.co_firstlineno:
                yield node


def enclosing_class(code: CodeType) -> str | None:
    """The innermost class around a function, whose name is a part of its private names."""
    parts = code.co_qualname.split(".")
    within = [a for a, b in itertools.pairwise(parts) if "<locals>" not in (a, b)]
    return within[-1] if within else None


def compiled(node: Function, code: CodeType, imported: tuple[str, ...]) -> CodeType:
    """The code of a function around the node, with the free variables and in the class of the original."""
    statement: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.copy_location(ast.Expr(node), node)
    within = enclosing_class(code)
    if within is not None:
        statement = ast.ClassDef(name=within, bases=[], keywords=[], body=[statement], decorator_list=[])
    free = [ast.arg(arg=name) for name in code.co_freevars]
    arguments = ast.arguments(posonlyargs=[], args=free, kwonlyargs=[], kw_defaults=[], defaults=[])
    around = ast.FunctionDef(name=OUTER, args=arguments, body=[statement], decorator_list=[])
    for made in (statement, around):
        made.__dict__.setdefault("type_params", [])
        if not hasattr(made, "lineno"):
            ast.copy_location(made, node)
    known: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in imported]
    module = ast.fix_missing_locations(ast.Module(body=[*known, around], type_ignores=[]))
    whole: CodeType = compile(module, code.co_filename, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)
    return whole


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those within it, in the order of the text."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from nested_codes(inner)


def codes_named(code: CodeType, name: str) -> list[CodeType]:
    """The functions of a name within a code."""
    return [one for one in nested_codes(code) if one.co_name == name]


def patched(code: CodeType, original: CodeType, constants: dict[Any, Any] | None = None) -> CodeType:
    """A recompiled code under the full name of the original, and with objects in place of constants that mark them."""
    old, new = code.co_qualname, original.co_qualname
    marked = constants or {}

    def named(text: str) -> str:
        return new + text[len(old) :] if text == old or text.startswith(f"{old}.<locals>.") else text

    def constant(item: Any) -> Any:
        if isinstance(item, CodeType):
            return whole(item)
        return marked.get(item, named(item)) if type(item) is str else item

    def whole(one: CodeType) -> CodeType:
        items = tuple([constant(item) for item in one.co_consts])
        flags = one.co_flags if one is not code else one.co_flags & ~CO_NESTED | original.co_flags & CO_NESTED
        return one.replace(co_consts=items, co_qualname=named(one.co_qualname), co_flags=flags)

    return whole(code)
