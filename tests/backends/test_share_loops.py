"""Rows shared by workgroups: lowered kernels give the same numbers as threads of a workgroup, in any order of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

import wholestep as ws
from wholestep.backends.gpu.collapse_folds import collapse_folds
from wholestep.backends.gpu.share_loops import find_shared, share_loops
from wholestep.kernel.lang import Kernel, Loop, Var, walk
from wholestep.kernel.verify import verify_kernel
from wholestep.lower.compile import lower_program
from wholestep.lower.target import SCALAR
from wholestep.passes.pipeline import ALL_PASSES, run_passes

THREADS = 4
"""Workgroups of few threads, which the interpreter runs one after another."""


def whole(*shape: int) -> np.ndarray[Any, Any]:
    """Small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


def spread(x: Any) -> Any:
    return (x - x.max(axis=1, keepdims=True)) * x.sum(axis=1, keepdims=True)


NAN = np.where(whole(3, 10) == 4, np.nan, whole(3, 10)).astype(np.float32)
PROGRAMS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "rows in three passes": (spread, [whole(3, 12)]),
    "rows with a rest": (lambda x: x.sum(axis=1), [whole(3, 11)]),
    "columns": (lambda x: x.sum(axis=0), [whole(9, 2)]),
    "all": (lambda x: x.sum(), [whole(33)]),
    "several axes": (lambda x: x.sum(axis=(1, 2)), [whole(2, 3, 7)]),
    "several axes apart": (lambda x: x.sum(axis=(0, 2)), [whole(5, 2, 3)]),
    "nan wins": (lambda x: x.max(axis=1), [NAN]),
    "truth": (lambda x: (x > 3).any(axis=1), [whole(3, 10)]),
    "the first of the largest": (lambda x: np.argmax(x, axis=1), [whole(3, 20)]),
    "two sums at once": (lambda x: (x * 1j + 1).sum(axis=1), [whole(3, 8)]),
    "products": (lambda x, y: x @ y, [whole(2, 9), whole(9, 3)]),
    "the first index outside": (lambda x, i: x[i], [whole(5, 2), np.arange(9) % 5]),
}


def assert_same(kernel: Kernel, shared: Kernel, seed: int) -> None:
    """The kernel and its workgroups, whose threads take turns forwards and backwards."""
    verify_kernel(shared)
    given = random_arrays(kernel, seed)
    wanted = [a.copy() for a in given]
    run_kernel(kernel, wanted)
    for order in (range, lambda n: range(n)[::-1]):
        found = [a.copy() for a in given]
        run_kernel(shared, found, order=order)
        for buffer, x, y in zip(kernel.buffers, found, wanted, strict=True):
            assert agree(x, y), f"{buffer.name}:\n{kernel}\n{shared}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_shared(name: str) -> None:
    function, given = PROGRAMS[name]
    plan = lower_program(run_passes(ws.jit(function).lower(*given), ALL_PASSES), SCALAR)
    pairs = [(kernel, share_loops(kernel, THREADS)) for kernel in plan.kernels()]
    made = [(kernel, shared) for kernel, shared in pairs if shared is not kernel]
    assert made, f"nothing is shared:\n{plan.kernels()[0]}"
    for kernel, shared in made:
        assert_same(kernel, shared, 1)


def test_random_kernels_are_shared() -> None:
    count = 0
    for seed in range(6000, 6060):
        kernel = random_kernel(seed)
        if not any(isinstance(s, Var) and s.op == "across" for s in walk(kernel.body)):
            shared = share_loops(kernel, THREADS)
            if shared is not kernel:
                assert_same(kernel, shared, seed)
                count += 1
    assert count > 1


