"""Threads in the place of processes: a communicator whose ranks are threads, which takes no launcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from wholestep.collectives import AXES, Link, NDArray, Traffic

AXIS = "threads"
"""The name of the axis of threads, which no communicator of processes has."""
AT_ONCE = Link(latency_seconds=0.0, bytes_per_second=float("inf"))
WAIT = 120.0
"""Seconds that a rank waits for the others before it takes one for lost."""


class Threads:
    """A communicator over threads of this process, one a rank, that counts the traffic of each rank.

    With a link, a call sleeps for the time that its messages would take over the link.
    """

    def __init__(self, size: int, link: Link = AT_ONCE) -> None:
        self.size, self.link = size, link
        self.sent = [Traffic(0, 0)] * size
        self.own: ContextVar[int] = ContextVar("rank")
        self.barrier = threading.Barrier(size)
        self.rows: list[NDArray] = [np.empty(0, np.uint8)] * size

    @property
    def rank(self) -> int:
        """The rank of this thread, or of the one that has given it work."""
        return self.own.get()

    def all_gather(self, send: NDArray, receive: NDArray) -> None:
        self.exchange(send, [slice(None)] * self.size, receive)

    def all_to_all(self, send: NDArray, receive: NDArray) -> None:
        self.exchange(send, [self.rank] * self.size, receive)

    def exchange(self, send: NDArray, parts: list[Any], receive: NDArray) -> None:
        """Receive a part of the array that each rank sends."""
        rank, before = self.rank, time.perf_counter()
        self.rows[rank] = send
        self.barrier.wait(WAIT)
        for i, part in enumerate(parts):
            receive[i] = self.rows[i][part]
        traffic = Traffic(self.size - 1, (self.size - 1) * receive[0].nbytes)
        self.sent[rank] = Traffic(self.sent[rank].messages + traffic.messages, self.sent[rank].bytes + traffic.bytes)
        time.sleep(max(0.0, before + self.link.seconds(traffic) - time.perf_counter()))
        self.barrier.wait(WAIT)

    def run(self, f: Callable[..., Any], *args: Any) -> list[Any]:
        """The results of a function, `f(communicator, *args)`, by rank; raises the error of the first that has one.

        The axis has no communicator afterwards, so that another one can have it.
        """
        found: list[Any] = [None] * self.size
        errors: list[BaseException] = []

        def life(rank: int) -> None:
            self.own.set(rank)
            try:
                found[rank] = f(self, *args)
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=life, args=(rank,), daemon=True) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        AXES.pop(AXIS, None)
        if errors:
            raise errors[0]
        return found
