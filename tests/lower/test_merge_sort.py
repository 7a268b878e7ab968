"""Merge sort: the order of rows of keys on a target without a library that sorts, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter

from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.lower.compile import lower_program
from wholestep.lower.target import SCALAR
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes

SHAPES = [(1,), (2,), (3,), (24,), (3, 65), (4, 1), (2, 3, 17), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_with_ties_are_sorted_in_a_stable_order(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, max(shape[-1] // 3, 2), shape).astype(np.float32)
    graph, _ = build(lambda x: OPS["sort"](x, axis=len(shape) - 1), [type_of(x)])
    plan = lower_program(run_passes(graph, ALL_PASSES), SCALAR)
    verify_program(plan)
    values, order = ProgramInterpreter(plan)([x])
    np.testing.assert_array_equal(order, np.argsort(x, -1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, -1))
