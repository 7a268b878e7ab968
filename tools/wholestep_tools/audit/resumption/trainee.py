"""A process that trains as it is told: to an interruption or to the end, from the beginning or from a file."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from wholestep.train.program.interruptible import NOTICEABLE_SECONDS, terminating_in_order
from wholestep.train.step.step import Step
from wholestep_tools.answering import replies, serve
from wholestep_tools.audit.trainings.jobs import EPOCHS, JOBS, Job, sha256


@cache
def job(name: str) -> Job:
    """A job, made once in a process."""
    return JOBS[name]()


@cache
def step(name: str, count: int) -> Step:
    """Its step, compiled once in a process."""
    return job(name).step(count)


def taken(own: Step) -> int:
    """The number of steps that a state has behind it."""
    return int(own.state["counters"]["step"])


TRIES = 20
"""Times that a signal is sent, sooner and sooner, for it to come within an epoch."""


class Timer:
    """A signal after some seconds, unless it is too late by then."""

    def __init__(self, seconds: float, number: signal.Signals) -> None:
        self.timer = threading.Timer(seconds, self.send)
        self.number = number

    def send(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, self.number)

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.timer.join()


def ran(order: Mapping[str, Any]) -> None:
    """Train with `run`, from the beginning or from a file, to the end or until a signal."""
    own, over = step(order["job"], 1), job(order["job"])
    left = EPOCHS - taken(own) // over.steps
    if order.get("stop") is None:
        if left:
            own.run(over.data, left, over.size, resume=True)
        return
    seconds = 0.0
    for _ in range(2):  # the first one compiles
        own.reset()
        before = time.perf_counter()
        own.run(over.data, EPOCHS, over.size)
        seconds = time.perf_counter() - before
    for again in range(TRIES):
        own.reset()
        for program in own._engine.programs.values():
            program.seconds = NOTICEABLE_SECONDS  # runs that were short are not listened to, and these would be
        wait = order["stop"] * seconds * 0.8**again
        number = signal.Signals[order["signal"]]
        # These are raised where the run is over already; the outer order catches a late SIGTERM.
        with suppress(KeyboardInterrupt, SystemExit), terminating_in_order(), Timer(wait, number):
            own.run(over.data, EPOCHS, over.size)
        if own._engine.unfinished is not None:
            return
    raise RuntimeError(f"{order['signal']} came {TRIES} times, and never within an epoch")


def looped(order: Mapping[str, Any]) -> None:
    """Train in a loop of calls over a loader, from the beginning or from a file, to the end or to some call."""
    over, own, count = job(order["job"]), step(order["job"], order["count"]), order["count"]
    loader = over.loader(count)
    if "load" in order:
        own.load(order["load"], loader=loader)
    calls = None if order.get("stop") is None else int(order["stop"] * EPOCHS * (-(-over.steps // count)))
    while loader.epoch < EPOCHS and calls != 0:
        for batch in loader:
            own(batch)
            if calls is not None:
                calls -= 1
                if calls <= 0:
                    break
    if "save" in order:
        own.save(order["save"], loader=loader)


def obeyed(line: str) -> dict[str, Any]:
    """The answer to an order: whether it ended within an epoch, and the hash of the state."""
    order = json.loads(line)
    own = step(order["job"], order["count"] if order["mode"] == "loop" else 1)
    own.reset()
    if order["mode"] == "loop":
        looped(order)
    else:
        if "load" in order:
            own.load(order["load"])
        ran(order)
        if "save" in order:
            own.save(order["save"])
    within = taken(own) % job(order["job"]).steps != 0
    return {"within": within, "sha256": sha256(own.state)}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background inherits an ignored SIGINT
    serve(obeyed, sys.stdin, replies())
