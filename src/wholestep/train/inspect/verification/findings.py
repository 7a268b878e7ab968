"""The findings of a verification: values, lines, derivatives, faults, and parts that were not checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from wholestep.errors import VerificationError
from wholestep.report import table_format
from wholestep.words import Shown, first_few, preformatted, printable

MOST = 12
"""The most printed rows of a table, and the most printed faults."""

TITLES = {
    "value": "the compiled value of {operation} is off",
    "derivative": "the derivative of {operation} is off",
    "function": "{operation} is not what NumPy makes of the function",
}
"""The heads of faults, by kind."""


class ComparedValue(NamedTuple):
    """A result of the step beside float64: both errors in units in the last place of its largest element."""

    kind: str
    path: str
    dtype: str
    units: float
    allowed: float
    line: str

    @property
    def ok(self) -> bool:
        """True if the error is within the bound."""
        return self.units <= self.allowed


class ComparedLine(NamedTuple):
    """The operations of a line of the user's program, each compared alone; `share` is the largest error over bound."""

    line: str
    operations: int
    share: float
    units: float
    worst: str


class ComparedSlope(NamedTuple):
    """The slope of the loss in a random direction of some parameters: by differences, and by the gradient.

    `gap` is the difference of the two, relative to the sum of the absolute products of gradient and direction.
    """

    params: tuple[str, ...]
    differences: float
    gradient: float
    gap: float
    ok: bool


class Fault(NamedTuple):
    """A fault and its place: `kind` is "value", "derivative" or "function"; `phase` "forward", "backward", "update".

    `line` is the user's line, empty where it is not known.
    """

    kind: str
    operation: str
    line: str
    phase: str
    detail: str

    def __str__(self) -> str:
        head = TITLES[self.kind].format(operation=self.operation)
        where = [f"  at {self.line}"] if self.line else []
        return "\n".join([f"{head}{f', in the {self.phase} pass' if self.phase else ''}", *where, f"  {self.detail}"])


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """The evidence about one call of a step; printed it is a few tables.

    `values` are the results of the compiled program beside float64, `lines` the operations one by one, by the user's
    line, `slopes` the gradient beside differences, and `plain` the outcome of the loss in NumPy itself. `faults` are
    the differences beyond their bounds, the earliest first; `notes` are observations that are no faults, `unchecked`
    the parts that were not checked. `operations` is the number of operations that were compared one by one, `rules`
    that of derivatives; `memory` is the largest number of bytes of intermediate values that were held at once.
    """

    name: str
    step: int
    values: tuple[ComparedValue, ...]
    lines: tuple[ComparedLine, ...]
    slopes: tuple[ComparedSlope, ...]
    plain: str
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    unchecked: tuple[str, ...]
    operations: int
    rules: int
    memory: int

    @property
    def ok(self) -> bool:
        """True if there are no faults."""
        return not self.faults

    def check(self) -> Verification:
        """Return the report itself; raise VerificationError where there are faults."""
        if self.faults:
            raise VerificationError(f"verify: {self.title()}\n{self.told()}", hint=HINT)
        return self

    def title(self) -> str:
        """A summary in one sentence."""
        n = len(self.faults)
        said = "agrees with the reference" if not n else f"{n} fault{'s' * (n > 1)}"
        looked = f"{len(self.values)} values, {self.operations:,} operations, {len(self.slopes)} directions"
        return f"step {self.step} of {self.name}: {said} ({looked})"

    def told(self) -> str:
        """The faults, one below the other."""
        found = [str(fault) for fault in self.faults[:MOST]]
        return "\n".join([*found, *[f"and {len(self.faults) - MOST} more"] * (len(self.faults) > MOST)])

    def remarks(self) -> str:
        """The lines below the tables."""
        parts = [self.told()] if self.faults else []
        parts += [f"NumPy on the function itself: {self.plain}"]
        parts += [f"note: {x}" for x in self.notes]
        parts += [f"not checked: {x}" for x in self.unchecked]
        return printable("\n".join([*parts, f"held at once: {self.memory / 2**20:,.1f} MiB of intermediate values"]))

    def __str__(self) -> str:
        return f"{table_format.tables_as_text(self.title(), self.tables())}\n\n{self.remarks()}"

    def _repr_html_(self) -> str:
        return table_format.tables_as_html(self.title(), self.tables()) + preformatted(self.remarks())

    def tables(self) -> list[table_format.ReportTable]:
        """Tables of values, lines and slopes; the first column is the error as a share of its bound."""
        values = sorted(self.values, key=lambda v: -share_of_bound(v.units, v.allowed))
        rows = [
            (share_of_bound(v.units, v.allowed), v.units, v.allowed, v.kind, v.path, v.dtype, v.line) for v in values
        ]
        lines = [(x.share, x.units, x.operations, x.worst, x.line) for x in self.lines]
        slopes = [(min(s.gap, 1.0), s.differences, s.gradient, first_few(s.params, 2)) for s in self.slopes]
        tables = [
            table_format.ReportTable(("of bound", "ulp", "allowed", "kind", "value", "dtype", "line"), rows[:MOST]),
            table_format.ReportTable(("of bound", "ulp", "operations", "worst", "line"), lines[:MOST]),
            table_format.ReportTable(("gap", "differences", "gradient", "direction"), slopes[:MOST]),
        ]
        return [table for table in tables if table.rows]


HINT = (
    "print(report) has the tables; a fault of the library is worth a report with the line, its types and its operands"
)
"""The way out of a verification that failed."""


def share_of_bound(units: float, allowed: float) -> float:
    """The share of the bound that an error takes: 0 for none, also where none is allowed."""
    if not units:
        return 0.0
    return units / allowed if allowed and math.isfinite(allowed) else (0.0 if units <= allowed else math.inf)
