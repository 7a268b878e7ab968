"""Images with their channels last between convolutions: the same numbers, and no transpose on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.export.channels_last import channels_last
from wholestep.export.core import export_core
from wholestep.export.python.jax import JAX
from wholestep.export.python.run import function_source
from wholestep.export.python.vocabulary import any_convolution
from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify


def pooled(h: Any) -> Any:
    n, c, height, width = h.shape
    return h.reshape(n, c, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def block(h: Any, draw: np.random.Generator, channels: int) -> Any:
    """One random layer of images with their channels first."""
    kind = draw.integers(7)
    if kind == 0:
        return np.maximum(h, 0)
    if kind == 1 and h.shape[2] % 2 == h.shape[3] % 2 == 0:
        return pooled(h)
    if kind == 2:
        return (h - h.mean(axis=(0, 2, 3), keepdims=True)) * np.arange(1.0, channels + 1)[:, None, None]
    if kind == 3:
        return h * np.tanh(h.mean(axis=(2, 3)))[:, :, None, None]
    if kind == 4:
        return np.concatenate([h[:, :1], h[:, 1:] * 2], axis=1)
    if kind == 5:
        return np.transpose(h, (0, 1, 3, 2))[:, ::-1]
    return h + np.sin(h).reshape(len(h), channels, -1).sum(axis=2)[:, :, None, None]


def drawn(seed: int) -> tuple[Any, list[Any]]:
    """A random network of two convolutions with layers between and behind them, and its operands."""
    rng = np.random.default_rng(seed)
    inside, channels = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    x = rng.normal(size=(int(rng.integers(1, 4)), inside, 8, 4))
    first, second = rng.normal(size=(channels, inside, 3, 3)), rng.normal(size=(channels, channels, 3, 3))
    seeds = rng.integers(1 << 30, size=4).tolist()

    def network(x: Any, first: Any, second: Any) -> Any:
        h = nn.conv2d(x, first, padding=1)
        for each in seeds[:2]:
            h = block(h, np.random.default_rng(each), channels)
        h = nn.conv2d(h, second, padding=1)
        for each in seeds[2:]:
            h = block(h, np.random.default_rng(each), channels)
        return np.sum(np.tanh(h.reshape(len(h), -1)) ** 2) / 8

    return ws.value_and_grad(network, argnums=(0, 1, 2)), [x, first, second]


def moved(graph: Graph) -> tuple[Graph, Graph]:
    """A graph exported for JAX, and the same graph with channels last, also for float64."""
    core = export_core(graph, JAX)
    return core, channels_last(core, any_convolution)


@pytest.mark.parametrize("seed", range(60))
def test_numbers_stay(seed: int) -> None:
    f, args = drawn(seed)
    core, made = moved(ws.trace(f)(*args))
    verify(made)
    assert made is not core
    for got, want in zip(interpret(made, args), interpret(core, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_no_transpose_between_convolutions() -> None:
    """Images are transposed only at the input, and features only at the dense layer, forward and backward."""

    def network(x: Any, first: Any, second: Any, last: Any) -> Any:
        h = pooled(np.maximum(nn.conv2d(x, first, padding=1), 0))
        h = pooled(np.maximum(nn.conv2d(h, second, padding=1), 0))
        return np.sum(np.tanh(h.reshape(len(h), -1) @ last))

    x = np.ones((2, 3, 8, 8), np.float32)
    weights = [np.ones(shape, np.float32) for shape in ((5, 3, 3, 3), (7, 5, 3, 3), (28, 4))]
    source = function_source(ws.trace(ws.grad(network, argnums=(1, 2, 3)))(x, *weights), JAX)[0]
    assert source.count("lax.conv_general_dilated(") == 5
    assert source.count(".transpose(") == 4, source


def test_a_graph_without_convolutions_stays_as_it_is() -> None:
    core, made = moved(ws.trace(lambda x: np.maximum(np.transpose(x, (0, 2, 3, 1)), 0))(np.ones((2, 3, 4, 5))))
    assert made is core


def test_graphs_inside_others_are_moved() -> None:
    """A loop whose body convolves."""
    w = np.random.default_rng(1).normal(size=(3, 3, 3, 3))

    def loop(x: Any) -> Any:
        return ws.scan(lambda h, _: (np.maximum(nn.conv2d(h, w, padding=1), 0) * 0.01, np.sum(h)), x, length=3)

    x = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
    core, made = moved(ws.trace(loop)(x))
    assert made is not core
    for got, want in zip(interpret(made, [x]), interpret(core, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
