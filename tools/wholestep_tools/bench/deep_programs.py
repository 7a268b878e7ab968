"""Deep programs, written once for NumPy's names in any library: a GPT by its layers, Python loops by their rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wholestep_tools.bench.draws import Arrays, labels, normal

WIDTH, HEADS, TIME, VOCABULARY, SEQUENCES = 64, 4, 64, 128, 4
"""The sizes of the GPT: small, so that the compiler is measured."""
HIDDEN = 64
LAYERS = (6, 12, 24, 48, 96, 200)
ROUNDS = (125, 250, 500)


class Program(NamedTuple):
    """A program that is as deep as one likes; its loss takes NumPy's functions, parameters, a batch and the depth."""

    title: str
    draw: Callable[[np.random.Generator, int], tuple[Arrays, Arrays]]
    loss: Callable[[Any, Any, Any, int], Any]
    depths: tuple[int, ...] = ROUNDS
    written_out: int = ROUNDS[-1]
    """The deepest that is measured where every layer or round is compiled by itself, which takes minutes beyond."""


def draw_gpt(rng: np.random.Generator, layers: int) -> tuple[Arrays, Arrays]:
    """Parameters of all layers by name, and a batch of texts."""
    params = {"wte": normal(rng, (VOCABULARY, WIDTH), 0.02), "wpe": normal(rng, (TIME, WIDTH), 0.02)}
    for i in range(layers):
        for norm in ("a", "f"):
            params |= {f"gain_{norm}{i}": np.ones(WIDTH, np.float32), f"bias_{norm}{i}": np.zeros(WIDTH, np.float32)}
        params |= {f"qkv{i}": normal(rng, (WIDTH, 3 * WIDTH), 0.02), f"proj{i}": normal(rng, (WIDTH, WIDTH), 0.02)}
        params |= {f"up{i}": normal(rng, (WIDTH, 4 * WIDTH), 0.02), f"down{i}": normal(rng, (4 * WIDTH, WIDTH), 0.02)}
    params["head"] = normal(rng, (WIDTH, VOCABULARY), 0.02)
    return params, {key: labels(rng, VOCABULARY, (SEQUENCES, TIME)) for key in ("x", "y")}


