"""An iterator read ahead by a thread, which ends with its consumer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

LOOK = 0.5
"""Seconds between two checks that the thread is alive; an endless wait cannot be interrupted on every system."""

PATIENCE = 10.0
"""Seconds that `close` waits for the item that the thread is making."""

Items = Generator[tuple[Any, int], None, None]
"""Pairs of an item and the number of positions that it advances."""


class Ahead:
    """The items of an iterator, up to `depth` of them made ahead in a thread.

    An error in the iterator is raised where its item would have come, with its own traceback. `close` ends the thread.
    """

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        self.items = items
        self.made: SimpleQueue[Future[Any]] = SimpleQueue()
        self.room = threading.Semaphore(depth)
        self.closed = False
        self.thread = threading.Thread(target=self.work, name="wholestep loader", daemon=True)
        self.thread.start()

    def work(self) -> None:
        """Make items until there are no more, or the reader is closed."""
        made: Future[Any] | None = None
        while made is None or made.exception() is None:
            self.room.acquire()
            if self.closed:
                return
            made = Future()
            try:
                made.set_result(next(self.items))
            except BaseException as error:
                made.set_exception(error)
            self.made.put(made)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        made = self.take()
        error = made.exception()
        if error is not None:
            self.thread.join()
            raise error
        self.room.release()
        return made.result()

    def take(self) -> Future[Any]:
        """Wait for the next item, as a finished future."""
        while True:
            try:
                return self.made.get(timeout=LOOK)
            except Empty:
                if not self.thread.is_alive() and self.made.empty():
                    raise RuntimeError("loader: the thread that reads ahead is gone") from None

    def close(self) -> None:
        """End the thread after the item that it is making, and drop the items that are ready."""
        self.closed = True
        self.room.release()
        self.thread.join(PATIENCE)


def read_ahead(make: Callable[[int], Items], depth: int, place: int) -> Items:
    """The items of `make(place)`, read ahead by a thread.

    A fork copies no thread: a child process continues, with an iterator and a thread of its own, at the first item that
    was not given out.
    """
    owner = os.getpid()
    reader = Ahead(make(place), depth)
    try:
        while True:
            if os.getpid() != owner:
                owner = os.getpid()
                reader = Ahead(make(place), depth)
            try:
                item, move = next(reader)
            except StopIteration:
                return
            place += move
            yield item, move
    finally:
        if os.getpid() == owner:
            reader.close()
