"""Fewer launches on cards: a product's readers are its epilogue, and a buffer is reused only some tasks later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter

import wholestep as ws
from wholestep.backends.gpu.target import OPENCL
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch
from wholestep.lower.target import SCALAR, ReuseLimits, Target
from wholestep.passes.pipeline import ALL_PASSES, run_passes


def lowered(f: Any, *given: Any, target: Target = OPENCL) -> LoweredProgram:
    return lower_program(run_passes(ws.jit(f).lower(*given), ALL_PASSES), target)


def layer(x: Any, w: Any, y: Any) -> Any:
    return np.tanh(y + x @ w) * 0.5 + y


@pytest.mark.parametrize("lead", [(6,), (2, 3), (2, 1, 5), (3, 2, 4)], ids=str)
def test_what_follows_a_product_is_done_by_its_kernel(lead: tuple[int, ...]) -> None:
    """Rows of several axes are one axis of the product, which is split again for its readers."""
    rng = np.random.default_rng(0)
    shapes = ((*lead, 7), (7, 5), (*lead, 5))
    given = [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    plan = lowered(layer, *given)
    assert len(plan.kernels()) == 1
    (found,) = ProgramInterpreter(plan)(given)
    np.testing.assert_allclose(found, layer(*given), rtol=1e-6)


def test_a_product_whose_rows_are_parted_otherwise_stays_alone() -> None:
    """Rows of shape (8, 3) cannot be split into (4, 6), although both have 24 rows."""
    x, w, y = np.ones((8, 3, 5), np.float32), np.ones((5, 2), np.float32), np.ones((4, 6, 2), np.float32)
    plan = lowered(lambda x, w, y: np.tanh((x @ w).reshape(4, 6, 2) * y) + np.tanh(x @ w).reshape(4, 6, 2), x, w, y)
    (found,) = ProgramInterpreter(plan)([x, w, y])
    np.testing.assert_allclose(found, np.tanh(5 * y) + np.tanh(np.float32(5)), rtol=1e-6)


def chain(x: Any) -> Any:
    """Sums along rows, each of which reads the result of the one before in reversed order."""
    for _ in range(9):
        x = np.cumsum(x[::-1], axis=1)[:, ::-1] / 4 + np.max(x, axis=0)
    return x


@pytest.mark.parametrize("apart", [1, 3, 5])
def test_values_in_one_place_are_tasks_apart(apart: int) -> None:
    x = np.arange(96, dtype=np.float32).reshape(8, 12)
    plan = lowered(chain, x, target=replace(SCALAR, reuse=ReuseLimits(apart=apart)))
    touched: dict[int, int] = {}
    again = list[int]()
    for at, step in enumerate([step for step in plan.steps if isinstance(step, Launch)]):
        own = [(int(ref.offset), b) for ref, b in zip(step.refs, step.kernel.buffers, strict=True) if not ref.slot]
        read = {offset for offset, b in own if not b.written}
        again += [at - touched[offset] for offset, b in own if b.written and offset in touched.keys() - read]
        touched |= {offset: at for offset, _ in own}
    assert again and min(again) >= apart, again
    assert (plan.arena > lowered(chain, x, target=SCALAR).arena) == (apart > 1)


def read_twice(x: Any, w: Any) -> Any:
    """Sums that a product reads, and soon afterwards a kernel whose result could replace them."""
    sums = np.cumsum(x, axis=1)
    return np.cumsum(np.exp(sums * (sums @ w)[:, None]), axis=0)


@pytest.mark.parametrize("apart", [1, 2, 3, 5])
def test_what_another_task_has_just_read_is_not_written_over(apart: int) -> None:
    """In place, the kernel would wait for the product, and could not run at the same time."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 12)).astype(np.float32), rng.normal(size=12).astype(np.float32) / 100
    plan = lowered(read_twice, x, w, target=replace(SCALAR, reuse=ReuseLimits(apart=apart)))
    in_place = 0
    for step in plan.launches():
        own = [(int(ref.offset), b) for ref, b in zip(step.refs, step.kernel.buffers, strict=True) if not ref.slot]
        in_place += bool({at for at, b in own if b.written} & {at for at, b in own if not b.written})
    assert in_place == (apart <= 2), "the copy that the product reads is made two tasks before"
    (found,) = ProgramInterpreter(plan)([x, w])
    np.testing.assert_allclose(found, read_twice(x, w), rtol=1e-5)
