"""Two processes with a thread each beside one process with two threads, on the same batch, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.audit.workers.launcher import mpiexec
from wholestep_tools.bench import machine
from wholestep_tools.bench.table import columns, duration

ASKED = 1.15
"""The most that a step in two processes may take beside one in two threads."""
STEPS = {"W1": 300, "text": 40}
"""The workloads, and the steps of a turn."""


class Row(NamedTuple):
    """A workload, and the seconds of a step in two processes and in one, round by round."""

    workload: str
    processes: Sequence[float]
    threads: Sequence[float]

    @property
    def ratio(self) -> float:
        """The time in two processes beside that in two threads: the median of the rounds' ratios."""
        return statistics.median([a / b for a, b in zip(self.processes, self.threads, strict=True)])


def seconds(workload: str, size: int, threads: int) -> float:
    """The longest median time of a step in so many fresh processes."""
    worker = [sys.executable, "-m", "wholestep_tools.bench.processes_worker", workload, str(size), str(STEPS[workload])]
    order = [mpiexec(), "-n", str(size), *worker] if size > 1 else worker
    environment = {**os.environ, "WHOLESTEP_THREADS": str(threads)}
    out = subprocess.run(order, env=environment, capture_output=True, text=True, check=True).stdout
    return max(float(word) for word in out.split())


def measure(workload: str, rounds: int) -> Row:
    """Measure one workload, both ways in turns."""
    pairs = [(seconds(workload, 2, 1), seconds(workload, 1, 2)) for _ in range(rounds)]
    return Row(workload, [a for a, _ in pairs], [b for _, b in pairs])


def cells_of(row: Row) -> list[str]:
    """The cells of a row: the medians of both, and their ratio."""
    medians = [duration(statistics.median(times)) for times in (row.processes, row.threads)]
    return [row.workload, *medians, f"{row.ratio:.2f}"]


def page_table(record: Mapping[str, object], rows: Sequence[Row]) -> list[str]:
    """The table of a record, for the documentation."""
    lines = [
        f"Measured on {record['processor']} with {record['processors']} cores, {record['rounds']} rounds in turns.",
        f"{record['load']:.1f} programs wanted the cores when it began.",
        "",
        "| workload | a step in two processes of one thread | in one process of two threads | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    return [*lines, *[f"| {' | '.join(cells_of(row))} |" for row in rows]]


def table_of(file: Path) -> list[str]:
    """The table of the record in a file."""
    record = json.loads(file.read_text(encoding="utf-8"))
    return page_table(record, [Row(**row) for row in record["rows"]])


def bench(workloads: Sequence[str], rounds: int, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where no ratio is above the one asked for, else 1.

    Raises CommandError for a file that cannot be written, MissingExtraError without an MPI.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    about = {"bench": "processes", "processor": machine.processor_and_code(), "processors": machine.processors()}
    about |= {"load": os.getloadavg()[0], "rounds": rounds}
    rows = [measure(workload, rounds) for workload in workloads]
    header = ["workload", "two processes", "two threads", "ratio", "asked"]
    print("\n".join(columns(header, [[*cells_of(row), f"{ASKED:.2f}"] for row in rows])), file=stream)
    if file is not None:
        text = json.dumps({**about, "rows": [row._asdict() for row in rows]}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")
    return int(any(row.ratio > ASKED for row in rows))
