"""The rewritten copy of a function: a hook chooses the function of each call; names, lines and columns stay."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from wholestep.frontend.source.members import MARKED, members_near
from wholestep.frontend.source.ownership import of_the_user
from wholestep.frontend.source.reading import Function, codes_named, compiled, definition, nested_codes, patched

MARK = "\0wholestep"
"""The placeholder constant of the hook until the code is made: text that no program holds."""

FRAMES = frozenset("super locals globals vars dir eval exec".split())
"""Built-in functions that inspect the calling frame: their calls are not rewritten."""

JOINERS = frozenset(("r_", "c_"))
"""Objects of NumPy's that are indexed to make arrays."""

UNTOUCHED = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

OF_OTHERS = "functions of installed packages, and those made by exec, are not rewritten"
TEXTLESS = "this function is not rewritten, since its text is not to be had or has changed"
COROUTINE = "coroutines are not rewritten"

_rewritten: dict[int, tuple[weakref.ref[CodeType], CodeType | str]] = {}
"""The id of a code -> the code itself, and its rewritten copy, or the reason for none; empty if nothing changes."""

originals: dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType]]] = {}
"""The id of a rewritten code -> that code, and the one that it is a copy of."""


def rewritten_code(f: FunctionType, hook: Any) -> CodeType | None:
    """The rewritten copy of a function's code; None where there is nothing to rewrite, or no text to go by."""
    code = f.__code__
    found = _rewritten.get(id(code))
    if found is not None and found[0]() is code:
        made = found[1]
    else:
        made = _copy_of(f, hook)
        key = id(code)
        _rewritten[key] = (weakref.ref(code, dropping(_rewritten, key)), made)
    return made if isinstance(made, CodeType) else None


def dropping(table: dict[int, Any], key: int) -> Callable[[Any], Any]:
    """A callback that drops an entry of a table when the object of this id is gone."""
    return lambda _: table.pop(key, None)


def original_code(code: CodeType) -> CodeType:
    """The user's code that a rewritten one is a copy of; any other code is its own."""
    found = originals.get(id(code))
    before = found[1]() if found is not None and found[0]() is code else None
    return code if before is None else before


class SwitchedOff(threading.local):
    """The depth of nested `verbatim` calls in each thread; above 0, no function is rewritten."""

    depth = 0


switched_off = SwitchedOff()


def why_not(code: CodeType) -> str:
    """The reason why a function runs as it stands; empty for one that is rewritten."""
    if original_code(code) is not code:
        return ""
    if not of_the_user(code.co_filename):
        return OF_OTHERS
    found = _rewritten.get(id(code))
    if found is not None and found[0]() is code and isinstance(found[1], str):
        return found[1]
    return (
        "rewrite=False runs this function as it stands" if switched_off.depth else "code that is not rewritten calls it"
    )


@functools.cache
def _kept_codes() -> Any:
    """The module of copies on disk: it reads folders, and is imported when the first function is rewritten."""
    return importlib.import_module("wholestep.frontend.source.kept_codes")


def _copy_of(f: FunctionType, hook: Any) -> CodeType | str:
    code = f.__code__
    if not of_the_user(code.co_filename):
        return OF_OTHERS
    if code.co_flags & UNTOUCHED:
        return COROUTINE
    if any([one is hook for inner in nested_codes(code) for one in inner.co_consts]):
        return ""  # a function within a rewritten one is rewritten already, though the hook may be further inside
    members = members_near(f)
    members = members.intersection([MARKED, *[name for one in nested_codes(code) for name in one.co_names]])
    marked = _kept_codes().recalled(code, members, lambda: marked_copy(f, members))
    if marked is None or marked is code:
        return TEXTLESS if marked is None else ""
    made = with_constant(marked, MARK, hook)
    _remember(made, code)
    return made


def marked_copy(f: FunctionType, members: frozenset[str] = frozenset()) -> CodeType | None:
    """The rewritten copy of a function's code, with the mark in place of the hook; it asks for these members too.

    The code itself where there is nothing to rewrite; None where there is no text to go by.
    """
    code = f.__code__
    found = definition(code, f.__globals__)
    if found is None:
        return None
    if not Rewriter(members).function(found.node):
        return code
    copies = codes_named(compiled(found.node, code, found.imported), code.co_name)
    made = patched(copies[found.ordinal], code, found.before)
    return made if made.co_freevars == code.co_freevars and made.co_flags == code.co_flags else None


def with_constant(code: CodeType, mark: str, value: Any) -> CodeType:
    """A code, and those within it, with an object in place of a constant."""
    items = [with_constant(x, mark, value) if type(x) is CodeType else x for x in code.co_consts]
    return code.replace(co_consts=tuple([value if type(x) is str and x == mark else x for x in items]))


