"""Steps: the instructions of a lowered program, kernel launches, routine calls, checks and structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wholestep.dims import Size
from wholestep.errors import Where
from wholestep.ir.graph import Node
from wholestep.kernel.lang import Kernel

SPILL_COPY, RELOAD_COPY = "copy.out", "copy.back"
COPY_ROUTINES = ("copy", SPILL_COPY, RELOAD_COPY)
"""Routines that copy bytes: within memory, to the scratch file (spill), and back from it (reload)."""
PREFETCH, PREFETCH_NOW, RELEASE = "advise.soon", "advise.wanted", "advise.done"
"""Routines that tell the system about a place in a file: the place one stride further on will be read, unless this is
the last one; this place will be read; this place will not be used for a while."""
SIZED_ROUTINES = (*COPY_ROUTINES, PREFETCH, PREFETCH_NOW, RELEASE)
"""Routines whose places have the size that they state."""


class MemRef(NamedTuple):
    """A memory reference: a slot, a byte offset, and a byte stride for each surrounding loop."""

    slot: int
    offset: Size = 0
    moves: tuple[tuple[int, Size], ...] = ()
    """(loop number, bytes per trip)"""

    def moved(self, loop: int, stride: Size) -> MemRef:
        """The reference that also advances with a loop."""
        return self._replace(moves=(*self.moves, (loop, stride))) if stride else self

    def shifted(self, offset: Size) -> MemRef:
        """The reference this many bytes further on."""
        return self._replace(offset=self.offset + offset)

    def __str__(self) -> str:
        moves = "".join(f" + {stride}*trip{loop}" for loop, stride in self.moves)
        return f"s{self.slot}[{self.offset}{moves}]"


@dataclass(frozen=True)
class Launch:
    """The launch of one kernel over its whole iteration space; `parallel` if it is worth sharing among threads.

    `nodes` are the graph operations that it computes.
    """

    kernel: Kernel
    refs: tuple[MemRef, ...]
    parallel: bool = False
    nodes: tuple[Node, ...] = ()


class RoutineEffects(NamedTuple):
    """The effects and the cost of a routine of the target's libraries, its only description in other layers.

    `reads` and `writes` are (number of a reference, bytes from its start). `fallible` tells whether the routine may
    fail, `launches` is the fixed cost in launches of a kernel, and `products` and `operations` are the arithmetic, at
    the rates of contractions and of other loops. `parallel` tells whether threads share the work.
    """

    reads: tuple[tuple[int, Size], ...]
    writes: tuple[tuple[int, Size], ...]
    fallible: bool = False
    launches: Size = 1
    products: float = 0.0
    operations: Size = 0
    parallel: bool = False


@dataclass(frozen=True)
class RoutineCall:
    """A call of a runtime routine: a copy, memory advice, or one of the target's libraries, which states its effects.

    `params` are its sizes and options.
    """

    routine: str
    refs: tuple[MemRef, ...]
    params: tuple[Any, ...]
    where: Where = None
    effects: RoutineEffects | None = None

    @property
    def fallible(self) -> bool:
        """True if the program may be left here with an error."""
        return self.effects is not None and self.effects.fallible

    @property
    def parallel(self) -> bool:
        """True if threads share its work."""
        return self.effects is not None and self.effects.parallel


@dataclass(frozen=True)
class StatusCheck:
    """Leave the program with the status `site` unless the int64 at `ref` equals `fine`."""

    site: int
    ref: MemRef
    fine: int


@dataclass(frozen=True)
class ForLoop:
    """A counted loop; references inside advance with the trip number, which counts down if `reverse`."""

    loop: int
    trips: Size
    body: tuple[Step, ...]
    reverse: bool = False
    outermost: bool = False
    """True if the loop may be left between trips when the caller asks the program to stop."""
    indivisible: bool = False
    """True if the trips together compute one value, so that the loop is never left between them."""


@dataclass(frozen=True)
class WhileLoop:
    """A loop that runs `test`, then `body` and `test` as long as the boolean at `ref` holds."""

    test: tuple[Step, ...]
    ref: MemRef
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Switch:
    """One of several lists of steps, selected by the int64 at `ref`, which is clamped to the valid range."""

    ref: MemRef
    cases: tuple[tuple[Step, ...], ...]


Step = Launch | RoutineCall | StatusCheck | ForLoop | WhileLoop | Switch


def walk_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps in preorder, nested ones after the step that holds them."""
    for step in steps:
        yield step
        for inner in nested_steps(step):
            yield from walk_steps(inner)


def nested_steps(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps nested in a step."""
    if isinstance(step, ForLoop):
        return (step.body,)
    if isinstance(step, WhileLoop):
        return (step.test, step.body)
    return step.cases if isinstance(step, Switch) else ()


def map_nested(step: Step, change: Callable[[tuple[Step, ...]], tuple[Step, ...]]) -> Step:
    """A step with `change` applied to each list of steps nested in it."""
    if isinstance(step, ForLoop):
        return replace(step, body=change(step.body))
    if isinstance(step, WhileLoop):
        return replace(step, test=change(step.test), body=change(step.body))
    return replace(step, cases=tuple(map(change, step.cases))) if isinstance(step, Switch) else step


def touched_ranges(step: Launch | RoutineCall) -> Iterator[tuple[MemRef, int, bool]]:
    """The places of a kernel or copy with their bytes, and whether they are read."""
    if isinstance(step, Launch):
        for ref, buffer in zip(step.refs, step.kernel.buffers, strict=True):
            yield ref, buffer.size * buffer.dtype.itemsize, not buffer.written
    elif step.routine in COPY_ROUTINES:
        target, source = step.refs
        yield target, step.params[0], False
        yield source, step.params[0], True


def format_steps(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    """The text lines of a list of steps."""
    for step in steps:
        if isinstance(step, Launch):
            threads = " shared" if step.parallel else ""
            yield f"{indent}{step.kernel.name}({', '.join(map(str, step.refs))}){threads}"
        elif isinstance(step, RoutineCall):
            facts = ", ".join([*map(str, step.refs), *map(str, step.params)])
            yield f"{indent}{step.routine}({facts})"
        elif isinstance(step, StatusCheck):
            yield f"{indent}check {step.ref} is {step.fine}, else site {step.site}"
        elif isinstance(step, ForLoop):
            yield f"{indent}repeat {step.trips} as trip{step.loop}{' reversed' if step.reverse else ''}:"
            yield from format_steps(step.body, indent + "  ")
        elif isinstance(step, WhileLoop):
            yield from format_steps(step.test, indent)
            yield f"{indent}while {step.ref}:"
            yield from format_steps((*step.body, *step.test), indent + "  ")
        else:
            for i, case in enumerate(step.cases):
                yield f"{indent}case {i} of {step.ref}:"
                yield from format_steps(case, indent + "  ")
