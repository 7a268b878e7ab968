"""Sorts: one call of a sorting routine for all rows of unsigned integer keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.backends.cpu.target.row_sort import MAX_SORTED, RowSort
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Node, Value
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Assignment, Task
from wholestep.lower.legalize.sort import expand_sort, sorted_values
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.steps import RoutineCall, RoutineEffects, Step

MAX_ROW_LENGTH = 2**31
"""Rows must be shorter than this, as positions in a row are kept in 32 bits."""
MAX_INSERTION_SORT = 64
"""Rows of at most this many elements are sorted by insertion, longer ones by the digits of their keys."""
DIGIT_VALUES = 256
ELEMENT_COST = 300
"""The time of one element of a row, in elementwise operations."""
NETWORK_COST = 40
"""The time of one element of a row that a network sorts."""


def argsort_operands(low: Materializer, node: Node) -> None:
    """Materialize the keys in row-major order."""
    low.materialize_row_major(node.inputs[0])


def argsort_tasks(low: Materializer, node: Node) -> list[Task]:
    """One routine call for all rows; raises UnsupportedError for rows that are too long."""
    (x,) = node.inputs
    n, size = x.shape[-1], x.dtype.itemsize
    if n >= MAX_ROW_LENGTH:
        raise UnsupportedError(
            f"sort: compiled programs do not sort rows of {MAX_ROW_LENGTH} elements or more: {x.type}"
        )
    rows, vector = x.type.size // n, low.context.target.vector
    if n <= MAX_SORTED:
        sort = RowSort(8 * size, n, rows, True, False, vector)
        params, room = (8 * size, n, rows, vector), sort.scratch_bytes
        return [sort_task(low, node, "argsort", params, room, NETWORK_COST)]
    params, room = (8 * size, n, rows, 0), 4 * DIGIT_VALUES * size + 2 * n * (4 + size)
    return [sort_task(low, node, "argsort", params, room, ELEMENT_COST)]


def sorted_rows_tasks(low: Materializer, node: Node) -> list[Task]:
    """One routine call for all rows, which a network sorts."""
    (x,), n = node.inputs, node.inputs[0].shape[-1]
    vector, floats = low.context.target.vector, node.params["floats"]
    bits, rows = 8 * x.dtype.itemsize, x.type.size // n
    sort, params = RowSort(bits, n, rows, False, floats, vector), (bits, n, rows, vector, floats)
    return [sort_task(low, node, "sort", params, sort.scratch_bytes, NETWORK_COST)]


def sort_task(low: Materializer, node: Node, routine: str, params: tuple[int, ...], room: int, cost: int) -> Task:
    """The call of a routine with its operand, its result and `room` bytes of scratch memory."""
    (x,), (result,) = node.inputs, node.outputs
    scratch, source, target = Allocation(room), low.locations[x].place, low.locations[result].place
    writes = (1, result.type.nbytes)
    effects = RoutineEffects(((0, x.type.nbytes),), (writes,), operations=cost * x.type.size)

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (RoutineCall(routine, tuple(map(at.address, (source, target, scratch))), params, effects=effects),)

    return Task((source,), (target,), steps, scratch=(scratch,))


def expand_unordered(x: Value, *, axis: int, **params: Any) -> Sequence[Value]:
    """A sort whose order is not read: rows that a network can sort are sorted as values, without an argsort."""
    values, order = expand_sort(x, axis=axis)
    n = x.shape[axis]
    if x.dtype.kind == "c" or not isinstance(n, int) or n > MAX_SORTED or x.type.size == 0:
        return values, order
    return sorted_values(x, axis=axis), order


SORT_EXPANSIONS = {"values of sort": expand_unordered, "values of partition": expand_unordered}
"""The expansions of sorts of which only the values are read; a sort partitions at every place."""
