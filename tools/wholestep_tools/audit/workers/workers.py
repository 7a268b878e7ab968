"""`wholestep audit workers`: processes that train together have the bits of one that takes micro-batches."""

from __future__ import annotations

from typing import Any

from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.workers.launcher import start
from wholestep_tools.audit.workers.threads import AXIS, Threads
from wholestep_tools.audit.workers.worker import STEPS, Training

CLAIM = "Several processes have the bits of one that takes the rows of each for a micro-batch"
SIZES = (1, 2, 3, 4)
MANY = 8
"""Processes by threads, more than a small machine runs beside each other."""


def by_mpi(size: int, first: int, count: int) -> tuple[list[list[str]], str]:
    """The hashes of each training on all ranks, in processes started by MPI, and their error output."""
    out, errors = start(size, "trainings", str(first), str(count)).communicate()
    lines = [line.split() for line in out.splitlines() if line]
    return [[line[1] for line in lines if line[0] == str(job)] for job in range(first, first + count)], errors


def by_threads(size: int, first: int, count: int) -> tuple[list[list[str]], str]:
    """The hashes of each training on all ranks, which are threads of this process."""
    jobs = map(Training, range(first, first + count))
    return [Threads(size).run(lambda ranks, job=job: job.shared({AXIS: ranks})) for job in jobs], ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """Train, and compare the hashes of all ranks with that of one process."""
    seen = Seen()
    ways = [*[(size, by_mpi, "processes") for size in SIZES], (MANY, by_threads, "threads")]
    for number, (size, way, what) in enumerate(ways):
        part = count // len(ways) + (number < count % len(ways))
        first = 1000 * seed + number * count
        if not part:
            continue
        hashes, errors = way(size, first, part)
        for job, found in enumerate(hashes, first):
            wanted = Training(job).alone(size)
            seen.count("configurations")
            seen.count(f"of them in {size} {what}")
            seen.right(found == [wanted] * size, f"training {job} in {size} {what}: {found} and not {wanted}\n{errors}")
    return record("workers", CLAIM, {**seen.checks, "steps of each": STEPS}, seen.failures, seed=seed)


AUDIT = Audit(
    "workers",
    audit,
    40,
    "train in several processes of MPI, in threads in their place, and in one",
    """\
Random trainings (widths, optimizers with and without clipping, precisions with their loss scaling, dropout, guards)
run for forty steps in 1 to 4 processes that MPI has started, each on its rows of every batch, or in 8 threads in
their place, and in one process by `microbatch`: losses, parameters, the optimizer's state and all counters must be the
same, to the bit, on all ranks.""",
)
