"""The deep GPT in Wholestep: as it is, inside a budget, and with `ws.checkpoint` around each layer."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli.bench.deep import HEADS, RATE
from wholestep.cli.bench.models import attention, cross_entropy, gelu, layer_norm
from wholestep.cli.bench.peers.wholestep import VERSION
from wholestep.cli.bench.spec import B1, B2, EPS, Arrays
from wholestep.ir.graph import NDArray

__all__ = ["VERSION", "job", "warm"]

BUDGETS = {"budget 50%": "50%", "budget 25%": "25%"}
NAMES = ("gain_a", "bias_a", "qkv", "proj", "gain_f", "bias_f", "up", "down")


class Layer(nn.Module):
    """Attention and a dense net, each with a norm and a way around."""

    def __init__(self, params: Arrays, i: int) -> None:
        for name in NAMES:
            setattr(self, name, params[f"{name}{i}"])

    def __call__(self, x: Any) -> Any:
        own = {name: getattr(self, name) for name in NAMES}
        x = x + attention(layer_norm(x, own["gain_a"], own["bias_a"]), own["qkv"], own["proj"], HEADS)
        return x + gelu(layer_norm(x, own["gain_f"], own["bias_f"]) @ own["up"]) @ own["down"]


def plain(layers: Any, x: Any) -> Any:
    """One layer after another."""
    for layer in layers:
        x = layer(x)
    return x


def remade(layers: Any, x: Any) -> Any:
    """Layers whose insides are computed again on the way back."""
    for layer in layers:
        x = ws.checkpoint(lambda layer, x: layer(x))(layer, x)
    return x


WAYS = {"plain": plain, "budget 50%": plain, "budget 25%": plain, "checkpoint": remade}


def model(params: Arrays, layers: int) -> dict[str, Any]:
    """The arrays as a tree, each once."""
    own = {f"{name}{i}" for name in NAMES for i in range(layers)}
    rest = {name: x for name, x in params.items() if name not in own}
    return {**rest, "layers": [Layer(params, i) for i in range(layers)]}


class Training:
    """Forward, backward and Adam."""

    def __init__(self, mode: str, layers: int, params: Arrays, batch: Arrays) -> None:
        through = WAYS[mode]

        def loss(p: Any, batch: Any) -> Any:
            x = through(p["layers"], p["wte"][batch["x"]] + p["wpe"])
            return cross_entropy(layer_norm(x, p["gain"], p["bias"]) @ p["head"], batch["y"])

        optimizer = ws.optim.adam(RATE, B1, B2, EPS)
        budget: Any = BUDGETS.get(mode)
        start = model(params, layers)
        self.batch = batch
        self.step = ws.compile(loss, start, optimizer=optimizer, batch=batch, memory_budget=budget)

    def call(self) -> Any:
        return self.step(self.batch)

    def wait(self, result: Any) -> None:
        """On a CPU there is nothing to wait for."""

    def numbers(self, result: Any) -> list[list[float]]:
        return [[float(result.loss)]]

    @property
    def arena(self) -> int:
        """Bytes of scratch memory."""
        return int(self.step.memory.arena)


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    return Training(mode, layers, params, batch)


def warm() -> None:
    """Do a little of everything, so that what the library takes for itself is there."""
    x: NDArray = np.ones((64, 64), np.float32)
    ws.compile(lambda w, x: np.mean(np.tanh(x @ w)), x, optimizer=ws.optim.adam(RATE), batch=x)(x)