@pytest.mark.parametrize("threads", [16, 20, 24, 64])
@pytest.mark.parametrize("fold", ["add", "mul", "max", "min"])
def test_threads_bring_their_parts_together(fold: str, threads: int) -> None:
    """A few threads first fold the parts of the other threads, where there are many; NaN wins at any position."""
    for n in (threads, 2 * threads + 1, 131):
        kernel = parse_kernel(FOLDED.format(n=n, fold=fold))
        shared = share_loops(kernel, threads)
        assert shared is not kernel and len(shared.scratch) == (2 if threads >= 24 else 1)
        verify_kernel(shared)
        x = (
            np.random.default_rng(n).integers(1, 5, n).astype(np.float64)
            if fold == "add"
            else 2.0 ** -(np.arange(n) % 3)
        )
        for given in [x, *[np.where(np.arange(n) == at, np.nan, x) for at in (0, n - 1)]]:
            for order in (range, lambda n: range(n)[::-1]):
                wanted, found = np.zeros(1), np.zeros(1)
                run_kernel(kernel, [given, wanted])
                run_kernel(shared, [given, found], order=order)
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_collapsed_folds_mean_the_same(name: str) -> None:
    function, given = PROGRAMS[name]
    plan = lower_program(run_passes(ws.jit(function).lower(*given), ALL_PASSES), SCALAR)
    for kernel in plan.kernels():
        made = collapse_folds(kernel)
        for found in (made, share_loops(made, THREADS)):
            if found is not kernel:
                assert_same(kernel, found, 1)


NEST = """\
kernel nest(x: f64[{size}], mut y: f64[2]):
    v0 = f64(1.0)
    for i in 3:
        carry v1 from v0
        for j in 5:
            carry v2 from v1
            for k in 7:
                v3 = x[{i}*i + {j}*j + k]
                fold v4 = {op}(v3) from v2
            next v2 = v4, after v5
        next v1 = v5, after v6
    for k in 7:
        v7 = x[k]
        fold v8 = max(v7) from v6
    y[0] = v6
    y[1] = v8
"""


@pytest.mark.parametrize(("i", "j", "loops"), [(35, 7, 2), (35, 14, 4), (70, 7, 3), (34, 7, 3), (0, 7, 3)])
@pytest.mark.parametrize("op", ["add", "min"])
def test_a_nest_that_goes_through_memory_as_one_is_one_loop(op: str, i: int, j: int, loops: int) -> None:
    kernel = parse_kernel(NEST.format(i=i, j=j, op=op, size=2 * i + 4 * j + 7))
    made = collapse_folds(kernel)
    assert sum(isinstance(s, Loop) for s in walk(made.body)) == loops
    verify_kernel(made)
    x = np.random.default_rng(i + j).integers(-9, 9, kernel.buffers[0].size).astype(np.float64)
    found, wanted = np.zeros(2), np.zeros(2)
    run_kernel(kernel, [x, wanted])
    run_kernel(made, [x, found])
    np.testing.assert_array_equal(found, wanted)


def test_threads_share_an_axis_along_memory_before_a_longer_one() -> None:
    kernel = parse_kernel(NEST.format(i=35, j=7, op="add", size=105).replace("for k in 7", "for k in 4"))
    nest = next(s for s in kernel.body if isinstance(s, Loop))
    assert find_shared(nest, THREADS).extent == 4


FOLDED = """\
kernel folded(x: f64[{n}], mut y: f64[1]):
    v0 = f64(2.0)
    for i in {n}:
        v1 = x[i]
        fold v2 = {fold}(v1) from v0
    y[0] = v2
"""
IN_PLACE = """\
kernel norm(x: f32[70], size: f32[1], mut y: f32[70], mut after: f32[1]):
    v0 = f32(0.0)
    for i in 70:
        v1 = x[i]
        fold v2 = add(v1) from v0
    v3 = size[0]
    v4 = v3 + v2
    for i in 70:
        v5 = x[i]
        v6 = v5 + v4
        y[i] = v6
    after[0] = v4
"""
"""A row whose results replace its operands in memory."""


@pytest.mark.parametrize("first", ["lowest", "highest"])
def test_no_thread_stores_over_what_another_still_loads(first: str) -> None:
    kernel = parse_kernel(IN_PLACE)
    shared = share_loops(kernel, 64)
    assert shared is not kernel
    x, size = np.arange(70, dtype="f"), np.ones(1, "f")
    run_kernel(shared, [x, size, x, size], order=range if first == "lowest" else lambda n: range(n)[::-1])
    np.testing.assert_array_equal(x, np.arange(70, dtype="f") + 2416)
    assert size[0] == 2416


def test_rows_as_text(golden: Any) -> None:
    plan = lower_program(run_passes(ws.jit(spread).lower(whole(3, 12)), ALL_PASSES), SCALAR)
    golden("\n\n".join(str(share_loops(kernel, THREADS)) for kernel in plan.kernels()))
