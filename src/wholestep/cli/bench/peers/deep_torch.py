"""The deep GPT in eager PyTorch, as it is and with `torch.utils.checkpoint` around each layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from wholestep.cli.bench.deep import HEADS, RATE
from wholestep.cli.bench.peers.torch import VERSION, block, gpt, tensors
from wholestep.cli.bench.spec import B1, B2, EPS, Arrays

__all__ = ["VERSION", "job", "warm"]


def remade(p: Any, i: int, x: Any) -> Any:
    """A layer whose inside is computed again on the way back."""
    return checkpoint(block, p, i, x, HEADS, use_reentrant=False)


LAYERS = {"plain": partial(block, heads=HEADS), "checkpoint": remade}


class Training:
    """Forward, backward and Adam."""

    def __init__(self, mode: str, layers: int, params: Arrays, batch: Arrays) -> None:
        self.params, self.batch = tensors("deep", params), tensors("deep", batch)
        leaves = [tensor.requires_grad_() for tensor in self.params.values()]
        self.optimizer = torch.optim.Adam(leaves, RATE, (B1, B2), EPS, fused=True)
        self.layers, self.layer = layers, LAYERS[mode]

    def call(self) -> Any:
        self.optimizer.zero_grad()
        value = gpt(self.params, self.batch, self.layers, self.layer)
        value.backward()
        self.optimizer.step()
        return value.detach()

    def wait(self, value: Any) -> None:
        """Eager PyTorch on a CPU is done when it returns."""

    def numbers(self, value: Any) -> list[list[float]]:
        return [[float(value)]]


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    return Training(mode, layers, params, batch)


def warm() -> None:
    """Do a little of everything, so that what the library takes for itself is there."""
    x = torch.ones(64, 64, requires_grad=True)
    torch.tanh(x @ x).sum().backward()
