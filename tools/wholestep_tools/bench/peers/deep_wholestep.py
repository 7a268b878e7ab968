"""The deep GPT in Wholestep: as it is, inside a budget, with `ws.checkpoint` around each layer, and as a stack."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.ir.graph import NDArray
from wholestep_tools.bench.deep import HEADS, MODES, RATE
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.models import cross_entropy, layer_norm
from wholestep_tools.bench.peers.wholestep import VERSION, Training
from wholestep_tools.bench.spec import B1, B2, EPS

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
        x = x + attention(layer_norm(x, own["gain_a"], own["bias_a"]), own["qkv"], own["proj"])
        return x + nn.gelu(layer_norm(x, own["gain_f"], own["bias_f"]) @ own["up"], "tanh") @ own["down"]


def attention(x: Any, qkv: Any, proj: Any) -> Any:
    """Causal self-attention over [batch, time, width], by the library's function as in the other peers."""
    n, time, width = x.shape
    q, k, v = (x @ qkv).reshape(n, time, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    mixed = nn.scaled_dot_product_attention(q, k, v, causal=True)
    return mixed.transpose(0, 2, 1, 3).reshape(n, time, width) @ proj


def plain(layers: Any, x: Any) -> Any:
    """One layer after another, or the stack of them."""
    for layer in [layers] if isinstance(layers, nn.Stack) else layers:
        x = layer(x)
    return x


def remade(layers: Any, x: Any) -> Any:
    """Layers whose insides are computed again on the way back."""
    for layer in layers:
        x = ws.checkpoint(lambda layer, x: layer(x))(layer, x)
    return x


WAYS = {**dict.fromkeys(MODES["wholestep"], plain), "checkpoint": remade}


def model(mode: str, params: Arrays, layers: int) -> dict[str, Any]:
    """The arrays as a tree, each once; the layers in a list, or in a stack with the `keep` of the mode."""
    own = {f"{name}{i}" for name in NAMES for i in range(layers)}
    rest = {name: x for name, x in params.items() if name not in own}
    found = [Layer(params, i) for i in range(layers)]
    how, _, keep = mode.partition(", ")
    return {**rest, "layers": nn.Stack.from_layers(found).keeping(keep) if how == "stack" else found}


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    through = WAYS[mode]

    def loss(p: Any, batch: Any) -> Any:
        x = through(p["layers"], p["wte"][batch["x"]] + p["wpe"])
        return cross_entropy(layer_norm(x, p["gain"], p["bias"]) @ p["head"], batch["y"])

    optimizer = ws.optim.adam(RATE, B1, B2, EPS)
    budget: Any = BUDGETS.get(mode)
    start = model(mode, params, layers)
    return Training(ws.compile(loss, start, optimizer=optimizer, batch=batch, memory_budget=budget), batch)


def warm() -> None:
    """Run a small step, so that the library's own memory is allocated."""
    x: NDArray = np.ones((64, 64), np.float32)
    ws.compile(lambda w, x: np.mean(np.tanh(x @ w)), x, optimizer=ws.optim.adam(RATE), batch=x)(x)
