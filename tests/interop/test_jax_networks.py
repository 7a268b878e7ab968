"""Networks written in plain JAX load, have JAX's loss and gradients, and train as steps do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree

jax = pytest.importorskip("jax", reason="JAX is what the networks are written in; not installed")
jnp, lax = jax.numpy, jax.lax

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return (RNG.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def labelled(scores: Any, y: Any) -> Any:
    """The cross-entropy of labels, as examples of JAX write it."""
    return -jnp.mean(jnp.sum(jax.nn.one_hot(y, scores.shape[-1]) * jax.nn.log_softmax(scores), axis=-1))


def perceptron() -> tuple[Any, Any, Any]:
    """784-256-128-10 for images."""

    def loss(params: Any, batch: Any) -> Any:
        h = batch["x"]
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        return labelled(h @ w + b, batch["y"])

    sizes = (784, 256, 128, 10)
    params = [(drawn(m, n), np.zeros(n, np.float32)) for m, n in pairwise(sizes)]
    return loss, params, {"x": drawn(16, 784), "y": RNG.integers(0, 10, 16).astype(np.int32)}


def convolutional() -> tuple[Any, Any, Any]:
    """Two convolutions with pooling, by `lax.conv_general_dilated` and `lax.reduce_window`."""

    def loss(params: Any, batch: Any) -> Any:
        h = batch["x"]
        for w in params["conv"]:
            h = lax.conv_general_dilated(h, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            h = lax.reduce_window(jax.nn.gelu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        h = h.reshape(h.shape[0], -1)
        mean, var = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
        return labelled((h - mean) * lax.rsqrt(var + 1e-5) @ params["head"], batch["y"])

    params = {"conv": [drawn(3, 3, 1, 4), drawn(3, 3, 4, 8)], "head": drawn(4 * 4 * 8, 10)}
    return loss, params, {"x": drawn(4, 16, 16, 1), "y": RNG.integers(0, 10, 4).astype(np.int32)}


def transformer() -> tuple[Any, Any, Any]:
    """Two blocks of causal attention over text, scanned over their stacked weights."""
    width, heads, words = 16, 2, 23

    def norm(x: Any, scale: Any) -> Any:
        return jax.nn.standardize(x, axis=-1) * scale

    def block(x: Any, p: Any) -> tuple[Any, None]:
        n, t, _ = x.shape
        q, k, v = jnp.moveaxis((norm(x, p["a"]) @ p["qkv"]).reshape(n, t, 3, heads, -1), 2, 0)
        scores = jnp.einsum("nthd,nshd->nhts", q, k) / jnp.sqrt(jnp.float32(width // heads))
        seen = jnp.tril(jnp.ones((t, t), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
        x = x + jnp.einsum("nhts,nshd->nthd", weights, v).reshape(n, t, width) @ p["out"]
        return x + jax.nn.silu(norm(x, p["b"]) @ p["up"]) @ p["down"], None

    def loss(params: Any, tokens: Any) -> Any:
        x = params["words"][tokens[:, :-1]] + params["places"]
        x, _ = lax.scan(block, x, params["blocks"])
        return labelled(x @ params["words"].T, tokens[:, 1:])

    one = np.ones((2, width), np.float32)
    kernels = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    blocks = {name: np.stack([drawn(*shape), drawn(*shape)]) for name, shape in kernels.items()} | {"a": one, "b": one}
    params = {"words": drawn(words, width), "places": drawn(8, width), "blocks": blocks}
    return loss, params, RNG.integers(0, words, (3, 9)).astype(np.int32)


@pytest.mark.parametrize("network", [perceptron, convolutional, transformer])
def test_a_network_of_jax_agrees_and_trains(network: Any) -> None:
    theirs, params, batch = network()
    descend = jax.jit(jax.value_and_grad(theirs))
    step = ws.compile(ws.from_jax(theirs, params, batch), params, optimizer=ws.optim.sgd(0.1), batch=batch)
    state, losses = params, []
    for _ in range(5):
        value, gradient = descend(state, batch)
        state = jax.tree.map(lambda p, g: p - 0.1 * g, state, gradient)
        losses.append(float(step(batch).loss))
        assert losses[-1] == pytest.approx(float(value), rel=1e-5)
        for a, b in zip(tree.leaves(step.params), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
    assert losses[-1] < losses[0]
