"""The order of tasks: tasks that an early one depends on come right before it, even if they are listed late."""

from __future__ import annotations

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler.driver import compile_graph
from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index
from wholestep.lower.buffers import task_order
from wholestep.lower.buffers.task_order import OverwrittenOperands, turns_of
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.kernels.kernel_writer import BoundKernel
from wholestep.lower.program.allocation import Allocation


def task() -> Task:
    """A task that touches no memory."""
    return Task((), (), lambda assignment: ())


def order(after: list[set[int]]) -> list[int]:
    """The order of tasks, given the tasks that each of them depends on."""
    return [i for *_, i in sorted(turns_of([task() for _ in after], after))]


def test_a_task_that_an_early_one_needs_stands_where_that_does() -> None:
    assert order([set(), {4}, set(), set(), set()]) == [0, 1, 4, 2, 3]


def test_what_such_a_task_needs_stands_there_too() -> None:
    assert order([set(), {4}, set(), set(), {5}, set()]) == [0, 1, 4, 5, 2, 3]


def test_the_first_task_that_needs_one_decides() -> None:
    assert order([set(), {5}, set(), {4, 5}, set(), set()]) == [0, 1, 5, 2, 3, 4]


def test_tasks_that_need_what_comes_before_stay() -> None:
    assert order([set(), {0}, {0, 1}, {2}]) == [0, 1, 2, 3]


def test_the_accesses_of_a_kernel_are_found_once_for_all_its_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(task_order, "memory_accesses", lambda body: found.append(body) or memory_accesses(body))

    def delayed(x: np.ndarray) -> np.ndarray:
        states = [x[0]] * 18
        for _ in range(40):
            states.append(states[-1] + x[1] * states[-18] / (1 + states[-18] ** 2) - x[2] * states[-1])
        return np.mean(np.stack(states) ** 2)

    program = compile_graph(ws.jit(ws.grad(delayed)).lower(np.ones(3)))
    assert len(found) <= len(list(program.plan.launches()))


@pytest.mark.parametrize("early", [False, True])
def test_a_row_is_read_before_it_is_replaced(early: bool) -> None:
    """A kernel that exchanges the two elements of each row may write over its operand where both loads come first."""
    axis, places = Axis("i", 8), (Allocation(64), Allocation(64))
    with KernelBuilder("exchange") as builder:
        old, new = (builder.buffer(name, np.dtype(np.float32), 16) for name in ("old", "new"))
        with builder.loop(axis):
            here = Index(0, {axis: 2})
            second = builder.load(old, here + 1)
            first = builder.load(old, here) if early else None
            builder.store(new, here, second)
            builder.store(new, here + 1, first or builder.load(old, here))
    operands = OverwrittenOperands(BoundKernel(builder.kernel(), places))
    assert operands.by(places[1], places[0]) == early
