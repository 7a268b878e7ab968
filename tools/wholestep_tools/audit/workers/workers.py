"""`wholestep audit workers`: processes that train together have the bits of one that takes micro-batches."""

from __future__ import annotations

from typing import Any

from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.workers.launcher import start
from wholestep_tools.audit.workers.worker import STEPS, Training

CLAIM = "Several processes have the bits of one that takes the rows of each for a micro-batch"
SIZES = (1, 2, 3, 4)


def audit(count: int, seed: int) -> dict[str, Any]:
    """Train, and compare the hashes of all ranks with that of one process."""
    seen = Seen()
    for number, size in enumerate(SIZES):
        part = count // len(SIZES) + (number < count % len(SIZES))
        first = 1000 * seed + number * count
        if not part:
            continue
        out, errors = start(size, "trainings", str(first), str(part)).communicate()
        lines = [line.split() for line in out.splitlines() if line]
        for job in range(first, first + part):
            found = [line[1] for line in lines if line[0] == str(job)]
            wanted = Training(job).alone(size)
            seen.count("configurations")
            seen.count(f"of them in {size} processes")
            seen.right(
                found == [wanted] * size, f"training {job} in {size} processes: {found} and not {wanted}\n{errors}"
            )
    return record("workers", CLAIM, {**seen.checks, "steps of each": STEPS}, seen.failures, seed=seed)


AUDIT = Audit(
    "workers",
    audit,
    40,
    "train in several processes of MPI and in one",
    """\
Random trainings (widths, optimizers with and without clipping, precisions with their loss scaling, dropout, guards)
run for forty steps in 1 to 4 processes that MPI has started, each on its rows of every batch, and in one process by
`microbatch`: losses, parameters, the optimizer's state and all counters must be the same, to the bit, on all ranks.""",
)
