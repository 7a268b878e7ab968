"""`wholestep audit texts`: parsing any text of a graph gives a valid graph or one error."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np

from wholestep.errors import GraphError
from wholestep.ir.text import parse, text_and_objects
from wholestep.ir.verify import verify
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.programs import program

CLAIM = "Whatever the text of a graph holds, parsing ends in one error, or gives a graph that keeps all rules"
SECONDS = 5.0
"""The most seconds of the processor, which other programs add nothing to."""
GRAPHS = 24
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
ODD = (
    "__import__('os')",
    "().__class__.__bases__",
    "eval('1')",
    "lambda: 0",
    "[i for i in x0]",
    "*x0",
    "**x0",
    "yield x0",
    "await x0",
    "f'{x0}'",
    "b'x'",
    "...",
    "None",
    "True",
    "nan",
    "-inf",
    "1e999",
    "9" * 5000,
    "-1",
    "0x7f",
    "1j",
    "2**63",
    "10**9",
    "9223372036854775808",
    "f32[9223372036854775807, 9223372036854775807]",
    "f64[-1]",
    "i4[2]",
    "'\\ud800'",
    "'\\x00'",
    "x0 := 1",
    "global x0",
    "import os",
    "del x0",
    "class A: pass",
    "return",
    "def f(): return",
    "#",
    "\\",
    "\0",
    "\u202e",
    "é",
    "(" * 300,
    "[" * 300,
    "-" * 3000 + "1",
    ";",
    "\n",
    "\t",
)
"""Tokens in the place of a word."""


def mutated(source: str, other: str, rng: np.random.Generator) -> str:
    """A text with a few words, lines or characters left out, put twice, exchanged, or turned into something else."""
    words = TOKEN.findall(source)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(words))), int(rng.integers(6))
        if kind == 0:
            words[at] = ODD[int(rng.integers(len(ODD)))]
        elif kind == 1:
            words[at] = ""
        elif kind == 2:
            words[at] = words[int(rng.integers(len(words)))]
        elif kind == 3:
            words[at] = chr(int(rng.integers(1, 0x2FF))) + words[at]
        elif kind == 4:
            lines = source.splitlines()
            words.insert(at, "\n" + lines[int(rng.integers(len(lines)))])
        else:
            cut = int(rng.integers(len(other)))
            words[at] = other[cut : cut + int(rng.integers(1, 30))]
    return "".join(words)


def problem(source: str, objects: dict[str, Any]) -> tuple[bool, str]:
    """Test whether a text is accepted, with the fault of the parser; empty where there is none."""
    before = time.process_time()
    try:
        graph = parse(source, objects)
    except GraphError:
        return False, "it took long" if time.process_time() - before > SECONDS else ""
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}"[:200]
    try:
        verify(graph)
        text, found = text_and_objects(graph)
        again = text_and_objects(parse(text, found))[0]
    except BaseException as error:
        return True, f"accepted, and then {type(error).__name__}: {error}"[:200]
    return True, "" if again == text else "accepted, and its text reads back as another one"


def audit(count: int, seed: int) -> dict[str, Any]:
    """Parse so many damaged texts; the record of it."""
    seen, accepted, rng = Seen(), 0, np.random.default_rng(seed)
    graphs = [
        text_and_objects(program((seed, i), int(rng.integers(1, 12)), mixed=bool(i % 2)).graph) for i in range(GRAPHS)
    ]
    for i in range(count):
        (source, objects), (other, _) = (graphs[int(k)] for k in rng.integers(0, GRAPHS, 2))
        text = mutated(source, other, rng)
        taken, wrong = problem(text, objects)
        accepted += taken
        if wrong:
            seen.failures.append(f"text {i}: {wrong}\n{text}"[:2000])
    return record("texts", CLAIM, {"texts": count, "of them refused": count - accepted}, seen.failures, seed=seed)


AUDIT = Audit(
    "texts",
    audit,
    500_000,
    "parse texts of graphs that are damaged or hostile",
    """\
The texts of random programs have words, lines and characters left out, doubled, exchanged, and turned into calls
of Python, literals of every kind, numbers beyond every range, and brackets hundreds deep. Parsing must raise
GraphError and nothing else; or it gives a graph that keeps the rules of the language and whose text reads back as
it is.""",
)
