"""Gradients of pooled images in PyTorch: slice by slice, with the bits of the reference where elements are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.test_steps_in_place import check_trains, exported

import wholestep as ws
from wholestep.backends.reference import interpret
from wholestep.export.python.run import function_source, python_function
from wholestep.export.python.torch import TORCH

torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")

SHAPES = {
    "pooled": ((2, 3, 4, 2, 3, 2), (3, 5)),
    "first": ((3, 5), (0,)),
    "all": ((2, 4), (0, 1)),
    "last": ((6, 4), (1,)),
    "apart": ((2, 5, 3, 4), (0, 2, 3)),
    "one": ((4, 1), (1,)),
    "channels last": ((2, 4, 2, 3, 2, 5), (2, 4)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("largest", [True, False])
def test_equal_elements_share_a_gradient(name: str, dtype: str, largest: bool) -> None:
    shape, axes = SHAPES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, shape).astype(dtype)
    x.flat[0] = np.nan
    weights = rng.normal(size=[n for i, n in enumerate(shape) if i not in axes]).astype(dtype)

    def f(x: Any) -> Any:
        return np.sum(weights * (np.max(x, axis=axes) if largest else np.min(x, axis=axes)))

    graph = ws.trace(ws.grad(f))(x)
    source, _ = function_source(graph, TORCH)
    assert "split_among_equal(" in source.split("def program(")[-1]
    with np.errstate(divide="ignore", invalid="ignore"):  # no element is equal to NaN
        want = interpret(graph, [x])
    got = python_function(graph, TORCH)(torch.tensor(x))
    np.testing.assert_array_equal(np.asarray(got[0]), want[0])


@pytest.mark.parametrize("shape", [(4, 5), (2, 2, 5)])
def test_long_axes_are_reduced_whole(shape: tuple[int, ...]) -> None:
    x, weights = np.zeros(shape, np.float32), np.ones(shape[:-1], np.float32) * 3
    graph = ws.trace(ws.grad(lambda x: np.sum(weights * np.max(x, axis=-1))))(x)
    assert "split_among_equal(" not in function_source(graph, TORCH)[0].split("def program(")[-1]


def test_what_else_reads_the_elements_stays() -> None:
    x = np.array([[1.0, 2.0, 2.0], [3.0, 1.0, 0.0]])

    def f(x: Any) -> Any:
        y, pullback = ws.vjp(lambda x: np.max(x, axis=1), x)
        (gx,) = pullback(np.ones(2))
        return gx, np.sum((x == y[:, None]).astype(float), axis=1)

    graph = ws.trace(f)(x)
    got, want = python_function(graph, TORCH)(torch.tensor(x)), interpret(graph, [x])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)


RECTIFIED = {
    "channels last": ((2, 8, 6, 3), (2, 4, 2, 3, 2, 3), (2, 4)),
    "channels first": ((2, 3, 8, 6), (2, 3, 4, 2, 3, 2), (3, 5)),
    "by threes": ((5, 9, 4), (5, 3, 3, 4), (2,)),
    "as it lies": ((3, 5, 4), (3, 5, 4), (0,)),
}


def rectified_pool(name: str, dtype: str) -> tuple[Any, Any, Any]:
    """(images of few numbers, weights, a function of both) by the name of a layout."""
    own, shape, axes = RECTIFIED[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, own).astype(dtype)
    x.flat[rng.choice(x.size, 3, replace=False)] = np.nan, np.inf, -np.inf
    weights = rng.normal(size=[n for i, n in enumerate(shape) if i not in axes]).astype(dtype)
    return x, weights, lambda x, weights: np.sum(weights * np.maximum(x, 0).reshape(shape).max(axis=axes))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RECTIFIED)
def test_a_rectifier_before_a_pool_is_part_of_the_split(name: str, dtype: str) -> None:
    x, weights, f = rectified_pool(name, dtype)
    graph = ws.trace(ws.grad(f))(x, weights)
    source = function_source(graph, TORCH)[0].split("def program(")[1]
    assert source.count("split_among_equal(") == 1 and "share_of_larger(" not in source
    with np.errstate(divide="ignore", invalid="ignore"):
        want = interpret(graph, [x, weights])[0]
    assert np.isnan(want).any() and (want == 0).any()
    np.testing.assert_array_equal(python_function(graph, TORCH)(torch.tensor(x), torch.tensor(weights))[0], want)


@pytest.mark.parametrize("way", ["alone", "over", "compiled"])
@pytest.mark.parametrize("name", RECTIFIED)
def test_a_step_splits_as_a_function_does(name: str, way: str) -> None:
    """The split in new memory, over the images, and in the compiled form, for images of any memory order."""
    _, shape, axes = RECTIFIED[name]
    support: Any = pytest.importorskip("wholestep.export.python.support.torch_fused_support")
    x, weights, f = rectified_pool(name, "float64")
    with np.errstate(divide="ignore", invalid="ignore"):
        want = interpret(ws.trace(ws.grad(f))(x, weights), [x, weights])[0]
        largest = np.maximum(x, 0).reshape(shape).max(axis=axes)
    split = support.split_among_equal
    split = torch.compile(split, backend="eager", fullgraph=True, dynamic=False) if way == "compiled" else split
    for turned in (False, True):
        given = torch.tensor(x.T.copy()).permute(tuple(range(x.ndim))[::-1]) if turned else torch.tensor(x)
        got = split(given, shape, torch.tensor(largest), torch.tensor(weights), axes, True, True, way == "over")
        np.testing.assert_array_equal(got, want)
        assert turned or (got.data_ptr() == given.data_ptr()) == (way == "over" and axes[-1] < len(shape) - 1)


@pytest.mark.parametrize("kind", ["smallest", "bound", "other"])
def test_a_rectifier_of_another_kind_keeps_its_own_derivative(kind: str) -> None:
    """With a minimum at 0 not all elements are 0; another bound, or a second reader, makes it another function."""
    x = np.random.default_rng(1).integers(-2, 3, (4, 2, 6)).astype(np.float64)

    def f(x: Any) -> Any:
        z = np.maximum(x, 1.0 if kind == "bound" else 0)
        y = np.min(z, axis=1) if kind == "smallest" else np.max(z, axis=1)
        return np.sum(y * np.arange(24.0).reshape(4, 6)) + (np.sum(z**3) if kind == "other" else 0)

    graph = ws.trace(ws.grad(f))(x)
    assert "share_of_larger(" in function_source(graph, TORCH)[0].split("def program(")[1]
    np.testing.assert_array_equal(python_function(graph, TORCH)(torch.tensor(x))[0], interpret(graph, [x])[0])


def pooled_network(p: Any, x: Any) -> Any:
    """Two convolutions of images of one channel, rectified and pooled."""
    for kernel, bias in (("k", "a"), ("l", "b")):
        x = np.maximum(ws.nn.conv2d(x, p[kernel], padding=1) + p[bias][:, None, None], 0)
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    return np.mean(np.tanh(x) ** 2)


def test_a_step_splits_over_what_it_convolved(tmp_path: Path) -> None:
    """Pixels with few distinct values, and biases of 0, so that many pooled elements are equal."""
    rng = np.random.default_rng(0)
    params = {
        "k": rng.normal(size=(4, 1, 3, 3)),
        "a": np.zeros(4),
        "l": rng.normal(size=(5, 4, 3, 3)),
        "b": np.zeros(5),
    }
    x = rng.integers(0, 2, (32, 1, 28, 28)) * 1.0
    x[:, :, :, 14:] = 0
    step, module, source = exported(pooled_network, params, ws.optim.sgd(0.1), x, tmp_path)
    assert source.count("(2, 4), True, True, True)") == 2 and "clamp_min(slice_by_slice(" in source
    check_trains(step, module, [x] * 3, tmp_path)


def test_a_bound_after_a_pool_has_its_values_and_stays_before_it_in_a_function(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (6, 2, 5)).astype(np.float64)
    for bound in (0, -1.5, np.inf):

        def loss(p: Any, x: Any, bound: float = bound) -> Any:
            return np.sum(np.maximum(p["w"] * x, bound).max(axis=1) * 0.1)

        if np.isfinite(bound):
            step, module, source = exported(loss, {"w": np.ones_like(x)}, ws.optim.sgd(0.1), x, tmp_path)
            assert f"{float(bound)})" in source and "clamp_min(slice_by_slice(" in source
            check_trains(step, module, [x] * 3, tmp_path)
        graph = ws.trace(loss)({"w": x}, x)
        assert "clamp_min" not in function_source(graph, TORCH)[0].split("def program(")[1]


@pytest.mark.parametrize("shape", [(2, 1, 3, 4), (2, 5, 3, 4), (0, 1, 3, 4), (2, 1, 3, 4, 5)])
def test_images_say_that_their_channels_come_last(shape: tuple[int, ...]) -> None:
    """The stride of a single channel is 1 too, since convolutions choose their layout by it."""
    support: Any = pytest.importorskip("wholestep.export.python.support.torch_support")
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    made = support.with_channels_last(x)
    assert made.stride(1) == 1 and torch.equal(made, x)
