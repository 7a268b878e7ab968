"""How many threads are worth having on this machine, and why."""

from __future__ import annotations

import math
import os
from pathlib import Path

from wholestep import config

TOPOLOGY = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def threads_and_reason() -> tuple[int, str]:
    """The number of threads that programs use, and where the number comes from.

    >>> threads_and_reason()[0] >= 1
    True
    """
    asked = config.threads()
    if asked is not None:
        return asked, "WHOLESTEP_THREADS"
    count, why = available()
    return max(1, min(count, config.MOST_THREADS)), why


def available() -> tuple[int, str]:
    """How many cores this process has, and what says so."""
    mask = affinity()
    count, why = physical(mask), "the physical cores this process may use"
    limit = quota()
    if limit is not None and limit < count:
        count, why = limit, "the processor time this container may use"
    return count, why


def affinity() -> set[int]:
    """The logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def physical(mask: set[int], topology: Path = TOPOLOGY) -> int:
    """How many cores these logical processors belong to; each counts as one where the system does not say."""
    cores = set()
    for number in mask:
        try:
            cores.add((topology / f"cpu{number}/topology/thread_siblings_list").read_text(encoding="ascii").strip())
        except OSError:
            cores.add(str(number))
    return len(cores)


def quota(file: Path = QUOTA) -> int | None:
    """How many processors' worth of time a Linux control group grants, rounded up; None where it sets no limit."""
    try:
        most, period = file.read_text(encoding="ascii").split()
        return None if most == "max" else max(1, math.ceil(int(most) / int(period)))
    except (OSError, ValueError):
        return None