def _remember(made: CodeType, code: CodeType) -> None:
    key = id(made)
    originals[key] = (weakref.ref(made, dropping(originals, key)), weakref.ref(code))
    inner = [[c for c in one.co_consts if isinstance(c, CodeType)] for one in (made, code)]
    for copied, before in zip(*inner, strict=False):
        if copied.co_name == before.co_name:
            _remember(copied, before)


class Rewriter:
    """The changes of a function's text, made in place in one walk; each new node stands at the place of another."""

    def __init__(self, members: frozenset[str] = frozenset()) -> None:
        self.members = members
        """The names of properties of the user's classes; the word for operators where there are some."""
        self.kinds = {**KINDS, **(OF_OPERATORS if MARKED in members else {})}
        self.changed = False
        self.waiting: list[Any] = []
        self.written: set[str] = set()
        """The names whose arrays are written: `name[i] = v`, `name[i] += v`, `name += v`."""
        self.assigned: list[ast.Assign] = []

    def function(self, node: Function) -> bool:
        """Rewrite a function, and say whether that changes anything.

        The expressions around the body (defaults, decorators) are evaluated elsewhere and stay.
        """
        self.waiting = [node.body] if isinstance(node, ast.Lambda) else list(self.with_updates(node.body))
        while self.waiting:
            one = self.waiting.pop()
            kind = type(one)
            if kind in self.kinds and self.kinds[kind](self, one):
                continue
            for name in FIELDS[kind] if kind in FIELDS else fields_of(kind):
                child = getattr(one, name, None)
                if type(child) is list:
                    self.waiting += self.with_updates(child)
                elif child is not None:
                    self.waiting.append(child)
        self.results()
        return self.changed

    def call(self, node: ast.Call) -> None:
        func = node.func
        self.waiting += (func, *node.args, *[keyword.value for keyword in node.keywords])
        if type(func) is not ast.Name or func.id not in FRAMES:
            node.func, self.changed = asked("call", func), True

    def subscript(self, node: ast.Subscript) -> None:
        value, context = node.value, type(node.ctx)
        self.waiting += (value, node.slice)
        if context is ast.Store and type(value) is ast.Name:
            self.written.add(value.id)
        if context is ast.Load and (reads_openly(node) or MARKED in self.members):
            node.value, self.changed = asked("indexed", value), True
        elif context is ast.Store and MARKED in self.members:
            node.value, self.changed = asked("operand", value), True

    def attribute(self, node: ast.Attribute) -> bool:
        """Pass the owner of a possible property to the hook, and say whether the node is done."""
        if node.attr not in self.members or type(node.ctx) is not ast.Load:
            return False
        self.waiting.append(node.value)
        node.value, self.changed = asked("owner", node.value, node.attr), True
        return True

    def operation(self, node: ast.BinOp) -> bool:
        node.left, node.right = self.operand(node.left), self.operand(node.right)
        return True

    def negation(self, node: ast.UnaryOp) -> bool:
        if type(node.op) is ast.Not:
            return False
        node.operand = self.operand(node.operand)
        return True

    def comparison(self, node: ast.Compare) -> bool:
        if not all([type(op) in ORDERED for op in node.ops]):
            return False
        node.left, node.comparators = self.operand(node.left), [self.operand(x) for x in node.comparators]
        return True

    def operand(self, node: ast.expr) -> ast.expr:
        """Pass an operand of an operator to the hook; literals stay, and the walk goes on inside."""
        if type(node) is ast.Constant:
            return node
        self.changed = True
        self.waiting.append(node)
        return asked("operand", node)

    def choice(self, node: ast.Match) -> None:
        """Before each case, a case that asks the hook for the classes of its pattern, and is never chosen."""
        for case in list(node.cases):
            patterns = [one for one in ast.walk(case.pattern) if type(one) is ast.MatchClass]
            if patterns:
                node.cases.insert(node.cases.index(case), asking_case(patterns))
                self.changed = True

    def assignment(self, node: ast.Assign) -> None:
        self.assigned.append(node)

    def augmented(self, node: ast.AugAssign) -> None:
        if type(node.target) is ast.Name:
            self.written.add(node.target.id)

    def with_updates(self, body: list[Any]) -> list[Any]:
        """Write `x op= y` as `x = hook.update(x, y, "op")` where the user's classes may have operators.

        The result is what is left to walk into.
        """
        if MARKED not in self.members:
            return body
        left = list(body)
        for i, one in enumerate(body):
            if type(one) is ast.AugAssign and is_named(one.target):
                self.augmented(one)
                body[i], self.changed = assignment_of_update(one), True
                left[i] = ast.Tuple(body[i].value.args[:2], LOAD)
        return left

    def results(self) -> None:
        """Pass to the hook the results of operators that are assigned to names whose arrays are written."""
        for node in self.assigned:
            named = any([type(t) is ast.Name and t.id in self.written for t in node.targets])
            if named and isinstance(node.value, ast.BinOp | ast.UnaryOp):
                node.value, self.changed = asked("result", node.value), True


