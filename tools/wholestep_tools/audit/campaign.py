"""The audit command: the campaigns, their numbers of trials, and their descriptions on the page on reliability."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from wholestep.errors import CommandError
from wholestep_tools.bench.machine import processors

TURNS = 8
"""The turns of each process that shares a campaign: more of them wait less for the slowest."""
THREADS = "WHOLESTEP_THREADS"


class Audit(NamedTuple):
    """One campaign: a function of the number of trials and a seed, and its description in a line and in a paragraph.

    The function of a campaign that is shared by processes also takes their number.
    """

    name: str
    run: Callable[..., dict[str, Any]]
    often: int
    about: str
    how: str
    shared: bool = False


@dataclass(frozen=True)
class Shares:
    """A campaign over independent numbers, which processes share.

    `see(numbers, count, seed)` is the result for some of the numbers 0 to count - 1, and `told(parts, count, seed)` the
    record of all results, in order. `see` is pickled by name for the processes.
    """

    see: Callable[[range, int, int], Any]
    told: Callable[[Sequence[Any], int, int], dict[str, Any]]

    def __call__(self, count: int, seed: int, jobs: int = 1) -> dict[str, Any]:
        if jobs == 1:
            return self.told([self.see(range(count), count, seed)], count, seed)
        size = -(-count // (TURNS * jobs))
        turns = [range(at, min(at + size, count)) for at in range(0, count, size)]
        with threads_of(jobs), ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            begun = [pool.submit(self.see, numbers, count, seed) for numbers in turns]
            try:
                parts = [turn.result() for turn in begun]
            except BrokenProcessPool:
                raise CommandError(
                    "audit: a process died on its share of the work", hint="--jobs 1 says more of where it was"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)
        return self.told(parts, count, seed)


@contextmanager
def threads_of(jobs: int) -> Iterator[None]:
    """Let each of so many processes that begin meanwhile use its part of the processors."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = before or str(max(1, processors() // jobs))
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]


class Seen:
    """A count of each check that was made, and the failures."""

    def __init__(self) -> None:
        self.checks = Counter[str]()
        self.failures: list[str] = []

    def count(self, what: str, n: int = 1) -> None:
        """So many more of a check."""
        self.checks[what] += n

    def right(self, fine: bool, otherwise: str) -> None:
        """A failure, said in these words, unless all is fine."""
        if not fine:
            self.failures.append(otherwise)


def joined_parts(parts: Sequence[Seen]) -> Seen:
    """The counts and failures of parts, in their order."""
    whole = Seen()
    for part in parts:
        whole.checks.update(part.checks)
        whole.failures += part.failures
    return whole
