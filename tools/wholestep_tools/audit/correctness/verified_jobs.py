"""Small losses with one operation a line, so that a planted fault has a line of its own to be found at."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.ir.graph import NDArray
from wholestep.scipy import special
from wholestep.train.step.step import Step

ROWS, WIDTH = 12, 19
ODD = 35
"""A length that is not a multiple of a vector of any size: an odd number of elements, 35."""


class Job(NamedTuple):
    """A loss of parameters and a batch, with the shapes of both; `options` are those of `compile`."""

    loss: Callable[[Any, Any], Any]
    params: dict[str, tuple[int, ...]]
    batch: dict[str, tuple[int, ...]]
    dtype: Any = np.float32
    options: tuple[tuple[str, Any], ...] = ()

    def arrays(self, shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, NDArray]:
        """Random arrays of these shapes, none of them near 0 or in order."""
        rng = np.random.default_rng([seed, len(shapes)])
        return {name: drawn(rng, shape).astype(self.dtype) for name, shape in shapes.items()}

    def step(self, seed: int) -> tuple[Step, dict[str, NDArray]]:
        """The compiled step, and the batch to verify it on."""
        batch = self.arrays(self.batch, seed + 1)
        made = ws.compile(
            self.loss,
            self.arrays(self.params, seed),
            optimizer=ws.optim.adam(1e-2),
            batch=batch,
            **dict(self.options),
        )
        return made, batch


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
    """Numbers between 0.2 and 1.2 with random signs."""
    return np.asarray(rng.uniform(0.2, 1.2, shape) * rng.choice([-1.0, 1.0], shape))


def arithmetic(p: Any, b: Any) -> Any:
    """Sums, products, quotients and powers."""
    a = np.abs(p["a"]) + 0.5
    x = b["x"] - a
    x = x * p["c"]
    x = x / (2.0 + p["d"])
    y = np.power(a, np.abs(p["c"]))
    z = np.remainder(x * 3.1, a)
    w = np.arctan2(y, a + x * x)
    u = -p["d"]
    return np.mean(x * y) + np.mean(z * w) + np.mean(u * y)


def functions(p: Any, b: Any) -> Any:
    """Elementary and special functions."""
    a = np.abs(p["a"]) + 0.5
    x = np.tanh(a * b["x"])
    y = np.cos(a + b["x"])
    z = np.sqrt(a)
    w = np.log10(a)
    u = special.gamma(a)
    v = special.j1(a)
    t = special.zeta(1.5, a + 1.0)
    return np.mean(x + y * z) + np.mean(w * u) + np.mean(v * t)


def choices(p: Any, b: Any) -> Any:
    """Comparisons, choices and extremes."""
    x = np.where(b["x"] > 0, p["a"] * 2.0, p["a"] * p["a"])
    y = np.maximum(x, p["c"])
    z = np.max(y, axis=1)
    positive = p["c"] > 0
    w = np.where(positive, x, np.where(positive, y, np.sin(x)))
    return np.mean(z * z) + np.mean(w * y)


def moves(p: Any, b: Any) -> Any:
    """Movement of elements."""
    x = p["a"] * b["x"]
    y = np.transpose(x.reshape(4, 3, 19), (1, 2, 0))
    z = x[:, ::-1]
    w = x[1:11:3, 2:17:2]
    v = np.pad(x, ((1, 2), (3, 1)))
    u = np.concatenate([x, z, x * 2.0], axis=1)
    t = x[2:][::2][1:]
    return (
        np.mean(y * np.arange(4.0, dtype=np.float32))
        + np.mean(z * x * b["x"])
        + np.mean(w**2)
        + np.mean(np.sin(v) * v)
        + np.mean(np.tanh(u) * np.arange(57.0, dtype=np.float32))
        + np.mean(t**3)
    )


def writes(p: Any, b: Any) -> Any:
    """Assignment into arrays."""
    x = p["a"] * b["x"]
    y = x.copy()
    y[1:11:3] = p["c"][:4] * 2.0
    y[:, 2:9] += p["c"][:, 2:9]
    z = x.copy()
    z[[1, 4, 1]] = p["c"][:3]
    w = np.sin(x)
    w[3] = 0.5
    return np.mean(y**2) + np.mean(z**3) + np.mean(w * x)


def indices(p: Any, b: Any) -> Any:
    """Reading and adding at indices."""
    i = np.array([0, 3, 3, 1, 7, 0])
    x = p["a"][i]
    y = p["c"][:, -np.array([1, 4, 4, 2])]
    z = np.take_along_axis(p["a"], np.argsort(b["x"], axis=1), axis=1)
    return np.mean(x * x * np.arange(6.0, dtype=np.float32)[:, None]) + np.mean(y**3) + np.mean(z * b["x"])


def reductions(p: Any, b: Any) -> Any:
    """Sums, products and running ones."""
    x = p["a"] * b["x"]
    y = np.cumsum(x, axis=1)
    z = np.cumprod(1.0 + 0.3 * x, axis=1)
    w = np.prod(1.0 + 0.5 * x[:, :5], axis=1)
    v = np.sort(x, axis=1)
    u = np.sum(x, axis=0)
    t = np.cumsum(x[:, ::-1], axis=1)
    s = np.sum(np.broadcast_to(x[0], (7, WIDTH)), axis=0)
    weights = np.arange(19.0, dtype=np.float32)
    return (
        np.mean(s**2)
        + np.mean(y * weights)
        + np.mean(z**2)
        + np.mean(w)
        + np.mean(v * weights)
        + np.mean(u**2)
        + np.mean(t**2)
    )


def products(p: Any, b: Any) -> Any:
    """Products of matrices."""
    h = np.tanh(b["x"] @ p["w"])
    k = h @ p["v"].T
    g = np.einsum("ij,kj,k->ik", k, p["w"], p["c"])
    s = np.swapaxes(k, 0, 1) @ h
    q = p["w"] + p["c"][:, None]
    t = np.sum(b["z"] * p["e"], axis=1)
    u = np.mean(np.sum(q * 2.0, axis=0) ** 2)
    return np.mean(g**2) + np.mean(s * s) + np.mean(np.sin(q) * p["w"]) + u + np.mean(t**3)


def windows(p: Any, b: Any) -> Any:
    """Convolutions and pooling."""
    x = b["x"].reshape(2, 3, 8, 8)
    h = nn.conv2d(x, p["k"], padding=1)
    h = np.tanh(h)
    h = nn.max_pool2d(h, 2)
    g = nn.conv2d(h, p["l"], stride=2, padding=2, dilation=2)
    u = nn.conv_transpose2d(h, p["t"], stride=2)
    h = nn.conv2d(h, p["l"], padding=1)
    return np.mean(g**2) + np.mean(np.sin(u)) + np.mean(nn.avg_pool2d(h, 3, stride=1) ** 2)


def matrices(p: Any, b: Any) -> Any:
    """Linear algebra."""
    a = p["a"] @ p["a"].T + 3.0 * np.eye(5)
    x = np.linalg.solve(p["a"] + 4.0 * np.eye(5), b["x"])
    c = np.linalg.cholesky(a)
    w = np.linalg.eigvalsh(a)
    d = np.linalg.det(p["a"] + 2.0 * np.eye(5))
    v, m = np.linalg.eigh(a)
    i = np.linalg.pinv(p["t"])
    return np.sum(x**2) + np.sum(np.sin(c)) + np.sum(w**2) + d + np.sum((m * np.exp(-v)) ** 2 * p["a"]) + np.sum(i**3)


def spectra(p: Any, b: Any) -> Any:
    """Fourier transforms and complex numbers."""
    x = p["a"] * b["x"]
    f = np.fft.rfft(x, axis=1)
    g = np.fft.fft(x * (1.0 + 0.5j), axis=1)
    c = np.conj(f) * (0.3 + 0.4j)
    z = p["a"] + 1j * p["c"]
    w = np.exp(0.3 * z)
    q = z @ np.conj(z.T)
    i = g.imag
    return np.mean(np.abs(f) ** 3 + c.imag * f.real) + np.mean(i * g.real**2 + w.imag * z.real) + np.mean(q.imag**2)


def loops(p: Any, b: Any) -> Any:
    """Loops and branches of the program."""

    def body(h: Any, x: Any) -> Any:
        h = np.tanh(h @ p["w"] + x)
        return h, np.sum(h * h)

    h, ys = ws.scan(body, p["h"], b["x"])
    g = ws.checkpoint(lambda x: np.sin(x) * x)(h)
    c = ws.cond(ys[0] > 0, lambda x: x * x * x, lambda x: -x, g)
    return np.sum(c) + np.sum(ys * np.arange(12.0, dtype=np.float32))


def layers(p: Any, b: Any) -> Any:
    """The layers that networks are made of."""
    h = nn.layer_norm(b["x"], p["g"], p["c"])
    h = nn.gelu(h @ p["w"])
    a = nn.softmax(h @ h.T)
    h = a @ h
    labels = np.array([0, 2, 1, 5, 3, 2, 7, 18, 4, 4, 9, 11])
    return nn.cross_entropy(h @ p["w"], labels) + 0.1 * np.mean(nn.log_softmax(h, axis=0) ** 2)


SQUARE = (ROWS, WIDTH)
JOBS = {
    "arithmetic": Job(arithmetic, {"a": SQUARE, "c": SQUARE, "d": SQUARE}, {"x": SQUARE}),
    "functions": Job(functions, {"a": SQUARE}, {"x": SQUARE}, np.float64),
    "choices": Job(choices, {"a": SQUARE, "c": SQUARE}, {"x": SQUARE}),
    "moves": Job(moves, {"a": SQUARE}, {"x": SQUARE}),
    "writes": Job(writes, {"a": SQUARE, "c": SQUARE}, {"x": SQUARE}),
    "indices": Job(indices, {"a": SQUARE, "c": SQUARE}, {"x": SQUARE}),
    "reductions": Job(reductions, {"a": SQUARE}, {"x": SQUARE}),
    "products": Job(products, {"w": (19, 19), "v": (19, 19), "c": (19,), "e": (ODD,)}, {"x": SQUARE, "z": (ROWS, ODD)}),
    "windows": Job(windows, {"k": (4, 3, 3, 3), "l": (5, 4, 3, 3), "t": (4, 2, 3, 3)}, {"x": (2, 192)}),
    "matrices": Job(matrices, {"a": (5, 5), "t": (6, 3)}, {"x": (5, 3)}, np.float64),
    "spectra": Job(spectra, {"a": SQUARE, "c": SQUARE}, {"x": SQUARE}, np.float64),
    "loops": Job(loops, {"w": (19, 19), "h": (19,)}, {"x": SQUARE}),
    "layers": Job(layers, {"g": (19,), "c": (19,), "w": (19, 19)}, {"x": SQUARE}),
    "narrow": Job(layers, {"g": (19,), "c": (19,), "w": (19, 19)}, {"x": SQUARE}, options=(("precision", "bfloat16"),)),
}
"""The losses, by name."""


def main(name: str, seed: str) -> None:
    """Verify a job, and print its faults as JSON: their kinds, operations and lines."""
    warnings.simplefilter("ignore")
    step, batch = JOBS[name].step(int(seed))
    found = step.verify(batch)
    print(json.dumps([(f.kind, f.operation, f.line) for f in found.faults]))


if __name__ == "__main__":
    main(*sys.argv[1:])
