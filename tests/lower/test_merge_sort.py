"""Sorts without a library: the order of rows of keys by merging and by ranks, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter

from wholestep.backends.gpu.target import CUDA
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.lower.compile import lower_program
from wholestep.lower.target import SCALAR, Target
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes

SHAPES = [(1,), (2,), (3,), (24,), (3, 65), (4, 1), (2, 3, 17), (3, 0)]


@pytest.mark.parametrize("target", [SCALAR, CUDA], ids=["merged", "ranked"])
@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "f2"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_with_ties_are_sorted_in_a_stable_order(shape: tuple[int, ...], dtype: str, target: Target) -> None:
    x = np.random.default_rng(0).integers(0, max(shape[-1] // 3, 2), shape).astype(dtype)
    graph, _ = build(lambda x: OPS["sort"](x, axis=len(shape) - 1), [type_of(x)])
    plan = lower_program(run_passes(graph, ALL_PASSES), target)
    verify_program(plan)
    values, order = ProgramInterpreter(plan)([x])
    np.testing.assert_array_equal(order, np.argsort(x, -1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, -1))
