"""The workloads in JAX at its best: one jitted function for the whole step, the state donated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers.on_jax import JaxOperations
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.spec import B1, B2, CHANNELS, EPS, HEADS, LAYERS, ROPE, WORKLOADS, digest

VERSION = f"JAX {jax.__version__}"
LAYOUT = ("NHWC", "HWIO", "NHWC")


def gathers() -> bool:
    """True where a gather and its scatter are faster than products with one-hot rows: on cards, and not on a CPU."""
    return bool(jax.default_backend() != "cpu")


def embedded(table: Any, places: Any) -> Any:
    """The rows of a table at some places."""
    return table[places] if gathers() else jax.nn.one_hot(places, len(table)) @ table


def cross_entropy(scores: Any, labels: Any) -> Any:
    """The mean over rows of scores."""
    logarithms = jax.nn.log_softmax(scores)
    if gathers():
        return -jnp.mean(jnp.take_along_axis(logarithms, labels[:, None], axis=-1))
    return -jnp.mean((jax.nn.one_hot(labels, scores.shape[-1]) * logarithms).sum(axis=-1))


def mlp(p: Any, batch: Any) -> Any:
    """W1, W6 and W7."""
    h = jax.nn.relu(batch["x"] @ p["w0"] + p["b0"])
    h = jax.nn.relu(h @ p["w1"] + p["b1"])
    return cross_entropy(h @ p["w2"] + p["b2"], batch["y"])


def convolved(x: Any, kernel: Any, bias: Any) -> Any:
    """Convolution and ReLU."""
    return jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=LAYOUT) + bias)


def pooled(h: Any) -> Any:
    """Pooling by a reshape: the gradient of `reduce_window` takes three times as long."""
    n, height, width, c = h.shape
    return h.reshape(n, height // 2, 2, width // 2, 2, c).max((2, 4))


def cnn(p: Any, batch: Any) -> Any:
    """W2, with the channels last."""
    h = pooled(convolved(batch["x"], p["k0"], p["b0"]))
    h = pooled(convolved(h, p["k1"], p["b1"]))
    return cross_entropy(h.reshape(len(h), -1) @ p["w2"] + p["b2"], batch["y"])


def digits(p: Any, batch: Any) -> Any:
    """The CNN of `wholestep train digits`, with the channels last."""
    h = convolved(batch["x"], p["first.weight"], p["first.bias"])
    h = pooled(convolved(h, p["second.weight"], p["second.bias"]))
    h = jax.nn.relu(h.reshape(len(h), -1) @ p["hidden.weight"] + p["hidden.bias"])
    return cross_entropy(h @ p["last.weight"] + p["last.bias"], batch["y"])


def channels_last(name: str, params: Arrays, batch: Arrays) -> None:
    """Images, kernels and the rows of the dense layer from channels first to channels last."""
    digits = name == "digits"
    batch["x"] = batch["x"].reshape(-1, 8, 8, 1) if digits else batch["x"].transpose(0, 2, 3, 1)
    for kernel in ("first.weight", "second.weight") if digits else ("k0", "k1"):
        params[kernel] = params[kernel].transpose(2, 3, 1, 0)
    dense, *image = ("hidden.weight", 2 * CHANNELS, 4, 4) if digits else ("w2", 32, 7, 7)
    rows = params[dense].reshape(*image, -1)
    params[dense] = rows.transpose(1, 2, 0, 3).reshape(-1, rows.shape[-1])


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Along the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gain + bias


def attention(x: Any, qkv: Any, proj: Any, n: int, time: int, heads: int = HEADS) -> Any:
    """Causal self-attention over rows [n * time, width], as products of matrices."""
    width = x.shape[-1]
    q, k, v = (x @ qkv).reshape(n, time, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    scores = jnp.matmul(q, k.swapaxes(-1, -2)) * (width // heads) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e30), -1)
    return jnp.matmul(weights, v).transpose(0, 2, 1, 3).reshape(n * time, width) @ proj


def block(p: Any, i: int, x: Any, n: int, time: int, heads: int = HEADS) -> Any:
    """One layer of W3, over rows [n * time, width]."""
    x = x + attention(layer_norm(x, p[f"gain_a{i}"], p[f"bias_a{i}"]), p[f"qkv{i}"], p[f"proj{i}"], n, time, heads)
    h = layer_norm(x, p[f"gain_f{i}"], p[f"bias_f{i}"]) @ p[f"up{i}"]
    return x + jax.nn.gelu(h, approximate=True) @ p[f"down{i}"]


def gpt(p: Any, batch: Any, layers: int = LAYERS, layer: Any = block) -> Any:
    """W3, or a model of more layers."""
    n, time = batch["x"].shape
    x = (embedded(p["wte"], batch["x"].reshape(-1)).reshape(n, time, -1) + p["wpe"]).reshape(n * time, -1)
    for i in range(layers):
        x = layer(p, i, x, n, time)
    return cross_entropy(layer_norm(x, p["gain"], p["bias"]) @ p["head"], batch["y"].reshape(-1))


def rms_norm(x: Any, gain: Any) -> Any:
    """Along the last axis."""
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def rotated(x: Any) -> Any:
    """Rotary positions of heads [n, heads, time, width], by tables that are constants of the program."""
    time, half = x.shape[-2], x.shape[-1] // 2
    angles = np.arange(time)[:, None] * ROPE ** -(np.arange(half) / half)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def looked(x: Any, qkv: Any, out: Any, n: int, time: int) -> Any:
    """Causal self-attention with rotary positions over rows [n * time, width]."""
    width = x.shape[-1]
    q, k, v = (x @ qkv).reshape(n, time, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    scores = jnp.matmul(rotated(q), rotated(k).swapaxes(-1, -2)) * (width // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e30), -1)
    return jnp.matmul(weights, v).transpose(0, 2, 1, 3).reshape(n * time, width) @ out


def text(p: Any, batch: Any) -> Any:
    """The GPT of `wholestep train text`, embedded by one-hot products, for the reason in cross_entropy."""
    n, time = batch["x"].shape
    x = embedded(p["embedding.weight"], batch["x"].reshape(-1))
    for block in [f"blocks[{i}]" for i in range(LAYERS)]:
        h = rms_norm(x, p[f"{block}.attention_norm.gain"])
        x = x + looked(h, p[f"{block}.attention.qkv.weight"], p[f"{block}.attention.out.weight"], n, time)
        h = rms_norm(x, p[f"{block}.feed_forward_norm.gain"]) @ p[f"{block}.feed_forward.up.weight"]
        x = x + jax.nn.gelu(h, approximate=False) @ p[f"{block}.feed_forward.down.weight"]
    return cross_entropy(rms_norm(x, p["norm.gain"]) @ p["head.weight"], batch["y"].reshape(-1))


def tiny(p: Any, batch: Any) -> Any:
    """W4."""
    h = jnp.tanh(batch["x"] @ p["w0"] + p["b0"])
    h = jnp.tanh(h @ p["w1"] + p["b1"])
    return jnp.mean((h @ p["w2"] + p["b2"] - batch["y"]) ** 2)


def chain(p: Any, batch: Any) -> Any:
    """W5."""
    x = p["x"]
    return jnp.mean(jnp.log1p(jnp.exp(-(jnp.tanh(x * p["w"] + p["b"]) * jax.nn.sigmoid(x)))))


def second(p: Any, batch: Any) -> Any:
    """W7: the derivative of the gradient along a direction."""
    along = {name: batch[f"v_{name}"] for name in p}
    return jax.jvp(lambda q: jax.grad(mlp)(q, batch), (p,), (along,))[1]


def adam(loss: Any, rate: float) -> Any:
    """One training step with Adam written out, to be compiled."""

    def step(state: Any, batch: Any) -> Any:
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p, batch)
        t = t + 1
        m = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, m, g)
        v = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, v, g)
        a, s = rate / (1 - B1**t), lax.rsqrt(1 - B2**t)
        p = jax.tree.map(lambda p, m, v: p - a * m / (jnp.sqrt(v) * s + EPS), p, m, v)
        return (p, m, v, t), value

    return step


class Training:
    """A training: its function, its state, and a step of both, which takes the state's memory."""

    def __init__(self, loss: Any, rate: float, params: Arrays, batch: Arrays) -> None:
        p = jax.tree.map(jnp.array, params)
        zeros = jax.tree.map(jnp.zeros_like, p)
        self.state = (p, zeros, jax.tree.map(jnp.zeros_like, p), jnp.zeros((), jnp.float32))
        self.batch = jax.tree.map(jnp.array, batch)
        self.step = adam(loss, rate)
        self.run = jax.jit(self.step, donate_argnums=0)

    def call(self) -> Any:
        self.state, value = self.run(self.state, self.batch)
        return value

    def wait(self, value: Any) -> None:
        jax.block_until_ready((value, self.state[3]))

    def numbers(self, value: Any) -> list[list[float]]:
        return [[float(value)]]


