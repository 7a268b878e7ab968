"""`wholestep bench memory`: memory and time of a deep GPT, as it is and where memory is saved, beside others.

Each library and way is a process of its own. They take turns, so that all see the same machine.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.deep import HEADS, MODES, TIME, WIDTH
from wholestep_tools.bench.runner import Process, WorkerError, in_turns
from wholestep_tools.bench.table import columns, difference, duration

TOLERANCE = 1e-4
"""The largest relative difference between two libraries' losses; within Wholestep they are equal to the bit."""
MODULE = "wholestep_tools.bench.deep"


class Row(NamedTuple):
    """The result of one library in one way; times in seconds for one step. `failed` says why there are none."""

    peer: str
    mode: str
    version: str = ""
    peak_mb: float = 0.0
    later_mb: float = 0.0
    arena_mb: float = 0.0
    least: float = 0.0
    median: float = 0.0
    first: float = 0.0
    losses: tuple[float, ...] = ()
    failed: str = ""

    @property
    def label(self) -> str:
        """The library, and how it saves memory where it does."""
        return self.peer if self.mode == "plain" else f"{self.peer}, {self.mode}"


class Contestant:
    """One library and way, from its start to its row."""

    def __init__(self, peer: str, mode: str, layers: int, folder: Path, threads: int) -> None:
        self.peer, self.mode = peer, mode
        self.seconds: list[float] = []
        self.failed = ""
        self.begun: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        folder.mkdir()
        self.process = Process(peer, mode, layers, folder, threads, MODULE)
        self.ask("")

    def ask(self, command: str, n: int = 0) -> dict[str, Any]:
        """An answer, or nothing where it has failed."""
        if self.failed:
            return {}
        try:
            if not command:
                self.begun = self.process.answer()
                return self.begun
            return self.process.ask(command, n)
        except WorkerError as error:
            self.failed = str(error)
            self.process.end()
            return {}

    def turn(self) -> None:
        """One step that is timed."""
        self.seconds += self.ask("timed", 1).get("seconds", [])

    def row(self) -> Row:
        """The last message of the process."""
        ended = self.ask("end")
        if self.failed:
            return Row(self.peer, self.mode, failed=self.failed)
        return Row(
            self.peer,
            self.mode,
            self.begun["version"],
            max(self.begun["peak_mb"], ended["peak_mb"]),
            ended["peak_mb"],
            ended["arena"] / 2**20,
            min(self.seconds),
            statistics.median(self.seconds),
            self.begun["first_s"],
            tuple(ended["losses"]),
        )


def run(peers: Sequence[str], layers: int, rounds: int, threads: int) -> list[Row]:
    """Measure: start all, one after another, then let them take turns."""
    folder = Path(tempfile.mkdtemp(prefix="wholestep-bench-"))
    there: list[Contestant] = []
    try:
        for peer in peers:
            for mode in MODES[peer]:
                there.append(Contestant(peer, mode, layers, folder / str(len(there)), threads))
        in_turns(there, rounds, Contestant.turn)
        return [contestant.row() for contestant in there]
    finally:
        for contestant in there:
            contestant.process.end()
        shutil.rmtree(folder, ignore_errors=True)


def table(rows: Sequence[Row], layers: int) -> str:
    """All that was measured: a line for each library and way, beside the library as it is."""
    plain = {row.peer: row for row in rows if row.mode == "plain" and not row.failed}
    header = ["", "peak MB", "later MB", "arena MB", "least", "median", "x memory", "x time", "first", "last loss"]
    lines = [
        [
            row.label,
            f"{row.peak_mb:.0f}",
            f"{row.later_mb:.0f}",
            f"{row.arena_mb:.0f}" if row.arena_mb else "",
            duration(row.least),
            duration(row.median),
            f"{row.later_mb / plain[row.peer].later_mb:.2f}" if row.peer in plain else "",
            f"{row.least / plain[row.peer].least:.2f}" if row.peer in plain else "",
            duration(row.first),
            f"{row.losses[-1]:.6f}",
        ]
        for row in rows
        if not row.failed
    ]
    title = f"GPT of {layers} layers, width {WIDTH}, {HEADS} heads, 8 sequences of {TIME}: forward, backward, Adam"
    text = [title, *(columns(header, lines) if lines else [])]
    text += [f"  {row.label}: failed: {row.failed}" for row in rows if row.failed]
    text.append(
        "peak: beyond what the process had with its library loaded; later: compiling and the first step left out"
    )
    text.append("x: beside the same library as it is, by later and least; first: compiling and one step")
    return "\n".join(text)


def best(rows: Sequence[Row]) -> str:
    """Of each library the way of the least memory and the fastest one, beside ours."""
    done: dict[str, list[Row]] = {}
    for row in rows:
        if not row.failed:
            done.setdefault(row.peer, []).append(row)
    if "wholestep" not in done:
        return ""
    small = {peer: min(own, key=lambda row: row.later_mb) for peer, own in done.items()}
    fast = {peer: min(own, key=lambda row: row.least) for peer, own in done.items()}
    ours = small["wholestep"].later_mb, fast["wholestep"].least
    header = ["best of each", "least MB", "x ours", "fastest", "x ours"]
    lines = [
        [
            peer,
            f"{small[peer].later_mb:.0f} ({small[peer].mode})",
            f"{small[peer].later_mb / ours[0]:.2f}",
            f"{duration(fast[peer].least)} ({fast[peer].mode})",
            f"{fast[peer].least / ours[1]:.2f}",
        ]
        for peer in done
    ]
    return "\n".join(columns(header, lines))


def complaints(rows: Sequence[Row]) -> list[str]:
    """The complaints: ways that failed, libraries that differ, and ways of ours that differ in any bit."""
    found = [f"{row.label} failed: {row.failed}" for row in rows if row.failed]
    done = [row for row in rows if not row.failed]
    for row in done[1:]:
        one = done[0]
        if row.peer == one.peer == "wholestep":
            if row.losses != one.losses:
                found.append(f"{row.label} has other bits than {one.label}")
            continue
        far = max(difference(a, b) for a, b in zip(row.losses, one.losses, strict=True))
        if far > TOLERANCE:
            found.append(f"{row.label} and {one.label} differ by {far:.1e}, more than {TOLERANCE:g}")
    return found


def bench(
    peers: Sequence[str], layers: int, rounds: int, threads: int, quiet: float, file: Path | None, stream: TextIO
) -> int:
    """Measure and print; 0 where all ways ran and their losses agree, else 1.

    Raises CommandError for a file that cannot be written.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    machine.wait_until_quiet(quiet)
    measured = machine.measured(threads)
    print(measured, file=stream, flush=True)
    rows = run(peers, layers, rounds, threads)
    print(f"\n{table(rows, layers)}", file=stream)
    if overview := best(rows):
        print(f"\n{overview}", file=stream)
    if file is not None:
        found = {"machine": measured._asdict(), "layers": layers, "rows": [row._asdict() for row in rows]}
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = complaints(rows)
    print("\n" + "\n".join(wrong or ["all losses agree, those of Wholestep to the bit"]), file=stream)
    return 1 if wrong else 0
