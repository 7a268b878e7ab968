"""Lowered programs: steps over a table of buffer slots, and the memory that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wholestep.dims import Size, names
from wholestep.errors import Where, show
from wholestep.ir.types import Type
from wholestep.kernel.lang import Kernel
from wholestep.lower.program.live_ranges import LiveRange, live_at_peak
from wholestep.lower.program.steps import ForLoop, Launch, Step, format_steps, walk_steps
from wholestep.words import printable

FIRST_INPUT = 2
"""Slot number of the first input; the slots before it hold the arena and the constants."""


class BufferSlot(NamedTuple):
    """One base pointer of the slot table: an "input", an "output" or the scratch "file", with its type and name."""

    kind: str
    type: Type
    name: str = ""


class RematDecision(NamedTuple):
    """A value that leaves the arena between two uses, the bytes this frees, and its predicted cost.

    `kind` is "recompute", or "spill" to a file.
    """

    what: str
    where: Where
    nbytes: int
    kind: str
    microseconds: float

    def __str__(self) -> str:
        line = f"  {show(self.where)}" if self.where is not None else ""
        return f"{self.nbytes:>15,} bytes, {self.kind}, {self.microseconds:,.1f} us: {self.what}{line}"


class FailureSite(NamedTuple):
    """A point at which a running program may fail: the kind of error, its facts, and the user's line."""

    kind: str
    facts: tuple[Any, ...]
    where: Where


@dataclass(frozen=True, repr=False)
class LoweredProgram:
    """A whole program: the slot table, the steps, and the size of the arena.

    Printed it shows every step; in a REPL only their number.
    """

    name: str
    slots: tuple[BufferSlot, ...]
    """Inputs, outputs that replace no input, and the scratch file if there is one; in the table they follow the arena
    and the constants."""
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    """Slot of each graph input."""
    outputs: tuple[int, ...]
    """Slot of each graph output; the slot of an input where the output replaces it (donation)."""
    constants: tuple[np.ndarray[Any, Any], ...]
    constant_offsets: tuple[int, ...]
    arena: Size
    """Bytes of scratch memory."""
    bound: int
    """Lower bound on the arena for these kernels: the largest total size of simultaneously live values."""
    sites: tuple[FailureSite, ...] = ()
    live_ranges: tuple[LiveRange, ...] = ()
    """Live ranges of the values in the arena."""
    decisions: tuple[RematDecision, ...] = ()
    """Rematerialization and spill decisions."""
    file: int = 0
    """Bytes of scratch in a file, which is the last slot; 0 where there is no such slot."""
    skipped_rewrites: tuple[str, ...] = ()
    """Messages of the optional rewrites that failed."""
    notes: tuple[str, ...] = ()
    """Messages about requests to lowering and their outcome, such as `winograd`."""

    @property
    def peak(self) -> list[LiveRange]:
        """The values that are live at the peak, the largest first."""
        return live_at_peak(self.live_ranges)

    @property
    def largest(self) -> LiveRange | None:
        """The largest of the values in the arena, None where there are none."""
        return max(self.live_ranges, key=lambda live: live.nbytes, default=None)

    @property
    def names(self) -> list[str]:
        """The names of its symbolic sizes."""
        return sorted(frozenset().union(*[names(n) for slot in self.slots for n in slot.type.shape]))

    @cached_property
    def has_loops(self) -> bool:
        """Return whether there are loops besides that over whole steps, which the caller may stop."""
        return any(isinstance(s, ForLoop) and not s.outermost for s in walk_steps(self.steps))

    def launches(self) -> Iterator[Launch]:
        """Every kernel launch, also those nested in loops and branches."""
        return (s for s in walk_steps(self.steps) if isinstance(s, Launch))

    def kernels(self) -> list[Kernel]:
        """The distinct kernels."""
        return list(dict.fromkeys([s.kernel for s in self.launches()]))

    def __repr__(self) -> str:
        kernels, launches = len(self.kernels()), sum(1 for _ in self.launches())
        return f"<{self.title()}; {kernels} kernels in {launches} launches; print it for all steps>"

    def title(self) -> str:
        """Its name and memory sizes."""
        file = f", file {self.file} bytes" if self.file else ""
        return printable(f"plan {self.name}: arena {self.arena} bytes, at least {self.bound}{file}")

    def __str__(self) -> str:
        lines = [self.title()]
        for i, slot in enumerate(self.slots):
            lines.append(f"  s{i + 2} {slot.kind} {slot.type} {slot.name}".rstrip())
        return "\n".join([*lines, *format_steps(self.steps, "  ")])