class Function:
    """W5 to W7: a function of parameters and batch that keeps nothing."""

    def __init__(self, name: str, params: Arrays, batch: Arrays) -> None:
        self.given = jax.tree.map(jnp.array, (params, batch))
        self.run = jax.jit(FUNCTIONS[name])

    def call(self) -> Any:
        return self.run(*self.given)

    def wait(self, value: Any) -> None:
        jax.block_until_ready(value)

    def numbers(self, value: Any) -> list[list[float]]:
        return [digest(np.asarray(leaf) for leaf in jax.tree.leaves(value))]


ON = JaxOperations()
LOSSES: dict[str, Callable[..., Any]] = {"W1": mlp, "W2": cnn, "W3": gpt, "W4": tiny, "digits": digits, "text": text}
LOSSES |= {name: partial(real.model.loss, ON) for name, real in REAL.items() if real.trained}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "W5": jax.value_and_grad(chain),
    "W6": jax.vmap(jax.grad(mlp), (None, 0)),
    "W7": second,
}
FUNCTIONS |= {name: real.answer(ON) for name, real in REAL.items() if not real.trained}


def job(name: str, params: Arrays, batch: Arrays, at_once: int) -> Training | Function:
    """The workload, ready to be called."""
    if name in REAL:
        params, batch = ON.prepared(params, batch)
        jax.config.update("jax_enable_x64", any(x.dtype == np.float64 for x in params.values()))
    if name not in LOSSES:
        return Function(name, params, batch)
    if name in ("W2", "digits"):
        channels_last(name, params, batch)
    return Training(LOSSES[name], WORKLOADS[name].rate, params, batch)
