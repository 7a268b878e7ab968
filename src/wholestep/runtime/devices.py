"""Where a program can run: each device by its name, and what makes a graph ready for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wholestep.errors import ParameterError
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.lower.budget.amount import Amount
from wholestep.runtime.compiled import check_budget, check_streams, compiled
from wholestep.runtime.interpreted import Interpreted
from wholestep.runtime.mapped import NOTHING, Streams
from wholestep.runtime.program import Program
from wholestep.runtime.symbolic import PerSize, symbolic


class Maker(Protocol):
    """Turns a graph, its resident pairs and what lies in files into a program."""

    def __call__(
        self,
        graph: Graph,
        resident: Sequence[tuple[int, int]],
        budget: Amount | None = None,
        streams: Streams = NOTHING,
        /,
    ) -> Program: ...


MAKERS: dict[str, Maker] = {"cpu": compiled, "reference": Interpreted}
"""What makes programs, for every device that is there."""

DEFAULT = "cpu"
"""The device of a program that names none."""


def prepare(
    graph: Graph,
    resident: Sequence[tuple[int, int]],
    device: str,
    budget: Amount | None = None,
    streams: Streams = NOTHING,
) -> Program:
    """The graph ready to run on a device, for one instance or many; `streams` says what lies in files.

    Raises ParameterError for a device that is not there, BudgetError where `budget` is too small.
    """
    make = maker(device)
    if not named_sizes(graph):
        return make(graph, resident, budget, streams)
    check_streams(graph, streams.inputs)
    check_budget(graph, budget)
    if device == DEFAULT:
        return symbolic(graph, resident, make)
    return PerSize(graph, resident, make, f"the device {device!r} takes numbers for sizes")


def maker(device: str) -> Maker:
    """What makes programs for a device; raises as `prepare` does."""
    found = MAKERS.get(device)
    if found is None:
        known = ", ".join(map(repr, MAKERS))
        raise ParameterError(
            f"compile: no device is called {device!r}",
            hint=f"this version compiles for the CPU only; the devices are {known}",
        )
    return found
