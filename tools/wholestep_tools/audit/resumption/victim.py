"""A process that is going to be killed: it resumes from a file, trains, saves after each step, and says so."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from wholestep.train.step.step import Step
from wholestep_tools.answering import replies, say
from wholestep_tools.audit.trainings.jobs import EPOCHS, WIDE, Job, perceptron, sha256


def trained(job: Job, step: Step, path: Path, most: int | None, answers: TextIO) -> None:
    """From where the file is to the end of the training."""
    step.reset()
    loader = job.loader(1)
    if (path / "manifest.json" if most else path).exists():
        step.load(path, loader=loader)
    while loader.epoch < EPOCHS:
        for batch in loader:
            step(batch)
            state = step.state
            number = int(state["counters"]["step"])
            say(answers, begun=number, sha256=sha256(state))
            before = time.perf_counter()
            step.save(path, loader=loader, max_shard_bytes=most)
            say(answers, saved=number, seconds=time.perf_counter() - before)


def serve(orders: TextIO, answers: TextIO) -> None:
    """Fork a child that trains for each order, and answer when it has ended; compiled code is inherited."""
    job = perceptron(WIDE)
    step = job.step(1)
    for batch in job.loader(1):
        step(batch)
    while line := orders.readline():
        order = json.loads(line)
        child = os.fork()
        if not child:
            trained(job, step, Path(order["path"]), order["most"], answers)
            os._exit(0)
        say(answers, child=child)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        say(answers, ended=True)
        orders.readline()  # until then the child keeps its number, so that nobody else is killed
        say(answers, status=os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve(sys.stdin, replies())
