"""profile: measured and predicted times of the kernels and routines of a step, by thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wholestep.compiler.dynamic_shapes import SymbolicProgram
from wholestep.dims import Dim
from wholestep.errors import show
from wholestep.ir.sizes import graph_at
from wholestep.lower.cost.cache_reuse import cache_misses
from wholestep.lower.cost.roofline import Rates
from wholestep.lower.program.steps import Launch, RoutineCall
from wholestep.report import table_format
from wholestep.report.cost_table import NO_USER_LINE, KernelCost, joined_cost, kernel_cost, line_costs, rates_source
from wholestep.runtime.backend import ProfileRecord
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS
from wholestep.train.inspect import perfetto
from wholestep.train.program.engine import Engine
from wholestep.train.state.captured_arrays import check_unchanged
from wholestep.words import Shown


class KernelTime(NamedTuple):
    """The measured time of all runs of one kernel or routine in one call, and the predicted cost of these runs.

    `microseconds` is the time in the fastest call, `least` the least time of this kernel in any call.
    """

    microseconds: float
    least: float
    predicted: KernelCost


class LineTime(NamedTuple):
    """The share of a line of the user's program in the times of kernels, forward and backward."""

    line: str
    microseconds: float
    predicted: float


@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """The measured times of a call of a step: `kernels` and `lines`, those that take longest first.

    All times are those of the fastest call, which took `microseconds` from call to return, of which the kernels took
    `inside`. `record` has the events of this call. Printed it is a table, and in a notebook too.
    """

    name: str
    calls: int
    steps: tuple[KernelTime, ...]
    """The kernels and routines in the order of the program."""
    lines: tuple[LineTime, ...]
    record: ProfileRecord
    rates: Rates

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        """The kernels and routines that ran, the slowest first."""
        return tuple(sorted([t for t in self.steps if t.predicted.times], key=lambda t: -t.microseconds))

    @property
    def microseconds(self) -> float:
        """The time of the whole call."""
        return 1e6 * self.record.seconds

    @property
    def inside(self) -> float:
        """The time of all kernels and routines together, in microseconds."""
        return sum(t.microseconds for t in self.steps)

    @property
    def predicted(self) -> float:
        """The predicted time of the kernels and routines that ran, in microseconds."""
        return sum(t.predicted.microseconds for t in self.steps)

    def save(self, path: str | Path) -> None:
        """Write the events as a trace file, which https://ui.perfetto.dev and chrome://tracing open.

        Threads are tracks, and kernels are slices on them with the user's line, arithmetic and bytes.
        """
        Path(path).write_text(
            perfetto.trace_json(self.name, self.record, [t.predicted for t in self.steps]), encoding="utf-8"
        )

    def __str__(self) -> str:
        return table_format.tables_as_text(self.title(), self.tables())

    def _repr_html_(self) -> str:
        return table_format.tables_as_html(self.title(), self.tables())

    def title(self) -> str:
        """A summary in one line."""
        return (
            f"{self.name}: {self.microseconds:,.1f} µs, the fastest of {self.calls} calls; "
            f"{self.inside:,.1f} µs in kernels, {self.predicted:,.1f} µs by {rates_source(self.rates)}"
        )

    def tables(self) -> list[table_format.ReportTable]:
        """The two tables, hot spots first."""
        whole = self.inside or 1.0
        kernels = [(t.microseconds / whole, t.microseconds, t.least, *table_row(t.predicted)) for t in self.kernels]
        lines = [(x.microseconds / whole, x.microseconds, x.predicted, x.line) for x in self.lines]
        head = ("share", "µs", "least µs", "predicted µs", "flops", "bytes", "runs", "bound", "kernel", "line")
        return [
            table_format.ReportTable(head, kernels),
            table_format.ReportTable(("share", "µs", "predicted µs", "line"), lines),
        ]


def table_row(k: KernelCost) -> tuple[float | int | Dim | str, ...]:
    """The columns of a kernel's row after its time."""
    return k.microseconds, k.flops, k.bytes, k.times, k.bound, k.name, show(k.where)


def profiled(engine: Engine, batch: Any, calls: int) -> Profile:
    """The profile of an engine's own program, run on copies of its state: one call to warm up, then so many.

    For a batch of symbolic size, the profiled program is compiled for the size of this batch.
    """
    program: Any = engine.main.program
    arrays = engine.head + engine.signature.arrays(batch)
    if isinstance(program, SymbolicProgram):
        sizes: Any = engine.signature.sizes(arrays[len(engine.head) :])
        program = program.make(graph_at(program.graph, sizes), program.resident, None, NO_FILE_INPUTS)
    check_unchanged(engine.watches, "profile")
    recorder = program.profiler(engine.main.instance.state)
    recorder(arrays)
    records = [recorder(arrays) for _ in range(calls)]
    by = program.backend.rates()
    far = cache_misses(program.plan.steps, by)
    groups = [[(step, far.get(id(step), 0.0)) for step in group] for group in recorder.timed]
    return profile_of(program.graph.name, groups, records, by)


def profile_of(
    name: str,
    groups: Sequence[Sequence[tuple[Launch | RoutineCall, float]]],
    records: Sequence[ProfileRecord],
    by: Rates,
) -> Profile:
    """The profile of the records of several calls, whose steps are timed in groups; each step is paired with its bytes
    from memory."""
    best = min(records, key=lambda r: r.seconds)
    times: list[KernelTime] = []
    lines: dict[str, LineTime] = {}
    for i, group in enumerate(groups):
        costs = [kernel_cost(step, best.runs[i], by, far) for step, far in group]
        entry = joined_cost(costs)
        took, least = best.nanoseconds[i] / 1e3, min(r.nanoseconds[i] for r in records) / 1e3
        times.append(KernelTime(took, least, entry))
        for where, predicted in [
            (where, part)
            for (step, _), cost in zip(group, costs, strict=True)
            for where, _, _, part in line_costs(step, cost, by)
        ]:
            line = show(where) or NO_USER_LINE
            before = lines.get(line, LineTime(line, 0.0, 0.0))
            part = took * predicted / entry.microseconds if entry.microseconds else 0.0
            lines[line] = LineTime(line, before.microseconds + part, before.predicted + predicted)
    hot = tuple(sorted(lines.values(), key=lambda x: -x.microseconds))
    return Profile(name, len(records), tuple(times), hot, best, by)
