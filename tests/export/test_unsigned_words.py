"""Integers in files of PyTorch, JAX and ONNX: unsigned ones that a library lacks, and quotients by 0."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws

WIDE = np.array([[0, 1, 2**64 - 1, 2**63], [5, 2**63 - 1, 3, 100]], np.uint64)
OTHERS = np.array([[3, 1, 2**64 - 1, 7], [2**63 + 1, 2, 2**64 - 3, 7]], np.uint64)


def written(x: Any, y: Any) -> Any:
    z = x.copy()
    z[[-1]] = y[:1]
    np.add.at(z, [0, 0], y)
    np.maximum.at(z, [1], y[1:])
    return z


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda x, y: np.sum(x) + np.cumsum(y)[-1] + np.prod(y),
    "extrema": lambda x, y: np.max(x, axis=0) - np.min(y, axis=0) + np.maximum.accumulate(x, axis=0)[1],
    "places": lambda x, y: np.argmax(x, axis=1) - np.argmin(y, axis=1),
    "larger": lambda x, y: np.maximum(x, y) - np.minimum(x, 2),
    "product": lambda x, y: x @ y.T,
    "signs": lambda x, y: np.sign(x) - ~y + -x,
    "order": lambda x, y: np.sort(x, axis=1),
    "quotient": lambda x, y: x // y,
    "rest": lambda x, y: x % y + np.fmod(y, x),
    "number": lambda x, y: x // 3 + x % 10,
    "written": written,
}


@pytest.mark.filterwarnings("ignore:index_reduce")  # PyTorch says that it is in beta
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["uint16", "uint64"])
def test_torch_computes_unsigned_words_in_signed_ones(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    f, xs = FUNCTIONS[name], [x.astype(dtype) for x in (WIDE, OTHERS)]
    found = ws.to_torch(f, *xs)(*map(torch.tensor, xs)).numpy()
    with np.errstate(divide="ignore"):
        want = f(*xs)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def places(x: Any, i: Any) -> Any:
    y = x[i] + np.take(x, i, axis=1)[:, :1]
    np.add.at(y, i[:2], 0.5)
    y[i[2:]] = 2.0
    return y


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint64"])
def test_torch_indexes_by_integers_of_all_sizes(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x, i = np.arange(9.0).reshape(3, 3), np.array([1, 1, 0], dtype)
    found = ws.to_torch(places, x, i)(torch.tensor(x), torch.tensor(i))
    np.testing.assert_array_equal(found.numpy(), places(x, i))


def test_torch_adds_bytes_up() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x = np.array([250, 255, 3], np.uint8)
    assert int(ws.to_torch(lambda x: np.sum(x), x)(torch.tensor(x))) == 508


def whole_division(x: Any, y: Any) -> Any:
    return x // y, x % y, np.fmod(x, y)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_integers_divided_by_zero_are_zero_in_torch_and_jax(dtype: str, jax: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x, y = np.array([5, 0, 7], dtype), np.array([0, 0, 2], dtype)
    want = [[0, 0, 3], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_array_equal(np.stack(ws.to_torch(whole_division, x, y)(torch.tensor(x), torch.tensor(y))), want)
    np.testing.assert_array_equal(np.stack(ws.to_jax(whole_division, x, y)(x, y)), want)


def test_the_sign_of_nan_is_nan_in_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x = np.array([np.nan, -2.0, 0.0, 3.0])
    np.testing.assert_array_equal(ws.to_torch(lambda x: np.sign(x), x)(torch.tensor(x)), np.sign(x))


def test_onnx_sorts_words_of_64_bits_and_permutes(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is an outside oracle; not installed")
    f = lambda x, y: (np.sort(x, axis=1), x // y)  # noqa: E731  (one line of code, as users have it)
    ws.to_file(f, tmp_path / "f.onnx", WIDE, OTHERS)
    found = runtime.InferenceSession(tmp_path / "f.onnx").run(None, {"x": WIDE, "y": OTHERS})
    for a, b in zip(found, f(WIDE, OTHERS), strict=True):
        np.testing.assert_array_equal(a, b)
    key = ws.random.key(3)
    (file,) = ws.to_file(lambda key: ws.random.permutation(key, 7), tmp_path / "order.onnx", key)
    (order,) = runtime.InferenceSession(file).run(None, {"key": np.asarray(key)})
    np.testing.assert_array_equal(order, ws.random.permutation(key, 7))


def test_onnx_has_extrema_of_unsigned_words_and_signs_of_zeros_and_nan(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is an outside oracle; not installed")

    def f(x: Any, y: Any, h: Any) -> Any:
        return np.max(x, axis=1), np.min(x), np.argmax(x, axis=1), np.argmax(y), np.signbit(h), np.sign(h)

    h = np.array([-0.0, np.nan, 0.0, -3.0], np.float16)
    given = {"x": WIDE, "y": WIDE[0].astype(np.uint16), "h": h}
    ws.to_file(f, tmp_path / "f.onnx", *given.values())
    found = runtime.InferenceSession(tmp_path / "f.onnx").run(None, given)
    for a, b in zip(found, f(*given.values()), strict=True):
        np.testing.assert_array_equal(a, b)
