"""`wholestep audit onnx`: the node cases of the onnx package give its numbers here, or are refused with a reason."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from typing import Any

from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.foreign.onnx_cases import cases, held_out, outcome
from wholestep_tools.audit.record import record

CLAIM = "A case of an ONNX operator gives the numbers of the onnx package, or is refused with a reason; none is wrong"


def audit(count: int, seed: int) -> dict[str, Any]:
    """Every case, or every so-many-th one until there are `count`."""
    seen, refusals, kinds = Seen(), Counter[str](), dict[str, list[int]]()
    every = cases()
    for case in every[seed % max(len(every) // count, 1) :: max(len(every) // count, 1)][:count]:
        found = outcome(case)
        half = "held out" if held_out(found.name) else "looked at"
        seen.count("cases")
        seen.count(f"cases {half}")
        seen.count(found.fate if found.fate != "wrong" else "wrong numbers")
        seen.right(found.fate != "wrong", f"{found.name}: {found.reason}")
        row = kinds.setdefault(found.operator.removesuffix(" (expanded)"), [0, 0])
        row[1] += 1
        if found.fate == "passed":
            row[0] += 1
            seen.count(f"passed of those {half}")
            compiled(seen, found)
        elif found.fate == "refused":
            refusals[reason(found.reason)] += 1
    return record(
        "onnx",
        CLAIM,
        seen.checks,
        seen.failures,
        seed=seed,
        refused=dict(refusals.most_common()),
        operators={kind: row for kind, row in sorted(kinds.items())},
        onnx=importlib.metadata.version("onnx"),
    )


def compiled(seen: Seen, found: Any) -> None:
    """Count the outcome of a case under `ws.jit`."""
    if found.compiled == "no floating input":
        return
    seen.count("passing cases under jit")
    if not found.compiled:
        seen.count("of them with the same numbers")
    elif ": " in found.compiled and found.compiled.partition(":")[0].endswith("Error"):
        seen.count("of them refused there")
    else:
        seen.right(False, f"{found.name} under jit: {found.compiled}")


REASONS = {
    "ai.onnx.": "operators of other domains",
    " of string": "strings",
    "string, which": "strings",
    "of float8": "numbers of 8 bits and less",
    "is float8": "numbers of 8 bits and less",
    "float4": "numbers of 8 bits and less",
    "int4": "numbers of 8 bits and less",
    "int2": "numbers of 8 bits and less",
    "draws random": "random numbers, which need a key",
}
"""The reasons of refusals, by a part of their message."""


def reason(text: str) -> str:
    """A refusal in a few words."""
    known = next((words for part, words in REASONS.items() if part in text), None)
    return known or text.partition("from_onnx: ")[2][:100]


AUDIT = Audit(
    "onnx",
    audit,
    2000,
    "the node cases of the onnx package",
    "The onnx package generates cases of its operators: a model of a node or a few, inputs and outputs. Each is loaded "
    "with `ws.from_onnx`, run on plain arrays and compared within the tolerances that the package gives to backends "
    "(four units of a number of 16 bits), and again under `ws.jit` with its floating inputs traced. Handlers are "
    "written from the specification; the half of the cases whose names have an odd SHA-256 was held out meanwhile.",
)
