"""Steps that are exported as native programs: a few tiny ones, and those of the benches and of the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep.cli import digits, text
from wholestep.scipy import special
from wholestep_tools.bench import models, spec


def tiny() -> tuple[Any, Any]:
    """W4 with Adam."""
    params, batch = spec.WORKLOADS["W4"].data()
    return ws.compile(models.tiny, params, optimizer=ws.optim.adam(1e-3), batch=batch), batch


def mlp() -> tuple[Any, Any]:
    """W1 with Adam."""
    params, batch = spec.WORKLOADS["W1"].data()
    return ws.compile(models.mlp, params, optimizer=ws.optim.adam(1e-4), batch=batch), batch


def cnn() -> tuple[Any, Any]:
    """The network of `wholestep train digits`, with images moved at random, clipping and a schedule."""
    model = digits.DigitReader(channels=32, key=ws.random.key(0))
    rng = np.random.default_rng(0)
    batch = (rng.random((32, 64), np.float32), rng.integers(0, 10, 32).astype(np.int32))
    optimizer = ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.adamw(ws.optim.cosine(3e-3, 40)))
    return ws.compile(digits.digits_loss, model, optimizer=optimizer, batch=batch), batch


def gpt(layers: int = 2, width: int = 64, time: int = 32, rows: int = 4) -> tuple[Any, Any]:
    """The model of `wholestep train text`, small."""
    model = text.Writer(96, width, layers, 4, key=ws.random.key(0))
    batch = np.random.default_rng(0).integers(0, 96, (rows, time + 1)).astype(np.int32)
    return ws.compile(text.text_loss, model, optimizer=ws.optim.adamw(3e-4), batch=batch), batch


def rnn() -> tuple[Any, Any]:
    """A loop, dropout, a sort, and gradient accumulation over two steps."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.normal(size=shape) / 3).astype(np.float32)

    params = {"w": normal(8, 8), "u": normal(5, 8), "o": normal(8, 3)}

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(h @ p["w"] + x @ p["u"])
            return h, h

        _, hs = ws.scan(step, np.zeros((4, 8), np.float32), batch["x"])
        hs = ws.nn.dropout(hs, 0.2, key=key)
        return np.mean((hs @ p["o"] - batch["y"]) ** 2) + 1e-3 * np.mean(np.sort(hs, axis=0) ** 2)

    batch = {"x": normal(6, 4, 5), "y": normal(6, 4, 3)}
    optimizer = ws.optim.accumulate(ws.optim.adam(1e-2), 2)
    return ws.compile(loss, params, optimizer=optimizer, batch=batch), batch


def stacked() -> tuple[Any, Any]:
    """Six equal layers, whose parameters are stacked by rerolling, and complex parameters."""
    rng = np.random.default_rng(1)
    params = {f"w{i}": (rng.normal(size=(16, 16)) / 4).astype(np.float32) for i in range(6)}
    params["z"] = np.ones(3, np.complex64) * (1 + 2j)

    def loss(p: Any, x: Any) -> Any:
        for i in range(6):
            x = np.tanh(x @ p[f"w{i}"])
        return np.mean(x**2) + np.mean(np.abs(p["z"]) ** 2)

    batch = rng.normal(size=(8, 16)).astype(np.float32)
    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch, roll=True), batch


def gaussian() -> tuple[Any, Any]:
    """The likelihood of a Gaussian process by a Cholesky factor, and a normal quantile: formulas in native code."""
    x = np.linspace(0, 1, 12)
    batch = {"x": x, "y": np.sin(5 * x)}

    def loss(p: Any, batch: Any) -> Any:
        apart = batch["x"][:, None] - batch["x"]
        k = np.exp(p["size"] - 9 * apart**2) + np.exp(p["noise"]) * np.eye(12)
        factor = np.linalg.cholesky(k)
        half = special.ndtri(p["chance"]) * np.linalg.solve(factor, batch["y"])
        return np.sum(half**2) / 2 + np.sum(np.log(np.diagonal(factor)))

    params = {"size": np.float64(0.3), "noise": np.float64(-2.0), "chance": np.float64(0.8)}
    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch), batch


def table() -> tuple[Any, Any]:
    """A table of which every row is updated, and some by a gradient."""
    rng = np.random.default_rng(2)
    params = {"table": rng.normal(size=(2**16, 4)).astype(np.float32), "w": np.ones(4, np.float32)}
    batch = {"ids": np.array([7, 2**16 - 1, 7, 0, -5, 7]), "y": np.linspace(-1, 1, 6, dtype=np.float32)}

    def loss(p: Any, batch: Any) -> Any:
        return np.mean((np.tanh(p["table"][batch["ids"]]) @ p["w"] - batch["y"]) ** 2)

    return ws.compile(loss, params, optimizer=ws.optim.adamw(1e-2), batch=batch), batch


STEPS = {made.__name__: made for made in (tiny, mlp, cnn, gpt, rnn, stacked, gaussian, table)}
"""The steps by name."""
