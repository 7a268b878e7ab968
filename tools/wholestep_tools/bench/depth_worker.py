"""One process, one library, one deep program: it compiles the training step and reports the cost.

Its protocol is that of `worker`.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.answering import replies
from wholestep_tools.bench.deep_programs import PROGRAMS, Program
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers import Job
from wholestep_tools.bench.spec import B1, B2, EPS, SEED
from wholestep_tools.bench.worker import timed, work

RATE = 1e-3
ROLLED, UNROLLED, JAX = "wholestep", "unrolled", "jax"
WAYS = (ROLLED, UNROLLED, JAX)
"""Wholestep as it is, with roll=False, and JAX."""


def job(way: str, program: Program, depth: int, params: Arrays, batch: Arrays) -> tuple[Job, str]:
    """The training step in a library, ready to be called, and the library's version."""
    if way == JAX:
        peer = importlib.import_module("wholestep_tools.bench.peers.jax")
        loss = partial(program.loss, importlib.import_module("jax.numpy"))
        return peer.Training(lambda p, batch: loss(p, batch, depth), RATE, params, batch), peer.VERSION
    peer = importlib.import_module("wholestep_tools.bench.peers.wholestep")
    step = ws.compile(
        lambda p, batch: program.loss(np, p, batch, depth),
        params,
        optimizer=ws.optim.adam(RATE, B1, B2, EPS),
        batch=batch,
        roll="auto" if way == ROLLED else False,
    )
    return peer.Training(step, batch), peer.VERSION


class Compiled:
    """A step from its making to its times."""

    def __init__(self, way: str, name: str, depth: int) -> None:
        importlib.import_module(f"wholestep_tools.bench.peers.deep_{'jax' if way == JAX else 'wholestep'}").warm()
        program = PROGRAMS[name]
        params, batch = program.draw(np.random.default_rng(SEED), depth)
        wall, cpu = time.perf_counter(), time.process_time()
        self.job, version = job(way, program, depth, params, batch)
        alone = 0.0 if way == JAX else time.process_time() - cpu  # JAX compiles in the first step
        result = self.job.call()
        self.job.wait(result)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        loss = self.job.numbers(result)[0][0]
        self.made = {"version": version, "seconds": wall, "cpu": cpu, "alone": alone, "loss": loss}

    def begun(self) -> dict[str, Any]:
        """The cost of compiling."""
        return self.made

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The times of steps, for any command."""
        return {"seconds": timed(self.job, n)}


def main(arguments: Sequence[str]) -> None:
    """Compile as the bench says: a way, a program, and its depth."""
    way, name, depth = arguments
    work(lambda: Compiled(way, name, int(depth)), sys.stdin, replies())


if __name__ == "__main__":
    main(sys.argv[1:])
