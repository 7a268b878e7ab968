"""One process, one peer, one workload: it reads a command from its input, obeys, answers in a line of JSON, waits."""

from __future__ import annotations

import gc
import importlib
import resource
import sys
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TextIO

from wholestep_tools import answering
from wholestep_tools.bench.peers import PEERS, Job
from wholestep_tools.bench.spec import WORKLOADS

SETTLING = 5
"""Calls that belong to compiling: some libraries compile again at a later call."""


def peak_megabytes() -> float:
    """The peak memory of this process in megabytes.

    The counter of `getrusage` begins with the parent's peak, so that VmHWM is read first where Linux has it.
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


class Work(Protocol):
    """The work of a process of the bench: it says how it began, then obeys."""

    def begun(self) -> dict[str, Any]:
        """The first message of the process."""

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The answer to a command."""


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
        self.made = {"version": module.VERSION, "first_s": time.perf_counter() - before}
        self.losses = self.job.numbers(result) if self.checked > 1 else []

    def begun(self) -> dict[str, Any]:
        """Call until compilation has ended and the compared step is past; the times and numbers of these calls."""
        settling = [] if self.at_once > 1 else timed(self.job, SETTLING - 1)
        if self.checked > SETTLING and self.at_once == 1:
            timed(self.job, self.checked - SETTLING - 1)
            self.losses += self.job.numbers(self.job.call())
        guess = min(timed(self.job, 3))
        gc.collect()
        ends = [self.losses[0], self.losses[self.checked - 1 if self.at_once > 1 else -1]] if self.losses else []
        return self.made | {"settling_s": settling, "call_s": guess, "numbers": ends}

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The answer to a command."""
        if command == "timed":
            return {"seconds": timed(self.job, n)}
        if command == "back_to_back":
            return {"seconds": back_to_back(self.job, n)}
        # Comparing large results takes memory of its own, so it comes after the peak is read.
        return {"peak_mb": peak_megabytes(), "numbers": [] if self.losses else self.job.numbers(self.job.call())}


def work(make: Callable[[], Work], commands: Iterable[str], answers: TextIO) -> None:
    """Make the work, report its beginning, and answer commands until there are no more, or one fails."""
    made: list[Work] = []

    def obey(line: str) -> dict[str, Any]:
        if made:
            command, n = line.split()
            return made[0].obey(command, int(n))
        made.append(make())
        return made[0].begun()

    answering.serve(obey, chain([""], commands), answers, lasting=False)


if __name__ == "__main__":
    peer, name, count = sys.argv[1:]
    work(lambda: Worker(peer, name, int(count)), sys.stdin, answering.replies())
