"""Agreement of the processes of a mesh in a run of `fit`: rank 0 prints and saves, and all stop together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.collectives import gather_bytes
from wholestep.train.checkpoint import write
from wholestep.train.checkpoint.filesystem import DISK
from wholestep.train.loop.history import History
from wholestep.train.step.step import Step

INTERRUPTED, STOPPED = 1, 2


class Ranks:
    """The processes that train a step together; a step without a mesh has a single process."""

    def __init__(self, step: Step) -> None:
        self.axis = step._engine.step_function.mesh

    @property
    def speaks(self) -> bool:
        """True for the one process that shows progress, logs and saves: rank 0."""
        return self.axis is None or self.axis.rank == 0

    def try_place(self, path: str | os.PathLike[str]) -> None:
        """Raise CheckpointError in rank 0 where it could not save there, before an epoch is trained for it."""
        if self.speaks:
            write.try_place(Path(path), DISK)

    def save(self, step: Step, path: str | os.PathLike[str], loader: Any, metadata: Any) -> None:
        """Write a checkpoint in rank 0, which gathers the other ranks' parts of the optimizer's state."""
        if self.speaks:
            step.save(path, loader=loader, metadata=metadata)
        elif step._engine.step_function.shards is not None:
            step._engine.whole_optimizer()

    def agree(self, history: History, interrupted: bool) -> None:
        """End the run on every rank where one of them was interrupted or has stopped it."""
        history.interrupted = interrupted
        if self.axis is None:
            return
        own = INTERRUPTED * interrupted | STOPPED * (history.stopped is not None)
        found = int(np.bitwise_or.reduce(gather_bytes(self.axis.name, bytes([own]), "fit"), axis=None))
        history.interrupted = bool(found & INTERRUPTED)
        if found & STOPPED and history.stopped is None:
            history.stopped = "stopped by another process"
