"""A program that a launcher starts in several processes: `train_with.py mpi|torch bits|raised|killed`."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from typing import Any

from tests.mesh import programs

import wholestep as ws

CASES = [("plain", "clip", programs.ROWS, {}), ("dropped", "adam", programs.ROWS, {"precision": "bfloat16"})]


def communicator(engine: str) -> Any:
    """The communicator of the launcher."""
    if engine == "mpi":
        return ws.mesh.mpi()
    importlib.import_module("torch.distributed").init_process_group("gloo")
    return ws.mesh.torch()


def digest(cases: list[list[bytes]]) -> str:
    """One word for the bits of losses and states."""
    return hashlib.sha256(b"".join(part for case in cases for part in case)).hexdigest()


def main(engine: str, what: str) -> None:
    comm = communicator(engine)
    if what == "bits":
        sys.stdout.write(f"{digest(programs.train(comm, CASES))}\n")
        return
    loss, params, batch = programs.start("plain", 8)
    step = ws.compile(loss, params, optimizer=programs.optimizer("adam"), batch=batch, mesh={"data": comm})
    step(batch)
    if comm.rank == 1:
        if what == "killed":
            os.kill(os.getpid(), 9)
        raise ValueError("planted")
    step(batch)
    print("went on")


if __name__ == "__main__":
    main(*sys.argv[1:])