KINDS: dict[type, Callable[[Rewriter, Any], bool | None]] = {
    ast.Call: Rewriter.call,
    ast.Subscript: Rewriter.subscript,
    ast.Assign: Rewriter.assignment,
    ast.AugAssign: Rewriter.augmented,
    ast.Attribute: Rewriter.attribute,
    ast.Match: Rewriter.choice,
}
"""The rewriting methods by kind of node; a method returns true where the walk need not go on inside the node."""
OF_OPERATORS: dict[type, Callable[[Rewriter, Any], bool | None]] = {
    ast.BinOp: Rewriter.operation,
    ast.UnaryOp: Rewriter.negation,
    ast.Compare: Rewriter.comparison,
}
"""The methods for operators, used where the user's classes may define them."""
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def is_named(target: ast.expr) -> bool:
    """Test whether a target is a name or an attribute of a name, which may be read twice."""
    return type(target) is ast.Name or (type(target) is ast.Attribute and type(target.value) is ast.Name)


def assignment_of_update(node: ast.AugAssign) -> ast.Assign:
    """`x = hook.update(x, y, "add")` for `x += y`."""
    read = copy.copy(node.target)
    read.ctx = LOAD
    call: Any = asked("update", read, BY_OPERATION[type(node.op)])
    call.args.insert(1, node.value)
    return ast.copy_location(ast.Assign([node.target], call), node)


BY_OPERATION: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitXor: "xor",
    ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
"""The operations of updates -> their names in `operator`."""


def asked(question: str, node: ast.expr, *words: str) -> ast.expr:
    """`hook.question(node, *words)`, at the place of the node."""
    at: Any = {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }
    hook = ast.Attribute(ast.Constant(MARK, **at), question, LOAD, **at)
    return ast.Call(hook, [node, *[ast.Constant(word, **at) for word in words]], [], **at)


LOAD, STORE = ast.Load(), ast.Store()


def asking_case(patterns: list[ast.MatchClass]) -> ast.match_case:
    """`case _ if not ((c := hook.pattern_class(c)), ...)`: a pattern takes names, so variables hold the answers.

    Their names are none that a text can have.
    """
    answers: list[ast.expr] = []
    for i, pattern in enumerate(patterns):
        asking, name = asked("pattern_class", pattern.cls), f".class{i}"
        variable = ast.copy_location(ast.Name(name, STORE), asking)
        answers.append(ast.copy_location(ast.NamedExpr(variable, asking), asking))
        pattern.cls = ast.copy_location(ast.Name(name, LOAD), asking)
    at = answers[0]
    never = ast.UnaryOp(ast.Not(), ast.copy_location(ast.Tuple(answers, LOAD), at))
    anything = ast.copy_location(ast.MatchAs(None, None), at)
    return ast.match_case(anything, ast.copy_location(never, at), [ast.copy_location(ast.Pass(), at)])


def reads_openly(node: ast.Subscript) -> bool:
    """Test whether an index expression may read at a traced index, or makes an array."""
    if getattr(node.value, "attr", getattr(node.value, "id", "")) in JOINERS:
        return True
    return type(node.slice) is not ast.Constant and any([isinstance(n, OPEN) for n in ast.walk(node.slice)])


OPEN = (ast.Name, ast.Call)


STAY = frozenset("annotation returns type_params ctx op ops kind conversion names module level".split())
"""The fields of nodes in which nothing is rewritten."""

FIELDS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((ast.Name, ast.Constant, ast.AsyncFunctionDef, str, int, type(None)), ()),
    ast.arg: (),
    **dict.fromkeys((ast.Call, ast.Subscript), ()),  # their methods walk into their children
    ast.Attribute: ("value",),
    ast.FunctionDef: ("body", "decorator_list", "args"),
    ast.arguments: ("defaults", "kw_defaults"),
    ast.match_case: ("guard", "body"),  # a pattern holds no calls
}
"""The kinds of nodes -> the fields to look into."""


def fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of nodes that may hold others."""
    found = FIELDS[kind] = tuple([name for name in kind._fields if name not in STAY])
    return found
