"""Hints for conversions: the replacement for a line in which a traced array is asked for its value."""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import sys
import textwrap
from collections.abc import Hashable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError, is_internal
from wholestep.frontend.dispatch import FUNCTIONS, WAYS_OUT
from wholestep.frontend.source.rewriting import why_not

KEEP = "keep it traced with wholestep.numpy, or return it from the function"
OUTSIDE = "return it (has_aux=True), mark it with ws.capture, or print it with ws.print"
CHOICES = "use np.where or ws.cond for a choice, ws.while_loop for a loop, or make the argument static"
SIZES = "sizes and counts are known beforehand: ws.jit(f, static_argnames=...), or ws.fori_loop for a loop of n steps"
"""The hints where a program asks for a number that it has only when it runs."""

FEW = "np.sort(x) has them in order, and np.sum(x[:, None] == values, axis=0) counts those that are known beforehand"
PLACES = (
    "the number of places depends on values: np.where(mask, x, y) keeps the shape, and x[mask].sum() sums the chosen"
)
COUNTED = {
    "roots": "A = np.diag(np.ones(n - 1), -1); A[0] = -p[1:] / p[0]; np.linalg.eigvals(A) has n roots if p[0] is not 0",
    "trim_zeros": "the number of zeros depends on values: np.polyval(p, x) takes coefficients of 0, too",
    "bincount": "np.bincount(x, minlength=n) counts the numbers below n, which is known beforehand",
    **dict.fromkeys("unique unique_values unique_counts unique_inverse unique_all".split(), FEW),
    **dict.fromkeys("where nonzero flatnonzero argwhere".split(), PLACES),
}
"""The hints where the values of an array decide the shape of a result."""

KEYED = (
    "draw with a key that changes, def loss(model, batch, *, key) and ws.random.normal(key, shape), or pass the "
    "numbers in with the batch"
)
DENSE = (
    "a sparse matrix takes no traced arrays: A.toarray() @ x, or y = np.zeros(n) and "
    "np.add.at(y, A.row, A.data * x[A.col]), where A has the coordinates of A.tocoo()"
)
TABLES = "a table of pandas or polars takes no traced arrays: convert it before, x = x.to_numpy()"
COMPOSED = "compose it from calls that are covered, which docs/coverage.md lists"
CREATORS = "array asarray asanyarray ascontiguousarray asfortranarray".split()
MASKS = (
    "masked arrays are not supported: a mask is an array of booleans: np.where(mask, x, 0), np.sum(x, where=mask), "
    "x[mask].mean()"
)
PLAIN = {"float": "np.float64", "int": "np.int64", "complex": "np.complex128", "bool": "bool"}


def advice(asked: str) -> str:
    """The hint for a refused conversion of this name, such as "float" or "array conversion"."""
    if asked in ("item", "tolist", "tobytes", "bytes", "memoryview", "pickle"):
        return OUTSIDE
    frame = caller()
    node = None if frame is None else expression(frame)
    if frame is None:
        return KEEP
    reason = why_not(frame.f_code)
    return "; ".join(filter(None, [replacement(frame, node), reason]))


def replacement(frame: FrameType, node: ast.expr | None) -> str:
    """The replacement for the expression at which a frame is."""
    if node is None:
        return KEEP
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and operation == "STORE_SUBSCR":
        return constant_text(frame, node.value.id)
    if isinstance(node, ast.BinOp) and any(hasattr(looked_up(frame, x), "toarray") for x in (node.left, node.right)):
        return DENSE
    if isinstance(node, ast.BinOp) and any(hasattr(looked_up(frame, x), "to_numpy") for x in ast.walk(node)):
        return TABLES
    if isinstance(node, ast.BinOp) and any(isinstance(looked_up(frame, x), np.ma.MaskedArray) for x in ast.walk(node)):
        return MASKS
    return instead_of(frame, node) if isinstance(node, ast.Call) else KEEP


