"""Short last axes, short rows that are reduced, and axes that kernels divide: vectors lie along the axis before them,
and no value changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.lower.test_added_rows import kernels_of
from tests.lower.test_vector_axes import has_vectors

import wholestep as ws
from wholestep.backends.cpu.target import short_axes
from wholestep.kernel.lang import Store, Var, walk
from wholestep.lower.ops.loop_templates import MOST_COLUMNS

ROWS = 301
COUNTS = (1, 2, 3, 4, 5, 6, 7, 10, 16, 32)
DTYPES = ("?", "i1", "u2", "i4", "f2", "f4", "f8", "c8", "c16")


def numbers(n: int, dtype: str) -> Any:
    """A matrix of small whole numbers, exact in every dtype."""
    found = np.random.default_rng(n).integers(0, 2 if dtype == "?" else 9, (ROWS, n))
    return (found + (1j * found[::-1] if dtype[0] == "c" else 0)).astype(dtype)


def apart(x: Any) -> list[Any]:
    """The columns of a matrix."""
    return [x[:, k] for k in range(x.shape[1])]


SHORT: dict[str, Callable[[Any], Any]] = {
    "columns": lambda x: np.stack([y + y for y in apart(x)][::-1], -1),
    "columns of rows": lambda x: np.stack(apart(x), -1).reshape(-1),
    "columns of one axis before others": lambda x: np.concatenate([y[None, :1] for y in apart(x)], 0),
    "a factor for each row": lambda x: x * x[:, :1],
    "a term for each column": lambda x: x + x[0],
    "turned": lambda x: x[:, ::-1] + x,
    "repeated": lambda x: np.repeat(x, 3, axis=1),
    "repeated rows": lambda x: np.repeat(x, 2, axis=0),
    "tiled": lambda x: np.tile(x, (3, 2)),
    "tiled along six axes": lambda x: np.tile(x[:64].reshape(2, 2, 2, 2, 4, -1), (2, 3, 2, 3, 2, 2)),
    "long tiles": lambda x: np.tile(x.reshape(-1), 3) * 2,
    "each second": lambda x: np.repeat(x, 2, axis=1)[:, 1::2],
    "sums of rows": lambda x: np.sum(x, axis=-1),
    "the rest after the largest of a row": lambda x: (
        np.max(x, axis=-1, keepdims=True) ^ x if x.dtype.kind == "b" else np.max(x, axis=-1, keepdims=True) - x
    ),
    "rows with nothing and with a zero": lambda x: np.stack([np.any(x, axis=-1), np.all(x, axis=-1)]),
    "the first of the largest and of the smallest": lambda x: np.stack([np.argmax(x, axis=-1), np.argmin(x, axis=-1)]),
    "the largest of other elements": lambda x: np.argmax(x[:, ::-1] * x[0], axis=-1),
    "sums of small matrices": lambda x: np.sum(np.stack([x, x + x], 1), axis=(1, 2)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", SHORT)
def test_short_axes_keep_values(name: str, count: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_axes, "UNROLLED_POINTS", 1)
    x = numbers(count, dtype)
    expected = SHORT[name](x)
    found = np.asarray(ws.jit(SHORT[name])(x))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 10, 12])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_unrolled_sums_have_the_bits_of_sums_across_lanes(dtype: str, count: int) -> None:
    """A row by itself, which is summed in one vector, few rows and many have equal bits."""
    x = np.random.default_rng(count).standard_normal((20000, count)).astype(dtype)
    total = ws.jit(lambda x: np.sum(x, axis=-1))
    many, few = total(x), total(x[:37])
    np.testing.assert_array_equal(few, many[:37])
    np.testing.assert_array_equal([total(row)[0] for row in x[:37, None]], few)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_unrolled_extremes_of_rows_are_nan_where_an_element_is(count: int) -> None:
    x = np.random.default_rng(count).standard_normal((20000, count))
    x[np.arange(count), np.arange(count)] = np.nan
    for f in (np.max, np.min):
        np.testing.assert_array_equal(ws.jit(lambda x, f=f: f(x, axis=-1))(x), f(x, axis=-1))


@pytest.mark.parametrize("count", [2, 3, 5, 10, 16, 17])
def test_the_first_extreme_of_a_row_is_its_first_nan(count: int) -> None:
    rng = np.random.default_rng(count)
    x = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], (2000, count), p=[0.2] * 4 + [0.07, 0.07, 0.06])
    for f in (np.argmax, np.argmin):
        np.testing.assert_array_equal(ws.jit(lambda x, f=f: f(x, axis=-1))(x), f(x, axis=-1))
        np.testing.assert_array_equal(ws.jit(lambda x, f=f: f(x, axis=0))(x.T.copy()), f(x, axis=-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_last_vector_of_one_lane(dtype: str) -> None:
    """Three times 43 is one more than a multiple of 16, of 32 and of 64: what follows is left alone."""
    x = numbers(3, dtype)[:43]
    y = ws.jit(lambda x: (np.stack([x[:, 2] + x[:, 0], x[:, 1], x[:, 0]], -1), x + x))(x)
    np.testing.assert_array_equal(y[0], np.stack([x[:, 2] + x[:, 0], x[:, 1], x[:, 0]], -1))
    np.testing.assert_array_equal(y[1], x + x)


def spread(k: int) -> Callable[[Any], Any]:
    """The sum of products of every k-th element of rows, whose derivative lies between zeros."""
    return lambda x: sum([np.sum(x[:, j::k] ** 2 * (j + 1)) for j in range(k)])


@pytest.mark.parametrize("n", [60, 61, 64])
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_derivatives_of_strided_parts(k: int, n: int) -> None:
    x = numbers(n, "f4")
    expected = 2 * x * (np.arange(n) % k + 1)
    np.testing.assert_array_equal(ws.jit(ws.grad(spread(k)))(x), expected)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_state_of_short_rows_is_written_in_place(n: int) -> None:
    """Each row of the state is read as a whole before its first element is stored."""

    def loss(x: Any, batch: Any) -> Any:
        return np.sum((x[:, ::-1] * batch[:, None] + x) ** 2)

    x, batch = numbers(n, "f8") / 8, np.arange(ROWS) / 64.0
    step = ws.compile(loss, x, optimizer=ws.optim.sgd(0.125), batch=batch)
    expected = x
    for _ in range(3):
        step(batch)
        expected = expected - 0.125 * ws.grad(loss)(expected, batch)
    np.testing.assert_allclose(step.params, expected, rtol=1e-13)


VECTORS: dict[str, Callable[[Any], Any]] = {
    "stacked columns": lambda x: np.stack([x[:, 0] * x[:, 1], x[:, 1] - x[:, 2], x[:, 2]], -1),
    "a factor for each row": lambda x: x * x[:, :1],
    "repeated": lambda x: np.repeat(x, 3, axis=1),
    "tiled": lambda x: np.tile(x.reshape(-1, 96), (1, 2)),
    "lengths of rows": lambda x: np.sqrt(np.sum(x * x, axis=-1)),
    "softmax of rows": lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True),
    "the class of each row": lambda x: np.argmax(x, axis=-1),
    "right classes": lambda x: np.sum(np.argmax(x, axis=-1) == 2, axis=0),
    "the gradient of every second element": ws.grad(spread(2)),
}


@pytest.mark.parametrize("name", VECTORS)
def test_short_axes_have_vectors_beside_them(name: str) -> None:
    """One kernel, in vectors, that divides no index."""
    (kernel,) = kernels_of(VECTORS[name], (9600, 3) if "second" not in name else (96, 64), level="x86-64-v3")
    assert has_vectors(kernel)
    assert not [s for s in walk(kernel.body) if isinstance(s, Var) and s.op == "quotient"]


def test_threads_share_the_steps_of_a_long_axis() -> None:
    (kernel,) = kernels_of(lambda x: np.tile(x, (3, 2)), (1000, 96))
    assert kernel.outer is not None and kernel.outer.extent == 1000


def test_columns_share_a_kernel() -> None:
    """Columns are stored by one kernel, which computes them, up to a number of them."""

    def joined(x: Any) -> Any:
        return np.stack([x[0] * (k + 2) for k in range(n)], -1)

    for n in (MOST_COLUMNS, MOST_COLUMNS + 1):
        stores = [[s for s in walk(k.body) if isinstance(s, Store)] for k in kernels_of(joined, (1, 2000))]
        assert list(map(len, stores)) == ([n] if n == MOST_COLUMNS else [1] * n)
