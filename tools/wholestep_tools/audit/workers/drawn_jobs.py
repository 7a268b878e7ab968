"""Random trainings for several processes: networks of layers, and programs that are drawn operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.frontend.array import Array
from wholestep.ir.build import inline
from wholestep_tools.audit.trainings.programs import training
from wholestep_tools.audit.workers.equal_runs import Job
from wholestep_tools.drawn.training import program

OPTIMIZERS = (
    ws.optim.sgd(1e-3, momentum=0.9),
    ws.optim.adam(1e-3),
    ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.adamw(1e-3)),
    ws.optim.accumulate(ws.optim.adam(1e-3), 2),
)
OPTIONS: tuple[Mapping[str, Any], ...] = ({}, {"precision": "bfloat16"}, {"precision": "float16"}, {"guard": None})


def layered(seed: int, size: int, **options: Any) -> Job:
    """A network of layers drawn one after another, whose rows are others in each process."""
    made = training(seed, 77)
    parts = [{"x": made.rows["x"] * np.float32(1 + k / 8), "y": np.roll(made.rows["y"], k, 1)} for k in range(size)]
    batch = {name: np.concatenate([part[name] for part in parts]) for name in made.rows}
    return Job(made.loss, made.params, batch, made.optimizer, {**OPTIONS[seed % 4], **options})


class DrawnLoss:
    """A drawn program as a loss: its floating inputs that are trained are parameters, the others one row of a batch."""

    def __init__(self, seed: int) -> None:
        self.forward, args, trained = program((seed, 78), 5 + seed % 40, double=False)
        kinds = [t and x.dtype.kind == "f" for t, x in zip(trained, args, strict=True)]
        self.trained = kinds if any(kinds) else [x.dtype.kind == "f" for x in args]
        named = {f"x{i}": x for i, x in enumerate(args)}
        self.params = {name: x for (name, x), t in zip(named.items(), self.trained, strict=True) if t}
        self.data = {name: x for (name, x), t in zip(named.items(), self.trained, strict=True) if not t}

    def __call__(self, params: Any, batch: Any) -> Any:
        rows = len(batch["scale"])
        return sum(self.of_row(params, {name: x[i] for name, x in batch.items()}) for i in range(rows)) / rows

    def of_row(self, params: Any, row: Any) -> Any:
        """The loss of one row."""
        given = [(params if t else row)[f"x{i}"] for i, t in enumerate(self.trained)]
        values = [ws.numpy.asarray(x).value for x in given]
        return Array(inline(self.forward, values)[0], True) * row["scale"]


def operations(seed: int, size: int, **options: Any) -> Job:
    """A program that is drawn operation by operation, one row a process: floats in it are others in each."""
    loss, ranks = DrawnLoss(seed), np.arange(size, dtype=np.float32)
    batch: dict[str, Any] = {"scale": 1 + ranks / 8}
    for name, x in loss.data.items():
        rows = np.stack([x] * size)
        own = ranks.reshape(-1, *[1] * x.ndim).astype(x.dtype) / 64 if x.dtype.kind == "f" else x.dtype.type(0)
        batch[name] = rows + own if x.dtype != bool else rows
    return Job(loss, loss.params, batch, OPTIMIZERS[seed % 4], options)
