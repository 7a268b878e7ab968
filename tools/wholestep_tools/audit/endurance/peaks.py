"""A process that compiles and runs one training, and reports the memory that this added to the process."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli.text import Writer
from wholestep_tools.bench.worker import peak_megabytes

MARKS = Path("/proc/self/clear_refs")
CAN = sys.platform == "linux" and MARKS.exists()
"""True where the system reports the peak memory of a process from some moment on."""


class Case(NamedTuple):
    """A loss, its parameters, and a batch."""

    loss: Callable[..., Any]
    params: Any
    batch: Any


def normal(*shape: int) -> Any:
    """Normal numbers, the same each time."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def wide(width: int = 2048) -> Case:
    """A perceptron whose state is most of its memory."""

    def loss(params: Any, batch: Any) -> Any:
        h = batch["x"]
        for w in params:
            h = np.maximum(h @ w, 0)
        return np.mean((h - batch["y"]) ** 2)

    params = [0.02 * normal(width, width) for _ in range(6)]
    return Case(loss, params, {"x": normal(256, width), "y": normal(256, width)})


def deep(layers: int = 8) -> Case:
    """A GPT whose arena is most of its memory."""

    def loss(model: Any, batch: Any) -> Any:
        return nn.cross_entropy(model(batch["x"]), batch["y"])

    signs = np.random.default_rng(0).integers(0, 96, (2, 8, 256))
    return Case(loss, Writer(96, 128, layers, key=ws.random.key(0)), {"x": signs[0], "y": signs[1]})


def captured(width: int = 4096) -> Case:
    """A table that the loss reads without being given it."""
    table = normal(width, 3072)

    def loss(params: Any, batch: Any) -> Any:
        return np.mean((batch @ table * params) ** 2)

    return Case(loss, np.ones(3072, np.float32), normal(width, width))


CASES: Mapping[str, Callable[[], Case]] = {"wide perceptron": wide, "GPT": deep, "captured table": captured}


def measured(name: str) -> dict[str, float]:
    """Megabytes that a training adds to the process, and those that its report predicts."""
    small = Case(lambda w, x: np.mean(np.tanh(x @ w) ** 2), normal(40, 40), normal(40, 40))
    run(small)  # loads the modules and code that every program needs
    case = CASES[name]()
    gc.collect()
    MARKS.write_text("5")  # resets the peak to the current memory
    before = peak_megabytes()
    step = run(case)
    after = peak_megabytes()
    memory = step.memory
    return {
        "before": before,
        "taken": after - before,
        "reported": (memory.total - memory.inputs) / 2**20,  # the caller holds the batch
        "arena and state": (memory.arena + memory.state) / 2**20,
    }


def run(case: Case) -> Any:
    """A few steps of training."""
    step = ws.compile(case.loss, case.params, optimizer=ws.optim.adam(1e-3), batch=case.batch)
    for _ in range(3):
        step(case.batch)
    return step


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1])))
