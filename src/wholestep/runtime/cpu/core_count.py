"""The default number of threads: physical cores, affinity, container quota, and processes that share a machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

from wholestep import config

TOPOLOGY = Path("/sys/devices/system/cpu")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""Variables in which torchrun, MPICH and Open MPI say how many processes they have started on this machine."""


def default_thread_count() -> tuple[int, str]:
    """The number of threads that programs use, and where the number comes from.

    >>> default_thread_count()[0] >= 1
    True
    """
    asked = config.threads()
    if asked is not None:
        return asked, "WHOLESTEP_THREADS"
    count, why = available_cores()
    return max(1, min(count, config.MOST_THREADS)), why


def available_cores() -> tuple[int, str]:
    """Return the number of cores of this process, and the limit that determines it."""
    mask = cpu_affinity()
    count, why = physical_cores(mask), "the physical cores this process may use"
    limit = cgroup_cpu_quota()
    if limit is not None and limit < count:
        count, why = limit, "the processor time this container may use"
    processes = local_processes()
    if processes > 1 and len(mask) == os.cpu_count():  # or else the launcher has given each process cores of its own
        count, why = max(1, count // processes), f"{why}, shared by {processes} processes"
    return count, why


def local_processes() -> int:
    """The number of processes that a launcher has started together on this machine; 1 without a launcher."""
    found = [os.environ.get(name, "") for name in LOCAL_SIZES]
    return max([1, *[int(x) for x in found if x.isascii() and x.isdigit()]])


def cpu_affinity() -> set[int]:
    """The logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def physical_cores(mask: set[int], topology: Path = TOPOLOGY) -> int:
    """Return the number of cores of these logical processors; each counts as one where the system does not say."""
    cores = set()
    for number in mask:
        try:
            cores.add((topology / f"cpu{number}/topology/thread_siblings_list").read_text(encoding="utf-8").strip())
        except OSError:
            cores.add(str(number))
    return len(cores)


def cgroup_cpu_quota(file: Path = QUOTA) -> int | None:
    """Return the processor time that a Linux control group grants, in processors, rounded up; None where it sets no
    limit."""
    try:
        most, period = file.read_text(encoding="utf-8").split()
        return None if most == "max" else max(1, math.ceil(int(most) / int(period)))
    except (OSError, ValueError):
        return None
