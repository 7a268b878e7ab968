"""`wholestep audit lostworkers`: one of the processes that train together is killed; the others end, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.train.checkpoint.filesystem import previous
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.audit.workers.launcher import start
from wholestep_tools.audit.workers.worker import EPOCHS, EVERY

CLAIM = "Where one of several processes is killed the others end soon, and lose nothing beyond the last save"
SIZE = 2
SOON = 10.0
"""Seconds in which the others must end."""
LONGEST = 0.25
"""Seconds from the beginning of a training to the latest kill."""


def life(seed: int, path: Path, delay: float, rank: int) -> tuple[str | None, float]:
    """One run, killed after a delay: the hash at its end, None if it came to none, and the seconds to its end."""
    process = start(SIZE, "victim", str(seed), str(path))
    assert process.stdout is not None
    pids: dict[int, int] = {}
    for line in process.stdout:
        words = line.split()
        if words[0] == "begun":
            pids[int(words[1])] = int(words[2])
        if len(pids) == SIZE:
            break
    time.sleep(delay)
    before = time.perf_counter()
    if process.poll() is None and delay:
        with suppress(ProcessLookupError):  # the training has come to its end, and the launcher has not
            os.kill(pids[rank], signal.SIGKILL)
    try:
        out, _ = process.communicate(timeout=10 * SOON)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    ended = {line.split()[1] for line in out.splitlines() if line.startswith("ended")}
    return (ended.pop() if len(ended) == 1 and process.returncode == 0 else None), time.perf_counter() - before


def see(numbers: range, count: int, seed: int) -> Seen:
    """As many kills as there are numbers: go on after each, and compare the end with that of a training left alone."""
    rng, seen, killed, training = np.random.default_rng((seed, numbers.start)), Seen(), 0, count * seed + numbers.start
    with tempfile.TemporaryDirectory() as place:
        while killed < len(numbers):
            training += 1
            wanted, _ = life(training, Path(place) / f"{training}-whole", 0.0, 0)
            seen.right(wanted is not None, f"training {training} does not come to its end")
            path, found = Path(place) / f"{training}-killed", None
            while found is None and killed < len(numbers):
                found, seconds = life(training, path, float(rng.uniform(0.01, LONGEST)), int(rng.integers(SIZE)))
                killed += found is None
                seen.right(seconds < SOON or found is not None, f"the others took {seconds:.0f} s to end")
                seen.count(
                    "kills after the first save", int(found is None and (path.exists() or previous(path).exists()))
                )
            found = found or life(training, path, 0.0, 0)[0]
            seen.count("trainings")
            seen.right(found == wanted, f"training {training} came to another end than without kills")
    seen.count("kills", killed)
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record."""
    seen = joined_parts(parts)
    return record(
        "lostworkers", CLAIM, {**seen.checks, "epochs": EPOCHS, "steps a save": EVERY}, seen.failures, seed=seed
    )


audit = Shares(see, told)
AUDIT = Audit(
    "lostworkers",
    audit,
    40,
    "kill one of two processes that train together, and go on",
    """\
Two processes of MPI train with `fit` and save every five steps. One of them, drawn at random, gets SIGKILL at a random
moment; the launcher must have ended the other within ten seconds, and both are started again and resume, until the
training is over. The end must have the bits of a training that was left alone.""",
)
