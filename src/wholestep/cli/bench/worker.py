"""One process, one peer, one workload: it reads a command from its input, obeys, answers in a line of JSON, waits."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from wholestep.cli.bench.peers import PEERS, Job
from wholestep.cli.bench.spec import WORKLOADS

SETTLING = 5
"""Calls that belong to compiling: some libraries compile again at a later call."""


def peak_megabytes() -> float:
    """The most memory that this process has had.

    The kernel's counter of resources begins with what the parent had, so Linux's own record of the process comes first.
    """
    status = Path("/proc/self/status")
    if status.exists():
        kilobytes = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]
        return int(kilobytes) / 1024
    counted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return counted / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def timed(job: Job, n: int) -> list[float]:
    """Seconds of each of n calls, every one waited for."""
    clock, call, wait = time.perf_counter, job.call, job.wait
    seconds = []
    for _ in range(n):
        before = clock()
        wait(call())
        seconds.append(clock() - before)
    return seconds


def back_to_back(job: Job, n: int) -> float:
    """Seconds of a call where n are made and only the last is waited for."""
    before = time.perf_counter()
    result = None
    for _ in range(n):
        result = job.call()
    job.wait(result)
    return (time.perf_counter() - before) / n


class Worker:
    """A job from its making to its last number."""

    def __init__(self, peer: str, name: str, at_once: int) -> None:
        self.checked, self.at_once = WORKLOADS[name].checked, at_once
        params, batch = WORKLOADS[name].data()
        module = importlib.import_module(PEERS[peer].module)
        before = time.perf_counter()
        self.job: Job = module.job(name, params, batch, at_once)
        result = self.job.call()
        self.job.wait(result)
        self.begun = {"version": module.VERSION, "first_s": time.perf_counter() - before}
        self.losses = self.job.numbers(result) if self.checked > 1 else []

    def settle(self) -> dict[str, Any]:
        """Call until nothing is compiled any more and the compared step is past; say what was seen on the way."""
        settling = [] if self.at_once > 1 else timed(self.job, SETTLING - 1)
        if self.checked > SETTLING and self.at_once == 1:
            timed(self.job, self.checked - SETTLING - 1)
            self.losses += self.job.numbers(self.job.call())
        guess = min(timed(self.job, 3))
        gc.collect()
        ends = [self.losses[0], self.losses[self.checked - 1 if self.at_once > 1 else -1]] if self.losses else []
        return self.begun | {"settling_s": settling, "call_s": guess, "numbers": ends}

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The answer to a command."""
        if command == "timed":
            return {"seconds": timed(self.job, n)}
        if command == "back_to_back":
            return {"seconds": back_to_back(self.job, n)}
        # Comparing large results takes memory of its own, so it comes after the peak is read.
        return {"peak_mb": peak_megabytes(), "numbers": [] if self.losses else self.job.numbers(self.job.call())}


def serve(arguments: Sequence[str], commands: TextIO, answers: TextIO) -> None:
    """Make the job, then answer commands until there are no more."""

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        worker = Worker(arguments[0], arguments[1], int(arguments[2]))
        say(**worker.settle())
        for line in commands:
            command, n = line.split()
            say(**worker.obey(command, int(n)))
    except Exception as error:  # a peer's, of any kind; the table says so in its row
        traceback.print_exc()
        say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    serve(sys.argv[1:], sys.stdin, replies)
