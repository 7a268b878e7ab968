"""The forms of programs on the way to machine code, as text: graph, kernels and plan, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.lower.compile import lower_program
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes

MACHINE = CpuMachine(vector=32, registers=16)
"""A fixed machine, so that the text is the same on every computer."""


def array(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def perceptron(w1: Any, b1: Any, w2: Any, x: Any) -> Any:
    return (np.maximum(x @ w1 + b1, 0) @ w2).sum()


def convolution(w: Any, x: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("nchwij,ocij->nohw", windows, w), 0).sum()


def attention(wq: Any, wk: Any, wv: Any, x: Any) -> Any:
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = np.einsum("nqd,nkd->nqk", q, k) * 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (np.einsum("nqk,nkd->nqd", e / e.sum(-1, keepdims=True), v) ** 2).sum()


def layer_norm(gain: Any, x: Any) -> Any:
    c = x - x.mean(-1, keepdims=True)
    return (np.tanh(c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)) * gain).sum()


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "perceptron": (perceptron, array(20, 12), array(12), array(12, 3), array(8, 20)),
    "convolution": (convolution, array(4, 2, 3, 3), array(2, 2, 6, 6)),
    "attention": (attention, array(8, 4), array(8, 4), array(8, 4), array(2, 6, 8)),
    "layer_norm": (layer_norm, array(70), array(5, 70)),
}


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name: str, backward: bool, golden: Any) -> None:
    function, *args = PROGRAMS[name]
    if backward:
        function = ws.value_and_grad(function, argnums=tuple(range(len(args) - 1)))
    graph = run_passes(ws.jit(function).lower(*args), ALL_PASSES)
    made = lower_program(graph, MACHINE)
    verify_program(made)
    golden("\n\n".join([str(graph), *[str(k) for k in made.kernels()], str(made)]))
