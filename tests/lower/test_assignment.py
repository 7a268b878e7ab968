"""Buffer assignment is a value beside the tasks: nothing that is made is changed, neither the tasks nor the value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from tests.lower.test_budget import planned, works_of

import wholestep as ws
from wholestep.ir.graph import Graph
from wholestep.lower.buffers.tasks import Task, TaskGraph
from wholestep.lower.program.memory_layout import MemoryLayout
from wholestep.lower.program.steps import walk_steps
from wholestep.lower.remat.solve import BudgetSolver
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.training import training

SEEDS = range(8)


def nested() -> Graph:
    """A loop with stacked carries in a loop with a branch, and the derivative of both."""

    def inner(c: Any, x: Any) -> Any:
        c = np.tanh(c @ c + x)
        return c, c

    def outer(c: Any, x: Any) -> Any:
        c, rows = ws.scan(inner, c, x)
        return ws.cond(np.sum(c) > 0, lambda y: np.sort(y @ y, axis=0), lambda y: np.exp(y), c), np.sum(rows)

    def loss(c: Any, x: Any) -> Any:
        last, sums = ws.scan(outer, c, x)
        return np.sum(last) + np.sum(sums)

    return ws.jit(ws.grad(loss)).lower(np.ones((4, 4), np.float32), np.ones((3, 5, 4, 4), np.float32))


def graphs() -> list[Any]:
    """Task graphs of programs with their memory layouts, before buffer assignment."""
    made = [training((23, i), 30) for i in SEEDS]
    return [
        works_of(run_passes(nested(), ALL_PASSES)),
        *[works_of(run_passes(m.graph, ALL_PASSES), m.resident) for m in made],
    ]


def solved(found: TaskGraph, layout: MemoryLayout) -> BudgetSolver:
    solver = BudgetSolver(layout, lambda task: 1.0, {})
    solver.fit(found)
    return solver


def walk_tasks(found: TaskGraph) -> list[Task]:
    """The tasks of a graph and of the graphs in it."""
    return [t for task in found.tasks for t in (task, *[t for inner in task.inner for t in walk_tasks(inner)])]


def test_the_same_tasks_are_assigned_alike() -> None:
    for found, layout in graphs():
        first, second = solved(found, layout).assignment(), solved(found, layout).assignment()
        assert first == second and first.steps(found) == second.steps(found)
        assert first.layout.placements and len(first.graphs) == 1 + sum(len(t.inner) for t in walk_tasks(found))


def test_a_later_assignment_leaves_the_one_before_as_it_was() -> None:
    changed = 0
    for found, layout in graphs():
        solver = solved(found, layout)
        first = solver.assignment()
        tasks, text, before = found.tasks, str(first), str(layout)
        solver.fit_within(found, first.graphs[found].arena_bytes // 2)
        changed += solver.assignment() != first
        assert (found.tasks, str(first), str(layout)) == (tasks, text, before)
        assert solved(found, layout).assignment() == first
    assert changed > len(SEEDS) // 2


def test_what_is_made_cannot_be_changed() -> None:
    found, layout = graphs()[0]
    assigned = solved(found, layout).assignment()
    program = planned(training((23, 0), 30))
    place = next(p for task in found.tasks for p in task.writes)
    for made in (
        place,
        found,
        found.tasks[0],
        layout,
        assigned,
        assigned.graphs[found],
        program,
        program.kernels()[0],
        *walk_steps(program.steps),
    ):
        for name in type(made).__dataclass_fields__:
            with pytest.raises(FrozenInstanceError):
                setattr(made, name, getattr(made, name))
    for mapping in (layout.placements, assigned.layout.placements, assigned.graphs):
        with pytest.raises(TypeError):
            mapping[place] = None