def instead_of(frame: FrameType, call: ast.Call) -> str:
    """The replacement for a call that takes plain values alone."""
    function, spelled = looked_up(frame, call.func), ast.unparse(call.func)
    if isinstance(getattr(function, "__self__", None), np.random.Generator | np.random.RandomState):
        return f"{spelled} takes plain values alone: {KEYED}"
    if hasattr(getattr(function, "__self__", None), "toarray"):
        return DENSE
    name, module = str(getattr(function, "__name__", "")), str(getattr(function, "__module__", "")).partition(".")[0]
    if of_a_package(function):
        ours = numpy_twin(name)
        instead = WAYS_OUT.get(function) or (f"{ours} is covered" if ours else COMPOSED)
        return f"{spelled} takes plain values alone: {instead}"
    if str(getattr(function, "__module__", "")).startswith("numpy.ma"):
        return MASKS
    if module in ("math", "cmath"):
        ours = {"pow": "power", "fsum": "sum", "dist": "linalg.norm"}.get(name, name)
        found = hasattr(np, ours.partition(".")[0])
        return f"use np.{ours} instead of {spelled}" if found else f"{spelled} takes plain numbers; {KEEP}"
    if function is getattr(builtins, name, None) and name in PLAIN:
        return f"leave {name}() out; x.astype({PLAIN[name]}) changes the dtype"
    if function is round:
        return f"use np.round instead of {spelled}"
    if module == "numpy" and name in CREATORS:
        return f"use ws.numpy.{name} instead of {spelled}: it takes lists of traced arrays"
    if str(getattr(function, "__module__", "")).startswith("numpy.testing"):
        return f"call {spelled} on what the function returns, or on what ws.capture keeps"
    if module == "numpy" and not (isinstance(function, Hashable) and function in FUNCTIONS):
        way = WAYS_OUT.get(function, COMPOSED) if isinstance(function, Hashable) else COMPOSED
        return f"{spelled} takes plain values alone: {way}"
    if module == "numpy" and call.args:
        return f"stack what is in the list: {spelled}(np.stack({ast.unparse(call.args[0])}))"
    return KEEP


def chosen_instead() -> str:
    """The alternative to a Boolean test of a traced value: the NumPy function for the expression on the user's line."""
    frame = caller()
    node = None if frame is None else expression(frame)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return "np.any(x == v) tests whether v is among the elements of x, and np.isin(v, x) does for each element of v"
    function = looked_up(frame, node.func) if frame is not None and isinstance(node, ast.Call) else None
    if type(getattr(function, "__self__", None)) is list:
        function = getattr(list, str(getattr(function, "__name__", "")), None)
    return next((hint for builtin, hint in ORDERED.items() if builtin is function), CHOICES)


SORTED = "np.sort(x) sorts in the program, np.argsort(x) gives the order, and np.sort(x)[::-1] is the reverse"
ORDERED: dict[Any, str] = {
    sorted: SORTED,
    list.sort: SORTED,
    list.index: "np.argmax(x == v) is the place of the first element of x that equals v",
    list.count: "np.sum(x == v) counts the elements of x that equal v",
    max: "np.where(x > y, x, y), or np.max(x) of an array; x[np.argmax(f(x))] is max(x, key=f)",
    min: "np.where(x < y, x, y), or np.min(x) of an array; x[np.argmin(f(x))] is min(x, key=f)",
    any: "np.any(x) is the same for an array of booleans, and stays in the program",
    all: "np.all(x) is the same for an array of booleans, and stays in the program",
}
"""The hints for Python's functions that compare the elements of an array one by one."""


def numpy_twin(name: str) -> str | None:
    """The covered function of NumPy's that has the name of one of SciPy's, such as np.linalg.lstsq."""
    twins = {f"np.linalg.{name}": getattr(np.linalg, name, None), f"np.{name}": getattr(np, name, None)}
    return next((spelled for spelled, twin in twins.items() if twin in FUNCTIONS), None)


