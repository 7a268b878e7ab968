"""calibrate: the rates of this machine, measured by small programs."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from wholestep.backends.cpu.cpu_features import host_target
from wholestep.compiler.driver import compile_graph
from wholestep.frontend.control import scan
from wholestep.frontend.jit import jit
from wholestep.ir.graph import NDArray
from wholestep.lower.cost.roofline import Rates, count_kernel, total_microseconds, vector_instructions
from wholestep.lower.program.steps import Launch
from wholestep.runtime.cpu import core_count, machine_rates, thread_pool

ROUNDS = 8
"""The number of rounds, each of which runs every measurement; the least time counts, as the least disturbed one."""
TURN = 0.01
"""Seconds of runs of a program in each round."""
SIDE = 320
"""Rows and columns of the matrices."""
SMALL, MIDDLE, LARGE = 1 << 15, 1 << 18, 1 << 23
"""The elements of arrays that fit into a core's cache, into the last-level cache, and into no cache."""
SIZES = [1 << n for n in range(16, 24)]
"""The elements of the arrays by which the size of the caches is measured."""
TRIPS = 2000
"""The trips of a loop around a nearly empty kernel."""
SPILLED = 32 << 20
"""The bytes of the file that is written and read."""


def calibrate() -> Rates:
    """Measure this machine's rates of computation and transfer, in about two seconds, and plan with them from now on.

    The rates are stored beside compiled code, for this processor and number of cores, and hold for later processes too;
    only another call measures them again. Without a cache folder on disk they hold for this process alone. The
    rates decide predicted times and the recomputation that a memory budget needs, never a result.

    Shapes: no arrays; arithmetic in operations a second of one core, memory in bytes a second, times in seconds.
    Raises: `wholestep.runtime.cache.private_folder.FolderUnusable` where the folder for compiled code is not private.

    >>> import wholestep as ws
    >>> rates = ws.calibrate()
    >>> rates.contraction > 1e8 and rates.cores >= 1
    True
    """
    found = measured()
    machine_rates.store_rates(found)
    return found


def measured() -> Rates:
    """The rates, from the least of many interleaved times."""
    x, y = (np.linspace(0.1, 1.0, LARGE, dtype=np.float32) for _ in range(2))
    square = np.ones((SIDE, SIDE), np.float32)
    programs = {
        "product": Timed(lambda a, b: a @ b, square, square),
        "chain": Timed(lambda x: np.tanh(np.exp(-x) * x) + np.sqrt(x), x[:SMALL]),
        "near": Timed(lambda x, y: x * 0.5 + y, x[:MIDDLE], y[:MIDDLE]),
        "far": Timed(lambda x, y: x * 0.5 + y, x, y),
    }
    begun, moved = Looped(), Moved(x, y)
    for _ in range(ROUNDS):
        for program in programs.values():
            program.round()
        begun.round()
        moved.round()
    return rates_of(programs, begun, moved)


class Timed:
    """A program with one measured kernel, and its least seconds on one core and on all."""

    def __init__(self, f: Callable[..., Any], *arrays: NDArray) -> None:
        self.arrays = arrays
        self.recorder = compile_graph(jit(f).lower(*arrays)).profiler(())
        kernels = [(s.kernel, i) for i, (s,) in enumerate(self.recorder.timed) if isinstance(s, Launch)]
        self.kernel, self.number = max(kernels, key=lambda k: count_kernel(k[0]).flops)
        self.alone = self.shared = math.inf

    def round(self) -> None:
        """Run the program at least twice on one core and at least twice on all."""
        with thread_pool.threads(1):
            self.alone = min(self.alone, self.least())
        self.shared = min(self.shared, self.least())

    def least(self) -> float:
        """The least seconds of the runs that fit into `TURN`."""
        found, end = self.seconds(), time.perf_counter() + TURN
        while True:
            found = min(found, self.seconds())
            if time.perf_counter() > end:
                return found

    def seconds(self) -> float:
        """The seconds of one run of the kernel, which a call may run once for each block."""
        record = self.recorder(self.arrays)
        return record.nanoseconds[self.number] / record.runs[self.number] / 1e9


