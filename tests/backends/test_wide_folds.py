"""Folds with few results on cards: many workgroups fold parts, and none waits for a fold that it has no need of."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter

import wholestep as ws
from wholestep.backends.gpu.target import CUDA, OPENCL
from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.lang import Kernel
from wholestep.kernel.workgroups import find_workgroup, item_trips
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.split_reductions import stretch_count
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.lower.target import SplitLimits, Target
from wholestep.passes.pipeline import ALL_PASSES, run_passes

SMALL = replace(OPENCL, split=SplitLimits(elements=24, results=6, sums=0, chunks=12, terms=3))
"""A card on which folds of few elements count as long."""


def lowered(f: Any, *given: Any, target: Target = SMALL) -> LoweredProgram:
    return lower_program(run_passes(ws.jit(f).lower(*given), ALL_PASSES), target)


FOLDS: dict[str, Any] = {
    "sum": lambda x, axes: x.sum(axis=axes),
    "prod": lambda x, axes: (x / 4).prod(axis=axes),
    "max": lambda x, axes: x.max(axis=axes),
    "min": lambda x, axes: x.min(axis=axes),
    "all": lambda x, axes: (x > -4).all(axis=axes),
    "any": lambda x, axes: (x > 3).any(axis=axes),
    "complex": lambda x, axes: (x * (1 + 2j)).sum(axis=axes),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folds_in_parts_mean_the_same(name: str) -> None:
    """Random shapes and axes; sums of small whole numbers are exact in any order."""
    rng = np.random.default_rng(sum(map(ord, name)))
    apart = 0
    for _ in range(25):
        shape = tuple(rng.choice([1, 2, 3, 5, 7, 16, 29, 31, 64], size=rng.integers(1, 4)).tolist())
        axes = tuple(i for i in range(len(shape)) if rng.random() < 0.75) or (0,)
        x = rng.integers(-4, 5, shape).astype(np.float32)
        if name in ("max", "min") and rng.random() < 0.5:
            x[tuple(rng.integers(0, n) for n in shape)] = np.nan
        fold = partial(FOLDS[name], axes=axes)
        plan = lowered(fold, x)
        apart += len(plan.kernels()) > 1
        (found,) = ProgramInterpreter(plan)([x])
        np.testing.assert_allclose(found, fold(x), rtol=1e-6 if name == "prod" else 0, err_msg=str(shape))
    assert apart > 5


def work(kernel: Kernel) -> int:
    """The trips of a thread, which must be few in a kernel without many points; 0 for other kernels."""
    points = math.prod([a.extent for a in find_workgroup(kernel).grid])
    return item_trips(kernel) if points < 64 else 0


@pytest.mark.parametrize("shape", [(784, 256), (1_000_000,), (65_537,), (1, 50_257), (3, 7, 100_003), (2, 200_000)])
@pytest.mark.parametrize("name", ["sum", "all"])
def test_no_workgroup_folds_much_by_itself(name: str, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    axes = tuple(range(len(shape)))
    for f in (lambda x: FOLDS[name](x, axes), lambda x: FOLDS[name](x, axes[1:] or axes)):
        kernels = lowered(f, x, target=CUDA).kernels()
        assert max(map(work, kernels)) < 200, kernels


def test_short_folds_stay_one_kernel() -> None:
    (kernel,) = lowered(lambda x: x.sum(), np.zeros(5000, np.float32), target=CUDA).kernels()
    assert kernel.name == "sum"
    rows = lowered(lambda x: x - x.max(axis=1, keepdims=True), np.zeros((32, 4000), np.float32), target=CUDA)
    assert len(rows.kernels()) == 1, "32 rows of some thousand elements keep their workgroups"


@pytest.mark.parametrize(("shape", "columns"), [((784, 256), 256), ((100, 64), 64), ((784, 256), 200)])
def test_threads_run_along_memory(shape: tuple[int, ...], columns: int) -> None:
    """Threads run along the contiguous axis even if another one is longer."""
    x = np.zeros(shape, np.float32)
    (first, *_) = lowered(lambda x: np.isfinite(x[:, :columns]).all(), x, target=CUDA).kernels()
    (thread,) = find_workgroup(first).threads
    loads = [a for a in memory_accesses(first.body) if a.buffer is first.buffers[0]]
    assert thread.extent == 64 and all(a.offset.coefficient(thread) == 1 for a in loads)


def test_stretches_leave_little_over() -> None:
    assert stretch_count(784, 256, exact=False) == 196
    assert stretch_count(10_007, 39, exact=True) == 1
    for n in (10_007, 65_537, 1031, 999_983):
        count = stretch_count(n, 64, exact=False)
        assert 32 < count <= 64 and n % count < 8


def test_sums_in_parts_are_as_exact_as_before() -> None:
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(301, 211)) + 1).astype(np.float32)
    exact = x.astype(np.float64).sum()
    (found,) = ProgramInterpreter(lowered(lambda x: x.sum(), x, target=OPENCL))([x])
    assert abs(float(found) - exact) < 4 * np.spacing(np.float32(exact))


def verdict(*arrays: Any) -> Any:
    flag = np.isfinite(arrays[0].sum())
    for x in arrays:
        flag = flag & np.isfinite(x).all()
    return flag


def test_verdicts_wait_for_none_of_the_others() -> None:
    """A kernel of a chain of verdicts reads one array, or only verdicts."""
    given = [np.ones(n, np.float32) for n in (100, 70, 9_000, 33, 9)]
    plan = lowered(verdict, *given, target=CUDA)
    assert any(k.buffers[0].size == 9_000 and k.buffers[1].size > 1 for k in plan.kernels())  # a verdict in parts
    for kernel in plan.kernels():
        sizes = [b.size for b in kernel.buffers if not b.written]
        assert len(sizes) == 1 or max(sizes) == 1, str(kernel)
    for i, x in enumerate(given):
        for at in {(i % 2) * (len(x) - 1), len(x) - 1}:
            wrong = [y.copy() for y in given]
            wrong[i][at] = np.inf if at else np.nan
            assert ProgramInterpreter(plan)(wrong) == [False]
    assert ProgramInterpreter(plan)(given) == [True]


def test_small_values_share_no_memory() -> None:
    """No address is written by two launches: buffers with disjoint live ranges lie apart, so launches may overlap."""
    plan = lowered(verdict, *[np.ones(n, np.float32) for n in (100, 70, 20_000, 33, 9)], target=CUDA)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    pairs = [pair for step in launches for pair in zip(step.refs, step.kernel.buffers, strict=True)]
    written = [ref for ref, buffer in pairs if buffer.written]
    assert len(set(written)) == len(written)


def test_values_share_memory_within_a_budget() -> None:
    """A memory budget outweighs independent launches: buffers with disjoint live ranges share memory."""
    given = [np.ones(n, np.float32) for n in (20_000, 30_000, 40_000)]
    graph = run_passes(ws.jit(verdict).lower(*given), ALL_PASSES)
    free, tight = [lower_program(graph, CUDA, budget=b).arena for b in (None, MemoryBudget(share=1.0))]
    assert tight < free
