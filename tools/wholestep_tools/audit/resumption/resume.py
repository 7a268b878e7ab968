"""`wholestep audit resume`: training that was interrupted and resumed in another process ends in the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import EPOCHS, JOBS

CLAIM = "Training that was interrupted at a random step and resumed in another process ends in the same bits"
THREADS = tuple([(first, second) for first in (1, 2, 3) for second in (1, 2, 3)])
"""Threads of the process that is interrupted, and of the one that resumes."""
COUNTS = (1, 4)
SIGNALS = ("SIGINT", "SIGTERM")
BATCH = 25
"""Resumes in one process: the first of them is the first thing that it does."""


Pairs = Sequence[tuple[int, int]]


class Trial(NamedTuple):
    """One interruption and resume."""

    job: str
    mode: str
    stop: float
    threads: tuple[int, int]
    counts: tuple[int, int]
    file: str
    signal: str

    def __str__(self) -> str:
        return (
            f"{self.job} {self.mode}, cut at {self.stop:.3f} by {self.signal}, "
            f"threads {self.threads[0]} then {self.threads[1]}, steps a call {self.counts[0]} then {self.counts[1]}"
        )


class End(NamedTuple):
    """The last state of a training that was resumed, or of one that was never interrupted."""

    about: Trial | None
    kind: tuple[str, str]
    sha256: str


def drawn(count: int, seed: int, jobs: Sequence[str], threads: Pairs, folder: Path) -> list[Trial]:
    """Random trials, in which job, mode, threads and steps a call all take turns."""
    rng = np.random.default_rng(seed)
    return [
        Trial(
            jobs[i % len(jobs)],
            ("run", "loop")[i // len(jobs) % 2],
            float(rng.random()),
            threads[int(rng.integers(len(threads)))],
            (int(rng.choice(COUNTS)), int(rng.choice(COUNTS))),
            str(folder / f"{i}.safetensors"),
            SIGNALS[i // (2 * len(jobs)) % 2] if i // len(jobs) % 2 == 0 else "nobody",
        )
        for i in range(count)
    ]


def answers(orders: Sequence[dict[str, Any]], threads: int) -> list[dict[str, Any]]:
    """The answers of a fresh process to orders; one that dies answers with that."""
    done = subprocess.run(
        [sys.executable, "-m", "wholestep_tools.audit.resumption.trainee"],
        input="".join([json.dumps(order) + "\n" for order in orders]),
        capture_output=True,
        text=True,
        env={**os.environ, "WHOLESTEP_THREADS": str(threads)},
    )
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    died = {"error": f"the process ended with {done.returncode}: {done.stderr.strip()[-200:]}"}
    return found + [died] * (len(orders) - len(found))


def audit(count: int, seed: int, jobs: Sequence[str] = tuple(JOBS), threads: Pairs = THREADS) -> dict[str, Any]:
    """Interrupt and resume; the record of it."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        cut, within = interrupted(drawn(count, seed, jobs, threads, Path(place)), failures)
        ends, processes = resumed(cut, failures)
    wanted: dict[tuple[str, str], str] = {}
    for end in ends:
        if end.about is None:
            wanted.setdefault(end.kind, end.sha256)
    for end in ends:
        if end.sha256 != wanted[end.kind]:
            failures.append(f"{end.about or end.kind} ends in another state than training that was not interrupted")
    by = Counter(trial.signal for trial in cut)
    checks = {
        "interruptions": count,
        "of them within an epoch": within,
        **{f"of them by {name}": by[name] for name in SIGNALS},
        "processes that resumed": processes,
    }
    return record("resume", CLAIM, checks, failures, seed=seed, jobs=list(jobs), epochs=EPOCHS, threads=threads)


def interrupted(trials: Sequence[Trial], failures: list[str]) -> tuple[list[Trial], int]:
    """Train each to its interruption and save; those that worked, and how many of them were cut within an epoch."""
    done: list[Trial] = []
    within = 0
    for threads in sorted({trial.threads[0] for trial in trials}):
        own = [trial for trial in trials if trial.threads[0] == threads]
        orders = [
            {"job": t.job, "mode": t.mode, "stop": t.stop, "count": t.counts[0], "save": t.file, "signal": t.signal}
            for t in own
        ]
        for trial, answer in zip(own, answers(orders, threads), strict=True):
            if "error" in answer:
                failures.append(f"{trial}: {answer['error']}")
            else:
                done.append(trial)
                within += answer["within"]
    return done, within


def resumed(trials: Sequence[Trial], failures: list[str]) -> tuple[list[End], int]:
    """The end of each training that was resumed, and of some that were never interrupted; and how many processes."""
    ends: list[End] = []
    processes = 0
    for threads in sorted({trial.threads[1] for trial in trials}):
        own = [trial for trial in trials if trial.threads[1] == threads]
        for first in range(0, len(own), BATCH):
            some: list[Trial | None] = [*own[first : first + BATCH]]
            orders = [
                {"job": t.job, "mode": t.mode, "count": t.counts[1], "load": t.file} for t in own[first : first + BATCH]
            ]
            kinds = sorted({(order["job"], order["mode"]) for order in orders})
            orders += [{"job": job, "mode": mode, "count": 1} for job, mode in kinds]
            some += [None] * len(kinds)
            processes += 1
            for trial, order, answer in zip(some, orders, answers(orders, threads), strict=True):
                if "error" in answer:
                    failures.append(f"{trial or order}: {answer['error']}")
                else:
                    ends.append(End(trial, (str(order["job"]), str(order["mode"])), answer["sha256"]))
    return ends, processes


AUDIT = Audit(
    "resume",
    audit,
    200,
    "interrupt training, resume it in other processes, compare every bit",
    """\
Training is cut by Ctrl-C or by SIGTERM within an epoch, or left between two calls, at a random step; its state is
saved, and another process loads it and trains to the end. The SHA-256 of all parameters, moments, counters and keys
is compared with that of training that was never cut. The number of threads and of steps in a call changes from trial
to trial, and from one process to the other. The trainings are a perceptron, the convolutional network of
`wholestep train digits` and the GPT of `wholestep train text`, the two of them made small.""",
)
