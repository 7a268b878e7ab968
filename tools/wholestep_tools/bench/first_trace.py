"""The time of the first trace of a function, rewritten and as it stands: each in a process of its own, in turns."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.calls import own_bytecode
from wholestep_tools.bench.first_traced import PROGRAMS, Program
from wholestep_tools.bench.table import columns, duration

FIRST, LATER = "first of its process", "after another function"
KINDS = (FIRST, LATER)
WORKER = Path(__file__).with_name("first_trace_worker.py")
"""The program of the process: run by its file, so that it imports only the modules that a user's process imports."""

ASKED = 1.2
"""The most that the first trace of a rewritten function may take, beside one as it stands."""


class Row(NamedTuple):
    """A program, when it was traced, and the least seconds of the processor that this took, rewritten and not."""

    program: str
    kind: str
    rewritten: float
    plain: float

    @property
    def ratio(self) -> float:
        """The time with the mechanism beside the time without it."""
        return self.rewritten / self.plain


def seconds(program: Program, kind: str, rewrite: bool, environment: Mapping[str, str], folder: Path) -> float:
    """The seconds of the processor that a first trace takes in a fresh process; the program's file is in a folder."""
    words = [str(folder), program.function, str(int(kind == LATER)), str(int(rewrite))]
    order = [sys.executable, "-P", str(WORKER), *words]
    return float(subprocess.run(order, env=environment, capture_output=True, text=True, check=True).stdout)


def measure(name: str, program: Program, kind: str, rounds: int, environment: Mapping[str, str], folder: Path) -> Row:
    """Measure one program, rewritten and not in turns."""
    least = dict.fromkeys((True, False), float("inf"))
    for _ in range(rounds):
        for rewrite in least:
            least[rewrite] = min(least[rewrite], seconds(program, kind, rewrite, environment, folder))
    return Row(name, kind, least[True], least[False])


def written(names: Sequence[str], folder: Path) -> dict[str, tuple[Program, Path]]:
    """The programs of these names, each with a folder of its own that has its files."""
    made = {}
    for k, name in enumerate(names):
        place = folder / str(k)
        place.mkdir()
        program = PROGRAMS[name]()
        program.write(place)
        made[name] = program, place
    return made


def line(row: Row) -> list[str]:
    """The cells of a row, with the target ratio where it is missed."""
    asked = f"{ASKED:.2f}" if row.ratio > ASKED else ""
    return [row.program, row.kind, duration(row.rewritten), duration(row.plain), f"{row.ratio:.2f}", asked]


def page_table(files: Sequence[Path]) -> list[str]:
    """The table of two records, copies made and copies kept on disk, for the documentation."""
    made, kept = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    lines = [
        f"Measured on {made['processor']}.",
        "",
        "| program | traced | rewritten | kept | as it stands | ratio | kept |",
    ]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for one, other in zip([Row(**row) for row in made["rows"]], [Row(**row) for row in kept["rows"]], strict=True):
        times = [duration(x) for x in (one.rewritten, other.rewritten, one.plain)]
        cells = [one.program, one.kind, *times, f"{one.ratio:.2f}", f"{other.ratio:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def chosen(names: str | None) -> list[str]:
    """The programs of these names, separated by commas; all unless some are named.

    Raises CommandError for one that there is not.

    >>> chosen("W1,three lines")
    ['W1', 'three lines']
    """
    asked = list(PROGRAMS) if names is None else [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in PROGRAMS:
            raise CommandError(f"there is no program {name!r}", hint=f"choose from {', '.join(PROGRAMS)}")
    return asked


def bench(names: Sequence[str], rounds: int, kept: bool, file: Path | None, stream: TextIO) -> int:
    """Measure and print; copies of functions that earlier processes kept on disk are read where they are `kept`.

    Raises CommandError for a file that cannot be written.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = own_bytecode(str(folder / "bytecode"))
        environment["WHOLESTEP_CACHE"] = str(folder / "cache") if kept else "off"
        placed = written(names, folder)
        for program, place in placed.values():  # so that all begin with .pyc files, as a user's process does
            seconds(program, LATER, True, environment, place)
        rows = [
            measure(n, program, kind, rounds, environment, place)
            for kind in KINDS
            for n, (program, place) in placed.items()
        ]
    header = ["program", "traced", "rewritten", "as it stands", "ratio", "asked"]
    print("\n".join(columns(header, [line(row) for row in rows])), file=stream)
    if file is not None:
        about = {"bench": "trace", "processor": machine.processor_and_code(), "rounds": rounds, "kept": kept}
        text = json.dumps({**about, "rows": [row._asdict() for row in rows]}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")
    return 0
