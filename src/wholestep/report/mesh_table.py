"""Tables of processes: the predicted messages, bytes and time of a call where N processes train together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wholestep import dtypes
from wholestep.collectives import Link, Traffic, traffic_of_rows, traffic_of_sum
from wholestep.dims import most
from wholestep.errors import DtypeError, ParameterError
from wholestep.lower.cost.cache_reuse import cache_misses
from wholestep.lower.cost.roofline import Rates, expected_steps, predict_time
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import MemRef, RoutineCall
from wholestep.report.cost_table import Costs
from wholestep.report.table_format import align_columns
from wholestep.words import Shown, printable

MOST_PROCESSES = 4096
"""The most processes that a table shows."""


class NamedAxis(Protocol):
    """An axis of a mesh: its name, and the number of its processes."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


class SentArray(NamedTuple):
    """An array that a process sends to others: the collective, its elements, the bytes of one, and the number of calls.

    `elements` are those of a sum, or those of one row of a gather or a scattered sum. `begun` and `needed` are the
    seconds of the process's own work before the array is sent, and before the process waits for the result.
    """

    collective: str
    elements: int
    itemsize: int
    times: int
    begun: float
    needed: float

    def traffic(self, processes: int) -> Traffic:
        """The messages and bytes that one process sends for the array, in all calls."""
        if self.collective == "psum":
            one = traffic_of_sum(self.elements, self.itemsize, processes)
        else:
            one = traffic_of_rows(self.elements * self.itemsize, processes)
        return Traffic(self.times * one.messages, self.times * one.bytes)


class ProcessCost(NamedTuple):
    """The predicted cost of a call in one of N processes: messages and bytes sent, and times of work and communication.

    `waiting_seconds` is the part of the communication that does not overlap with the process's own work.
    """

    processes: int
    messages: int
    bytes: int
    own_seconds: float
    communication_seconds: float
    waiting_seconds: float

    @property
    def seconds(self) -> float:
        """The time of a call."""
        return self.own_seconds + self.waiting_seconds

    @property
    def efficiency(self) -> float:
        """The rows a second of a process, as a fraction of those of a process alone."""
        return self.own_seconds / self.seconds if self.seconds else 1.0


@dataclass(frozen=True, repr=False)
class MeshCosts(Shown):
    """The predicted cost of a call for several numbers of processes, with equal rows in each; printed it is a table.

    `at` has the cost for any number, and `sent` are the arrays that are summed or gathered.
    """

    name: str
    link: Link
    own_seconds: float
    sent: tuple[SentArray, ...]

    def at(self, processes: int) -> ProcessCost:
        """The cost in this many processes; raises ParameterError for less than one.

        >>> import numpy as np, wholestep as ws
        >>> class Alone:
        ...     rank, size = 0, 1
        ...     def all_gather(self, send, receive): receive[0] = send
        ...     all_to_all = all_gather
        >>> step = ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones((64, 64)), optimizer=ws.optim.sgd(0.1),
        ...                   batch=np.ones((4, 64)), mesh={"lone": Alone()})
        >>> step.cost(mesh=ws.mesh.Link(1e-6, 1e9)).at(4).bytes  # gradients, loss, and whether all is finite
        49200
        """
        if processes < 1:
            raise ParameterError(f"cost: {processes} processes; there is at least 1")
        sent = [x.traffic(processes) for x in self.sent]
        whole = Traffic(sum(t.messages for t in sent), sum(t.bytes for t in sent))
        return ProcessCost(processes, *whole, self.own_seconds, self.link.seconds(whole), self.waiting_seconds(sent))

    def waiting_seconds(self, traffic: Sequence[Traffic]) -> float:
        """The seconds in which a process only waits; arrays are sent in order, while it does its own work."""
        begun = [(x.begun, False, i) for i, x in enumerate(self.sent)]
        events = sorted([*begun, *[(x.needed, True, i) for i, x in enumerate(self.sent)]])
        done, free, waited = [0.0] * len(self.sent), 0.0, 0.0
        for own, waits, i in events:
            if waits:
                waited = max(waited, done[i] - own)
            else:
                free = done[i] = max(free, own + waited) + self.link.seconds(traffic[i])
        return waited

    def rows(self) -> list[ProcessCost]:
        """The costs for N = 1, 2, 4, ..., 4096."""
        return [self.at(1 << i) for i in range(MOST_PROCESSES.bit_length())]

    def __str__(self) -> str:
        latency, rate = 1e6 * self.link.latency_seconds, self.link.bytes_per_second / 1e9
        title = f"{self.name}: a call in N processes, {latency:,.4g} µs a message and {rate:,.4g} GB/s"
        head = ("processes", "messages", "bytes sent", "own µs", "sending µs", "waiting µs", "µs", "efficiency")
        return printable("\n".join([title, "", *align_columns([head, *map(cells, self.rows())], [False] * len(head))]))