def layer_norm(on: Any, x: Any, gain: Any, bias: Any) -> Any:
    """Zero mean and unit variance along the last axis, then a gain and a bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / on.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def gelu(on: Any, x: Any) -> Any:
    """The smooth ReLU, by the approximation with tanh."""
    return 0.5 * x * (1 + on.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def attention(on: Any, x: Any, qkv: Any, proj: Any) -> Any:
    """Causal self-attention over [batch, time, width]."""
    n, time, width = x.shape
    q, k, v = (x @ qkv).reshape(n, time, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    seen = np.tril(np.ones((time, time), bool))
    scores = on.where(seen, q @ k.swapaxes(-1, -2) * (width // HEADS) ** -0.5, -on.inf)
    weights = on.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(n, time, width) @ proj


def gpt_loss(on: Any, p: Any, batch: Any, layers: int) -> Any:
    """The cross entropy of a GPT whose layers a Python loop goes through."""
    x = p["wte"][batch["x"]] + p["wpe"]
    for i in range(layers):
        x = x + attention(on, layer_norm(on, x, p[f"gain_a{i}"], p[f"bias_a{i}"]), p[f"qkv{i}"], p[f"proj{i}"])
        x = x + gelu(on, layer_norm(on, x, p[f"gain_f{i}"], p[f"bias_f{i}"]) @ p[f"up{i}"]) @ p[f"down{i}"]
    scores = x @ p["head"]
    scores = scores - scores.max(axis=-1, keepdims=True)
    right = on.take_along_axis(scores, batch["y"][..., None], -1)[..., 0]
    return on.mean(on.log(on.exp(scores).sum(axis=-1)) - right)


def draw_recurrent(rng: np.random.Generator, rounds: int) -> tuple[Arrays, Arrays]:
    """Two matrices and as many inputs as rounds."""
    params = {name: normal(rng, (HIDDEN, HIDDEN), 0.1) for name in ("wx", "wh")}
    return params, {"x": normal(rng, (rounds, 8, HIDDEN))}


def recurrent_loss(on: Any, p: Any, batch: Any, rounds: int) -> Any:
    """A recurrent network, step by step."""
    h = on.zeros((8, HIDDEN), np.float32)
    for t in range(rounds):
        h = on.tanh(batch["x"][t] @ p["wx"] + h @ p["wh"])
    return on.mean(h * h)


def draw_field(rng: np.random.Generator, rounds: int) -> tuple[Arrays, Arrays]:
    """A vector field and starting points."""
    return {"w": normal(rng, (8, 8), 0.3), "b": normal(rng, (8,), 0.1)}, {"x": normal(rng, (16, 8))}


def runge_kutta_loss(on: Any, p: Any, batch: Any, rounds: int) -> Any:
    """The classical method of fourth order through a learned field."""

    def field(x: Any) -> Any:
        return on.tanh(x @ p["w"] + p["b"])

    x, h = batch["x"], 1.0 / rounds
    for _ in range(rounds):
        a = field(x)
        b = field(x + 0.5 * h * a)
        c = field(x + 0.5 * h * b)
        d = field(x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
    return on.mean(x * x)


def draw_transport(rng: np.random.Generator, rounds: int) -> tuple[Arrays, Arrays]:
    """A table of costs, and the weights of both sides."""
    return {"cost": normal(rng, (32, 24), 0.5)}, {
        "a": np.full(32, 1 / 32, np.float32),
        "b": np.full(24, 1 / 24, np.float32),
    }


def transport_loss(on: Any, p: Any, batch: Any, rounds: int) -> Any:
    """The cost of an entropic transport plan, by Sinkhorn's iteration."""
    kernel = on.exp(-p["cost"])
    v = on.ones(24, np.float32)
    for _ in range(rounds):
        u = batch["a"] / (kernel @ v)
        v = batch["b"] / (kernel.T @ u)
    return on.sum(u[:, None] * kernel * v * p["cost"])


def draw_filter(rng: np.random.Generator, rounds: int) -> tuple[Arrays, Arrays]:
    """A transition matrix, and as many observations as rounds."""
    params = {
        "transition": 0.9 * np.eye(4, dtype=np.float32) + normal(rng, (4, 4), 0.02),
        "noise": np.ones(4, np.float32),
    }
    return params, {"y": normal(rng, (rounds, 1))}


def filter_loss(on: Any, p: Any, batch: Any, rounds: int) -> Any:
    """The squared errors of a Kalman filter that observes the first of four numbers."""
    state, spread = on.zeros(4, np.float32), on.eye(4, dtype=np.float32)
    total = 0.0
    for t in range(rounds):
        state = p["transition"] @ state
        spread = p["transition"] @ spread @ p["transition"].T + on.diag(p["noise"])
        error = batch["y"][t, 0] - state[0]
        gain = spread[:, 0] / (spread[0, 0] + 1.0)
        state = state + gain * error
        spread = spread - gain[:, None] * spread[0]
        total = total + error * error
    return total / rounds


PROGRAMS = {
    "gpt": Program("GPT, width 64, 4 heads, 4 sequences of 64, by its layers", draw_gpt, gpt_loss, LAYERS, 48),
    "rnn": Program("recurrent network of width 64, 8 rows", draw_recurrent, recurrent_loss),
    "runge-kutta": Program(
        "Runge and Kutta's method of fourth order, 16 points of 8 numbers", draw_field, runge_kutta_loss
    ),
    "sinkhorn": Program("Sinkhorn's iteration, 32 by 24", draw_transport, transport_loss),
    "kalman": Program("Kalman filter of four numbers", draw_filter, filter_loss),
}
"""The programs by name."""
