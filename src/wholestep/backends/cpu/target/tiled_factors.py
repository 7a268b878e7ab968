"""Substitutions, Cholesky factors and eliminations: one call of a routine of our own for all matrices of a stack."""

from __future__ import annotations

import math
from typing import Any

from wholestep.backends.cpu.target.register_tiles import Substitution, elimination_tile, factor_tile, substitution_tile
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

WORTH_SHARING = 1 << 20
"""The arithmetic below which one thread is as quick as two. Measured."""

NARROW_PANEL, WIDE_PANEL, LARGE = 48, 144, 1500
"""The columns of a panel of an elimination; those for large matrices, which no cache holds; and the least rows of a
large matrix. Measured."""
SMALL, MOST_TOGETHER = 1 << 24, 16
"""The multiply-adds of a matrix up to which each thread eliminates its own matrices of a stack, and the most matrices
at a time."""


def substitution_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that solves all systems of a stack; a 0 on a diagonal is an error."""
    (a, b), machine = node.inputs, low.context.target
    (n, columns), count = b.shape[-2:], math.prod(a.shape[:-2])
    tile = substitution_tile(8 * a.dtype.itemsize, columns, machine.vector, machine.registers)
    how = Substitution(*[node.params[word] for word in Substitution._fields])
    facts, message = (tile, how, (n, columns, count)), node.params["message"]
    return [routine_task(low, node, "substitution", facts, (message, float(count * n * n * columns)))]


def factor_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that factors all matrices of a stack; a pivot that is not positive is an error."""
    (a,), machine = node.inputs, low.context.target
    n, count = a.shape[-1], math.prod(a.shape[:-2])
    facts = (factor_tile(machine.vector, machine.registers), (n, count))
    return [routine_task(low, node, "factor", facts, ("Matrix is not positive definite", count * n**3 / 3))]


def elimination_tasks(low: Materializer, node: Node) -> list[Task]:
    """The call that eliminates all matrices of a stack; a pivot of 0 is no error."""
    (a,), machine = node.inputs, low.context.target
    (m, n), count = a.shape[-2:], math.prod(a.shape[:-2])
    tile = elimination_tile(8 * a.dtype.itemsize, machine.vector, machine.registers)
    unit, strips = max(tile.rows, tile.lanes), -(-n // tile.width)
    height = -(-m // unit) * unit
    area = strips * tile.width * height + tile.lanes * (height + tile.lanes)
    products = float(m * n * min(m, n)) * 2 / 3
    together = min(count, MOST_TOGETHER) if products < SMALL else 1
    work = Allocation(together * area * a.dtype.itemsize)
    places = (low.locations[a].place, *[low.locations[x].place for x in node.outputs])
    panel = NARROW_PANEL if max(m, n) < LARGE else WIDE_PANEL
    facts = (tile, max(panel // tile.width, 1), (m, n, height, area, count, together))
    effects = RoutineEffects(
        ((0, a.type.nbytes),),
        tuple([(i, x.type.nbytes) for i, x in enumerate(node.outputs, 1)]),
        products=count * products,
        parallel=count * products >= WORTH_SHARING,
    )

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (RoutineCall("elimination", tuple(map(at.address, (*places, work))), facts, node.where, effects),)

    return [Task(places[:1], places[1:], steps, scratch=(work,))]


def routine_task(low: Materializer, node: Node, routine: str, facts: tuple[Any, ...], told: tuple[str, float]) -> Task:
    """The call of a routine with the operands of a node and its result; `told` is its error message and products."""
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
