"""One row times a matrix that is contiguous along the terms: the sums have the defined partial sums, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backends.native_kernels import Native
from tests.backends.program_interpreter import ProgramInterpreter
from tests.lower.test_blocking import blocks_of, stay_within

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_levels, named_target
from wholestep.backends.cpu.target import schedule
from wholestep.backends.cpu.target.blocking import DOT_PRODUCTS, DOT_TERMS
from wholestep.kernel.ops import OPS
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch
from wholestep.runtime.cpu import thread_pool

SHAPES = [(64, 512), (100, 700), (129, 333), (1000, 40), (4097, 9), (70, 1001)]
"""Terms and columns."""
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-neon")
EPILOGUES: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda y, c: y,
    "bias": lambda y, c: np.maximum(y + c, 0),
    "twice": lambda y, c: (y, y * 2 - c),
}
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel that can be is shared out among threads."""
    monkeypatch.setattr(schedule, "SHARED_POINTS", 1)


def partial_sums(x: Array, w: Array) -> Array:
    """x @ w.T as docs/semantics.md defines it: sums of every 16th term, or every 8th of float64, added pairwise."""
    count = 64 // x.itemsize
    found = np.zeros((len(w), count), x.dtype)
    for at in range(0, x.size, count):
        part = slice(0, min(count, x.size - at))
        found[:, part] = OPS["fma"].meaning(x[at : at + count], w[:, at : at + count], found[:, part])
    while count > 1:
        count //= 2
        found = found[:, :count] + found[:, count:]
    return found[:, 0]


def plan_of(f: Callable[..., Any], *args: Array, level: str = "x86-64-v3") -> LoweredProgram:
    return lower_program(ws.trace(f)(*args), machine_model(named_target(level)))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_sum_is_the_same_partial_sums_for_every_width_of_vectors(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for k, n in SHAPES:
        x, w = rng.normal(size=(1, k)).astype(dtype), rng.normal(size=(n, k)).astype(dtype)
        wanted = partial_sums(x[0], w)
        for level in LEVELS:
            plan = plan_of(lambda x, w: x @ w.T, x, w, level=level)
            kernels = plan.kernels()
            assert len(blocks_of(plan)) == len(kernels), level
            found = np.zeros(n, dtype)
            for step in plan.launches():
                given = {2: x.ravel(), 3: w.ravel(), 4: found}
                arrays = [given[ref.slot][ref.offset // x.itemsize :] for ref in step.refs]
                Native([step.kernel]).run(0, arrays)
            assert found.tobytes() == wanted.tobytes(), (k, n, level)


@pytest.mark.parametrize("name", EPILOGUES)
def test_threads_and_epilogues_do_not_show(name: str) -> None:
    rng, epilogue = np.random.default_rng(1), EPILOGUES[name]
    for k, n in SHAPES:
        x, w, c = (rng.normal(size=shape).astype("f") for shape in ((1, k), (n, k), (1, n)))
        f = ws.jit(lambda x, w, c: epilogue(x @ w.T, c))
        wanted = epilogue(partial_sums(x[0], w)[None], c)
        for count in (1, 2, 3):
            with thread_pool.threads(count):
                found = f(x, w, c)
            for a, b in zip(np.atleast_3d(*[found]) if name == "plain" else found, wanted, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (k, n, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_exact_numbers_are_exact(dtype: type) -> None:
    rng = np.random.default_rng(2)
    for k, n in SHAPES:
        x, w = (rng.integers(-1, 2, shape).astype(dtype) for shape in ((k,), (n, k)))
        y = (rng.random(n) < 0.5).astype(dtype)
        wanted = w.astype(int) @ x.astype(int) + 3 * y.astype(int)
        for f in (lambda x, w, y: w @ x + 3 * y, lambda x, w, y: (x[None] @ w.T)[0] + 3 * y):
            assert np.array_equal(np.asarray(ws.jit(f)(x, w, y)).astype(int), wanted.astype(dtype).astype(int))
            (found,) = ProgramInterpreter(plan_of(f, x, w, y))([x, w, y])
            assert np.array_equal(found.astype(int), wanted.astype(dtype).astype(int))


def test_kernels_stay_within_their_buffers() -> None:
    for k, n in SHAPES:
        x, w, c = np.ones((1, k), "f"), np.ones((n, k), "f"), np.ones(n, "f")
        plan = plan_of(lambda x, w, c: np.maximum(np.abs(x) @ w.T + c, 0), x, w, c)
        assert blocks_of(plan)
        stay_within(plan.kernels())


def test_a_row_that_is_computed_is_computed_once() -> None:
    x, w = np.ones((1, 512), "f"), np.ones((512, 512), "f")
    plan = plan_of(lambda x, w: np.tanh(x) @ w.T, x, w)
    first, second = [s for s in plan.steps if isinstance(s, Launch)]
    assert "tanh" in str(first.kernel) or "exp" in str(first.kernel)
    assert "exp" not in str(second.kernel)


def test_few_products_and_more_rows_are_chains() -> None:
    rng = np.random.default_rng(3)
    for m, k, n in ((1, DOT_TERMS - 1, 600), (1, 100, DOT_PRODUCTS // 100 - 1), (2, 100, 700), (15, 300, 200)):
        x, w = rng.normal(size=(m, k)).astype("f"), rng.normal(size=(n, k)).astype("f")
        chain = np.zeros((m, n), "f")
        for at in range(k):
            chain = OPS["fma"].meaning(x[:, at, None], w[:, at], chain)
        assert np.asarray(ws.jit(lambda x, w: x @ w.T)(x, w)).tobytes() == chain.tobytes(), (m, k, n)


THIN = [(17, 100, 2), (100, 17, 3), (40, 40, 2), (30, 300, 4), (9, 77, 5), (33, 20, 8)]
ALONG_TERMS = {"f4": [(17, 100, 2), (40, 40, 2)], "f8": []}
"""Rows, terms and columns of products, and those whose vectors lie along their terms."""


def thin_sum(x: Array, w: Array) -> Array:
    """A sum of products whose vectors lie along its terms, by docs/semantics.md: of two vectors of 64 bytes, or one."""
    count = 64 // x.itemsize
    together = count if x.size <= count else 2 * count
    found = np.zeros(together, x.dtype)
    for at in range(0, x.size, together):
        part = slice(0, min(together, x.size - at))
        found[part] = OPS["fma"].meaning(x[at : at + together], w[at : at + together], found[part])
    while found.size > 1:
        half = max(found.size // 2, 1)
        found = found[:half] + found[half:]
    return found[0]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", THIN)
def test_thin_products_have_the_same_bits_on_every_processor(shape: tuple[int, int, int], dtype: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    chain = np.zeros((m, n), dtype)
    for at in range(k):
        chain = OPS["fma"].meaning(x[:, at, None], w[None, at], chain)
    partial = np.array([[thin_sum(row, np.ascontiguousarray(column)) for column in w.T] for row in x], dtype)
    for level in host_levels():
        (kernel,) = plan_of(lambda x, w: x @ w, x, w, level=level).kernels()
        y = np.zeros((m, n), dtype)
        Native([kernel], named_target(level)).run(0, [x.reshape(-1), w.reshape(-1), y.reshape(-1)])
        assert y.tobytes() == (partial if shape in ALONG_TERMS[dtype] else chain).tobytes(), level
