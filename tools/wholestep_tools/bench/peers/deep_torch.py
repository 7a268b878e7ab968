"""The deep GPT in eager PyTorch, as it is and with `torch.utils.checkpoint` around each layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from wholestep_tools.bench.deep import HEADS, RATE
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers.torch import VERSION, Training, block, gpt, tensors

__all__ = ["VERSION", "job", "warm"]


def remade(p: Any, i: int, x: Any) -> Any:
    """A layer whose inside is computed again on the way back."""
    return checkpoint(block, p, i, x, HEADS, use_reentrant=False)


LAYERS = {"plain": partial(block, heads=HEADS), "checkpoint": remade}


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    loss = partial(gpt, layers=layers, layer=LAYERS[mode])
    return Training(loss, RATE, tensors("deep", params), tensors("deep", batch))


def warm() -> None:
    """Run a small gradient, so that the library's own memory is allocated."""
    x = torch.ones(64, 64, requires_grad=True)
    torch.tanh(x @ x).sum().backward()
