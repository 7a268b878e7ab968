"""Fused kernels compute each reduction once: their arithmetic grows as that of the graph, with n² and not with n³."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.lower.compile import lower_program
from wholestep.lower.cost.roofline import count_kernel
from wholestep.passes.pipeline import ALL_PASSES, run_passes

MACHINE = CpuMachine(vector=32, registers=16)
SIZES = 32, 64
Operation = Callable[[Any, Any], Any]


def softmax(x: Any) -> Any:
    """The softmax of each row."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalized(x: Any) -> Any:
    """Rows of mean zero and variance one."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def places(n: int, *shape: int) -> Any:
    """Indices below n."""
    return np.random.default_rng(n).integers(0, n, shape or n).astype(np.int32)


NAMED: dict[str, Callable[[Any], Any]] = {
    "both directions": lambda x: np.log(softmax(x)).trace() + np.log(softmax(x.T)).trace(),
    "symmetric rows": lambda x: (lambda y: (y + y.T) * y + y.sum(-1))(normalized(x)),
    "rows and columns": lambda x: softmax(x) + softmax(x.T),
    "rows of other places": lambda x: softmax(x) * (softmax(x)[places(len(x))] + 1),
    "elements of other rows": lambda x: softmax(x) * np.take_along_axis(softmax(x), places(len(x), *x.shape), 0),
    "the sum of one row": lambda x: softmax(x) - 2 * softmax(x).sum(1)[0],
}

OPERATIONS: tuple[Operation, ...] = (
    lambda a, b: np.exp(-a * a),
    lambda a, b: a - a.max(-1, keepdims=True),
    lambda a, b: a / (1 + (a * a).sum(-1, keepdims=True)),
    lambda a, b: a / (1 + (b * b).sum(0, keepdims=True)),
    lambda a, b: 2 * a - b,
    lambda a, b: a * b,
    lambda a, b: a.T + 0.5 * b,
    lambda a, b: a[::-1] + b,
    lambda a, b: np.roll(a, 1, 0) - b,
    lambda a, b: a[places(len(a))] * b,
    lambda a, b: a[:, places(len(a))] + b,
    lambda a, b: np.take_along_axis(a, places(len(a), *a.shape), 0) + b,
    lambda a, b: np.take_along_axis(a, places(len(a), len(a), 1), 1) + b,
    lambda a, b: a.sum(1)[None, :] * 0.1 + b,
    lambda a, b: np.diag(a)[:, None] * 0.2 + b,
    lambda a, b: np.repeat(a[: len(a) // 4], 4, 0) + b,
    lambda a, b: a.reshape(len(a) // 2, 2, -1).sum(1).repeat(2, 0) + b,
    lambda a, b: a - a.mean(0) - b.mean(1)[:, None],
    lambda a, b: np.where(a > b, a, b.T),
)


def drawn(seed: int) -> Callable[[Any], Any]:
    """A random program of movements and reductions of a square matrix."""
    draw = random.Random(seed)
    steps = [(draw.choice(OPERATIONS), draw.randrange(4), draw.randrange(5)) for _ in range(draw.randrange(3, 12))]

    def f(x: Any) -> Any:
        values = [x, np.tanh(x)]
        for operation, i, j in steps:
            values.append(operation(values[-1 - i % len(values)], values[-1 - j % len(values)]))
        return values[-1] + values[-2]

    return f


def gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of a sum over the results of f."""
    return ws.grad(lambda x: np.sum(np.sin(f(x))))


def arithmetic(f: Callable[[Any], Any], n: int) -> float:
    """The floating-point operations of the kernels of f at a matrix of n rows."""
    graph = ws.jit(f).lower(np.ones((n, n), np.float32))
    program = lower_program(run_passes(graph, ALL_PASSES), MACHINE)
    return sum([count_kernel(launch.kernel).flops for launch in program.launches()])


@pytest.mark.parametrize("name", NAMED)
def test_reductions_are_computed_once(name: str) -> None:
    small, large = [arithmetic(gradient(NAMED[name]), n) for n in SIZES]
    assert large < 5 * small
    x = np.random.default_rng(0).normal(size=(24, 24)).astype(np.float32)
    np.testing.assert_allclose(ws.jit(NAMED[name])(x), NAMED[name](x), rtol=1e-4, atol=1e-5)


def test_an_element_of_another_row_is_read_from_memory() -> None:
    """A kernel that picks an element of its own row has what the element is computed from; for another row it would
    compute that again."""

    def picked(rows: Any) -> Callable[[Any], Any]:
        return lambda x: (lambda p: p.max(-1) - p[rows, places(len(x))])(softmax(x))

    own, other = [arithmetic(picked(rows), 64) for rows in (np.arange(64), np.arange(64)[::-1].copy())]
    assert other < 1.2 * own


@pytest.mark.parametrize("seed", range(40))
def test_reductions_of_random_programs_are_computed_once(seed: int) -> None:
    small, large = [arithmetic(gradient(drawn(seed)), n) for n in SIZES]
    assert large < 5 * small
