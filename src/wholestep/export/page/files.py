"""Texts of pages and modules: a program as data, our own scripts, and nothing that a user named as code."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wholestep.export.native.page_module import STATE_FILE
from wholestep.export.native.state_code import filled_in

FOLDER = Path(__file__).parent
RUNTIME: tuple[str | Path, ...] = ("host_numbers.js", STATE_FILE, "program.js", "rows.js", "training.js")
"""The files of the script that trains, in their order."""
INDEX = "index"
"""The name of the module in a package."""


def page_text(title: str, program: Mapping[str, Any]) -> str:
    """A page that trains a program; its policy lets these scripts alone run, and no network be asked."""
    style = source_text("page.css")
    script = "".join(map(source_text, page_scripts(program)))
    texts = {
        "TITLE": html.escape(title),
        "SCRIPT": script,
        "SCRIPTHASH": source_hash(script),
        "STYLE": style,
        "STYLEHASH": source_hash(style),
        "RUNTIME": runtime_text() + source_text("kept.js") + source_text("worker.js"),
        "PROGRAM": compact_json(program),
    }
    return filled_in(FOLDER / "page.html", texts)


def browser_module(title: str, program: Mapping[str, Any]) -> str:
    """An ES module that trains a program, by the script that pages have."""
    texts = {"TITLE": ascii(title)[1:-1], "RUNTIME": runtime_text(), "PROGRAM": compact_json(program)}
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
    return json.dumps(program, separators=(",", ":")).replace("<", "\\u003c")


def page_scripts(program: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of the page's own script: arrays are shown where there are some beside the losses."""
    shown = program["functions"] or program["step"]["outputs"]
    return ("page.js", *(["arrays.js"] if shown else []), "begin.js")


def runtime_text() -> str:
    """The script that trains: numbers of the host, files of states, programs, rows, and the training."""
    return "".join(map(source_text, RUNTIME))


def source_text(file: str | Path) -> str:
    """A file of ours, as it is sent: without its comments and indentation."""
    return without_layout((FOLDER / file).read_text(encoding="utf-8"))


def without_layout(text: str) -> str:
    """A script without lines of comments, empty lines and indentation, none of which means anything in it.

    >>> without_layout("f = {\\n  // why\\n  a: 1,\\n}\\n")
    'f = {\\na: 1,\\n}\\n'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "".join([f"{line}\n" for line in lines if line and not line.startswith("//")])


def source_hash(text: str) -> str:
    """The hash by which a policy knows a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def code_text(code: Sequence[tuple[str, str, tuple[int, ...], int]]) -> str:
    """Operations on the host's numbers as the runtime reads them: each with its dtype, how far back its operands are,
    and the word of a constant or the number of a given.

    >>> code_text([("given", "f64", (), 0), ("mul", "f64", (0, 0), 0)])
    'given f64 0;mul f64 1 1'
    """
    numbered = [
        (op, dtype, [str(i - n) for n in args] or [f"{extra:x}"]) for i, (op, dtype, args, extra) in enumerate(code)
    ]
    return ";".join([" ".join([op, dtype, *rest]) for op, dtype, rest in numbered])


def encoded_bytes(data: bytes) -> str:
    """Bytes as JSON can hold them."""
    return base64.b64encode(data).decode()
