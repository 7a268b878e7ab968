"""Symbolic sizes: the operations that support them, the constraints on them, and their substitution by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from wholestep.dims import Dim, Size, SymbolicError, most, surely_above
from wholestep.errors import UnsupportedError, Where
from wholestep.ir.graph import Graph, Node
from wholestep.ir.types import Type, array_type
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import ForLoop, Launch, MemRef, RoutineCall, RoutineEffects, Step, map_nested
from wholestep.primitives.loops import Scan
from wholestep.primitives.movement import Slice

SYMBOLIC_SIZE_HINT = "write it without that axis, or give numbers for the sizes"


@contextmanager
def blame_symbolic_errors(node: Node) -> Iterator[None]:
    """A SymbolicError inside becomes an UnsupportedError that names the operation and the user's line."""
    try:
        yield
    except SymbolicError as error:
        types = ", ".join(map(str, node.types))
        raise UnsupportedError(f"{node.op.name}: {error}: {types}", where=node.where, hint=SYMBOLIC_SIZE_HINT) from None


def check_symbolic_sizes(graph: Graph) -> None:
    """Raise UnsupportedError for the first operation that cannot run over a symbolic size."""
    for part in graph.family():
        for node in part.nodes:
            types: list[Type] = [*node.types, *[v.type for v in node.outputs]]
            if any(isinstance(n, Dim) for t in types for n in t.shape):
                problem = node.op.fixed_sizes(node)
                if problem:
                    raise UnsupportedError(
                        f"{node.op.name}: {problem}: {', '.join(map(str, node.types))}",
                        where=node.where,
                        hint=SYMBOLIC_SIZE_HINT,
                    )


class SizeConstraint(NamedTuple):
    """A requirement on symbolic sizes for a program to be valid: `size` is at least 0."""

    size: Dim
    what: str
    where: Where

    def __str__(self) -> str:
        return self.what


def size_constraints(graph: Graph) -> list[SizeConstraint]:
    """The constraints of a graph on its symbolic sizes: no axis has a negative size, slices with constant ends stay
    inside their axes, and loops have a step to run."""
    found: dict[tuple[Dim, str], SizeConstraint] = {}
    for part in graph.family():
        for node in part.nodes:
            for size, what in size_margins(node):
                if isinstance(size, Dim) and not surely_above(size, -1):
                    found.setdefault((size, what), SizeConstraint(size, what, node.where))
    return list(found.values())


def size_margins(node: Node) -> Iterator[tuple[Size, str]]:
    """Sizes that must not be negative for an operation to be valid, each with the requirement in words."""
    for n in [n for v in node.outputs for n in v.type.shape]:
        yield n, f"{n} >= 0"
    if isinstance(node.op, Slice):
        yield from slice_margins(node)
    elif isinstance(node.op, Scan):
        length = node.params["length"]
        yield length - 1, f"{length} > 0"


def slice_margins(node: Node) -> Iterator[tuple[Size, str]]:
    """For each axis of a slice the elements before its first one and after its last one."""
    facts = (node.inputs[0].shape, node.outputs[0].shape, node.params["start"], node.params["step"])
    for n, taken, start, step in zip(*facts, strict=True):
        yield start, f"{start} >= 0"
        last = start + (taken - 1) * step
        yield n - 1 - last, f"{n} > {last}"


def substitute_sizes(plan: LoweredProgram) -> LoweredProgram:
    """A program with the assumed numbers in place of symbolic sizes."""
    slots = tuple([s._replace(type=array_type(tuple(map(most, s.type.shape)), s.type.dtype)) for s in plan.slots])
    return replace(plan, slots=slots, steps=tuple(map(substitute_step_sizes, plan.steps)), arena=most(plan.arena))


def substitute_step_sizes(step: Step) -> Step:
    """A step, and those inside it, with numbers for symbolic sizes."""
    step = map_nested(step, lambda steps: tuple(map(substitute_step_sizes, steps)))
    if isinstance(step, Launch | RoutineCall):
        step = replace(step, refs=tuple(map(substitute_ref_sizes, step.refs)))
    if isinstance(step, RoutineCall):
        params = tuple([most(p) if isinstance(p, Dim) else p for p in step.params])
        return replace(step, params=params, effects=substitute_effect_sizes(step.effects))
    if isinstance(step, Launch):
        return step
    if isinstance(step, ForLoop):
        return replace(step, trips=most(step.trips))
    return replace(step, ref=substitute_ref_sizes(step.ref))


def substitute_effect_sizes(effects: RoutineEffects | None) -> RoutineEffects | None:
    """The effects of a routine with numbers in place of symbolic sizes."""
    if effects is None:
        return None
    reads, writes = (tuple([(i, most(n)) for i, n in ranges]) for ranges in (effects.reads, effects.writes))
    launches, operations = most(effects.launches), most(effects.operations)
    return effects._replace(reads=reads, writes=writes, launches=launches, operations=operations)


def substitute_ref_sizes(ref: MemRef) -> MemRef:
    """A memory reference with numbers in place of symbolic sizes."""
    return ref._replace(offset=most(ref.offset), moves=tuple([(loop, most(by)) for loop, by in ref.moves]))
