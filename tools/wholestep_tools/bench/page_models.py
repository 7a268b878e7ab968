"""The models of `wholestep bench pages`: tensorgrad's perceptron, network for digits and transformer, as steps of ours.

Parameters have tensorgrad's names and shapes, so that both libraries start from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn, optim

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
WIDTH, HEADS, LAYERS, LETTERS, LENGTH = 64, 4, 3, 12, 8


class PageModel(NamedTuple):
    """A model: its initial parameters, one batch, its loss and optimizer, and its target: the ratio of tensorgrad's
    time for a step to Wholestep's."""

    params: Arrays
    batch: Arrays
    loss: Callable[[Any, Any], Any]
    optimizer: Any
    asked: float

    def step(self) -> Any:
        """The compiled step."""
        return ws.compile(self.loss, dict(self.params), optimizer=self.optimizer, batch=dict(self.batch))


def drawn(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Parameters of these shapes: vectors of zeros, and matrices whose results are as large as their operands."""
    found = {}
    for name, shape in shapes.items():
        terms = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        found[name] = (rng.normal(size=shape) / np.sqrt(terms) if len(shape) > 1 else np.zeros(shape)).astype(
            np.float32
        )
    return found


def affine(params: Any, name: str, x: Any) -> Any:
    """A layer of a matrix and a vector."""
    return x @ params[f"{name}.W"] + params[f"{name}.b"]


def squares(params: Any, batch: Any) -> Any:
    """The loss of the perceptron."""
    hidden = nn.relu(affine(params, "l1", batch["x"]))
    return np.mean((affine(params, "l3", nn.relu(affine(params, "l2", hidden))) - batch["y"]) ** 2)


def perceptron() -> PageModel:
    """The perceptron 1-64-64-1, which fits a sine."""
    rng = np.random.default_rng(0)
    sizes = {"l1": (1, 64), "l2": (64, 64), "l3": (64, 1)}
    shapes = {f"{k}.{part}": x for k, v in sizes.items() for part, x in (("W", v), ("b", v[1:]))}
    x = rng.uniform(-np.pi, np.pi, (256, 1)).astype(np.float32)
    return PageModel(drawn(rng, shapes), {"x": x, "y": np.sin(x)}, squares, optim.adam(0.005), 5.0)


def image_loss(params: Any, batch: Any) -> Any:
    """The loss of the network for digits."""
    x = batch["x"]
    for name in ("conv1", "conv2"):
        made = nn.conv2d(x, params[f"{name}.W"], params[f"{name}.b"], padding=1)
        x = nn.max_pool2d(nn.relu(made), 2)
    hidden = nn.relu(affine(params, "fc1", x.reshape(len(x), -1)))
    return nn.cross_entropy(affine(params, "fc2", hidden), batch["y"])


def image_network() -> PageModel:
    """The network of two convolutions for images of 28 x 28 points."""
    rng = np.random.default_rng(0)
    shapes = {"conv1.W": (16, 1, 3, 3), "conv1.b": (16,), "conv2.W": (32, 16, 3, 3), "conv2.b": (32,)}
    shapes |= {"fc1.W": (32 * 7 * 7, 64), "fc1.b": (64,), "fc2.W": (64, 10), "fc2.b": (10,)}
    batch = {"x": rng.random((64, 1, 28, 28), np.float32), "y": rng.integers(0, 10, 64).astype(np.int32)}
    return PageModel(drawn(rng, shapes), batch, image_loss, clipped(), 3.0)


def clipped() -> Any:
    """AdamW of clipped gradients; weight decay applies to the same parameters as tensorgrad's, not to the gains of
    norms."""
    decay = optim.adamw(1e-3, decay=lambda path: ".ln" not in path and "lnf" not in path)
    return optim.chain(optim.clip_by_global_norm(1.0), decay)


def norm(params: Any, name: str, x: Any) -> Any:
    """A layer that normalizes rows."""
    return nn.layer_norm(x, params[f"{name}.g"], params[f"{name}.b"])


def text_loss(params: Any, batch: Any) -> Any:
    """The loss of the transformer, of the letters that a mask names."""
    tokens = batch["tokens"]
    x = params["tok_emb"][tokens] + params["pos_emb"][:LENGTH]
    for i in range(LAYERS):
        at = f"layers.{i}"
        x = x + attended(params, at, norm(params, f"{at}.ln1", x))
        up = nn.relu(affine(params, f"{at}.mlp.up", norm(params, f"{at}.ln2", x)))
        x = x + affine(params, f"{at}.mlp.down", up)
    scores = norm(params, "lnf", x) @ params["tok_emb"].T
    return np.mean(nn.cross_entropy(scores, batch["targets"], reduction="none"))


def attended(params: Any, at: str, x: Any) -> Any:
    """The attention of one layer."""
    q, k, v = (
        np.swapaxes((x @ params[f"{at}.attn.{name}.W"]).reshape(len(x), LENGTH, HEADS, -1), 1, 2) for name in "qkv"
    )
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(1 / np.sqrt(WIDTH // HEADS))
    weights = nn.softmax(np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), scores, -1e9))
    return np.swapaxes(weights @ v, 1, 2).reshape(len(x), LENGTH, WIDTH) @ params[f"{at}.attn.o.W"]


def transformer() -> PageModel:
    """The transformer of three layers, which reads eight letters at a time."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"tok_emb": (LETTERS, WIDTH), "pos_emb": (LENGTH + 1, WIDTH)}
    for at in [f"layers.{i}" for i in range(LAYERS)]:
        shapes |= {f"{at}.attn.{name}.W": (WIDTH, WIDTH) for name in "qkvo"}
        for name, (rows, columns) in {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}.items():
            shapes |= {f"{at}.mlp.{name}.W": (rows, columns), f"{at}.mlp.{name}.b": (columns,)}
    params = drawn(rng, shapes)
    for name in ["lnf", *[f"layers.{i}.ln{n}" for i in range(LAYERS) for n in (1, 2)]]:
        params |= {f"{name}.g": np.ones(WIDTH, np.float32), f"{name}.b": np.zeros(WIDTH, np.float32)}
    batch = {name: rng.integers(0, LETTERS, (128, LENGTH)).astype(np.int32) for name in ("tokens", "targets")}
    return PageModel(params, batch, text_loss, clipped(), 2.0)


MODELS: Mapping[str, Callable[[], PageModel]] = {
    "mlp": perceptron,
    "cnn": image_network,
    "transformer": transformer,
}
