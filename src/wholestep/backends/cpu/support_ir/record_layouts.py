"""Layouts of the records that compiled code, the support library and the runtime share."""

from __future__ import annotations


def _layout(*names: str) -> dict[str, int]:
    """The byte offset of each word of a record of eight-byte words."""
    return {name: 8 * place for place, name in enumerate(names)}


CONTEXT = _layout(
    "threads",  # how many shares `ws_parallel` makes; set by `ws_run`
    "pool",  # the pool's memory, or null
    "stop",  # not 0: end after the trip of the outermost loop; written by another thread while the program runs
    "trips",  # trips of the outermost loop that are complete; written by the program
    "status",  # 0, or 1 where `ws_fail` was called
    "site",  # which place failed first, and what was wrong there
    "value",
    "axis",
    "size",
    "position",
    "lock",  # held while a failure is written
    "notes",  # where notes for the thread that reads files ahead are left, or null
)
CONTEXT_BYTES = 128

POOL = {
    "owner": 0,  # 1 while a program has the threads
    "threads": 8,  # how many threads a program gets, its own included
    "spins": 128,  # how many pauses a thread waits before it sleeps
    "stop": 136,  # 1: the workers return for good
}
"""The fields that programs write and those that waiting workers read lie on different pairs of cache lines."""
POOL_BYTES = 256
"""The workers follow the head of the pool, each on two pairs of cache lines: what is asked of it, what it answers."""

WORKER = _layout("state", "function", "arguments", "low", "high", "bell") | {"done": 128, "asleep": 136, "own": 192}
WORKER_BYTES = 256
"""`state` is odd while the worker has nothing to do; an even number is a share that it, or the caller, may claim.

A worker that has had nothing for a while sets `asleep` and waits at its `bell`; who sets `asleep` back to 0 rings.
`own` is room for what the system keeps of the bell.
"""

NOTES = {"count": 0, "bell": 8, "own": 64, "first": 128}
"""Notes about what will be read: how many there were, whom to ring for, and the first of those that are kept."""
NOTES_KEPT = 64
NOTE = _layout("start", "nbytes", "number") | {"size": 64}
"""A note is valid once its number is one more than how many there were before it; with 0 bytes it was taken back."""
NOTES_BYTES = NOTES["first"] + NOTES_KEPT * NOTE["size"]

CALL = _layout("ask", "program", "table", "context")
"""The operands of a call, in one record, so that Python hands over one pointer."""