def asking(asked: str) -> str:
    """The name of the caller that needs a plain value: the function of a package, such as SciPy, on the user's line."""
    frame = caller()
    node = None if frame is None else expression(frame)
    function = looked_up(frame, node.func) if frame is not None and isinstance(node, ast.Call) else None
    if function is None or not of_a_package(function):
        return asked
    public = [part for part in str(function.__module__).split(".") if not part.startswith("_")]
    return f"{'.'.join([*public, function.__name__])}: {asked}"


def of_a_package(function: Any) -> bool:
    """Test whether a function, or a class, is of a package below the user's code, such as SciPy, NumPy left out."""
    root = str(getattr(function, "__module__", None) or "").partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None)
    others = root in ("numpy", "wholestep") or root in sys.stdlib_module_names
    return not others and file is not None and is_internal(file) and hasattr(function, "__name__")


def plain_target(name: str, array: Any) -> UnsupportedError:
    """The error for traced values that a function or a method would write into a plain array."""
    return UnsupportedError(f"{name}: a plain array cannot take traced values", hint=into_plain(array))


def into_plain(array: Any) -> str:
    """The hint for a traced array that would be written into a plain one."""
    frame = caller()
    seen = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    names = [name for name, value in seen.items() if value is array]
    if frame is None or not names:
        return "make it inside the traced function with wholestep.numpy (zeros, empty, array)"
    reason = why_not(frame.f_code)
    return "; ".join(filter(None, [constant_text(frame, names[0]), reason]))


def constant_text(frame: FrameType, name: str) -> str:
    """The hint for a variable that holds a plain array and is assigned traced ones."""
    held = frame.f_locals.get(name, frame.f_globals.get(name))
    names = getattr(getattr(held, "dtype", None), "names", None)
    if names:
        return f"the fields of structured arrays hold plain values: keep an array for each of {', '.join(names)}"
    if not why_not(frame.f_code):
        return f"`{name}` was made outside of the traced function: write into a copy, {name} = {name}.copy()"
    made = None
    for node in statements(frame):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if node.lineno <= frame.f_lineno and any(isinstance(t, ast.Name) and t.id == name for t in targets):
            made = node
    if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call):
        function, spelled = looked_up(frame, made.value.func), ast.unparse(made.value.func)
        short = spelled.rpartition(".")[2]
        if str(getattr(function, "__module__", "")).partition(".")[0] == "numpy" and hasattr(np, short):
            return f"`{name}` was made by {spelled} at line {made.lineno}: write ws.numpy.{short}(...) there"
    return f"`{name}` is a plain array: make it inside the traced function with ws.numpy, such as ws.numpy.zeros(...)"


def caller() -> FrameType | None:
    """The innermost frame of the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def expression(frame: FrameType) -> ast.expr | None:
    """The expression at which a frame is; None where its source is not to be had."""
    places = list(frame.f_code.co_positions())
    first, last, start, end = places[frame.f_lasti // 2] if frame.f_lasti // 2 < len(places) else (None,) * 4
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, n) for n in range(first, last + 1)]
    raw = [line.encode() for line in lines]  # columns count bytes
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][start:]
    try:
        return ast.parse(f"({b''.join(raw).decode()})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def statements(frame: FrameType) -> Iterator[ast.stmt]:
    """The statements of the function that a frame runs, with the numbers of their lines."""
    code = frame.f_code
    last = max([n for *_, n in code.co_lines() if n is not None], default=code.co_firstlineno)
    source = "".join(linecache.getline(code.co_filename, n) for n in range(code.co_firstlineno, last + 1))
    try:
        parsed = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return
    ast.increment_lineno(parsed, code.co_firstlineno - 1)
    yield from (node for node in ast.walk(parsed) if isinstance(node, ast.stmt))


def looked_up(frame: FrameType, node: ast.AST) -> Any:
    """The object that a name with dots stands for in a frame; None for any other expression."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, getattr(builtins, node.id, None)))
    if isinstance(node, ast.Attribute):
        return getattr(looked_up(frame, node.value), node.attr, None)
    return None
