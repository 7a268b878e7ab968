"""The steps that are handed over to each target: workloads of the bench, small networks, and one for each optimizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn, optim
from wholestep.cli import digits, text
from wholestep_tools.audit.trainings import small_steps
from wholestep_tools.bench import models, spec
from wholestep_tools.bench.peers import wholestep as workloads

Made = tuple[Any, Any]
"""A compiled step, and a batch for it."""
SAMPLES = 8
"""Samples of W1 whose gradients are taken one by one."""
SEQUENCES = 2
"""Texts of W3, of its eight: libraries that run operation by operation take seconds for each step of all."""
PENALTY = 0.01


def workload(name: str) -> Made:
    """A training of the bench, with its parameters and its batch."""
    params, batch = spec.WORKLOADS[name].data()
    batch = {key: x[:SEQUENCES] for key, x in batch.items()} if name == "W3" else batch
    training = workloads.trained(name, params, batch, 1)
    return training.step, batch


def gradients_of_samples() -> Made:
    """W1 with the per-sample gradients of W6 in its loss: their squared norms are a penalty."""
    params, batch = spec.WORKLOADS["W6"].data()
    batch = {name: x[:SAMPLES] for name, x in batch.items()}

    def loss(p: Any, batch: Any) -> Any:
        each = ws.vmap(ws.grad(models.mlp), in_axes=(None, 0))(p, batch)
        lengths = sum([np.sum(g * g) for g in ws.tree.leaves(each)])
        return models.mlp(p, batch) + PENALTY * lengths / SAMPLES

    return ws.compile(loss, params, optimizer=optim.adam(1e-4), batch=batch), batch


def reader() -> Made:
    """`wholestep train digits`, fewer channels: images moved at random, clipping, a schedule."""
    rng = np.random.default_rng(0)
    batch = (rng.random((16, 64), np.float32), rng.integers(0, 10, 16).astype(np.int32))
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(optim.cosine(1e-3, 40)))
    model = digits.DigitReader(channels=8, key=ws.random.key(0))
    return ws.compile(digits.digits_loss, model, optimizer=optimizer, batch=batch), batch


def writer() -> Made:
    """`wholestep train text`, two narrow layers."""
    batch = np.random.default_rng(0).integers(0, 96, (4, 33)).astype(np.int32)
    model = text.Writer(96, 32, 2, 4, key=ws.random.key(0))
    return ws.compile(text.text_loss, model, optimizer=optim.adamw(3e-4), batch=batch), batch


class Residual(nn.Module):
    """Two convolutions with statistics of the batch, and a way around them."""

    def __init__(self, channels: int, *, key: Any) -> None:
        keys = ws.random.split(key, 2)
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False, key=keys[0])
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False, key=keys[1])
        self.norms = [nn.BatchNorm(channels), nn.BatchNorm(channels)]

    def __call__(self, x: Any) -> Any:
        h = nn.relu(self.norms[0](self.first(x)))
        return nn.relu(x + self.norms[1](self.second(h)))


class ResNet(nn.Module):
    """Three residual blocks between a convolution and a mean over all places."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, key=0)
        self.blocks = [Residual(8, key=ws.random.key(k)) for k in range(3)]
        self.head = nn.Linear(8, 5, key=1)

    def __call__(self, x: Any) -> Any:
        h = nn.relu(self.stem(x))
        for block in self.blocks:
            h = block(h)
        return self.head(np.mean(h, axis=(2, 3)))


def scored(model: Any, batch: Any) -> Any:
    """The cross-entropy of a model's scores."""
    return nn.cross_entropy(model(batch["x"]), batch["y"])


def residual() -> Made:
    """A small ResNet with momentum."""
    rng = np.random.default_rng(5)
    batch = {"x": rng.normal(size=(8, 3, 12, 12)).astype(np.float32), "y": rng.integers(0, 5, 8)}
    return ws.compile(scored, ResNet(), optimizer=optim.sgd(0.02, momentum=0.9), batch=batch), batch


