"""Writes what is generated in the documentation: coverage.md from the tables that dispatch itself uses, primitives.md
and the table of precision.md from the facts that primitives state, and RELIABILITY.md from the records of audits."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import primitives, scipy as parts
from wholestep.frontend import array, dispatch, ufuncs
from wholestep.lower.legalize.expand_ops import EXPANSIONS
from wholestep.passes.inline_bodies import BODY_OPS
from wholestep.primitives import precision as precision_kinds
from wholestep.primitives.family import Bilinear, Elementwise, LinearPrimitive, Primitive
from wholestep_tools.audit.page import page as reliability

FOLDER = Path(__file__).parent

for module in ("numpy", *[f"scipy.{part}" for part in parts.PARTS]):
    importlib.import_module(f"wholestep.{module}")  # each enters its calls in the tables

HEAD = """\
# Covered calls

Every call below takes traced arrays: it is differentiated in both modes, mapped and traced like everything else.
NumPy's functions are called as they are (`import numpy as np`); `wholestep.numpy` has the same names and also takes
lists of traced arrays. What is not listed raises `UnsupportedError` for traced arrays. This page is written by
`python docs/generate.py` from the tables that the calls go through.
"""


def namespaces() -> dict[str, dict[str, Any]]:
    """Covered functions by module, each with what implements it."""
    found: dict[str, dict[str, Any]] = {}
    for name, outside in dispatch.NAMES.items():
        module, _, short = name.rpartition(".")
        found.setdefault(module, {})[short] = dispatch.FUNCTIONS[outside]
    return dict(sorted(found.items()))


def ufunc_names() -> list[str]:
    """NumPy's ufuncs that are covered, aliases included."""
    known = {*ufuncs.DIRECT, *ufuncs.COMPOSED}
    own = [n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)]
    return [n for n in own if getattr(np, n).__name__ in known or getattr(np, n) in dispatch.FUNCTIONS]


def special_names() -> list[str]:
    """The ufuncs of scipy.special that are covered."""
    special = importlib.import_module("scipy.special")
    known = {*ufuncs.DIRECT, *ufuncs.COMPOSED}
    return [n for n in dir(special) if n in known and isinstance(getattr(special, n), np.ufunc)]


def note(name: str, implementation: Callable[..., Any]) -> str:
    """What the first line of a docstring says beyond the name."""
    first = (inspect.getdoc(implementation) or "").split("\n")[0]
    return first.removeprefix(name).lstrip(".,:; ").rstrip(".")


def uncovered() -> list[str]:
    """Public functions and ufuncs of numpy that refuse traced arrays."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.sum))
    covered = {id(outside) for outside in dispatch.NAMES.values()}
    names = []
    for name in dir(np):
        thing = getattr(np, name) if not name.startswith("_") and name != "row_stack" else None
        if isinstance(thing, kinds) and id(thing) not in covered and name not in ufunc_names():
            names.append(name)
    return names


def coverage() -> str:
    """The page on covered calls."""
    lines = [HEAD]
    for module, functions in namespaces().items():
        lines += [f"## {module}", "", "| call | note |", "|---|---|"]
        lines += [f"| `{n}` | {note(f'{module}.{n}', f)} |" for n, f in sorted(functions.items())]
        lines.append("")
    lines += ["## ufuncs of numpy", "", _listing(ufunc_names()), ""]
    lines += ["With `out=`, `where=` (beside `out=`), `dtype=`, `casting=`, and the methods `reduce`, `accumulate`,"]
    lines += ["`reduceat`, `outer` and `at` where they have a meaning.", ""]
    lines += ["## ufuncs of scipy.special", "", _listing(special_names()), ""]
    own = {n for n in vars(array.Array) if hasattr(np.ndarray, n) and not n.startswith("_")}
    methods = sorted({*array.METHODS, *own} - {"item", "tobytes", "tolist"})
    lines += ["## Methods and attributes of arrays", "", _listing(methods), ""]
    lines += ["## Not covered", "", "Of numpy's public functions these refuse traced arrays, or have none to take:", ""]
    lines += [_listing(uncovered()), ""]
    return "\n".join(lines)


def _listing(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


PRECISIONS = {
    precision_kinds.LOW: "half precision, sums in float32",
    precision_kinds.WIDE: "float32",
    precision_kinds.FOLLOWS: "that of the operands, the widest where they differ",
    precision_kinds.AS_WRITTEN: "the dtype that the program names",
    precision_kinds.INSIDE: "the operations inside, each by itself",
}


def vocabulary() -> list[Primitive]:
    """The primitives of the library, without those that anybody else has entered."""
    modules = [getattr(primitives, name) for name in primitives.__all__]
    return [x for module in modules for x in vars(module).values() if isinstance(x, Primitive)]


def precision() -> str:
    """The page on precision, with the table of all operations in its place."""
    page = (FOLDER / "precision.md").read_text(encoding="utf-8")
    start = page.index("-->\n", page.index("<!-- written by")) + 4
    lines = ["", "| precision | operations |", "|---|---|"]
    for what, words in PRECISIONS.items():
        names = sorted({op.name for op in vocabulary() if op.precision == what})
        lines.append(f"| {words} | {_listing(names)} |")
    return page[:start] + "\n".join([*lines, "", ""]) + page[page.index("<!-- end -->") :]


PRIMITIVES_HEAD = """\
# Primitives

The {count} operations that a program is made of, by family. Kernels compute the core ones. Legalization writes
{expanded} of them, always or for some operands, in terms of others, and inlines the bodies of {inlined}. The derivative
is the one fact that a primitive states; both modes follow from it. This page is written by `python docs/generate.py`
from the classes in `primitives/` and from the tables that legalization goes by.
"""


def derivative(op: Primitive) -> str:
    """The fact about its derivative that a primitive states."""
    if op.flat or (isinstance(op, Elementwise) and not any(p is not None for p in op.partials)):
        return "none"
    if isinstance(op, LinearPrimitive | Bilinear):
        return "transpose"
    return "partial derivatives" if isinstance(op, Elementwise) else "that of its graphs" if op.nested else "tangent"


def compiled(op: Primitive) -> str:
    """Whether kernels compute a primitive, or others do in its place."""
    return "inlined" if op.name in BODY_OPS else "expanded" if op.name in EXPANSIONS else "core"


def primitives_page() -> str:
    """The page on primitives."""
    ops = sorted(set(vocabulary()), key=lambda op: op.name)
    how = [compiled(op) for op in ops]
    lines = [PRIMITIVES_HEAD.format(count=len(ops), expanded=how.count("expanded"), inlined=how.count("inlined"))]
    for kind in sorted({op.kind for op in ops}):
        lines += [f"## {kind}", "", "| primitive | derivative | compiled |", "|---|---|---|"]
        lines += [f"| `{op.name}` | {derivative(op)} | {compiled(op)} |" for op in ops if op.kind == kind]
        lines.append("")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "coverage.md": coverage,
    "primitives.md": primitives_page,
    "precision.md": precision,
    "../RELIABILITY.md": lambda: reliability(FOLDER / "records"),
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (FOLDER / page).write_text(write(), encoding="utf-8", newline="\n")
