"""`wholestep audit twins`: training ends in the same bits in other processes, on any number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256
from wholestep_tools.audit.trainings.programs import training

CLAIM = "Training from one seed ends in the same bits in each process, for any number of threads and of steps a call"
THREADS = (1, 2, 4, 8, 16)
CALLS = (1, 2, 4, 8, 16)
STEPS = 1000


def ends(seed: int, i: int, steps: int) -> dict[str, str]:
    """The hash of losses and state after so many steps, for each number of steps a call."""
    made, found = training(seed, i), {}
    for calls in CALLS:
        own = made._replace(steps=calls)
        step, losses = own.step(), []
        rounds = steps // max(CALLS)
        for first in range(0, rounds * max(CALLS), calls):
            losses.append(np.ravel(step(own.batches(first)).losses))
        found[str(calls)] = sha256({"losses": np.concatenate(losses), "state": step.state})
    return found


def elsewhere(seed: int, i: int, steps: int, threads: int, cache: str) -> dict[str, str]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", __name__, str(seed), str(i), str(steps)]
    environment = {**os.environ, "WHOLESTEP_THREADS": str(threads), "WHOLESTEP_CACHE": cache}
    environment["PYTHONHASHSEED"] = str(threads)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"": f"the process ended with {done.returncode}: {done.stderr[-300:]}"}
    found: dict[str, str] = json.loads(done.stdout)
    return found


def audit(count: int, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """So many trainings; the record of it."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(1) as pool:
        for i in range(count):
            found = list(pool.map(lambda n, i=i: elsewhere(seed, i, steps, n, cache), THREADS))
            first = found[0].get("1")
            for threads, known in zip(THREADS, found, strict=True):
                for calls, end in known.items():
                    what = f"training {i} of seed {seed}, {threads} threads, {calls} steps a call"
                    seen.right(end == first, f"{what}: {end}")
                    seen.count("ends compared")
    checks = {"trainings": count, "steps of each": steps // max(CALLS) * max(CALLS), "processes": count * len(THREADS)}
    return record("twins", CLAIM, {**checks, **seen.checks}, seen.failures, seed=seed)


AUDIT = Audit(
    "twins",
    audit,
    30,
    "train in several processes, and compare every bit",
    """\
Random trainings of layers, loops and branches go on for a thousand steps, less the rest of the division by 16, in
five processes: on 1, 2, 4, 8 and 16 threads, each with another seed of Python's hashes, and each with 1, 2, 4, 8
and 16 steps a call. The first compiles, and the others find its code in the cache. The SHA-256 of all losses,
parameters, moments and counters is compared.""",
)

if __name__ == "__main__":
    print(json.dumps(ends(*map(int, sys.argv[1:]))))
