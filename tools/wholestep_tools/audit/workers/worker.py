"""A process of MPI that trains with others: random trainings one after another, or one that is going to be killed."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.train.loop.callbacks import Checkpoint
from wholestep_tools.audit.trainings.jobs import sha256

STEPS = 40
ROWS = 24
EPOCHS = 300
"""Those of the training that is killed."""
EVERY = 5
"""Steps between two saves."""


class Training:
    """A random training: a network, its data, its optimizer and its options, all drawn from a seed."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        width, out = int(rng.integers(3, 40)), int(rng.integers(1, 5))
        self.params = {
            "w": rng.normal(size=(6, width)).astype(np.float32) * 0.5,
            "b": np.zeros(width, np.float32),
            "v": rng.normal(size=(width, out)).astype(np.float32) * 0.3,
        }
        self.data = {
            "x": rng.normal(size=(5 * ROWS, 6)).astype(np.float32),
            "y": rng.normal(size=(5 * ROWS, out)).astype(np.float32),
        }
        rate = float(rng.choice([1e-3, 1e-2]))
        ways: list[Any] = [
            ws.optim.sgd(rate, momentum=0.9),
            ws.optim.adam(rate),
            ws.optim.adamw(rate),
            ws.optim.lion(rate),
            ws.optim.rmsprop(rate),
            ws.optim.chain(ws.optim.clip_by_global_norm(0.3), ws.optim.adam(rate)),
        ]
        self.optimizer = ways[int(rng.integers(len(ways)))]
        dropout = bool(rng.integers(2))
        choices: list[dict[str, Any]] = [
            {},
            {"guard": None},
            {"grad_norm": True},
            {"precision": "bfloat16"},
            {"precision": "float16"},
            {"roll": False},
        ]
        self.options = {**choices[int(rng.integers(len(choices)))], "key": int(rng.integers(1000))}

        def loss(params: Any, batch: Any, *, key: Any) -> Any:
            h = np.tanh(batch["x"] @ params["w"] + params["b"])
            if dropout:
                h = h * ws.random.bernoulli(key, 0.8, h.shape)
            return np.mean((h @ params["v"] - batch["y"]) ** 2)

        self.loss = loss

    def step(self, rows: int, **more: Any) -> Any:
        """The step for batches of so many rows."""
        batch = tree.map(lambda x: x[:rows], self.data)
        options = {**self.options, **more}
        return ws.compile(self.loss, self.params, optimizer=self.optimizer, batch=batch, **options)

    def run(self, step: Any, loader: Any) -> str:
        """The hash of the state and of the losses after the steps."""
        history = ws.fit(step, loader, steps=STEPS, progress=None)
        return sha256({"state": step.state, "losses": history.losses})

    def shared(self, mesh: Any) -> str:
        """The training in one of the processes of a mesh."""
        (communicator,) = mesh.values()
        loader = ws.Loader(self.data, ROWS, key=7, mesh=mesh)
        return self.run(self.step(ROWS // communicator.size, mesh=mesh), loader)

    def alone(self, size: int) -> str:
        """The training in one process, that takes the rows of each of `size` processes for micro-batches."""
        return self.run(self.step(ROWS, microbatch=ROWS // size), ws.Loader(self.data, ROWS, key=7))


def trainings(first: int, count: int) -> None:
    """Each training in turn; rank 0 says the hashes."""
    mesh = {"data": ws.mesh.mpi()}
    for seed in range(first, first + count):
        sys.stdout.write(f"{seed} {Training(seed).shared(mesh)}\n")
        sys.stdout.flush()


def victim(seed: int, path: str) -> None:
    """A training that saves often and resumes; it says who it is when it begins, and the hash at its end."""
    mesh = {"data": ws.mesh.mpi()}
    job = Training(seed)
    loader = ws.Loader(job.data, ROWS, key=7, mesh=mesh)
    step = job.step(ROWS // mesh["data"].size, mesh=mesh)
    sys.stdout.write(f"begun {mesh['data'].rank} {os.getpid()}\n")
    sys.stdout.flush()
    saving = Checkpoint(path, every_epochs=None, every_steps=EVERY)
    ws.fit(step, loader, epochs=EPOCHS, progress=None, checkpoint=saving, resume=True)
    sys.stdout.write(f"ended {sha256(step.state)}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the command of the arguments."""
    if sys.argv[1] == "trainings":
        trainings(int(sys.argv[2]), int(sys.argv[3]))
    else:
        victim(int(sys.argv[2]), sys.argv[3])
