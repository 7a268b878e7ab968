"""The seven workloads as a user writes them: plain NumPy over a dictionary of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep_tools.bench.spec import HEADS, LAYERS

Params = Mapping[str, Any]
Batch = Mapping[str, Any]


def cross_entropy(scores: Any, labels: Any) -> Any:
    """The mean surprise at the labels, over any number of leading axes."""
    z = scores - scores.max(axis=-1, keepdims=True)
    right = np.take_along_axis(z, labels[..., None], axis=-1)[..., 0]
    return np.mean(np.log(np.exp(z).sum(axis=-1)) - right)


def mlp(params: Params, batch: Batch) -> Any:
    """Three dense layers, 784-256-128-10, with ReLU between; one sample or a batch of them."""
    h = np.maximum(batch["x"] @ params["w0"] + params["b0"], 0)
    h = np.maximum(h @ params["w1"] + params["b1"], 0)
    return cross_entropy(h @ params["w2"] + params["b2"], batch["y"])


def conv2d(x: Any, kernel: Any) -> Any:
    """Convolve images [n, c, h, w] with a kernel [o, c, i, j] of odd sizes; the images keep their size."""
    i, j = kernel.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (i // 2, i // 2), (j // 2, j // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (i, j), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel)


def max_pool(x: Any) -> Any:
    """The largest of every two by two pixels."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))


def cnn(params: Params, batch: Batch) -> Any:
    """Two convolutions with ReLU and pooling, and a dense layer, on images of 28 by 28."""
    h = max_pool(np.maximum(conv2d(batch["x"], params["k0"]) + params["b0"][:, None, None], 0))
    h = max_pool(np.maximum(conv2d(h, params["k1"]) + params["b1"][:, None, None], 0))
    return cross_entropy(h.reshape(len(h), -1) @ params["w2"] + params["b2"], batch["y"])


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Zero mean and unit variance along the last axis, then a gain and a bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def gelu(x: Any) -> Any:
    """The smooth ReLU, by the approximation with tanh."""
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def attention(x: Any, qkv: Any, proj: Any) -> Any:
    """Causal self-attention over [batch, time, width]."""
    n, time, width = x.shape
    q, k, v = (x @ qkv).reshape(n, time, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    seen = np.tril(np.ones((time, time), bool))
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * (width // HEADS) ** -0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(n, time, width) @ proj


def gpt(params: Params, batch: Batch) -> Any:
    """A small language model: embeddings, LAYERS blocks of attention and a feed-forward net, a head of its own."""
    p = params
    x = p["wte"][batch["x"]] + p["wpe"]
    for i in range(LAYERS):
        x = x + attention(layer_norm(x, p[f"gain_a{i}"], p[f"bias_a{i}"]), p[f"qkv{i}"], p[f"proj{i}"])
        x = x + gelu(layer_norm(x, p[f"gain_f{i}"], p[f"bias_f{i}"]) @ p[f"up{i}"]) @ p[f"down{i}"]
    return cross_entropy(layer_norm(x, p["gain"], p["bias"]) @ p["head"], batch["y"])


def tiny(params: Params, batch: Batch) -> Any:
    """Three dense layers, 2-16-16-1, with tanh between, and a squared error: all overhead, no arithmetic."""
    h = np.tanh(batch["x"] @ params["w0"] + params["b0"])
    h = np.tanh(h @ params["w1"] + params["b1"])
    return np.mean((h @ params["w2"] + params["b2"] - batch["y"]) ** 2)


def chain(params: Params, batch: Batch) -> Any:
    """Elementwise functions over four million numbers, summed up at the end."""
    x = params["x"]
    return np.mean(np.log1p(np.exp(-np.tanh(x * params["w"] + params["b"]) / (1 + np.exp(-x)))))
