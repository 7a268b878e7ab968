"""`wholestep bench depth`: compile times of deep models and Python loops by their depth, rolled, unrolled and in JAX.

Each compilation has a process of its own, with an empty cache; those of one depth take turns.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.deep_programs import PROGRAMS
from wholestep_tools.bench.depth_worker import JAX, ROLLED, WAYS
from wholestep_tools.bench.runner import Process, WorkerError, in_turns
from wholestep_tools.bench.table import columns, difference, duration

MODULE = "wholestep_tools.bench.depth_worker"
TOLERANCE = 1e-4
"""The largest relative difference between the first losses."""
STEPS = 20
"""Steps that are timed in a turn."""


class Row(NamedTuple):
    """The cost of compiling one program in one way: the least of all rounds, in seconds, and the time of a step."""

    program: str
    depth: int
    way: str
    version: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    step: float = 0.0
    loss: float = 0.0
    failed: str = ""
    alone: float = 0.0
    """The processor's time without the first step, which writes memory that nobody has written; 0 where it compiles."""


class Contestant:
    """One program of one depth in one way."""

    def __init__(self, program: str, depth: int, way: str, folder: Path, threads: int) -> None:
        self.program, self.depth, self.way, self.folder, self.threads = program, depth, way, folder, threads
        self.rounds: list[dict[str, Any]] = []
        self.failed = ""

    def turn(self) -> None:
        """Compile once, in a process that begins with an empty cache, and time some steps."""
        if self.failed:
            return
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        process = Process(self.way, self.program, self.depth, folder, self.threads, MODULE)
        try:
            begun = process.answer()
            self.rounds.append({**begun, "step": min(process.ask("timed", STEPS)["seconds"])})
        except WorkerError as error:
            self.failed = str(error)
        finally:
            process.end()

    def row(self) -> Row:
        """The least of all rounds."""
        if self.failed:
            return Row(self.program, self.depth, self.way, failed=self.failed)
        names = ("seconds", "cpu", "step", "alone")
        seconds, cpu, step, alone = [min(one[name] for one in self.rounds) for name in names]
        first = self.rounds[0]
        measured = (first["version"], seconds, cpu, step, first["loss"])
        return Row(self.program, self.depth, self.way, *measured, alone=alone)


def chosen(patterns: str) -> list[str]:
    """The programs whose names match one of some patterns, separated by commas.

    Raises CommandError for a pattern that none matches.

    >>> chosen("gpt,k*")
    ['gpt', 'kalman']
    """
    found: dict[str, None] = {}
    for pattern in patterns.split(","):
        own = [name for name in PROGRAMS if fnmatch(name, pattern.strip())]
        if not own:
            raise CommandError(f"no program is called {pattern.strip()!r}", hint=f"there are {', '.join(PROGRAMS)}")
        found.update(dict.fromkeys(own))
    return list(found)


def installed() -> list[str]:
    """The ways that can be measured here."""
    return [way for way in WAYS if way != JAX or importlib.util.find_spec(JAX) is not None]


def run(program: str, depth: int, ways: Sequence[str], rounds: int, threads: int) -> list[Row]:
    """Measure a program of one depth in some ways, in turns."""
    folder = Path(tempfile.mkdtemp(prefix="wholestep-bench-"))
    try:
        there = [Contestant(program, depth, way, folder, threads) for way in ways]
        in_turns(there, rounds, Contestant.turn)
        return [contestant.row() for contestant in there]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ways_at(program: str, depth: int, ways: Sequence[str], most: Mapping[str, int | None]) -> list[str]:
    """The ways that are measured at a depth; `most` has the deepest of each, None for the program's own.

    >>> ways_at("gpt", 200, ("wholestep", "jax"), {"jax": None})
    ['wholestep']
    """
    deepest = {way: PROGRAMS[program].written_out if n is None else n for way, n in most.items()}
    return [way for way in ways if depth <= deepest.get(way, depth)]


def cells(rows: Sequence[Row]) -> Iterator[list[str]]:
    """The lines of a table: a program and depth, then of each way compile time, and the times of a step."""
    at = {(row.program, row.depth, row.way): row for row in rows if not row.failed}
    smallest: dict[str, Row] = {}
    for program, depth in dict.fromkeys((row.program, row.depth) for row in rows):
        found = {way: at[program, depth, way] for way in WAYS if (program, depth, way) in at}
        ours, theirs = found.get(ROLLED), found.get(JAX)
        first = smallest.setdefault(program, ours) if ours else None
        yield [
            program,
            str(depth),
            *[duration(found[way].cpu) if way in found else "" for way in WAYS],
            duration(ours.alone) if ours and ours.alone else "",
            f"{ours.alone / first.alone:.2f}" if ours and ours.alone and first and first.alone else "",
            f"{ours.cpu / theirs.cpu:.2f}" if ours and theirs else "",
            *[duration(found[way].step) if way in found else "" for way in WAYS],
        ]


HEADER = (
    *("", "depth", "compile", "unrolled", "JAX", "without step", "x least depth", "x JAX"),
    *("step", "step, unrolled", "step, JAX"),
)


def page_table(file: Path) -> list[str]:
    """The table of a record, for the documentation."""
    record = json.loads(file.read_text(encoding="utf-8"))
    lines = [["program", *HEADER[1:]], ["---", *["---:"] * (len(HEADER) - 1)]]
    lines += cells([Row(**row) for row in record["rows"]])
    about = f"Measured on {record['processor']}, {record['threads']} threads."
    return [about, "", *[f"| {' | '.join(line)} |" for line in lines]]


def complaints(rows: Sequence[Row]) -> list[str]:
    """The faults found: compilations that failed, and losses that differ."""
    found = [f"{row.program} of {row.depth}, {row.way} failed: {row.failed}" for row in rows if row.failed]
    first: dict[tuple[str, int], Row] = {}
    for row in rows:
        if not row.failed:
            one = first.setdefault((row.program, row.depth), row)
            if (far := difference(row.loss, one.loss)) > TOLERANCE:
                found.append(f"{row.program} of {row.depth}: {row.way} and {one.way} differ by {far:.1e}")
    return found


def bench(
    programs: Sequence[str],
    depths: Sequence[int],
    most: Mapping[str, int | None],
    rounds: int,
    threads: int,
    file: Path | None,
    stream: TextIO,
) -> int:
    """Measure and print; 0 where all compiled and the losses agree, else 1.

    `depths` are measured in the place of each program's own, unless there are none. Raises CommandError for a file that
    cannot be written.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    about = {"bench": "depth", "processor": machine.processor_and_code(), "threads": threads, "rounds": rounds}
    print(f"{about['processor']}, {threads} threads", file=stream, flush=True)
    rows: list[Row] = []
    for program in programs:
        print(f"{program}: {PROGRAMS[program].title}", file=stream, flush=True)
        for depth in depths or PROGRAMS[program].depths:
            rows += run(program, depth, ways_at(program, depth, installed(), most), rounds, threads)
            print("  ".join(cell.rjust(9) for cell in [*cells(rows)][-1]), file=stream, flush=True)
            if file is not None:
                file.write_text(json.dumps({**about, "rows": [row._asdict() for row in rows]}, indent=1) + "\n")
    print("\n" + "\n".join(columns(HEADER, [*cells(rows)])), file=stream)
    print("compile: processor time of the trace, the compilation and the first step, without a cache;", file=stream)
    print("without step: of the trace and the compilation, which depths are compared by", file=stream)
    wrong = complaints(rows)
    print("\n" + "\n".join(wrong or [f"all losses agree to {TOLERANCE:g}"]), file=stream)
    return 1 if wrong else 0
