"""A process that trains a stack under a memory limit, and reports its memory and its speed beside the disk's.

It reads one line of JSON and answers with one: `python -m wholestep_tools.audit.endurance.streamer`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.train.step.step import Step
from wholestep_tools.audit.trainings.stacks import BATCH, batch, stack_step

CHUNK = 8 << 20
EVERY = 0.002
"""Seconds between two samples of the resident memory."""


def status(name: str) -> int:
    """Bytes that Linux states of this process under a name: VmData, VmHWM, RssAnon, RssFile."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """The most that was resident inside a `with`, anonymous and of files."""
    most = {"RssAnon": 0, "RssFile": 0}
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            for name in most:
                most[name] = max(most[name], status(name))

    thread = threading.Thread(target=look, name="wholestep-watch", daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


class Files:
    """The nameless files of this process in a folder, to be written out and forgotten by the page cache."""

    def __init__(self, folder: str) -> None:
        links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
        self.numbers = [int(x.name) for x in links if os.path.islink(x) and os.readlink(x).startswith(folder)]

    def settle(self) -> None:
        """Wait until everything is on the disk, and keep nothing of it in memory."""
        for number in self.numbers:
            os.fsync(number)
        for number in self.numbers:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)


def bandwidth(folder: str, nbytes: int) -> tuple[float, float]:
    """Bytes a second that are read and written one after another, with nothing cached: the better of two."""
    chunk = np.ones(CHUNK, np.uint8)
    starts = range(0, nbytes, CHUNK)
    read = write = 0.0
    with tempfile.TemporaryFile(dir=folder) as file:
        number = file.fileno()
        os.posix_fallocate(number, 0, len(starts) * CHUNK)
        for _ in range(2):
            begun = time.perf_counter()
            for start in starts:
                os.pwrite(number, chunk.data, start)
            os.fsync(number)
            write = max(write, len(starts) * CHUNK / (time.perf_counter() - begun))
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            begun = time.perf_counter()
            for start in starts:
                os.preadv(number, [chunk.data], start)
            read = max(read, len(starts) * CHUNK / (time.perf_counter() - begun))
    return read, write


def speed(step: Step, x: NDArray, folder: str, times: int) -> dict[str, float]:
    """Seconds of a step with a cold page cache and all writes on the disk, beside the disk's own for the same bytes;
    and seconds of a step with a warm page cache."""
    files = Files(folder)
    warm = cold = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        step(x)
        warm = min(warm, time.perf_counter() - begun)
    read = 0
    for _ in range(times):
        files.settle()
        before, begun = counted("read_bytes"), time.perf_counter()
        step(x)
        files.settle()
        cold = min(cold, time.perf_counter() - begun)
        read = counted("read_bytes") - before
    written = step.memory.file
    reading, writing = bandwidth(folder, min(written, 1 << 30))
    floor = read / reading + written / writing
    facts = {"warm_seconds": warm, "cold_seconds": cold, "disk_seconds": floor}
    return {**facts, "read_bandwidth": reading, "write_bandwidth": writing, "read": read, "written": written}


def counted(name: str) -> int:
    """Bytes that this process has had read from disks."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def work(order: dict[str, Any]) -> dict[str, Any]:
    """Train as ordered; the measured memory, speed and losses."""
    resource: Any = __import__("resource")
    limit = status("VmData") + order["room"]
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    folder = order["folder"] if order["streamed"] else None
    layers = -(-int(order["times"] * limit) // order["layer_bytes"])
    try:
        with watched() as most:
            step = stack_step(layers, order["width"], folder)
            x = batch(order["width"], BATCH)
            losses = [step(x).loss for _ in range(order["steps"])]
    except MemoryError:
        return {"limit": limit, "layers": layers, "refused": True}
    found = {"limit": limit, "layers": layers, "refused": False, "losses": losses, "hwm": status("VmHWM"), **most}
    found["state"] = layers * order["layer_bytes"]
    found["arena"] = step.memory.total
    if order["measure"]:
        found |= speed(step, x, order["folder"], 3)
    return found


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.stdin.readline()))))
