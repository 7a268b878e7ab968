"""A network that reads handwritten digits, and one step of its training: ordinary NumPy, differentiated."""

from typing import Any

import numpy as np

import wholestep as ws

Params = dict[str, np.ndarray]


def init(key: np.ndarray) -> Params:
    params = {}
    for i, (m, n) in enumerate([(64, 256), (256, 128), (128, 10)]):
        params[f"w{i}"] = ws.random.normal(ws.random.fold_in(key, i), (m, n), np.float32) * (2 / m) ** 0.5
        params[f"b{i}"] = np.zeros(n, np.float32)
    return params


def scores(params: Params, x: np.ndarray) -> Any:
    for i in range(2):
        x = np.maximum(x @ params[f"w{i}"] + params[f"b{i}"], 0)
    return x @ params["w2"] + params["b2"]


def loss(params: Params, x: np.ndarray, labels: np.ndarray, key: np.ndarray) -> Any:
    z = scores(params, x + 0.2 * ws.random.normal(key, x.shape, np.float32))
    z = z - z.max(axis=1, keepdims=True)
    return np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(labels)), labels])


def step(params: Params, state: Params, t: int, rate: float, *batch: np.ndarray) -> float:
    value, grads = ws.value_and_grad(loss)(params, *batch)
    for name, g in grads.items():  # Adam, written out
        m, v = state.setdefault("m" + name, np.zeros_like(g)), state.setdefault("v" + name, np.zeros_like(g))
        m += 0.1 * (g - m)
        v += 0.001 * (g * g - v)
        params[name] -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return float(value)
