"""Timings of the eager transforms beside HIPS autograd, in turns in one process, of an import and of a trace.

python -m wholestep_tools.bench.eager            about half a minute; prints a table of ratios
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np

import wholestep as ws

ROUNDS = 200


def network(numpy: Any) -> Callable[..., Any]:
    """The same multilayer perceptron over NumPy or over autograd's wrapper of it."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x
        for w, b in params[:-1]:
            h = numpy.tanh(numpy.dot(h, w) + b)
        w, b = params[-1]
        return numpy.mean((numpy.dot(h, w) + b - y) ** 2)

    return loss


def data(sizes: list[int], batch: int) -> Any:
    rng = np.random.default_rng(0)
    widths = itertools.pairwise(sizes)
    params = [(0.1 * rng.normal(size=(m, n)).astype(np.float32), np.zeros(n, np.float32)) for m, n in widths]
    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    return params, x, rng.normal(size=(batch, sizes[-1])).astype(np.float32)


def in_turns(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """Seconds of each call of two functions, alternating, so that a drift of the machine meets both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for f, own in zip((first, second), times, strict=True):
            start = time.perf_counter()
            f()
            own.append(time.perf_counter() - start)
    return times


def gradients() -> None:
    print(f"eager value_and_grad, float32, {ROUNDS} rounds in turns")
    print(f"{'network':34} {'wholestep ms':>13} {'autograd ms':>12} {'ratio of minima':>16} {'of medians':>11}")
    cases = [
        ("3 layers, 64 wide, batch 32", [64] * 4, 32),
        ("24 layers, 32 wide, batch 16", [32] * 25, 16),
        ("24 layers, 64 wide, batch 64", [64] * 25, 64),
        ("784-256-128-10, batch 128", [784, 256, 128, 10], 128),
    ]
    for name, sizes, batch in cases:
        args = data(sizes, batch)
        ours, theirs = ws.value_and_grad(network(np)), autograd.value_and_grad(network(anp))
        np.testing.assert_allclose(ours(*args)[0], theirs(*args)[0], rtol=1e-4)
        a, b = in_turns(partial(ours, *args), partial(theirs, *args))
        ratios = (min(a) / min(b), statistics.median(a) / statistics.median(b))
        print(f"{name:34} {min(a) * 1e3:13.3f} {min(b) * 1e3:12.3f} {ratios[0]:16.2f} {ratios[1]:11.2f}")


def tracing() -> None:
    def deep(x: Any, w: Any, b: Any) -> Any:
        for _ in range(100):
            x = np.tanh(x @ w + b) * x
            x = np.exp(-x) - x
        return x.sum()

    args = np.ones((4, 4)), np.ones((4, 4)), np.ones(4)
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        graph = ws.jit(deep).lower(*args)
        best = min(best, time.perf_counter() - start)
    print(f"tracing: {best / len(graph.nodes) * 1e6:.1f} µs a node, user's line included ({len(graph.nodes)} nodes)")


def importing() -> None:
    def seconds(module: str) -> float:
        code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
        # Compiled once and read afterwards, as an installed package is.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-c", code]
        return min(float(subprocess.check_output(command, env=environment)) for _ in range(9))

    print(f"import wholestep: {seconds('wholestep'):.3f} s (of which numpy {seconds('numpy'):.3f} s)")


if __name__ == "__main__":
    importing()
    tracing()
    gradients()
