"""Texts of pages and modules: a program as data, our own scripts, and nothing that a user named as code."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep.export.native.page_module import STATE_FILE
from wholestep.export.native.state_code import filled_in
from wholestep.export.page.short_texts import compact_script, compact_style, without_layout

FOLDER = Path(__file__).parent
OPERATION = re.compile(r"(\w+): \(t[,)].*,")
"""A line of the table of operations of the host."""
INDEX = "index"
"""The name of the module in a package."""


class PagePart(NamedTuple):
    """A file of a script or a style, and the predicate for the programs with which it is sent."""

    file: str | Path
    needed: Callable[[Mapping[str, Any]], bool] = lambda program: True


def has_functions(program: Mapping[str, Any]) -> bool:
    """Test whether there are functions on the state."""
    return bool(program["functions"])


def shows_arrays(program: Mapping[str, Any]) -> bool:
    """Test whether a page shows arrays beside the losses."""
    return bool(program["functions"] or program["step"]["outputs"])


TRAINING = tuple([PagePart(file) for file in ("host_numbers.js", STATE_FILE, "program.js", "rows.js", "training.js")])
"""The script that trains: numbers of the host, files of states, programs, rows, and the training."""
WORKER = (*TRAINING, PagePart("functions.js", has_functions), PagePart("kept.js"), PagePart("worker.js"))
MODULE = (*TRAINING, PagePart("functions.js"))
PAGE = (PagePart("page.js"), PagePart("arrays.js", shows_arrays), PagePart("begin.js"))
STYLE = (PagePart("page.css"), PagePart("arrays.css", shows_arrays))


def control_text(words: int) -> str:
    """The WGSL of launches between kernels, whose orders have so many words."""
    return filled_in(FOLDER / "control.wgsl", {"VECTORS": str(words // 4)})


def page_text(title: str, program: Mapping[str, Any]) -> str:
    """A page that trains a program; its policy lets these scripts alone run, and no network be asked."""
    style, script = compact_style(parts_text(STYLE, program)), compact_script(parts_text(PAGE, program))
    texts = {
        "TITLE": html.escape(title),
        "SCRIPT": script,
        "SCRIPTHASH": source_hash(script),
        "STYLE": style,
        "STYLEHASH": source_hash(style),
        "RUNTIME": compact_script(parts_text(WORKER, program)),
        "PROGRAM": compact_json(program),
    }
    return filled_in(FOLDER / "page.html", texts)


def browser_module(title: str, program: Mapping[str, Any]) -> str:
    """An ES module that trains a program, by the script that pages have."""
    texts = {"TITLE": ascii(title)[1:-1], "RUNTIME": parts_text(MODULE, program), "PROGRAM": compact_json(program)}
    return filled_in(FOLDER / "module.mjs", texts)


def typescript_types(title: str, program: Mapping[str, Any]) -> str:
    """The types of a module, for TypeScript."""
    hyper = {path.removeprefix("hyper."): "number" for path, *_ in program["given"] if path.startswith("hyper.")}
    functions = {
        name: f"{{ batch: {{{array_fields(f['inputs'])}}}; results: {{{array_fields(f['outputs'])}}} }}"
        for name, f in program["functions"].items()
    }
    texts = {
        "TITLE": ascii(title)[1:-1],
        "BATCH": array_fields(program["step"]["inputs"]),
        "CAPTURES": array_fields(program["step"]["outputs"]),
        "HYPER": type_fields(hyper),
        "FUNCTIONS": type_fields(functions),
    }
    return filled_in(FOLDER / "module.d.mts", texts)


def array_fields(arrays: Sequence[Mapping[str, Any]]) -> str:
    """The fields of a type whose values are typed arrays, their shapes as comments."""
    shapes = [" x ".join(map(str, x["shape"])) or "one number" for x in arrays]
    return type_fields({x["path"]: f"{x['kind']} /* {shape} */" for x, shape in zip(arrays, shapes, strict=True)})


def type_fields(types: Mapping[str, str]) -> str:
    """The fields of a type."""
    return " " + "".join([f"{json.dumps(name)}: {kind}; " for name, kind in types.items()])


def package_text(name: str) -> str:
    """The description by which npm takes a module."""
    entry = {"types": f"./{INDEX}.d.mts", "default": f"./{INDEX}.mjs"}
    facts = {"name": name, "version": "0.0.0", "type": "module", "exports": {".": entry}, "sideEffects": False}
    return json.dumps(facts, indent=2) + "\n"


def compact_json(program: Mapping[str, Any]) -> str:
    """A program as JSON that ends no script."""
    return re.sub("<(?=[/!sS])", r"\\u003c", json.dumps(program, separators=(",", ":")))


def parts_text(parts: Sequence[PagePart], program: Mapping[str, Any]) -> str:
    """The files that a program needs, concatenated, with only the host operations that it uses."""
    functions = [program["step"], *program["functions"].values()]
    used = set(re.findall(r"[a-z]\w+", " ".join([f["code"] for f in functions])))
    lines = "".join([source_text(part.file) for part in parts if part.needed(program)]).splitlines(keepends=True)
    return "".join([line for line in lines if not (found := OPERATION.match(line)) or used & {*found.groups()}])


def source_text(file: str | Path) -> str:
    """A file of ours, as it is sent: without its comments and indentation."""
    return without_layout((FOLDER / file).read_text(encoding="utf-8"))


def source_hash(text: str) -> str:
    """The hash by which a policy knows a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def code_text(code: Sequence[tuple[str, str, tuple[int, ...], int]]) -> str:
    """Operations on the host's numbers as the runtime reads them, after the constants, which come first: each with its
    operands, how far back they are or which constant, or the number of a given, and its dtype, if it is not float64.

    An operand that the operation before has at the same place is written as a sign of equality.

    >>> code_text([("const", "f64", (), 255), ("given", "f64", (), 0), ("mul", "f64", (0, 1), 0)])
    'ff|given 0;mul c0 1'
    """
    if not code:
        return ""
    constants = [" ".join([f"{extra:x}", *other_dtype(dtype)]) for op, dtype, _, extra in code if op == "const"]
    count = len(constants)
    operations, before = list[str](), tuple[int, ...]()
    for i, (op, dtype, args, extra) in enumerate(code[count:], count):
        held = [count <= n < i - 1 and before[k : k + 1] == (n,) for k, n in enumerate(args)]
        operands = ["=" if same else f"c{n}" if n < count else str(i - n) for n, same in zip(args, held, strict=True)]
        operations.append(" ".join([op, *other_dtype(dtype), *(operands or [str(extra)])]))
        before = args
    return f"{';'.join(constants)}|{';'.join(operations)}"


def other_dtype(dtype: str) -> tuple[str, ...]:
    """A dtype, unless it is the one that most of the host's numbers have."""
    return () if dtype == "f64" else (dtype,)


def encoded_differences(data: bytes) -> str:
    """Bytes as JSON can hold them, each word as its difference to the one two before: such of numbers that count are
    short."""
    words = np.frombuffer(data + bytes(-len(data) % 4), "<u4")
    made = words.copy()
    made[2:] -= words[:-2]
    return encoded_bytes(made.tobytes())


def encoded_bytes(data: bytes) -> str:
    """Bytes as JSON can hold them."""
    return base64.b64encode(data).decode()
