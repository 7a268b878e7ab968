"""Steps in PyTorch's files: Adam in one operation, in the memory of the state, and arrays of a step written over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.test_python_files import imported

import wholestep as ws
from wholestep import tree
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH

torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")

RNG = np.random.default_rng(3)
WIDE = {"w": RNG.normal(size=(6, 80)), "u": RNG.normal(size=(80, 80)), "b": RNG.normal(size=80), "s": np.ones(())}
X = RNG.normal(size=(100, 6))


def mean_square(p: Any, x: Any) -> Any:
    h = np.maximum(x @ p["w"] + p["b"], 0)
    return np.mean((np.tanh(h @ p["u"]) * p["s"]) ** 2)


def exported(loss: Any, params: Any, optimizer: Any, batch: Any, folder: Path, **options: Any) -> tuple[Any, Any, str]:
    """A step, its module in a file for PyTorch, and the source of the program in that file."""
    step = ws.compile(loss, params, optimizer=optimizer, batch=batch, **options)
    path, _ = step.export(folder / "step.py", to="torch")
    return step, imported(path), path.read_text(encoding="utf-8").split("def step_program(")[1]


def check_trains(step: Any, module: Any, batches: Any, folder: Path) -> None:
    """Assert that both have the same losses for the same batches, and the same state afterwards.

    In float32 the state is not compared: steps of Adam differ where a gradient is little more than a rounding error.
    """
    wide = {np.asarray(x).dtype for x in tree.leaves(step.params)} == {np.dtype(np.float64)}
    state = module.load(folder / "step.safetensors")
    for batch in batches:
        ours = step(batch)
        state, results = module.step(state, {"batch": torch.tensor(batch)})
        assert bool(results["finite"]) == bool(ours.finite)
        np.testing.assert_allclose(results["loss"], ours.loss, rtol=1e-12 if wide else 1e-5)
    module.save(folder / "step.safetensors", state, like=folder / "step.safetensors")
    want = step.state
    step.load(folder / "step.safetensors")
    for x, y in zip(tree.leaves(step.state), tree.leaves(want), strict=True):
        if wide or np.asarray(y).dtype.kind != "f":
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-10)


def in_dtype(dtype: str) -> tuple[Any, Any]:
    return {name: np.asarray(x, dtype) for name, x in WIDE.items()}, X.astype(dtype)


OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: ws.optim.adam(0.01),
    "scheduled": lambda: ws.optim.adam(ws.optim.cosine(0.01, 20)),
    "adamw": lambda: ws.optim.adamw(0.01, weight_decay=0.3, decay=["w", "u"]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_adam_is_one_operation_for_all_parameters(name: str, dtype: str, tmp_path: Path) -> None:
    params, x = in_dtype(dtype)
    step, module, source = exported(mean_square, params, OPTIMIZERS[name](), x, tmp_path)
    assert source.count("update_by_adam(") == (2 if name == "adamw" else 1)
    check_trains(step, module, [x] * 20, tmp_path)


def test_an_update_that_is_not_finite_is_skipped(tmp_path: Path) -> None:
    params, x = in_dtype("float32")
    step, module, source = exported(mean_square, params, ws.optim.adam(0.01), x, tmp_path)
    assert "update_by_adam(" in source
    check_trains(step, module, [x, x, x * np.float32(np.nan), x], tmp_path)
    assert step.skipped == 1


def test_an_update_without_epsilon_leaves_weights_without_gradients(tmp_path: Path) -> None:
    """PyTorch would divide 0 by 0, where a step here divides by the least normal number."""
    weights = {"w": np.ones((3, 2), np.float32), "unused": np.ones(4, np.float32)}
    x = np.ones((5, 3), np.float32)

    def loss(params: Any, x: Any) -> Any:
        return np.mean((x @ params["w"]) ** 2) + params["unused"][0] ** 2

    step, module, source = exported(loss, weights, ws.optim.adam(0.01, eps=0.0), x, tmp_path)
    assert source.count("update_by_adam(") == 1
    check_trains(step, module, [x] * 3, tmp_path)
    assert step.params["unused"][1:].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [(3, 4), (60, 50)])
def test_the_formula_is_that_of_the_operation(shape: tuple[int, int], tmp_path: Path) -> None:
    params, x = in_dtype("float64")
    _, module, _ = exported(mean_square, params, OPTIMIZERS["adamw"](), x, tmp_path)
    given = [[torch.tensor(RNG.random(shape)) for _ in range(2)] for _ in range(4)]
    numbers = [torch.tensor(v, dtype=torch.float64) for v in (3.0, 0.01, 0.9, 0.99, 1e-8, 0.1)]
    for skipped in (None, torch.tensor(False), torch.tensor(True)):
        groups = [[[y.clone() for y in ys] for ys in given] for _ in range(2)]
        one = module.update_by_adam(*groups[0], *numbers, skipped)
        other = module.update_by_formula(*groups[1], *numbers, skipped)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert torch.equal(one[0], given[0][0]) == bool(skipped is not None and skipped)


def test_a_step_takes_the_memory_of_its_state(tmp_path: Path) -> None:
    params, x = in_dtype("float32")
    _, module, _ = exported(mean_square, params, ws.optim.adam(0.01), x, tmp_path)
    state = module.load(tmp_path / "step.safetensors")
    after, _ = module.step(state, {"batch": torch.tensor(x)})
    for name in ("params.w", "optimizer.m.w", "optimizer.v.w"):
        assert after[name] is state[name]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_gradients_that_are_parameters_are_read_before_they_change(order: tuple[str, str], tmp_path: Path) -> None:
    """The gradient of each parameter is the other one, and a fused update would read a parameter after its change."""
    params = {name: np.asarray(RNG.normal(size=(70, 70)), np.float32) for name in order}

    def loss(p: Any, x: Any) -> Any:
        return np.sum(p["a"] * p["b"]) * x

    step, module, _ = exported(loss, params, ws.optim.adam(0.1), np.float32(1), tmp_path)
    check_trains(step, module, [np.float32(1)] * 3, tmp_path)


def test_a_parameter_that_is_captured_is_the_one_before(tmp_path: Path) -> None:
    params = {"w": np.asarray(RNG.normal(size=(70, 70)), np.float32)}

    def loss(p: Any, x: Any) -> Any:
        return np.sum(np.sin(p["w"]) ** 2) * x, {"turned": p["w"].T}

    step = ws.compile(loss, params, optimizer=ws.optim.adam(0.1), batch=np.float32(1), has_aux=True)
    path, file = step.export(tmp_path / "step.py", to="torch")
    module = imported(path)
    _, results = module.step(module.load(file), {"batch": torch.tensor(np.float32(1))})
    np.testing.assert_array_equal(results["aux.turned"], params["w"].T)


def test_the_average_of_parameters_reads_the_new_ones(tmp_path: Path) -> None:
    params, x = in_dtype("float64")
    step, module, _ = exported(mean_square, params, ws.optim.ema(ws.optim.adam(0.01), 0.9), x, tmp_path)
    check_trains(step, module, [x] * 5, tmp_path)


def test_a_step_writes_over_arrays_of_its_own_and_a_function_does_not(tmp_path: Path) -> None:
    params, x = in_dtype("float32")
    _, _, source = exported(mean_square, params, ws.optim.sgd(0.1), x, tmp_path)
    assert ".mul_(" in source and "clamp_min(" in source
    graph = ws.trace(ws.grad(mean_square))(params, x)
    printed = function_source(graph, TORCH)[0].split("def program(")[1]
    assert "_(" not in printed.replace("step_program(", "").replace("share_of_larger(", "").replace("full(", "")


def test_a_function_of_pytorch_has_our_derivative_where_both_are_equal() -> None:
    f = python_function(ws.trace(lambda x: np.sum(np.maximum(x, 0)))(np.zeros(3)), TORCH)
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    f(x)[0].backward()
    np.testing.assert_array_equal(x.grad, [0.5, 0.5, 0.5])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_shares_of_the_larger_are_exact(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, 3, -3], dtype)
    shares = python_function(ws.trace(ws.grad(lambda x: np.sum(np.maximum(x, 0))))(x), TORCH)
    given = torch.tensor(x, requires_grad=True)
    (found,) = shares(given)
    np.testing.assert_array_equal(found.detach(), [np.nan, 1, 0, 0.5, 0.5, 1, 0, 1, 0])


@pytest.mark.parametrize("places", [(), (1,)])
def test_biases_are_added_by_products_and_convolutions(places: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    shapes = ((4, 3), (3, 5), (5,)) if not places else ((2, 3, 6, 6), (4, 3, 3, 3), (4,))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]

    def f(x: Any, w: Any, b: Any) -> Any:
        return ws.nn.conv2d(x, w) + b[:, None, None] if places else b + x @ w

    graph = ws.trace(f)(*arrays)
    source = function_source(graph, TORCH)[0].split("def program(")[1]
    assert ("None" not in source and "torch.convolution(" in source) if places else "torch.addmm(" in source
    got = python_function(graph, TORCH)(*map(torch.tensor, arrays))[0]
    np.testing.assert_allclose(got, f(*arrays), rtol=1e-5, atol=1e-5)
