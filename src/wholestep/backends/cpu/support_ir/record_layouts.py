"""Layouts of the records that compiled code, the support library and the runtime share."""

from __future__ import annotations


def _layout(*names: str) -> dict[str, int]:
    """The byte offset of each word of a record of eight-byte words."""
    return {name: 8 * place for place, name in enumerate(names)}


CONTEXT = _layout(
    "threads",  # the number of shares that `ws_parallel` makes; set by `ws_run`
    "pool",  # the pool's memory, or null
    "stop",  # not 0: end after the trip of the outermost loop; written by another thread while the program runs
    "trips",  # trips of the outermost loop that are complete; written by the program
    "status",  # 0, or 1 where `ws_fail` was called
    "site",  # the check that failed first; the next four words are the facts of its error message
    "value",
    "axis",
    "size",
    "position",
    "lock",  # held while a failure is written
    "notes",  # the queue of requests to the prefetch thread, or null
)
CONTEXT_BYTES = 128

POOL = {
    "owner": 0,  # 1 while a program has the threads
    "threads": 8,  # the number of threads of a program, the calling one included
    "spins": 128,  # the number of pauses that a thread spins before it sleeps
    "stop": 136,  # 1: the workers return for good
}
"""The fields that programs write and those that waiting workers read lie on different pairs of cache lines."""
POOL_BYTES = 256
"""The size of the pool's head; the records of the workers follow it, each on two pairs of cache lines, one with the
request to the worker and one with its answer."""

WORKER = _layout("state", "function", "arguments", "low", "high", "bell") | {"done": 128, "asleep": 136, "own": 192}
WORKER_BYTES = 256
"""The size of a worker's record; `state` is odd while the worker is idle, and even for a share that the worker or the
caller may claim.

A worker that has been idle for a while sets `asleep` and waits for the semaphore `bell`; the thread that sets `asleep`
back to 0 posts it. `own` is room for the system's data of the semaphore.
"""

NOTES = {"count": 0, "bell": 8, "own": 64, "first": 128}
"""The queue of prefetch requests: the number of requests so far, the semaphore to post, room for the system's data of
the semaphore, and the first entry of the ring."""
NOTES_KEPT = 64
NOTE = _layout("start", "nbytes", "number") | {"size": 64}
"""A request is valid once its `number`, counted from 1, is written; one of 0 bytes was cancelled."""
NOTES_BYTES = NOTES["first"] + NOTES_KEPT * NOTE["size"]

CALL = _layout("ask", "program", "table", "context")
"""The operands of a call, in one record, so that Python hands over one pointer."""
