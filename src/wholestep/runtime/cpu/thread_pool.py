"""The threads of this process: one fork-join pool that any native program borrows while it runs."""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wholestep import config, forks
from wholestep.backends.cpu.support_ir.record_layouts import POOL, POOL_BYTES, WORKER, WORKER_BYTES
from wholestep.runtime.cpu import core_count, semaphores, support

CACHE_LINE_PAIR = 128
SPIN_SECONDS = 0.002
"""Seconds that a thread spins for work before it sleeps; an idle process uses no processor time."""
JOIN_SECONDS = 2.0
"""Seconds that the end of the process waits for a thread that is still in a program."""


class PoolWorker:
    """A Python thread that runs the worker loop of native code: it spins for a while, then sleeps.

    Nothing waits for a worker that has not claimed its share, so that one which starts late, or is gone after a fork,
    costs time and never a result.
    """

    def __init__(self, pool: ThreadPool, address: int) -> None:
        self.bell = semaphores.create_semaphore(address + WORKER["own"])
        ctypes.c_uint64.from_address(address + WORKER["bell"]).value = self.bell
        self.asleep = ctypes.c_int64.from_address(address + WORKER["asleep"])
        turn = (pool.address, address)
        self.thread = threading.Thread(
            target=support.load_support().worker, args=turn, name="wholestep-pool", daemon=True
        )
        self.thread.start()


class ThreadPool:
    """Memory that native code and workers share, and the workers that have been needed so far."""

    def __init__(self, threads: int) -> None:
        raw = np.zeros(POOL_BYTES + config.MOST_THREADS * WORKER_BYTES + CACHE_LINE_PAIR, np.uint8)
        start = -raw.ctypes.data % CACHE_LINE_PAIR
        self.memory = raw[start:]
        self.address = int(raw.ctypes.data) + start
        self.stopped = False
        self._workers: list[PoolWorker] = []
        self._growing = threading.RLock()
        self._word("spins").value = _spins()
        for k in range(config.MOST_THREADS):
            ctypes.c_int64.from_address(self._record(k) + WORKER["state"]).value = 1
        self.resize(threads)

    def _word(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + POOL[name])

    def _record(self, k: int) -> int:
        return self.address + POOL_BYTES + k * WORKER_BYTES

    @property
    def threads(self) -> int:
        """Number of threads that the next program gets, its own included."""
        return int(self._word("threads").value)

    def resize(self, threads: int) -> None:
        """Use this many threads from the next program on; those that are not needed sleep."""
        with self._growing:
            try:
                while len(self._workers) < threads - 1 and not self.stopped:
                    self._workers.append(PoolWorker(self, self._record(len(self._workers))))
            except RuntimeError:  # the system, or an interpreter that is ending, has no more threads
                threads = len(self._workers) + 1
            self._word("threads").value = threads

    def stop(self) -> None:
        """Let every worker return; programs then run on one thread."""
        self.stopped = True
        with self._growing:
            self._word("threads").value = 1
            self._word("stop").value = 1
            for worker in self._workers:
                semaphores.semaphore_post(worker.bell)
            for worker in self._workers:
                worker.thread.join(JOIN_SECONDS)


def _spins() -> int:
    """Return the number of pause instructions in `SPIN_SECONDS`: one takes 1 to 60 nanoseconds, by processor."""
    spin, trial = support.load_support().spin, 2000
    best = float("inf")
    for _ in range(5):
        before = time.perf_counter()
        spin(trial)
        best = min(best, time.perf_counter() - before)
    return max(1, int(trial * SPIN_SECONDS / best))


_pool: ThreadPool | None = None
_asked: int | None = None
_making = threading.RLock()
"""Reentrant: a signal handler or a finalizer may run a program where its own thread is making the pool."""


def current_pool() -> ThreadPool:
    """The pool of this process, made when it is first needed; a forked child makes its own."""
    found = _pool
    return found if found is not None else _make()


def _make() -> ThreadPool:
    global _pool
    with _making:
        if _pool is None:
            made = ThreadPool(thread_count())
            if _pool is None:
                _pool = made
            else:
                made.stop()
        return _pool


def thread_count() -> int:
    """Return the number of threads of programs: that of `set_threads`, WHOLESTEP_THREADS, or one for each physical
    core.

    >>> thread_count() >= 1
    True
    """
    return _asked if _asked is not None else core_count.default_thread_count()[0]


def set_threads(count: int | None) -> None:
    """Use this many threads from the next call on; None goes back to the default. The results do not depend on it.

    Raises ValueError for less than 1 or more than 256.

    >>> set_threads(None)
    """
    global _asked
    if count is not None and not 1 <= count <= config.MOST_THREADS:
        raise ValueError(f"threads: {count} is not a number from 1 to {config.MOST_THREADS}")
    _asked = count
    found = _pool
    if found is not None:
        found.resize(thread_count())


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use this many threads inside a `with` statement; raises ValueError as `set_threads` does.

    >>> with threads(1):
    ...     thread_count()
    1
    """
    before = _asked
    set_threads(count)
    try:
        yield
    finally:
        set_threads(before)


@forks.in_child
def _forget_pool() -> None:
    """In a forked child only the thread that forked is alive: the pool and its locks are left behind."""
    global _pool, _making
    _pool, _making = None, threading.RLock()


def _stop() -> None:
    found: Any = _pool
    if found is not None:
        found.stop()


atexit.register(_stop)