def cells(row: ProcessCost) -> Sequence[str]:
    """One row as text."""
    times = [f"{1e6 * x:,.1f}" for x in (row.own_seconds, row.communication_seconds, row.waiting_seconds, row.seconds)]
    return (f"{row.processes:,}", f"{row.messages:,}", f"{row.bytes:,}", *times, f"{row.efficiency:.1%}")


def count_mesh(plan: LoweredProgram, costs: Costs, axis: NamedAxis | None, link: Link) -> MeshCosts:
    """The cost of a plan in processes along an axis; the own time leaves out calls that wait for other processes."""
    check_link(link)
    if axis is None:
        raise ParameterError(
            "cost: the step has no mesh, and sums nothing over processes",
            hint='compile it with mesh={"data": ws.mesh.mpi()}; a prediction needs one process',
        )
    if costs.sizes:
        raise ParameterError(
            f"cost: {plan.name} has symbolic sizes, for which no number of bytes is known",
            hint="compile the step with numbers for the sizes of the batch",
        )
    own = sum(k.microseconds for k in costs.kernels if not is_over(k.name, axis.name))
    return MeshCosts(plan.name, link, own / 1e6, tuple(sent_arrays(plan, costs.rates, axis)))


def check_link(link: Link) -> None:
    """Raise DtypeError for an argument that is no link, and ParameterError for an invalid latency or rate."""
    if not isinstance(link, Link) or not all(isinstance(x, int | float) for x in link):
        raise DtypeError(
            f"cost: mesh is {link!r:.60}, not a link between processes",
            hint="ws.mesh.Link(latency_seconds=2e-6, bytes_per_second=12.5e9)",
        )
    if not (0 <= link.latency_seconds < math.inf and 0 < link.bytes_per_second):
        raise ParameterError(f"cost: {link} has a negative latency, or no rate")


def is_over(routine: str, axis_name: str) -> bool:
    """True for a routine that waits for the other processes of an axis."""
    family, _, rest = routine.partition(".")
    return family == "collective" and rest.partition(".")[2] == axis_name


def sent_arrays(plan: LoweredProgram, rates: Rates, axis: NamedAxis) -> Iterator[SentArray]:
    """The arrays of a plan that a process sends to others along an axis, in the order in which it waits for results."""
    far, own, begun = cache_misses(plan.steps, rates), 0.0, dict[MemRef, SentArray]()
    for step, times in expected_steps(plan.steps, rates):
        if not (isinstance(step, RoutineCall) and is_over(step.routine, axis.name)):
            own += most(times) * predict_time(step, rates, far.get(id(step), 0.0)).seconds
            continue
        word, _, collective = step.routine.split(".")[1].partition("_")
        if word == "begin":
            elements = most(step.params[1]) // (axis.size if collective == "psum_scatter" else 1)
            itemsize = dtypes.from_letters(step.params[0]).itemsize
            begun[step.refs[1]] = SentArray(collective, elements, itemsize, most(times), own, own)
        elif word == "end":
            yield begun.pop(step.refs[0])._replace(needed=own)
