"""Steps over layers in a Python loop, each with the expected loops: the number of layers rolled in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws

D = 8


class Case(NamedTuple):
    """A loss with its parameters and batch, the number of layers in each expected loop, and options of `compile`."""

    loss: Callable[..., Any]
    params: Any
    batch: Any
    rolled: list[int]
    options: dict[str, Any]


def some(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def layers(n: int, width: int = D) -> Any:
    return [{"w": some(width, width, seed=i), "b": some(width, seed=i)} for i in range(n)]


def perceptron(params: Any, batch: Any) -> Any:
    h = batch[0]
    for layer in params:
        h = np.tanh(h @ layer["w"] + layer["b"])
    return np.mean((h - batch[1]) ** 2)


X, Y = some(4, D, seed=1), some(4, D, seed=2)


def plain(**options: Any) -> Case:
    return Case(perceptron, layers(6), (X, Y), [5, 5], options)


def clipped() -> Case:
    return plain(optimizer=ws.optim.chain(ws.optim.clip_by_global_norm(0.1), ws.optim.adamw(1e-2)))


def named() -> Case:
    """Parameters by name, sorted so that w10 comes before w2."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for i in range(12):
            h = np.tanh(h @ p[f"w{i}"] + p[f"b{i}"])
        return np.mean((h - batch[1]) ** 2)

    params = {f"{key}{i}": x for i, layer in enumerate(layers(12)) for key, x in layer.items()}
    return Case(loss, params, (X, Y), [11, 11], {})


def tied() -> Case:
    """The same weights in each layer, whose gradients add up from layer to layer."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for layer in p["layers"]:
            h = np.tanh(h @ p["w"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, {"layers": [{"b": layer["b"]} for layer in layers(6)], "w": some(D, D)}, (X, Y), [4, 4], {})


def crossed() -> Case:
    """Two carried values; the last layer computes one of them from its own result instead of the one before."""

    def loss(p: Any, batch: Any) -> Any:
        h, side = batch[0], np.sin(batch[0])
        for i in range(6):
            inner = h.T @ h
            new = np.tanh(side) @ (np.cos(inner) @ inner)
            side = np.exp(np.sin(new if i == 5 else h))
            h = new
        return p["scale"] * np.mean(np.tanh(side) ** 2)

    return Case(loss, {"scale": np.float32(1.0)}, (0.3 * X, Y), [5], {})


def dropped() -> Case:
    """A key of its own for each layer, by its number."""

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        h = batch[0]
        for i, layer in enumerate(p):
            h = ws.nn.dropout(np.tanh(h @ layer["w"] + layer["b"]), 0.2, key=ws.random.fold_in(key, i))
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(6), (X, Y), [5, 5], {})


def split() -> Case:
    """Keys that are rows of one array."""

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        h = batch[0]
        for layer, own in zip(p, ws.random.split(key, len(p)), strict=True):
            h = ws.nn.dropout(np.tanh(h @ layer["w"] + layer["b"]), 0.2, key=own)
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(6), (X, Y), [5, 5], {})


def unlike() -> Case:
    """One layer in the middle has another activation."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for i, layer in enumerate(p):
            h = np.sin(h @ layer["w"] + layer["b"]) if i == 5 else np.tanh(h @ layer["w"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(11), (X, Y), [4, 4, 4, 4], {})


def checkpointed() -> Case:
    def layer(own: Any, h: Any) -> Any:
        return np.tanh(h @ own["w"] + own["b"])

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for own in p:
            h = ws.checkpoint(layer)(own, h)
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(6), (X, Y), [5, 5], {})


def captured() -> Case:
    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for layer in p:
            h = ws.capture("h", np.tanh(h @ layer["w"] + layer["b"]))
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(6), (X, Y), [5, 5], {"captures": ("h",)})


def recurrent() -> Case:
    """Steps in time, each on its part of the data, with the same weights."""

    def loss(p: Any, batch: Any) -> Any:
        h = np.zeros((4, D), np.float32)
        for t in range(10):
            h = np.tanh(batch[0][:, t] @ p["u"] + h @ p["w"] + p["b"])
        return np.mean((h - batch[1]) ** 2)

    params = {"u": some(D, D), "w": some(D, D, seed=3), "b": some(D)}
    return Case(loss, params, (some(4, 10, D), Y), [8, 8], {})


