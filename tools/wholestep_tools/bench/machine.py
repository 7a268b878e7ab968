"""The machine under the benchmarks: its rates of arithmetic and memory, and who else is using it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep.backends.cpu.cpu_features import host_target

STAT = Path("/proc/stat")
QUIET = 0.25
"""Processors that others may use while a measurement counts as undisturbed."""


class Machine(NamedTuple):
    """The processor, the number of its usable threads, the rates that NumPy reaches, and the settings, as NAME=VALUE,
    that restrict all libraries to fewer instructions than it has."""

    processor: str
    threads: int
    gflops: float
    gigabytes: float
    limits: Sequence[str] = ()

    def __str__(self) -> str:
        reached = f"a product of matrices reaches {self.gflops:.0f} GFLOP/s, a copy {self.gigabytes:.0f} GB/s"
        held = "".join(f"\n  {setting}" for setting in self.limits)
        return f"{self.processor}, {self.threads} threads; in NumPy {reached}{held}"


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def processor_and_code() -> str:
    """The processor's name, and the target of code generation."""
    target = host_target()
    return f"{processor()} ({target.cpu}, vectors of {target.vector_bytes} bytes)"


def quickest(f: Callable[[], Any], seconds: float) -> float:
    """The least time that f takes, tried again and again for that long, the first time not counted."""
    f()
    found: list[float] = []
    until = time.perf_counter() + seconds
    while not found or time.perf_counter() < until:
        before = time.perf_counter()
        f()
        found.append(time.perf_counter() - before)
    return min(found)


def measured(threads: int, seconds: float = 0.5) -> Machine:
    """The machine by two small measurements: a product of float32 matrices, and a copy too large for the caches."""
    import threadpoolctl

    a = np.ones((1024, 1024), np.float32)
    product = np.empty_like(a)
    source = np.ones(1 << 25, np.float32)
    target = np.empty_like(source)
    with threadpoolctl.threadpool_limits(threads):
        gflops = 2 * 1024**3 / quickest(lambda: np.matmul(a, a, out=product), seconds) / 1e9
    gigabytes = 2 * source.nbytes / quickest(lambda: np.copyto(target, source), seconds) / 1e9
    return Machine(processor(), threads, gflops, gigabytes)


def measured_within(limits: Mapping[str, str], threads: int) -> Machine:
    """The machine as `measured`, by a process of its own with these variables: NumPy reads them when it is loaded."""
    if not limits:
        return measured(threads)
    program = f"import {__name__} as m, json; print(json.dumps(m.measured({threads})))"
    told = {**os.environ, **limits}
    done = subprocess.run([sys.executable, "-c", program], env=told, check=True, capture_output=True, text=True)
    processor_name, _, gflops, gigabytes, _ = json.loads(done.stdout)
    return Machine(processor_name, threads, gflops, gigabytes, [f"{name}={limits[name]}" for name in limits])


def touch_memory(nbytes: int) -> None:
    """Write to fresh memory and free it: where a virtual machine's host has yet to provide it, that takes ten times as
    long as later, and would be counted as the compile time of the library that comes first."""
    np.empty(nbytes, np.uint8).fill(1)


def others(seconds: float = 0.1) -> float:
    """The number of processors in use while this process sleeps; 0 where the system does not say."""
    if not STAT.exists():
        return 0.0

    def used() -> int:
        counts = [int(field) for field in STAT.read_text().split("\n", 1)[0].split()[1:]]
        return sum(counts[:3]) + sum(counts[5:8])

    before = used()
    time.sleep(seconds)
    return (used() - before) / float(os.sysconf("SC_CLK_TCK")) / seconds


def wait_until_quiet(patience: float) -> float:
    """Wait while others use the machine, but not longer than `patience` seconds; return their current use."""
    until = time.monotonic() + patience
    busy = others()
    while busy > QUIET and time.monotonic() < until:
        busy = others()
    return busy
