"""Stacks of equal layers that are trained in memory and in files: random small ones, and one of a given size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.ir.graph import NDArray
from wholestep.train.step.step import Step

BATCH = 16
"""Rows of a batch of the large stack."""
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: ws.optim.adam(1e-3),
    "clipped adamw": lambda: ws.optim.chain(ws.optim.clip_by_global_norm(0.5), ws.optim.adamw(1e-3)),
    "momentum": lambda: ws.optim.sgd(1e-2, momentum=0.9),
    "lamb": lambda: ws.optim.lamb(1e-3),
    "adafactor": lambda: ws.optim.adafactor(1e-3),
}


def plain(h: Any, p: Any) -> tuple[Any, None]:
    """A layer with one matrix."""
    return h + np.tanh(h @ p["w"] + p["b"]), None


def gated(h: Any, p: Any) -> tuple[Any, None]:
    """A layer with a norm, and a gate."""
    centred = h - np.mean(h, axis=-1, keepdims=True)
    normal = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * p["b"]
    return h + np.tanh(normal @ p["w"]) * ws.nn.sigmoid(normal @ p["v"]), None


LAYERS = {"plain": plain, "gated": gated}


class Stack(NamedTuple):
    """A stack that is drawn: kind, layers, width, rows, optimizer, checkpointed or not, steps a call, threads."""

    kind: str
    layers: int
    width: int
    rows: int
    optimizer: str
    kept: bool
    calls: int
    threads: int

    def loss(self, params: Any, x: Any) -> Any:
        """The mean square of the layers' result for x."""
        layer = LAYERS[self.kind]
        return np.mean(ws.scan(layer if self.kept else ws.checkpoint(layer), x, params["layers"])[0] ** 2)

    def make(self, i: int) -> dict[str, NDArray]:
        """The parameters of a layer."""
        rng = np.random.default_rng([i, self.width])
        made = {name: rng.normal(size=(self.width, self.width)) / self.width for name in "wv"[: 1 + self.gated]}
        return {**tree.map(np.float32, made), "b": rng.normal(size=self.width).astype(np.float32)}

    @property
    def gated(self) -> bool:
        """Test whether a layer has two matrices."""
        return self.kind == "gated"

    def step(self, folder: Path | None) -> Step:
        """The compiled step, in memory or with its layers in files."""
        shape = (self.rows, self.width) if self.calls == 1 else (self.calls, self.rows, self.width)
        return ws.compile(
            self.loss,
            {"layers": ws.stacked(self.make, self.layers)},
            optimizer=OPTIMIZERS[self.optimizer](),
            batch=ws.ShapeDtype(shape, np.float32),
            steps_per_call=self.calls,
            stream=None if folder is None else "layers.*",
            folder=folder,
        )

    def batch(self, seed: int) -> NDArray:
        """Rows for a call."""
        shape = (self.rows, self.width) if self.calls == 1 else (self.calls, self.rows, self.width)
        return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def drawn(rng: np.random.Generator) -> Stack:
    """A random stack whose layers are large enough to be passed through one by one."""
    return Stack(
        str(rng.choice(list(LAYERS))),
        int(rng.integers(1, 8)),
        int(rng.integers(100, 300)),
        int(rng.integers(1, 20)),
        str(rng.choice(list(OPTIMIZERS))),
        bool(rng.integers(2)),
        int(rng.choice([1, 1, 3])),
        int(rng.integers(1, 4)),
    )


def stack_step(layers: int, width: int, folder: str | None) -> Step:
    """A step of Adam on a stack of so many plain layers."""
    stack = Stack("plain", layers, width, BATCH, "adam", False, 1, 1)
    return stack.step(None if folder is None else Path(folder))


def batch(width: int, rows: int) -> NDArray:
    """Rows for the large stack."""
    return np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)


def bits(step: Step) -> list[bytes]:
    """Every bit of a step's state."""
    return [np.asarray(x).tobytes() for x in tree.leaves(step.state)]