def variational() -> Made:
    """A variational autoencoder: noise from the key in the middle of the network."""
    rng = np.random.default_rng(6)
    sizes = {"up": (12, 16), "mean": (16, 3), "spread": (16, 3), "down": (3, 16), "out": (16, 12)}
    params = {name: (rng.normal(size=shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in sizes.items()}
    batch = rng.random((10, 12), np.float32)

    def loss(p: Any, x: Any, *, key: Any) -> Any:
        h = np.tanh(x @ p["up"])
        mean, spread = h @ p["mean"], h @ p["spread"]
        z = mean + np.exp(spread / 2) * ws.random.normal(key, mean.shape, np.float32)
        seen = np.sum((np.tanh(z @ p["down"]) @ p["out"] - x) ** 2, axis=1)
        return np.mean(seen - 0.5 * np.sum(1 + spread - mean**2 - np.exp(spread), axis=1))

    return ws.compile(loss, params, optimizer=optim.adam(1e-3), batch=batch), batch


def branches() -> Made:
    """A sort, a branch, a loop and a running sum, and complex numbers among the parameters."""
    rng = np.random.default_rng(7)
    params = {"w": (rng.normal(size=(6, 6)) / 3).astype(np.float32), "z": np.full(4, 1 + 2j, np.complex64)}
    batch = rng.normal(size=(5, 6)).astype(np.float32)

    def loss(p: Any, x: Any) -> Any:
        h = ws.fori_loop(0, 3, lambda i, h: np.tanh(h @ p["w"]) + h / 2, x)
        h = ws.cond(np.sum(h) > 0, lambda h: np.sort(h, axis=1), lambda h: np.cumsum(h, axis=1), h)
        return np.mean(h**2) + np.mean(np.abs(np.exp(1j * p["z"]) - 0.1) ** 2).astype(np.float32)

    return ws.compile(loss, params, optimizer=optim.adam(1e-2), batch=batch), batch


def square() -> Made:
    """Square weights under dropout, by SOAP, which rotates gradients into eigenvectors of their products.

    Eigenvectors differ between libraries where eigenvalues are equal, as those of a gradient of lower rank are, and a
    rounding error along an eigenvector orthogonal to the gradient is divided by its own size. So all gradients have
    full rank, and no gradient equals the one that its eigenvectors were computed from, as the first one would without
    dropout.
    """
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in ("w", "v")}
    batch = {name: rng.normal(size=(32, 4)).astype(np.float32) for name in ("x", "y")}

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        h = np.tanh(batch["x"] @ p["w"])
        return nn.mse(h * (ws.random.uniform(key, h.shape) < 0.8) @ p["v"], batch["y"])

    return ws.compile(loss, params, optimizer=optim.soap(0.01), batch=batch), batch


def whole_data() -> Made:
    """W4 by L-BFGS, which wants the same loss at each call."""
    params, batch = spec.WORKLOADS["W4"].data()
    return ws.compile(models.tiny, params, optimizer=optim.lbfgs(0.1, 3, line_search=None), batch=batch), batch


def several_at_once() -> Made:
    """Three steps a call, each on rows of its own."""
    rng = np.random.default_rng(8)
    params, _ = spec.WORKLOADS["W4"].data()
    batch = {"x": rng.normal(size=(3, 8, 2)).astype(np.float32), "y": rng.normal(size=(3, 8, 1)).astype(np.float32)}
    return ws.compile(models.tiny, params, optimizer=optim.adam(1e-3), batch=batch, steps_per_call=3), batch


NETWORKS: dict[str, Callable[[], Made]] = {
    **{name: partial(workload, name) for name in ("W1", "W2", "W3", "W4")},
    "W6": gradients_of_samples,
    "digits": reader,
    "text": writer,
    "ResNet": residual,
    "LSTM": small_steps.rows,
    "dropout": small_steps.dense,
    "batch norm": small_steps.images,
    "transformer": small_steps.tokens,
    "VAE": variational,
    "branches": branches,
    "three steps a call": several_at_once,
    "lbfgs": whole_data,
    "soap": square,
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    **small_steps.OPTIMIZERS,
    "amsgrad": lambda: optim.adam(0.01, amsgrad=True),
    "adamw": lambda: optim.adamw(optim.one_cycle(0.01, 30)),
    "nadam": lambda: optim.nadam(0.01),
    "radam": lambda: optim.radam(0.01),
    "rmsprop": lambda: optim.rmsprop(0.01, momentum=0.9, centered=True),
    "adadelta": lambda: optim.adadelta(),
    "lion": lambda: optim.lion(0.001, weight_decay=0.1),
    "adabelief": lambda: optim.adabelief(0.01, eps=1e-4, weight_decay=0.1),
    "yogi": lambda: optim.yogi(0.01),
    "adan": lambda: optim.adan(0.01, weight_decay=0.1),
    "adopt": lambda: optim.adopt(0.01, weight_decay=0.1),
    "madgrad": lambda: optim.madgrad(0.01, weight_decay=0.1),
    "dog": lambda: optim.dog(first=0.01, weight_decay=0.1),
    "fromage": lambda: optim.fromage(0.01),
    "signum": lambda: optim.signum(0.001, weight_decay=0.1),
    "shampoo": lambda: optim.shampoo(0.01),
    "lars": lambda: optim.lars(0.1, trust=0.1, weight_decay=0.1),
    "novograd": lambda: optim.novograd(0.01, weight_decay=0.1),
    "rprop": lambda: optim.rprop(0.001),
    "sam": lambda: optim.sam(optim.sgd(0.1), 0.05),
    "ema": lambda: optim.ema(optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.01))),
    "conditioned": lambda: optim.chain(
        optim.zero_nans(), optim.centralize(), optim.adaptive_clip(0.5), optim.add_decayed_weights(0.1), optim.sgd(0.1)
    ),
    "plateau": lambda: optim.plateau(optim.adam(0.01), 0.5, 3),
}


def by_optimizer(name: str) -> Made:
    """A perceptron with dropout, trained by an optimizer."""
    return small_steps.dense(OPTIMIZERS[name]())


STEPS: dict[str, Callable[[], Made]] = NETWORKS | {name: partial(by_optimizer, name) for name in OPTIMIZERS}
"""All of them by name."""
