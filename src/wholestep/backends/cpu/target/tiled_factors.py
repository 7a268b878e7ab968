"""Substitutions and Cholesky factors: one call of a routine of our own for all matrices of a stack."""

from __future__ import annotations

import math
from typing import Any

from wholestep.backends.cpu.target.register_tiles import Substitution, factor_tile, substitution_tile
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

WORTH_SHARING = 1 << 20
"""The arithmetic below which one thread is as quick as two. Measured."""


def matrices_in_rows(low: Materializer, node: Node) -> None:
    """Materialize the operands in row-major order."""
    for x in node.inputs:
        low.materialize_row_major(x)


def substitution_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that solves all systems of a stack; a 0 on a diagonal is an error."""
    (a, b), machine = node.inputs, low.context.target
    (n, columns), count = b.shape[-2:], math.prod(a.shape[:-2])
    tile = substitution_tile(8 * a.dtype.itemsize, columns, machine.vector, machine.registers)
    facts = (tile, Substitution(**node.params), (n, columns, count))
    message = "singular matrix: resolution failed at diagonal {value}"
    return [routine_task(low, node, "substitution", facts, (message, float(count * n * n * columns)))]


def factor_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that factors all matrices of a stack; a pivot that is not positive is an error."""
    (a,), machine = node.inputs, low.context.target
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    facts = (factor_tile(machine.vector, machine.registers), (n, count))
    return [routine_task(low, node, "factor", facts, ("Matrix is not positive definite", count * n**3 / 3))]


def routine_task(low: Materializer, node: Node, routine: str, facts: tuple[Any, ...], told: tuple[str, float]) -> Task:
    """The call of a routine with the operands of a node and its result; told are its error and its arithmetic."""
    message, products = told
    sources = tuple([low.locations[x].place for x in node.inputs])
    (result,) = node.outputs
    target, site = low.locations[result].place, low.context.site("linalg", (message, ""), node.where)
    reads = tuple([(i, x.type.nbytes) for i, x in enumerate(node.inputs)])
    writes = ((len(sources), result.type.nbytes),)
    effects = RoutineEffects(reads, writes, fallible=True, products=products, parallel=products >= WORTH_SHARING)

    def steps(at: Assignment) -> tuple[Step, ...]:
        refs = tuple(map(at.address, (*sources, target)))
        return (RoutineCall(routine, refs, (*facts, site), node.where, effects),)

    return Task(sources, (target,), steps, check=True)
