"""The block of memory of a native program: where its state, its batches, its results and its scratch memory lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.ir.types import Type
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.placed import PlacedProgram
from wholestep.lower.program.program import FIRST_INPUT, LoweredProgram

ALIGNMENT = 64
CONTEXT_BYTES = 128
"""The bytes of the head of the block, where a program notes the operation that failed."""


class PlacedArray(NamedTuple):
    """An array in the block: its path as a user spells it, its type, and the bytes before it."""

    path: str
    type: Type
    offset: int

    @property
    def stored(self) -> np.dtype[Any]:
        """The dtype of its elements in memory: a complex number is two real ones."""
        return dtypes.real_of(self.type.dtype) if self.type.dtype.kind == "c" else self.type.dtype


class NativeFunction(NamedTuple):
    """A program before its arrays have offsets: its inputs are arrays of the state, by number, or its own, by path."""

    name: str
    plan: LoweredProgram
    inputs: tuple[int | str, ...]
    """For each input the number of an array of the state, or the path of an array that the caller fills."""
    outputs: tuple[str, ...]
    """The path of each output; "" for an output that replaces its input."""
    formulas: tuple[str, ...] = ()
    """The library functions that formulas replace."""


class StateArray(NamedTuple):
    """An array of the state: its path in a checkpoint, its type, and its location in memory.

    Arrays that are rows of one allocation have the same `home`, and each its `distance` from the first.
    """

    path: str
    type: Type
    home: int
    distance: int = 0


class PlacedFunction(NamedTuple):
    """A program in the block, and the arrays that its caller fills and reads."""

    program: PlacedProgram
    inputs: tuple[PlacedArray, ...]
    outputs: tuple[PlacedArray, ...]
    formulas: tuple[str, ...]


@dataclass(frozen=True)
class MemoryBlock:
    """The layout of a native program's memory; the first function is the step."""

    state: tuple[PlacedArray, ...]
    functions: tuple[PlacedFunction, ...]
    nbytes: int
    kept: tuple[int, int, int] | None
    """The place of the copy of the state that a step leaves before it begins, and the start and size of the state; None
    for a step that never fails once it has written."""


class Room:
    """Memory handed out from the beginning of a block on."""

    def __init__(self) -> None:
        self.top = CONTEXT_BYTES

    def take(self, nbytes: int) -> int:
        """The offset of the next `nbytes` bytes, aligned."""
        at = -(-self.top // ALIGNMENT) * ALIGNMENT
        self.top = at + max(int(nbytes), 1)
        return at


def laid_out(state: Sequence[StateArray], functions: Sequence[NativeFunction]) -> MemoryBlock:
    """The block of a step and the functions beside it; they share one arena, whose contents no function keeps."""
    room = Room()
    first = room.take(0)
    homes = {home: room.take(nbytes) for home, nbytes in home_sizes(state).items()}
    placed = tuple([PlacedArray(s.path, s.type, homes[s.home] + s.distance) for s in state])
    size = room.top - first
    arrays = [function_arrays(f, placed, room) for f in functions]
    step = functions[0]
    arena = room.take(max(int(f.plan.arena) for f in functions))
    resident = {place for place, path in zip(step.plan.outputs, step.outputs, strict=True) if not path}
    kept = (room.take(size), first, size) if fails_late(step.plan.steps, resident) else None
    found = [
        PlacedFunction(PlacedProgram(f.name, f.plan, offsets, arena), inputs, outputs, f.formulas)
        for f, (offsets, inputs, outputs) in zip(functions, arrays, strict=True)
    ]
    return MemoryBlock(placed, tuple(found), -(-room.top // ALIGNMENT) * ALIGNMENT, kept)


def home_sizes(state: Iterable[StateArray]) -> dict[int, int]:
    """The bytes of each home."""
    sizes: dict[int, int] = {}
    for s in state:
        sizes[s.home] = max(sizes.get(s.home, 0), s.distance + int(s.type.nbytes))
    return sizes


def function_arrays(
    function: NativeFunction, state: Sequence[PlacedArray], room: Room
) -> tuple[tuple[int, ...], tuple[PlacedArray, ...], tuple[PlacedArray, ...]]:
    """The place of each slot of a function's plan, and the arrays that its caller fills and reads."""
    plan = function.plan
    offsets = [0] * len(plan.slots)
    inputs, outputs = [], []
    for place, source in zip(plan.inputs, function.inputs, strict=True):
        slot = place - FIRST_INPUT
        if isinstance(source, int):
            offsets[slot] = state[source].offset
        else:
            inputs.append(PlacedArray(source, plan.slots[slot].type, room.take(plan.slots[slot].type.nbytes)))
            offsets[slot] = inputs[-1].offset
    for place, path in zip(plan.outputs, function.outputs, strict=True):
        slot = place - FIRST_INPUT
        if path:
            outputs.append(PlacedArray(path, plan.slots[slot].type, room.take(plan.slots[slot].type.nbytes)))
            offsets[slot] = outputs[-1].offset
    return tuple(offsets), tuple(inputs), tuple(outputs)
