"""Argsort: one call of the sorting routine for all rows of unsigned integer keys."""

from __future__ import annotations

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Node
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

MAX_ROW_LENGTH = 2**31
"""Rows must be shorter than this, as positions in a row are kept in 32 bits."""
MAX_INSERTION_SORT = 64
"""Rows of at most this many elements are sorted by insertion, longer ones by the digits of their keys."""
DIGIT_VALUES = 256
ELEMENT_COST = 300
"""The time of one element of a row, in elementwise operations."""


def argsort_operands(low: Materializer, node: Node) -> None:
    """Materialize the keys in row-major order."""
    low.materialize_row_major(node.inputs[0])


def argsort_tasks(low: Materializer, node: Node) -> list[Task]:
    """One routine call for all rows; raises UnsupportedError for rows that are too long."""
    (x,), (order,) = node.inputs, node.outputs
    n, size = x.shape[-1], x.dtype.itemsize
    if n >= MAX_ROW_LENGTH:
        raise UnsupportedError(
            f"sort: compiled programs do not sort rows of {MAX_ROW_LENGTH} elements or more: {x.type}"
        )
    room = n * size if n <= MAX_INSERTION_SORT else 4 * DIGIT_VALUES * size + 2 * n * (4 + size)
    scratch = Allocation(room)
    source, target = low.locations[x].place, low.locations[order].place
    params = (8 * size, n, x.type.size // n)
    elements = x.type.size
    effects = RoutineEffects(((0, size * elements),), ((1, 8 * elements),), operations=ELEMENT_COST * elements)

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (RoutineCall("argsort", tuple(map(at.address, (source, target, scratch))), params, effects=effects),)

    return [Task((source,), (target,), steps, scratch=(scratch,))]
