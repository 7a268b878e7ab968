"""Exchanges beside a program: a thread that communicates with the other processes while compiled code runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from itertools import count
from queue import SimpleQueue

from wholestep.collectives import Exchange
from wholestep.ir.graph import NDArray


class RunningExchange:
    """An exchange that was begun, and its result or its error once it is done."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange, self.context, self.done = exchange, copy_context(), threading.Event()
        self.result: NDArray | None = None
        self.error: BaseException | None = None
        self.held: object = None
        """The memory of the exchange, held here once its program has released it."""

    def run(self) -> None:
        """Run the exchange in the context of the thread that began it."""
        try:
            self.result = self.context.run(self.exchange)
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()


class Exchanges(threading.local):
    """The exchanges that this thread has begun, which another thread runs one after another, in their order."""

    def __init__(self) -> None:
        self.running: dict[int, RunningExchange] = {}
        self.numbers = count(1)
        self.queue: SimpleQueue[RunningExchange] = SimpleQueue()
        self.thread: threading.Thread | None = None

    def begin(self, exchange: Exchange, beside: bool) -> int:
        """Begin an exchange, beside this thread or at once; returns its number."""
        running, number = RunningExchange(exchange), next(self.numbers)
        self.running[number] = running
        if beside:
            if self.thread is None or not self.thread.is_alive():  # a fork leaves threads behind
                self.queue = SimpleQueue()
                self.thread = threading.Thread(target=run_all, args=(self.queue.get,), name="exchanges", daemon=True)
                self.thread.start()
            self.queue.put(running)
        else:
            running.run()
        return number

    def end(self, number: int) -> NDArray:
        """The result of an exchange, when it is done; raises its error."""
        running = self.running.pop(number)
        running.done.wait()
        if running.error is not None:
            raise running.error
        assert running.result is not None, "an exchange that is done has a result or an error"
        return running.result

    def leave(self, memory: object) -> bool:
        """Drop the exchanges of a program that has failed; True where some still run, which hold its memory until their
        end."""
        going = [exchange for exchange in self.running.values() if not exchange.done.is_set()]
        for exchange in going:
            exchange.held = memory
        self.running.clear()
        return bool(going)


def run_all(take: Callable[[], RunningExchange]) -> None:
    """Run exchanges in order, forever."""
    while True:
        take().run()
