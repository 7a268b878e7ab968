"""The rewritten copy of a function: its calls ask a hook for what to call; names, lines and columns are the user's."""

from __future__ import annotations

import ast
import copy
import inspect
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from wholestep.frontend.source.ownership import of_the_user
from wholestep.frontend.source.reading import codes_named, compiled, definition, patched

MARK = "\0wholestep"
"""The constant that stands for the hook until the code is made: text that no program holds."""

FRAMES = frozenset("super locals globals vars dir eval exec".split())
"""Built-in functions that look at the frame that calls them: they are called as they stand."""

JOINERS = frozenset(("r_", "c_"))
"""Objects of NumPy's that are indexed to make arrays."""

UNTOUCHED = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

_rewritten: dict[int, tuple[weakref.ref[CodeType], CodeType | None]] = {}
"""The id of a code -> the code itself, and its rewritten copy; None for a code that is left alone."""

originals: dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType]]] = {}
"""The id of a rewritten code -> that code, and the one that it is a copy of."""


def rewritten_code(f: FunctionType, hook: Any) -> CodeType | None:
    """The rewritten copy of a function's code; None where there is nothing to rewrite, or no text to go by."""
    code = f.__code__
    found = _rewritten.get(id(code))
    if found is not None and found[0]() is code:
        return found[1]
    made = _copy_of(f, hook) if of_the_user(code.co_filename) and not code.co_flags & UNTOUCHED else None
    key = id(code)
    _rewritten[key] = (weakref.ref(code, dropping(_rewritten, key)), made)
    return made


def dropping(table: dict[int, Any], key: int) -> Callable[[Any], Any]:
    """What drops an entry of a table when the object of this id is gone."""
    return lambda _: table.pop(key, None)


def original_code(code: CodeType) -> CodeType:
    """The user's code that a rewritten one is a copy of; any other code is its own."""
    found = originals.get(id(code))
    before = found[1]() if found is not None and found[0]() is code else None
    return code if before is None else before


class SwitchedOff(threading.local):
    """The number of calls around the running one that asked for functions as they stand, in each thread."""

    depth = 0


switched_off = SwitchedOff()


def why_not(code: CodeType) -> str:
    """The reason why a function runs as it stands; empty for one that is rewritten."""
    if original_code(code) is not code:
        return ""
    if not of_the_user(code.co_filename):
        return "functions of installed packages, and those made by exec, are not rewritten"
    found = _rewritten.get(id(code))
    if found is not None and found[0]() is code and found[1] is None:
        return "this function is not rewritten, since its text is not to be had or has changed"
    return (
        "rewrite=False runs this function as it stands" if switched_off.depth else "code that is not rewritten calls it"
    )


def _copy_of(f: FunctionType, hook: Any) -> CodeType | None:
    code = f.__code__
    if any(one is hook for one in code.co_consts):
        return None  # a function within a rewritten one is rewritten already
    found = definition(code, f.__globals__)
    if found is None:
        return None
    writer = Rewriter(f)
    node = writer.function(copy.deepcopy(found.node))
    if not writer.changed:
        return None
    made = codes_named(compiled(node, code, found.imported), code.co_name)[found.ordinal]
    made = patched(made, code, {MARK: hook})
    if made.co_freevars != code.co_freevars or made.co_flags != code.co_flags:
        return None
    _remember(made, code)
    return made


def _remember(made: CodeType, code: CodeType) -> None:
    key = id(made)
    originals[key] = (weakref.ref(made, dropping(originals, key)), weakref.ref(code))
    inner = [[c for c in one.co_consts if isinstance(c, CodeType)] for one in (made, code)]
    for copied, before in zip(*inner, strict=False):
        if copied.co_name == before.co_name:
            _remember(copied, before)


class Rewriter(ast.NodeTransformer):
    """The changes of a function's text; each new node stands at the place of the one it is about."""

    def __init__(self, f: FunctionType) -> None:
        self.f = f
        self.changed = False
        self.written: set[str] = set()

    def function(self, node: Any) -> Any:
        """The function itself; what stands around its body is evaluated elsewhere and stays."""
        self.written = written_names(node)
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [self.visit(statement) for statement in node.body]
        return node

    def ask(self, question: str, node: ast.expr) -> ast.expr:
        """`hook.question(node)`."""
        self.changed = True
        asked = ast.Attribute(value=ast.Constant(value=MARK), attr=question, ctx=ast.Load())
        made = ast.Call(func=asked, args=[node], keywords=[])
        for new in (made, asked, asked.value):
            ast.copy_location(new, node)
        return made

    def visit_Call(self, node: ast.Call) -> ast.expr:
        named = node.func.id if isinstance(node.func, ast.Name) else ""
        self.generic_visit(node)
        if named not in FRAMES:
            node.func = self.ask("call", node.func)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        named = getattr(node.value, "attr", getattr(node.value, "id", ""))
        open = named in JOINERS or any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(node.slice))
        if isinstance(node.ctx, ast.Load) and open:
            node.value = self.ask("indexed", node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        named = {t.id for t in node.targets if isinstance(t, ast.Name)}
        if named & self.written and isinstance(node.value, ast.BinOp | ast.UnaryOp):
            node.value = self.ask("result", node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """A function within the function: its annotations stay as they are."""
        outside, self.written = self.written, self.written | written_names(node)
        node.body = [self.visit(statement) for statement in node.body]
        self.written = outside
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.target = self.visit(node.target)
        node.value = node.value and self.visit(node.value)
        return node


def written_names(node: ast.AST) -> set[str]:
    """The names whose arrays a function writes: `name[i] = v`, `name[i] += v`, `name += v`."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store) and isinstance(one.value, ast.Name):
            found.add(one.value.id)
        elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            found.add(one.target.id)
    return found
