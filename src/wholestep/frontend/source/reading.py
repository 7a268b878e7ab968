"""The text of a function, found by the place of its code: the statement or lambda whose compilation gives that code."""

from __future__ import annotations
import __future__

import ast
import copy
import itertools
import linecache
import sys
from collections import deque
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
    """A function's node in the text, and the surroundings that its compilation depends on."""

    node: Function
    before: int
    """The lines of the file before those that the node counts from."""
    ordinal: int
    """The position of its own code among those of its name."""
    imported: tuple[str, ...]
    """The names that its file imports, since calls of their attributes are compiled in another way."""


def definition(code: CodeType, module: dict[str, Any]) -> Definition | None:
    """The definition whose compilation gives this very code; None where the text is not to be had, or has changed.

    The node is the caller's own, to be changed as it likes.
    """
    lines = linecache.getlines(code.co_filename, module)
    if not lines or not all([name.isidentifier() for name in code.co_freevars]):
        return None
    imported = likely_imports(code, module)
    for last in last_lines(code):
        tree, before = fragment(code.co_firstlineno, last, lines)
        found = None if tree is None else matching_definition(tree, before, code, imported)
        if found is not None:
            return found
    whole = parsed_file(code.co_filename, lines)
    found = None if whole is None else matching_definition(whole, 0, code, imports(whole))
    return None if found is None else found._replace(node=copy.deepcopy(found.node))


def matching_definition(tree: ast.Module, before: int, code: CodeType, imported: tuple[str, ...]) -> Definition | None:
    """The definition in a tree that compiles to a code."""
    for node in candidates(tree, code.co_name, code.co_firstlineno - before):
        for ordinal, found in enumerate(codes_named(compiled(node, code, imported), code.co_name)):
            if patched(found, code, before) == code:
                return Definition(node, before, ordinal, imported)
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


def last_lines(code: CodeType) -> Iterator[int]:
    """The last line that a code may cover: by where its lines begin, which is quick, and by where they end."""
    first, codes = code.co_firstlineno, list(nested_codes(code))
    begin = max([n for one in codes for *_, n in one.co_lines() if n is not None], default=first)
    yield begin
    end = max([n for one in codes for _, n, *_ in one.co_positions() if n is not None], default=first)
    if end != begin:
        yield end


def fragment(first: int, last: int, lines: list[str]) -> tuple[ast.Module | None, int]:
    """Some lines of a file parsed by themselves, and how many lines are before them; None where they are no statement.

    Lines that are indented stand below one of their own.
    """
    text = "".join(lines[first - 1 : last])
    indented = text[:1] in " \t"
    try:
        return ast.parse(("if 1:\n" if indented else "") + text), first - (2 if indented else 1)
    except (SyntaxError, ValueError):
        return None, 0


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


def candidates(tree: ast.Module, name: str, line: int) -> Iterator[Function]:
    """The functions of a name in a tree that begin at a line."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.Lambda):
            if name == "<lambda>" and node.lineno == line:
                yield node
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            if min([node.lineno, *[d.lineno for d in node.decorator_list]]) == line:
                yield node
        waiting += ast.iter_child_nodes(node)


def enclosing_class(code: CodeType) -> str | None:
    """The innermost class around a function, whose name is a part of its private names."""
    parts = code.co_qualname.split(".")
    within = [a for a, b in itertools.pairwise(parts) if "<locals>" not in (a, b)]
    return within[-1] if within else None


def compiled(node: Function, code: CodeType, imported: tuple[str, ...]) -> CodeType:
    """The code of a function around the node, with the free variables and in the class of the original."""
    at: Any = {"lineno": node.lineno, "col_offset": 0, "end_lineno": node.lineno, "end_col_offset": 0}
    params: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}
    statement: ast.stmt = node if isinstance(node, ast.FunctionDef) else ast.copy_location(ast.Expr(node), node)
    within = enclosing_class(code)
    if within is not None:
        statement = ast.ClassDef(within, [], [], [statement], [], **params, **at)
    free = [ast.arg(name, **at) for name in code.co_freevars]
    # A function that calls itself, and a method that names its class, find them where the module has them.
    own = {name for name in (within, getattr(node, "name", None)) if name is not None} - {*code.co_freevars}
    body: list[ast.stmt] = [*([ast.Global(sorted(own), **at)] if own else []), statement]
    around = ast.FunctionDef(OUTER, ast.arguments([], free, None, [], [], None, []), body, [], **params, **at)
    known: list[ast.stmt] = [ast.Import([ast.alias(name, **at)], **at) for name in imported]
    module = ast.Module([*known, around], [])
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


def patched(code: CodeType, original: CodeType, before: int) -> CodeType:
    """A recompiled code under the full name of the original, so many lines further on."""
    old, new = code.co_qualname, original.co_qualname

    def named(text: str) -> str:
        return new + text[len(old) :] if text == old or text.startswith(f"{old}.<locals>.") else text

    def constant(item: Any) -> Any:
        if isinstance(item, CodeType):
            return whole(item)
        return named(item) if type(item) is str else item

    def whole(one: CodeType) -> CodeType:
        flags = one.co_flags if one is not code else one.co_flags & ~CO_NESTED | original.co_flags & CO_NESTED
        return one.replace(
            co_consts=tuple([constant(item) for item in one.co_consts]),
            co_qualname=named(one.co_qualname),
            co_flags=flags,
            co_firstlineno=one.co_firstlineno + before,
        )

    return whole(code)