def there_and_back() -> Case:
    """The second half of the layers adds the saved values of the first half, the last first."""

    def loss(p: Any, batch: Any) -> Any:
        h, saved = batch[0], []
        for layer in p[:6]:
            h = np.tanh(h @ layer["w"] + layer["b"])
            saved.append(h)
        for layer, s in zip(p[6:], reversed(saved), strict=True):
            h = np.tanh((h + s) @ layer["w"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(12), (X, Y), [5, 5, 5, 5], {})


def far() -> Case:
    """Each layer reads the result of the one before the last: more than a loop carries."""

    def loss(p: Any, batch: Any) -> Any:
        older, h = batch
        for layer in p:
            older, h = h, np.tanh(h @ layer["w"] + layer["b"]) + older
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(8), (X, Y), [], {})


def looked_up() -> Case:
    """Layers that may fail: an index may be out of range."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for layer in p:
            h = np.tanh(np.take_along_axis(h, batch[2], 1) @ layer["w"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    index = np.random.default_rng(0).integers(0, D, (4, D))
    return Case(loss, layers(6), (X, Y, index), [5, 5], {})


def turned() -> Case:
    """The same operations on the same line, along another axis in some of the layers."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for i, layer in enumerate(p):
            h = np.tanh(np.flip(h, axis=int(i in (2, 3, 7))) @ layer["w"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(8), (X, Y), [], {})


def begun() -> Case:
    """The first layer has the same operations on other operands."""

    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for i, layer in enumerate(p):
            a = np.sin(h @ layer["w"] + layer["b"])
            h = a * (a if i == 0 else h)
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, layers(7), (X, Y), [6], {"optimizer": None})


M = (np.eye(3) * 2 + some(3, 3)).astype(np.float32)


def diagonals() -> Case:
    """A matrix made from a carry, plus one that is the same in each trip; the backward pass computes it again."""

    def loss(p: Any, batch: Any) -> Any:
        w = np.zeros(3, np.float32)
        for _ in range(6):
            w = np.tanh((p + np.diag(w)) @ w + batch)
        return np.sum(w**3)

    return Case(loss, M, np.ones(3, np.float32), [4, 4], {})


def newton() -> Case:
    """A product that is the same in each round, of a matrix and its transpose."""

    def loss(p: Any, batch: Any) -> Any:
        w = np.zeros(3, np.float32)
        for _ in range(6):
            h = p.T @ p * np.tanh(np.sum(w)) + 9 * np.eye(3, dtype=np.float32)
            w = w - np.linalg.solve(h, p.T @ (p @ w) + batch)
        return np.sum(w**3)

    return Case(loss, M, np.ones(3, np.float32), [4, 4], {})


def inverses() -> Case:
    def loss(p: Any, batch: Any) -> Any:
        w = np.zeros(3, np.float32)
        for _ in range(6):
            w = np.tanh(np.linalg.inv(p + np.diag(w)) @ w + batch)
        return np.sum(w**3)

    return Case(loss, M, np.ones(3, np.float32), [4, 4], {})


def determinants() -> Case:
    def loss(p: Any, batch: Any) -> Any:
        w = np.zeros(3, np.float32)
        for _ in range(6):
            w = np.tanh(np.linalg.det(p + np.diag(w)) * w * 0.1 + 0.1 * batch)
        return np.sum(w**3)

    return Case(loss, M, np.ones(3, np.float32), [4, 4], {})


def transformer() -> Case:
    blocks = [ws.nn.TransformerBlock(D, 2, key=i) for i in range(5)]

    def loss(model: Any, batch: Any) -> Any:
        h = batch[0]
        for block in model:
            h = block(h)
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, blocks, (some(2, 4, D), some(2, 4, D, seed=4)), [4, 4], {})


def normalised() -> Case:
    """Layers with buffers, which are carried along."""
    model = [ws.nn.Sequential(ws.nn.Linear(D, D, key=i), ws.nn.BatchNorm(D)) for i in range(6)]

    def loss(model: Any, batch: Any) -> Any:
        h = batch[0]
        for layer in model:
            h = np.tanh(layer(h))
        return np.mean((h - batch[1]) ** 2)

    return Case(loss, model, (X, Y), [5, 5], {})


CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f
    for f in (
        plain, clipped, named, tied, crossed, dropped, split, unlike, checkpointed, captured, recurrent, there_and_back,
        far, looked_up, turned, begun, transformer, normalised, diagonals, newton, inverses, determinants,
    )
}  # fmt: skip


def compiled(case: Case, roll: Any, **options: Any) -> Any:
    """A step of a case."""
    given = {"optimizer": ws.optim.adam(1e-2), **case.options, **options}
    return ws.compile(case.loss, case.params, batch=case.batch, roll=roll, **given)
