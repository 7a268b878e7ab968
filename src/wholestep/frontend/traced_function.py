"""TracedFunction: the graph of a function, its captured arrays, and its compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.compiler import devices
from wholestep.contents import same_bits
from wholestep.errors import MutationError, Where
from wholestep.frontend.array_watches import ArrayWatch
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import Graph, Value
from wholestep.ir.sizes import named_sizes
from wholestep.passes.reroll.reroll import REROLL, Rerolled
from wholestep.runtime.executable import Executable


class Captured(NamedTuple):
    """An array that the function closed over: the user's own, its contents at the trace, and the line that used it."""

    array: Any
    then: Any
    where: Where


class TracedFunction(NamedTuple):
    """A traced function and how to call it."""

    graph: Graph
    inlined: Graph
    """The graph for a call inside of another trace, which keeps named values that no result needs."""
    outer: list[Value]
    structure: Any
    scalars: list[bool]
    constants: list[Captured]
    notes: tuple[str, ...] = ()
    """Descriptions of the attention that was found in it."""
    named: Sequence[ArrayWatch] = ()
    """The other arrays that the function reads by name: NumPy may have turned them into numbers of the program."""
    winograd: bool = False
    """True where its convolutions may be computed by tiles."""

    def run(self, arrays: Sequence[Any], device: str) -> list[Any]:
        """The results for plain arrays, in fresh ones."""
        return self.executable(device)(arrays)

    def executable(self, device: str) -> Executable:
        """The compiled program."""
        made: Executable = self.graph.derived(
            ("program", device),
            lambda: devices.compile_for_device(with_loops(self.graph, device), (), device, winograd=self.winograd),
        )
        return made

    def changed(self) -> Captured | ArrayWatch | None:
        """An array that the program captured, or that the function reads by name, and that has changed since."""
        for kept in self.constants:
            if not same_bits(kept.array, kept.then):
                return kept
        return next((watch for watch in self.named if not watch.same()), None)

    def check(self, name: str) -> None:
        """Raise MutationError where an array that the program captured, or its function reads, has changed since."""
        kept = self.changed()
        if kept is not None:
            raise MutationError(
                f"{name}: an array captured when the program was traced has changed since: {type_of(kept.array)}",
                where=kept.where,
                hint="pass it as an argument; captured arrays are constants of the program",
            )


LONG = 1000
"""The fewest operations in which repetitions are looked for: fewer are compiled in less than a second."""


def with_loops(graph: Graph, device: str) -> Graph:
    """A graph with long repetitions, which Python's loops leave, as loops, for a device that code is made for.

    Symbolic sizes would not be the first axis of stacked values.
    """
    if len(graph.nodes) < LONG or not devices.is_lowered(device) or named_sizes(graph):
        return graph
    found: Rerolled = REROLL(graph, lambda inputs: False, otherwise=Rerolled(graph), verified=True, always=False)
    return found.graph
