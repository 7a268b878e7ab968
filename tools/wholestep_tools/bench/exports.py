"""`wholestep bench exports`: steps beside their exports, and beside the same steps written by hand, on one thread."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.runner import Process, WorkerError
from wholestep_tools.bench.table import columns, difference, duration

STEPS = ("W1", "W2", "W3", "W4")
MODULE = "wholestep_tools.bench.exports_worker"
OURS = "wholestep"
NEAR = 1e-5
"""The largest relative difference of the losses of the first steps."""
BESIDE = {"C": (OURS, 1.5), "object": (OURS, 1.1)}
BESIDE |= {name: (f"{name} by hand", 1.1) for name in ("jax", "torch", "torch.compile")}
BESIDE |= {f"{name}, unguarded": (f"{name} by hand", 1.1) for name in ("jax", "torch.compile")}
"""For each export its reference, and the largest ratio of its time to the reference's."""


class StepRow(NamedTuple):
    """One way to take the steps of a workload: the seconds of a step, the median of rounds, and the first losses."""

    seconds: float
    losses: Sequence[float]


def measured(name: str, rounds: int) -> dict[str, StepRow]:
    """All ways to take the steps of a workload, in one process and in turns; raises CommandError where that fails."""
    folder = Path(tempfile.mkdtemp(prefix="wholestep-bench-"))
    process = Process(OURS, name, rounds, folder, 1, MODULE)
    try:
        found = process.answer()
    except WorkerError as error:
        raise CommandError(f"bench exports: {name}: {error}") from None
    finally:
        process.end()
        shutil.rmtree(folder, ignore_errors=True)
    return {who: StepRow(statistics.median(row["seconds"]), row["losses"]) for who, row in found.items()}


def ratio(rows: Mapping[str, StepRow], who: str) -> float | None:
    """The time of an export relative to that of its reference; None where one of them is missing."""
    other, _ = BESIDE.get(who, (OURS, 0.0))
    return rows[who].seconds / rows[other].seconds if {who, other} <= rows.keys() and who != other else None


def complaints(name: str, rows: Mapping[str, StepRow]) -> list[str]:
    """The ways whose losses are others than ours."""
    found = []
    for who, row in rows.items():
        far = max([difference(x, y) for x, y in zip(row.losses, rows[OURS].losses, strict=True)])
        if not far <= NEAR:
            found.append(f"{name}: the losses of {who} are others by {far:.1e}")
    return found


def line(rows: Mapping[str, StepRow], who: str) -> list[str]:
    """The cells of one way: its time, and the ratio to the time of its reference."""
    other, most = BESIDE.get(who, (OURS, 0.0))
    beside = ratio(rows, who)
    told = "" if beside is None else f"{beside:.2f} of {other}"
    return [who, duration(rows[who].seconds), told, f"{most:.2f}" if beside is not None and beside > most > 0 else ""]


def page_table(file: Path) -> list[str]:
    """The table of a record, for the documentation; none where there is no record."""
    if not file.exists():
        return []
    record = json.loads(file.read_text(encoding="utf-8"))
    found = {name: {who: StepRow(**row) for who, row in rows.items()} for name, rows in record["workloads"].items()}
    ways = list(dict.fromkeys([who for rows in found.values() for who in rows]))
    lines = [f"| step | {' | '.join(ways)} |", f"|---|{'--:|' * len(ways)}"]
    for name, rows in found.items():
        lines.append(f"| {name} | {' | '.join([duration(rows[who].seconds) if who in rows else '' for who in ways])} |")
    lines += ["", f"| step | {' | '.join(BESIDE)} |", f"|---|{'--:|' * len(BESIDE)}"]
    lines.append(f"| asked | {' | '.join([f'{most:.2f} of {other}' for other, most in BESIDE.values()])} |")
    for name, rows in found.items():
        ratios = [ratio(rows, who) for who in BESIDE]
        lines.append(f"| {name} | {' | '.join(['' if x is None else f'{x:.2f}' for x in ratios])} |")
    return [f"Measured on {record['processor']}, one thread, the median of {record['rounds']} rounds.", "", *lines]


def bench(names: Sequence[str], rounds: int, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where all losses are ours, else 1.

    Raises CommandError for a file that cannot be written, and for a workload that fails.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    found: dict[str, dict[str, StepRow]] = {}
    for name in names:
        rows = found[name] = measured(name, rounds)
        header = [name, "a step", "beside", "asked"]
        print("\n".join(columns(header, [line(rows, who) for who in rows])) + "\n", file=stream, flush=True)
        if file is not None:
            kept = {each: {who: row._asdict() for who, row in ways.items()} for each, ways in found.items()}
            about = {"bench": "exports", "processor": machine.processor_and_code(), "rounds": rounds, "workloads": kept}
            file.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    wrong = [text for name, rows in found.items() for text in complaints(name, rows)]
    print("\n".join(wrong or ["all losses agree"]), file=stream)
    return 1 if wrong else 0
