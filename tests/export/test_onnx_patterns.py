"""Single operators of ONNX for several operations: the operators, and the results of the reference, with ties."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.test_onnx_files import session

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.export.onnx.files import onnx_model
from wholestep.export.program import ExportedProgram
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.primitives.family import REGISTRY

onnx = pytest.importorskip("onnx")

TOLERANCE = 2e-6


def kinds_in(graph: Any) -> Counter[str]:
    """The operators of a graph and of those inside it."""
    found = Counter([node.op_type for node in graph.node])
    for node in graph.node:
        for attribute in node.attribute:
            found += kinds_in(attribute.g)
    return found


def both(f: Callable[..., Any], *xs: Any, passes: Sequence[str] = ALL_PASSES) -> tuple[Counter[str], list[Any], Any]:
    """The operators of a function in ONNX, its results there, and those of the reference."""
    graph = run_passes(ws.trace(f)(*xs), passes)
    names = tuple([f"x{i}" for i in range(len(xs))])
    model = onnx_model(ExportedProgram("f", graph, names, tuple([f"y{i}" for i in range(len(graph.outputs))])))
    got = session(model).run(None, dict(zip(names, xs, strict=True)))
    return kinds_in(onnx.load_from_string(model).graph), got, interpret(graph, list(xs))


def check_close(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * max(1.0, float(np.max(np.abs(b)))))


def images(dtype: str = "float32", lowest: int = -2) -> Any:
    """Images with few distinct values, so that most of their tiles have several maxima."""
    return np.random.default_rng(0).integers(lowest, 3, (2, 3, 6, 9)).astype(dtype)


def tiles(x: Any) -> Any:
    return x.reshape(2, 3, 3, 2, 3, 3).max(axis=(3, 5))


WEIGHTS = np.random.default_rng(1).normal(size=(2, 3, 3, 3)).astype(np.float32)
POOLS: dict[str, Callable[[Any], Any]] = {
    "shared": lambda x: tiles(x),
    "of a rectifier": lambda x: tiles(np.maximum(x, 0)),
    "of a rectifier turned around": lambda x: tiles(np.maximum(0, x)),
    "of a rectifier that is read": lambda x: tiles(np.maximum(x, 0)) + np.mean(np.maximum(x, 0)),
    "of another bound": lambda x: tiles(np.maximum(x, 1)),
    "first": lambda x: nn.max_pool2d(x, (2, 3)),
    "first of a rectifier": lambda x: nn.max_pool2d(nn.relu(x), (2, 3)),
    "first of what is cut elsewhere": lambda x: nn.max_pool2d(np.where(x <= 1, 0, x), (2, 3)),
    "of equal elements": lambda x: tiles(0 * x) + nn.max_pool2d(0 * x, (2, 3)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_and_their_gradients_go_tile_by_tile(name: str) -> None:
    kinds, got, want = both(ws.value_and_grad(lambda x: np.sum(WEIGHTS * POOLS[name](x))), images())
    assert kinds["MaxPool"] and kinds["Resize"] >= 2 and not kinds["ReduceMax"] and not kinds["ReduceMin"]
    check_close(got, want)


@pytest.mark.parametrize("name", ["shared", "first", "of a rectifier"])
def test_pools_without_kernels_are_reductions(name: str) -> None:
    weights = WEIGHTS.astype(np.float64)
    kinds, got, want = both(ws.value_and_grad(lambda x: np.sum(weights * POOLS[name](x))), images("float64"))
    assert not kinds["MaxPool"] and not kinds["Resize"]
    check_close(got, want)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("f", [np.maximum, np.minimum])
def test_a_slope_at_the_bound_is_a_half(f: Any, turned: bool) -> None:
    x = np.array([-math.inf, -2, -1e-30, 0, 1e-30, 3, math.inf, 0], np.float32)
    kinds, got, want = both(ws.grad(lambda x: np.sum(f(0, x) if turned else f(x, 0))), x)
    assert kinds["HardSigmoid"] == 1 and not kinds["Where"]
    np.testing.assert_array_equal(got[0], want[0])


def test_a_rectifier_and_its_gradient_choose_nothing() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(5, 5)).astype(np.float32) for _ in range(2))
    x[0] = 0
    kinds, got, want = both(ws.grad(lambda x: np.sum((nn.relu(x) @ w) ** 2)), x)
    assert kinds["Max"] and not kinds["Where"]
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)


def test_a_choice_by_other_signs_keeps_what_is_not_chosen_out() -> None:
    """A product of 0 and an element that is not finite would be NaN."""
    x = np.array([[0, 1], [2, 4]], np.float32)

    def f(x: Any) -> Any:
        return np.where(x <= 0, 0, (1 / x) @ np.ones((2, 2), np.float32))

    with np.errstate(divide="ignore"):
        _, got, want = both(f, x)
    assert np.isfinite(want[0][0, 0]) and np.isinf(want[0][0, 1])
    np.testing.assert_array_equal(got[0], want[0])


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(6))
def test_whole_arrays_are_tested_together(place: int, wrong: float) -> None:
    shapes = [(), (300,), (40, 70), (1, 5), (4, 3, 2, 5), (6, 2)]
    rng = np.random.default_rng(0)
    xs = [
        np.asarray(rng.normal(size=shape), np.float64 if i in (0, 5) else np.float32) for i, shape in enumerate(shapes)
    ]

    def joined(*xs: Any) -> Any:
        found = np.isfinite(xs[0])
        for x in xs[1:]:
            found = found & np.all(np.isfinite(x))
        return found

    kinds, (got,), _ = both(joined, *xs)
    assert got and kinds["Equal"] == 1 and not kinds["IsInf"] and not kinds["And"]
    for at in (0, -1, xs[place].size // 2):
        spoilt = [x.copy() for x in xs]
        spoilt[place].reshape(-1)[at] = wrong
        _, (got,), (want,) = both(joined, *spoilt)
        assert not got and not want


@pytest.mark.parametrize(("count", "kept"), [(32, 0xFFFFFFFF), (5, 0xFF), (1, (1 << 63) - 1), (5, (1 << 59)), (3, -1)])
def test_high_bits_are_without_copies_of_the_sign(count: int, kept: int) -> None:
    x = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, 50)
    kinds, got, want = both(lambda x: (x >> count) & kept, x)
    assert ("Where" in kinds) == (kept < 0 or kept >= 1 << (64 - count))
    np.testing.assert_array_equal(got[0], want[0])


def test_a_skipped_update_computes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    step = ws.compile(lambda p, x: np.mean((x @ p["w"]) ** 2), {"w": w}, optimizer=ws.optim.adam(0.1), batch=x)
    path, state = step.export(tmp_path / "a.onnx")
    graph = onnx.load(path).graph
    kinds = kinds_in(graph)
    assert kinds["If"] == 1 and kinds["Where"] == 1  # for the number of steps that were skipped
    run = session(path.read_bytes())
    known = pytest.importorskip("safetensors.numpy").load_file(state)
    shapes = {i.name: i.shape for i in run.get_inputs()}
    for spoilt in (False, True):
        batch = x.copy()
        batch[1, 1] = math.inf if spoilt else batch[1, 1]
        given = {name: np.reshape((known | {"batch": batch})[name], shape) for name, shape in shapes.items()}
        found = dict(zip([o.name for o in run.get_outputs()], run.run(None, given), strict=True))
        assert bool(found["finite"]) != spoilt
        same = np.array_equal(found["next.params.w"], known["params.w"])
        assert same == spoilt and int(found["next.counters.skipped"]) == spoilt


PRODUCTS = {
    "plain": ("ij,jk->ik", "MatMul"),
    "left turned": ("ji,jk->ik", "Gemm"),
    "right turned": ("ij,kj->ik", "Gemm"),
    "both turned": ("ji,kj->ik", "Gemm"),
    "result turned": ("ij,jk->ki", "Gemm"),
    "rows of two axes": ("aij,jk->aik", "MatMul"),
    "rows of two axes, right turned": ("aij,kj->aik", "MatMul"),
    "summed over two axes": ("aij,aik->jk", "Gemm"),
    "batch": ("aij,ajk->aik", "MatMul"),
    "batch, left turned": ("aji,ajk->aik", "MatMul"),
    "batch inside": ("iaj,jak->iak", "MatMul"),
    "two batches": ("baij,bajk->baki", "MatMul"),
    "apart": ("aibj,jc->iabc", "MatMul"),
    "vector": ("ij,j->i", "MatMul"),
    "vector first": ("j,kj->k", "MatMul"),
    "number": ("j,j->", "MatMul"),
    "outer": ("i,k->ik", "Mul"),
    "outer, turned": ("ai,ak->kia", "Mul"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_lie_as_they_are_stored(name: str, dtype: str) -> None:
    spec, kind = PRODUCTS[name]
    sizes = dict(zip("abcijk", (2, 3, 4, 5, 6, 7), strict=True))
    rng = np.random.default_rng(0)
    xs = [np.asarray(rng.integers(-9, 9, [sizes[c] for c in part]), dtype) for part in spec.split("->")[0].split(",")]
    graph, _ = build(lambda x, y: [REGISTRY["contract"](x, y, spec=spec)], [array_type(x.shape, x.dtype) for x in xs])
    model = onnx_model(ExportedProgram("f", graph, ("x", "y"), ("z",)))
    (got,) = session(model).run(None, dict(zip("xy", xs, strict=True)))
    kinds = kinds_in(onnx.load_from_string(model).graph)
    assert kinds[kind if dtype != "int32" or kind == "Mul" else "MatMul"] == 1
    np.testing.assert_array_equal(got, np.einsum(spec, *xs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_that_is_added_is_part_of_a_product(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=n).astype(dtype) for n in ((4, 3), (3, 5), (5,)))
    kinds, got, want = both(lambda x, w, b: np.tanh(x @ w + b), x, w, b)
    assert kinds["Gemm"] == 1 and not kinds["Add"]
    check_close(got, want)


def softmaxed(x: Any) -> Any:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_a_softmax_is_one_operator_where_only_its_weights_are_read() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 7)).astype(np.float32)
    x[:, :, 3] = -np.inf
    kinds, got, want = both(softmaxed, x)
    assert kinds["Softmax"] == 1 and not kinds["Exp"]
    check_close(got, want)
    kinds, got, want = both(lambda x: softmaxed(x) + np.exp(x - x.max(axis=-1, keepdims=True)), x)
    assert not kinds["Softmax"] and kinds["Exp"] == 1
    check_close(got, want)


def test_gradients_of_slices_are_joined() -> None:
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)

    def f(x: Any) -> Any:
        return np.sum(np.sin(x[:, :3])) + np.sum(np.cos(x[:, 3:5])) + np.sum(x[:, 5:] ** 2)

    kinds, got, want = both(ws.grad(f), x, passes=())
    assert kinds["Concat"] and not kinds["Pad"]
    check_close(got, want)