class Looped:
    """A loop of many trips around a nearly empty kernel, and its least seconds a trip."""

    def __init__(self) -> None:
        def trips(x: Any) -> Any:
            return scan(lambda x, _: (x * 0.5, None), x, None, TRIPS)[0]

        self.program = compile_graph(jit(trips).lower(np.ones(4, np.float32)))
        self.trip = math.inf

    def round(self) -> None:
        """Time one run of the loop."""
        self.trip = min(self.trip, time_call(lambda: self.program([np.ones(4, np.float32)])) / TRIPS)


class Moved:
    """The highest rates, in bytes a second, of copies in memory, of sums of several sizes, and of a file."""

    def __init__(self, x: NDArray, y: NDArray) -> None:
        self.x, self.y, self.to = x, y, np.zeros_like(x)
        self.copy = self.write = self.read = 0.0
        self.sums = dict.fromkeys(SIZES, 0.0)

    def round(self) -> None:
        """Measure each rate once."""
        self.copy = max(self.copy, self.x.nbytes / time_call(lambda: np.copyto(self.to, self.x)))
        for n in SIZES:
            add = partial(np.add, self.x[:n], self.y[:n], out=self.to[:n])
            seconds = min(time_call(add) for _ in range(3))
            self.sums[n] = max(self.sums[n], 12 * n / seconds)
        write, read = spilled(self.x[: SPILLED // 4])
        self.write, self.read = max(self.write, write), max(self.read, read)

    def cached(self) -> float:
        """The largest bytes of a sum whose rate is closer to that of the caches than to that of memory."""
        middle = math.sqrt(self.sums[SIZES[0]] * self.sums[SIZES[-1]])
        return 12.0 * next(n for n in reversed(SIZES) if self.sums[n] >= middle)


def spilled(x: NDArray) -> tuple[float, float]:
    """Bytes a second of writing an array to a file and of reading it back, past the page cache where possible."""
    with tempfile.TemporaryFile() as file:

        def write() -> None:
            file.write(x.data)
            file.flush()
            os.fsync(file.fileno())

        def read() -> None:
            file.seek(0)
            file.readinto(again.data)

        again = np.zeros_like(x)
        writing = x.nbytes / time_call(write)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return writing, x.nbytes / time_call(read)


def time_call(f: Callable[[], Any]) -> float:
    """The seconds of one call."""
    before = time.perf_counter()
    f()
    return time.perf_counter() - before


def rates_of(programs: dict[str, Timed], begun: Looped, moved: Moved) -> Rates:
    """The rates for which the cost model predicts the measured times."""
    vector, count = host_target().vector_bytes, core_count.available_cores()[0]
    product, chain, near, far = (programs[name] for name in ("product", "chain", "near", "far"))
    size = vector / 4
    made = Rates(
        contraction=2 * size * vector_instructions(product.kernel, vector)[0] / product.alone,
        elementwise=size * vector_instructions(chain.kernel, vector)[1] / chain.alone,
        cache=count_kernel(near.kernel).distinct / near.alone,
        memory=count_kernel(far.kernel).distinct / far.alone,
        memory_all=count_kernel(far.kernel).distinct / min(far.alone, far.shared),
        cached=moved.cached(),
        launch=begun.trip,
        sharing=max(chain.shared - chain.alone / count, 2e-7),
        copy=moved.copy,
        disk_write=moved.write,
        disk_read=moved.read,
        cores=count,
        vector=vector,
    )
    trip = total_microseconds(begun.program.plan.steps, made._replace(launch=0.0)) / TRIPS / 1e6
    return made._replace(launch=max(begun.trip - trip, 1e-9))
