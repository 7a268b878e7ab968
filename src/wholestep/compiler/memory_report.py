"""Memory reports: the bytes that a program takes by purpose, measured from its plan before anything runs."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.dims import ASSUMED_SIZE, Size, names, spelled_out, substitute
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.program.live_ranges import LiveRange
from wholestep.lower.program.program import LoweredProgram
from wholestep.report.cost_table import Costs, count_costs
from wholestep.report.memory_plot import peak_table
from wholestep.words import preformatted, printable


class MemoryReport(NamedTuple):
    """Bytes by purpose, known before anything runs: numbers, or expressions of symbolic sizes.

    `bound` is a lower bound of the arena with these kernels; `peak` lists its live ranges at the peak. `kept` counts
    bytes that no run reads: copies of the initial parameters and buffers, for `reset`, and the graph's constants;
    of arrays of a megabyte or more there is no copy, but the caller's own are held.
    `file` is the size of files, of state and scratch together, and no part of the total.
    """

    state: int
    inputs: Size
    outputs: Size
    constants: int
    arena: Size
    bound: int
    code: int
    peak: tuple[LiveRange, ...] = ()
    kept: int = 0
    file: int = 0

    @property
    def total(self) -> Size:
        """The sum of all that is in memory."""
        return self.state + self.inputs + self.outputs + self.constants + self.arena + self.code + self.kept

    def at(self, **sizes: int) -> MemoryReport:
        """The report with numbers for symbolic sizes, without the contents of the peak.

        >>> import numpy as np, wholestep as ws
        >>> batch = ws.ShapeDtype((ws.Dim("B"), 4), "float32")
        >>> memory = ws.estimate(lambda w, x: np.mean((x @ w) ** 2), np.ones(4, np.float32), batch=batch)
        >>> memory.inputs, memory.at(B=100).inputs
        (16*B, 1600)
        """
        numbers = {name: substitute(size, sizes) for name, size in self._asdict().items() if name != "peak"}
        return MemoryReport(**numbers)  # type: ignore[arg-type]  # the names are its own

    def __str__(self) -> str:
        kinds = ["state", "inputs", "outputs", "constants", "arena", "code", "kept", "total"]
        kinds += ["file"] * bool(self.file)
        rows = [f"{name:<10}{spelled_out(getattr(self, name)):>17} bytes" for name in kinds]
        open_ = sorted(names(self.total))
        note = [f"for {', '.join(f'{name} = {ASSUMED_SIZE}' for name in open_)}"] if open_ and self.peak else []
        return printable("\n".join([*rows, *note, *peak_table(self.peak)]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


class Forecast(MemoryReport):
    """The memory of a program that was lowered and not compiled, with its `plan` and `cost()`."""

    plan: LoweredProgram
    rates: Rates

    def cost(self) -> Costs:
        """The predicted cost of a run, an entry for each kernel and for each line."""
        return plan_costs(self.plan, self.rates)


def report_memory(unit: CompilationUnit, plan: LoweredProgram, code: int, kept: int = 0) -> MemoryReport:
    """The memory of a lowered program with this many bytes of code, and as many kept for other purposes."""
    replaced, sizes = {i for i, _ in unit.resident}, dict(enumerate(t.nbytes for t in unit.graph.in_types))
    return MemoryReport(
        state=sum(n for i, n in sizes.items() if i in replaced and i not in unit.streamed),
        inputs=sum(n for i, n in sizes.items() if i not in replaced and i not in unit.streamed),
        outputs=sum(s.type.nbytes for s in plan.slots if s.kind == "output"),
        constants=sum(a.nbytes for a in plan.constants),
        arena=plan.arena,
        bound=plan.bound,
        code=code,
        peak=tuple(plan.peak),
        kept=kept + unit.constant_bytes,
        file=plan.file + sum(sizes[i] for i in unit.streamed),
    )


def plan_costs(plan: LoweredProgram, rates: Rates) -> Costs:
    """The predicted cost of a lowered program; times are for the assumed sizes where it has symbolic ones."""
    return count_costs(plan, rates, dict.fromkeys(plan.names, ASSUMED_SIZE))
