"""`wholestep audit origins`: wherever nan or infinity begins, the step is skipped, and that line is named."""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = (
    "The operation and the line that made the first nan or infinity are named, and the step leaves the state as it was"
)
PLACES = 32
"""Lines of a loss at which something may go wrong."""
WIDTH = 6


class Fault(NamedTuple):
    """A line that takes a number which is fine at 1; a value at which it is not; and who is to blame in which phase."""

    line: str
    bad: float
    operation: str
    phase: str


FAULTS = (
    Fault("h = h + np.log({p})", 0.0, "log", "forward"),
    Fault("h = h + np.log({p})", -1.0, "log", "forward"),
    Fault("h = h + 0.1 / {p}", 0.0, "div", "forward"),
    Fault("h = h + np.sqrt({p})", -1.0, "sqrt", "forward"),
    Fault("h = h + np.arccos({p})", 2.0, "arccos", "forward"),
    Fault("h = h + np.log1p(-0.5 * {p})", 2.0, "log1p", "forward"),
    Fault("h = h + np.exp({p})", 1000.0, "exp", "forward"),
    Fault("h = h + np.arctanh(0.5 * {p})", 2.0, "arctanh", "forward"),
    Fault("h = h + {p} ** -2", 0.0, "pow", "forward"),
)
LAYERS = (
    "h = h @ w[{i}] + 0.1 * h",
    "h = np.sin(h) * 0.5",
    "h = h - np.mean(h, axis=-1, keepdims=True)",
    "h = np.maximum(h, 0.1 * h)",
    "h = h / (1.0 + np.abs(h))",
    "h = np.where(h > 0.1, h, 0.2 * h)",
    "h = h[:, ::-1] + 0.1",
    "h = np.cumsum(h, axis=1) * 0.3",
)


class Case(NamedTuple):
    """A step, the fault that each line of its loss may have, and the numbers of these lines in the file."""

    step: Any
    faults: list[Fault]
    lines: list[int]


def case(folder: Path, seed: int, i: int) -> Case:
    """A loss that is drawn line by line, written to a file, and compiled."""
    rng, faults, lines = np.random.default_rng([seed, i]), list[Fault](), list[int]()
    text = ["import numpy as np", "def loss(w, batch):", "    h = batch['x']"]
    for place in range(PLACES):
        for _ in range(int(rng.integers(0, 3))):
            text.append(f"    {LAYERS[int(rng.integers(len(LAYERS)))].format(i=int(rng.integers(3)))}")
        fault = FAULTS[int(rng.integers(len(FAULTS)))]
        text.append(f"    {fault.line.format(p=f'''batch['probes'][{place}]''')}")
        faults.append(fault)
        lines.append(len(text))
    text.append("    return np.mean((h @ w[0]) ** 2)")
    path = folder / f"loss_{i}.py"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    loss: Callable[[Any, Any], Any] = runpy.run_path(str(path))["loss"]
    params = [(rng.normal(size=(WIDTH, WIDTH)) / WIDTH).astype(np.float32) for _ in range(3)]
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch(rng))
    return Case(step, faults, lines)


def batch(rng: np.random.Generator) -> dict[str, Any]:
    """Rows, and a number for each place, with which nothing goes wrong."""
    return {"x": rng.normal(size=(4, WIDTH)).astype(np.float32), "probes": np.ones((PLACES, WIDTH), np.float32)}


def problem(made: Case, place: int, rng: np.random.Generator) -> str:
    """The fault in how a fault in one place is dealt with."""
    fault, given, before = made.faults[place], batch(rng), sha256(inside(made.step))
    given["probes"][place, int(rng.integers(WIDTH))] = fault.bad
    with np.errstate(all="ignore"):
        result = made.step(given)
        if result.status != "skipped":
            return f"the step is {result.status}"
        if sha256(inside(made.step)) != before:
            return "the state has changed"
        found = made.step.diagnose(given)
    if (found.operation, found.phase) != (fault.operation, fault.phase):
        return f"{found.operation} in the {found.phase} pass is blamed"
    return "" if f".py:{made.lines[place]}:" in found.line else f"the line {found.line!r} is blamed"


def inside(step: Any) -> Any:
    """The state without its counters."""
    return {name: part for name, part in step.state.items() if name != "counters"}


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many faults; the record of it."""
    seen, tried = Seen(), 0
    with tempfile.TemporaryDirectory() as folder:
        while tried < count:
            number = seen.checks["losses"]
            made, rng = case(Path(folder).resolve(), seed, number), np.random.default_rng([seed, number, 1])
            fine = made.step(batch(rng)).status
            seen.right(fine == "completed", f"loss {number}: without a fault the step is {fine}")
            for place in range(PLACES):
                wrong = problem(made, place, rng)
                what = f"loss {number}, place {place}, {made.faults[place].line}"
                seen.right(not wrong, f"{what}: {wrong}")
                seen.count(f"faults of {made.faults[place].operation}")
                tried += 1
            seen.count("losses")
    checks = {"faults": tried, **dict(sorted(seen.checks.items()))}
    return record("origins", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "origins",
    audit,
    3000,
    "make nan or infinity in every place of a loss, and see who is blamed",
    """\
Losses are drawn line by line, with 32 places each at which one number of the batch decides whether a logarithm, a
quotient, a root, a power or an exponential is finite. Each place goes wrong in turn, in one element. The step must
be skipped, all parameters and moments must have the bits that they had, and the diagnosis must name the operation
and the number of the line.""",
)
