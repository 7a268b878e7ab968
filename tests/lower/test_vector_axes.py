"""The axes along which vectors lie: functions with rare cases, elements behind pads, and strided accesses keep them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.lower.test_added_rows import kernels_of

import wholestep as ws
from wholestep.backends.cpu.target.tiles import TILED_BODY
from wholestep.kernel.accesses import MemoryAccess, memory_accesses
from wholestep.kernel.lang import Kernel, Var, axes_of, loop_points, walk

SHAPE = 96, 1024
RARE = {"sin": np.sin, "cos": np.cos, "tan": np.tan}


def stencil(x: Any) -> Any:
    """Each element's square and those of its neighbours, 0 outside."""
    y = x * x
    return y + np.pad(y[:, 1:], ((0, 0), (0, 1))) + np.pad(y[:-1], ((1, 0), (0, 0)))


VECTORS: dict[str, Callable[[Any], Any]] = {
    **{f"rows of {name}": lambda x, f=f: f(x).sum(-1) for name, f in RARE.items()},
    "rows of two functions": lambda x: (np.sin(x) + np.tan(x)).max(-1),
    "normalized rows": lambda x: np.sin(x) - np.sin(x).mean(-1, keepdims=True),
    "neighbours": stencil,
    "the gradient of neighbours": ws.grad(lambda x: np.sum(np.tanh(x[:, 1:] - x[:, :-1]))),
    "a function of two memory orders": lambda x: np.exp(np.tanh(x.reshape(1024, 96).T) * np.tanh(x)),
    "a function of gathered elements": lambda x: np.tanh(np.exp(np.take_along_axis(x, np.argsort(x), -1))),
}


def has_vectors(kernel: Kernel) -> bool:
    """True if some axis of a kernel lies along the lanes of vectors."""
    return any([axis.lanes > 1 for axis in axes_of(kernel)])


@pytest.mark.parametrize("name", VECTORS)
def test_kernels_have_vectors(name: str) -> None:
    large = [
        k for k in kernels_of(VECTORS[name], SHAPE, level="x86-64-v3") if loop_points(k) >= SHAPE[0] * SHAPE[1] // 2
    ]
    assert large
    assert all([has_vectors(kernel) for kernel in large])
    if name.startswith("rows"):
        assert {axis.extent for kernel in large for axis in axes_of(kernel) if axis.lanes > 1} == {SHAPE[1]}


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_a_long_epilogue_has_few_copies(level: str) -> None:
    """Nine tiles of a small product's rows and columns, each followed by many sines, took seconds to compile."""

    def f(x: Any) -> Any:
        y = x @ np.swapaxes(x, -1, -2)
        for _ in range(12):
            y = y + np.sin(y)
        return y

    for kernel in kernels_of(f, (1500, 3, 13), level=level):
        values = sum(isinstance(s, Var) for s in walk(kernel.body))
        copies = math.prod([axis.tile for axis in axes_of(kernel) if not axis.name.startswith("r")])
        assert values > 500
        assert copies <= max(TILED_BODY // values, 2)


def test_a_transposed_copy_is_not_worth_vectors_of_single_elements() -> None:
    (kernel,) = kernels_of(lambda x: x[:, ::7] + 1, (96, 7 * 128), level="x86-64-v3")
    assert not has_vectors(kernel)


@pytest.mark.parametrize("n", [1, 3, 7, 8, 9, 33, 100, 257])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rare_cases_in_some_lanes_of_a_row(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(5, n)) * np.where(rng.random((5, n)) < 0.2, 1e8, 3)).astype(dtype)
    for f in RARE.values():
        for over in (lambda y: y.sum(-1), lambda y: y.max(-1), lambda y: y - y.mean(-1, keepdims=True)):
            found = ws.jit(lambda x, f=f, over=over: over(f(x)))(x)
            wanted = over(f(x.astype(float)))
            np.testing.assert_allclose(found, wanted, rtol=3e-5 if dtype is np.float32 else 1e-12, atol=1e-5)


def test_elements_behind_pads_are_loaded_where_they_exist() -> None:
    kernels = kernels_of(VECTORS["the gradient of neighbours"], SHAPE)
    loads = [a for kernel in kernels for a in memory_accesses(kernel.body) if not a.is_store]
    beyond = [a for a in loads if not 0 <= first_offset(a) <= last_offset(a) < a.buffer.size]
    assert beyond
    assert all([a.conditional for a in beyond])


def first_offset(access: MemoryAccess) -> int:
    """The least offset of an access whose steps are all ahead."""
    assert all([step >= 0 for step in access.offset.terms.values()])
    return access.offset.const


def last_offset(access: MemoryAccess) -> int:
    """The largest offset of an access whose steps are all ahead."""
    return access.offset.const + sum([step * (a.extent - 1) for a, step in access.offset.terms.items()])


def test_an_element_behind_two_pads_is_loaded_under_either_condition() -> None:
    """Both read the same place of the array, each where the other does not."""
    x = np.random.default_rng(0).normal(size=12).astype(np.float32)
    f = lambda x: np.pad(x[:4], (1, 7)) + 2 * np.pad(x[4:8], (5, 3))  # noqa: E731  # one line
    np.testing.assert_array_equal(ws.jit(f)(x), f(x))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 9), (16, 33)])
def test_neighbours_outside_are_zeros(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    np.testing.assert_allclose(ws.jit(stencil)(x), stencil(x), rtol=1e-6)


def test_what_lies_behind_a_pad_is_read_within_bounds() -> None:
    """Indices, quotients and sums of rows behind a pad: where there is no element, nothing is read or divided."""
    rng = np.random.default_rng(2)
    x, places = rng.integers(-9, 9, (9, 17)).astype(np.float32), rng.integers(-9, 9, 9)
    counts = rng.integers(1, 5, (9, 17))

    def f(x: Any, places: Any, counts: Any) -> Any:
        rows = np.pad((x[places] - x.sum(-1, keepdims=True))[:, 2:], ((1, 2), (3, 0)))
        return rows[1:10, 1:] * np.pad(100 // counts[1:], ((1, 0), (0, 0))), np.concatenate([x[3:] * 2, rows[:4, 1:]])

    for found, wanted in zip(ws.jit(f)(x, places, counts), f(x, places, counts), strict=True):
        np.testing.assert_array_equal(found, wanted)
