"""Products with windows as convolutions: random ones and both their gradients, in each library that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.export.onnx.files import onnx_model
from wholestep.export.program import ExportedProgram
from wholestep.export.python.jax import JAX
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH
from wholestep.ir.graph import Graph

CONV = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}


def drawn(seed: int, dtype: str = "float32") -> tuple[Callable[..., Any], list[Any]]:
    """A random convolution in a dtype whose squares are summed, and its operands."""
    rng = np.random.default_rng(seed)
    k, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    size, stride, dilation = (tuple(map(int, rng.integers(1, 4, k))) for _ in range(3))
    even = bool(rng.integers(2))
    around = [(n, n if even else m) for n, m in rng.integers(0, 3, (k, 2)).tolist()]
    spans = [(m - 1) * d + 1 for m, d in zip(size, dilation, strict=True)]
    spatial = tuple([span + int(rng.integers(0, 5)) for span in spans])
    inside, outside = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
    last = bool(rng.integers(2))
    rows = int(rng.integers(1, 4))
    x = rng.normal(size=(rows, *spatial, inside) if last else (rows, inside, *spatial)).astype(np.float32)
    w = rng.normal(size=(outside, inside // groups, *size)).astype(np.float32)

    def convolved(x: Any, w: Any) -> Any:
        image = np.moveaxis(x, -1, 1) if last else x
        image, w = image.astype(dtype), w.astype(dtype)
        y = CONV[k](image, w, stride=stride, padding=around, dilation=dilation, groups=groups).astype(np.float32)
        return np.sum(np.sin(np.moveaxis(y, 1, -1) if last else y) ** 2)

    return ws.value_and_grad(convolved, argnums=(0, 1)), [x, w]


def check_same(got: Sequence[Any], want: Sequence[Any], near: float = 2e-4) -> None:
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=near, atol=near)


@pytest.mark.parametrize("seed", range(40))
def test_torch_convolves_as_the_reference(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    f, args = drawn(seed)
    graph = ws.trace(f)(*args)
    check_same(python_function(graph, TORCH)(*map(torch.tensor, args)), interpret(graph, args))
    assert 1 in args[1].shape[2:] or "windows(" not in function_source(graph, TORCH)[0]


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_jax_convolves_as_the_reference(first: int, jax: Any) -> None:
    """Several convolutions are one program, since XLA compiles that faster than each of them."""
    calls = [drawn(seed) for seed in range(first, first + 8)]
    graphs = [ws.trace(f)(*args) for f, args in calls]
    run = jax.jit(lambda rows: [python_function(g, JAX)(*args) for g, args in zip(graphs, rows, strict=True)])
    for got, graph, (_, args) in zip(run([args for _, args in calls]), graphs, calls, strict=True):
        check_same(got, interpret(graph, args))
        assert 1 in args[1].shape[2:] or "windows(" not in function_source(graph, JAX)[0]


@pytest.mark.parametrize(("dtype", "near"), [("float32", 2e-4), ("float16", 4e-3), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("seed", range(12))
def test_onnx_convolves_as_the_reference(seed: int, dtype: str, near: float) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is an outside oracle; not installed")
    f, args = drawn(seed, dtype)
    graph: Graph = ws.trace(f)(*args)
    model = onnx_model(ExportedProgram("f", graph, ("x", "w"), ("y", "gx", "gw")))
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    check_same(session.run(None, {"x": args[0], "w": args[1]}), interpret(graph, args), near)
