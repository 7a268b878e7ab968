"""`wholestep audit reports`: wrong answers of other libraries, as their users reported them, are right ones here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import enter, scope
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.correctness.reports import (
    aliasing,
    derivatives,
    indexing,
    linear_algebra,
    loops,
    numbers,
    special_points,
    training,
)
from wholestep_tools.audit.correctness.reports.report import Report
from wholestep_tools.audit.record import record

CLAIM = "Programs that other libraries were reported to compute wrongly without an error are computed rightly"
THEMES = (aliasing, indexing, derivatives, special_points, numbers, loops, linear_algebra, training)
REPORTS = tuple(report for theme in THEMES for report in theme.REPORTS)


def traced(program: Callable[..., Any]) -> Callable[..., Any]:
    """The program on traced arrays with values attached, as transforms run it."""

    def run(*args: Any) -> Any:
        with scope("report") as work:
            return work.leave(ordinary(program)(*tree.map(enter, args)))

    return run


def ways(report: Report) -> dict[str, Callable[..., Any]]:
    """The programs whose answers must be the right one."""
    if report.trains:
        return {"trained": report.program}
    return {"as it is": report.program, "traced": traced(report.program), "compiled": ws.jit(report.program)}


def problem(report: Report) -> str:
    """The fault in an answer; arrays have the dtype that the right one has."""
    for how, program in ways(report).items():
        with np.errstate(all="ignore"):  # of zeros and infinities, which these programs are about
            found = tree.leaves(program(*report.at))
        for x, y in zip(found, tree.leaves(report.right), strict=True):
            if np.shape(x) != np.shape(y) or not np.allclose(x, y, rtol=1e-6, atol=1e-12, equal_nan=True):
                return f"{how}: {x} is not {y}"
            if isinstance(y, np.ndarray) and y.dtype != np.asarray(x).dtype:
                return f"{how}: {np.asarray(x).dtype} is not {y.dtype}"
    return ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """The first so many reports; the record of it."""
    seen = Seen()
    for report in REPORTS[:count]:
        wrong = problem(report)
        seen.count("reports")
        seen.right(not wrong, f"{report.reference}, {report.wrong}: {wrong}")
    return record("reports", CLAIM, dict(seen.checks), seen.failures, seed=seed)


AUDIT = Audit(
    "reports",
    audit,
    len(REPORTS),
    "compute what other libraries were reported to compute wrongly",
    """\
Each program is one of the kind that a public report of another library describes, written with NumPy: arrays that
are written while views of them are read, buffers that are used again, derivatives in each other and at zeros, ties and
infinities, rounding and remainders, loops, factorizations, and whole steps of training. It is run as it is, traced
with values attached, and compiled, or trained, and compared with the right answer, which is written out, or comes from
a formula of its own.""",
)
