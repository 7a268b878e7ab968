"""A process that trains a workload, alone or with others of MPI, and tells the time of a step."""

from __future__ import annotations

import json
import statistics
import sys
import time

import wholestep as ws
from wholestep import nn
from wholestep_tools.bench.peers.wholestep import LOSSES, MODELS
from wholestep_tools.bench.spec import B1, B2, EPS, WORKLOADS

BEFORE = 5
"""The first steps, which are not counted."""


def seconds_of_a_step(name: str, size: int, steps: int) -> float:
    """The median time of a step of this process, which is one of so many with equal parts of the rows."""
    params, batch = WORKLOADS[name].data()
    start = nn.join(MODELS[name](), params) if name in MODELS else params
    mesh = {"data": ws.mesh.mpi()} if size > 1 else None
    own = batch if mesh is None else ws.mesh.rows(batch, mesh["data"])
    optimizer = ws.optim.adam(WORKLOADS[name].rate, B1, B2, EPS)
    step = ws.compile(LOSSES[name], start, optimizer=optimizer, batch=own, mesh=mesh)
    taken = []
    for _ in range(steps):  # and not for a time: each process takes as many
        before = time.perf_counter()
        step(own)
        taken.append(time.perf_counter() - before)
    return statistics.median(taken[BEFORE:])


def main() -> None:
    """Say the time as JSON."""
    name, size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = seconds_of_a_step(name, size, steps)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
