"""The workloads in Wholestep: `compile` for trainings, `jit` for other computations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn, tree
from wholestep.cli import digits, text
from wholestep.train.step.step import Step
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.models import chain, cnn, gpt, mlp, tiny
from wholestep_tools.bench.peers.on_wholestep import WholestepOperations
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.spec import B1, B2, CHANNELS, EPS, HEADS, LAYERS, SIGNS, WIDTH, WORKLOADS, digest

VERSION = f"Wholestep {ws.__version__}"


class Training:
    """A training, one step or many in a call."""

    def __init__(self, step: Step, batch: Arrays) -> None:
        self.step, self.batch = step, batch

    def call(self) -> Any:
        return self.step(self.batch)

    def wait(self, result: Any) -> None:
        """The losses wait where they are read, and on a CPU there is nothing to wait for."""

    def numbers(self, result: Any) -> list[list[float]]:
        return [[float(loss)] for loss in result.losses]

    @property
    def arena(self) -> int:
        """Bytes of scratch memory."""
        return int(self.step.memory.arena)


def trained(name: str, params: Arrays, batch: Arrays, at_once: int, device: str = "cpu", **options: Any) -> Training:
    """A workload that is trained on a device, with more options of `compile`."""
    batch = {key: np.stack([array] * at_once) for key, array in batch.items()} if at_once > 1 else batch
    start = nn.join(MODELS[name](), params) if name in MODELS else params
    lazy = REAL[name].lazy if name in REAL else ()
    optimizer = ws.optim.adam(WORKLOADS[name].rate, B1, B2, EPS, lazy=list(lazy) or False)
    options |= {"steps_per_call": at_once, "device": device}
    options |= {"precision": "bfloat16"} if name in REAL and REAL[name].half else {}
    step = ws.compile(LOSSES[name], start, optimizer=optimizer, batch=batch, **options)
    return Training(step, batch)


class Function:
    """W5 to W7: a function of parameters and batch that keeps nothing."""

    def __init__(self, name: str, params: Arrays, batch: Arrays, **options: Any) -> None:
        self.given = params, batch
        self.run = ws.jit(FUNCTIONS[name], **options)

    def call(self) -> Any:
        return self.run(*self.given)

    def wait(self, result: Any) -> None:
        """On a CPU there is nothing to wait for."""

    def numbers(self, result: Any) -> list[list[float]]:
        return [digest(np.asarray(leaf) for leaf in tree.flatten(result)[0])]


def second(params: Any, batch: Any) -> Any:
    """W7: the derivative of the gradient along a direction."""
    along = {name: batch[f"v_{name}"] for name in params}
    return ws.hvp(lambda p: mlp(p, batch), (params,), (along,))


def scored(model: Any, batch: Any) -> Any:
    """The loss of the models of `wholestep train`, which bring their layers along."""
    return nn.cross_entropy(model(batch["x"]), batch["y"])


MODELS: dict[str, Callable[[], Any]] = {
    "digits": lambda: digits.DigitReader(channels=CHANNELS, key=ws.random.key(0)).eval(),
    "text": lambda: text.Writer(SIGNS, WIDTH, LAYERS, HEADS, key=ws.random.key(0)),
}
ON = WholestepOperations()
LOSSES: dict[str, Callable[..., Any]] = {"W1": mlp, "W2": cnn, "W3": gpt, "W4": tiny, "digits": scored, "text": scored}
LOSSES |= {name: partial(real.model.loss, ON) for name, real in REAL.items() if real.trained}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "W5": ws.value_and_grad(chain),
    "W6": ws.vmap(ws.grad(mlp), in_axes=(None, 0)),
    "W7": second,
}
FUNCTIONS |= {name: real.answer(ON) for name, real in REAL.items() if not real.trained}


def job(name: str, params: Arrays, batch: Arrays, at_once: int, **options: Any) -> Training | Function:
    """The workload, ready to be called, with options of `compile` and `jit`."""
    if name in LOSSES:
        return trained(name, params, batch, at_once, **options)
    return Function(name, params, batch, **options)
