"""Cost tables: the predicted cost of a plan by kernel and routine, and by line of the user's program.

Where sizes are symbolic, the arithmetic and the bytes of kernels are expressions of them. Times, and the costs of
lines, are numbers for the supposed sizes, or for the sizes that `at` is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from wholestep.dims import Dim, Size, most, spelled_out, supposing
from wholestep.errors import ParameterError, Where, line_of, show
from wholestep.ir.graph import Node
from wholestep.lower.cost.cache_reuse import cache_misses
from wholestep.lower.cost.roofline import DEFAULT_RATES, KernelCounts, Rates, count_kernel, expected_steps, predict_time
from wholestep.lower.dynamic_shapes import substitute_sizes
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import COPY_ROUTINES, Launch, RoutineCall
from wholestep.report import table_format
from wholestep.words import Shown

NO_USER_LINE = "(no line of yours)"
"""The name of the line for movement and for counting steps."""


class KernelCost(NamedTuple):
    """The predicted cost of all runs of one kernel or routine: arithmetic, bytes and time.

    `contraction` is the part of `flops` in sums of products. `bytes` are those of the elements read, each counted once
    a run, and of the elements written; `moved` counts every load and store. `bound` is the largest part of its time:
    "arithmetic", "memory" or "begin".
    """

    name: str
    where: Where
    times: Size
    contraction: Size
    flops: Size
    bytes: Size
    moved: Size
    microseconds: float
    bound: str

    def now(self) -> KernelCost:
        """The same cost in numbers, for the supposed sizes."""
        counts: dict[str, Any] = {name: most(x) for name, x in self._asdict().items() if isinstance(x, Dim)}
        return self._replace(**counts)


class LineCost(NamedTuple):
    """The share of one line of the user's program in the costs of kernels, forward and backward."""

    line: str
    flops: int
    bytes: int
    microseconds: float


@dataclass(frozen=True, repr=False)
class Costs(Shown):
    """The predicted costs of a run: `kernels` and `lines`, those that take longest first.

    `rates` are the machine's, as `ws.calibrate` measured them, or the defaults. The cost of a loop is that of all its
    trips, of one trip for a loop of unknown length; of branches only the longest counts. Printed it is a table, and in
    a notebook too.

    For a program with symbolic sizes, the arithmetic and bytes of kernels are expressions; times, `lines`, and the
    choice of the longest branch are those for `sizes`, and `at` gives all of these for other sizes.
    """

    name: str
    kernels: tuple[KernelCost, ...]
    lines: tuple[LineCost, ...]
    rates: Rates
    sizes: Mapping[str, int] = field(default_factory=dict)
    plan: LoweredProgram | None = field(default=None, repr=False, compare=False)

    def at(self, **sizes: int) -> Costs:
        """The same costs in numbers, with the times, for these values of the symbolic sizes.

        Raises ParameterError for other names than the program has, and for a size below 1.

        >>> import numpy as np, wholestep as ws
        >>> x = ws.ShapeDtype((ws.Dim("B"), 4), "float32")
        >>> cost = ws.estimate(lambda w, x: np.mean((x @ w) ** 2), np.ones((4, 5), np.float32), batch=x).cost()
        >>> cost.contraction, cost.at(B=10).contraction
        (40*B, 400)
        """
        if self.plan is None:
            raise ParameterError(f"cost: {self.name} has no symbolic sizes")
        if set(sizes) != set(self.sizes):
            known, given = ", ".join(self.sizes), ", ".join(sizes) or "none"
            raise ParameterError(f"cost: the symbolic sizes of {self.name} are {known}, not {given}")
        for name, n in sizes.items():
            if n < 1:
                raise ParameterError(f"cost: {name} is {n}; a size is at least 1")
        found = count_costs(self.plan, self.rates, sizes)
        with supposing(sizes):
            return Costs(self.name, tuple([k.now() for k in found.kernels]), found.lines, self.rates)

    @property
    def flops(self) -> Size:
        """All arithmetic."""
        return sum(k.flops for k in self.kernels)

    @property
    def contraction(self) -> Size:
        """The arithmetic in sums of products, two for each product."""
        return sum(k.contraction for k in self.kernels)

    @property
    def bytes(self) -> Size:
        """Bytes that are read and written, each element once for each kernel."""
        return sum(k.bytes for k in self.kernels)

    @property
    def microseconds(self) -> float:
        """The predicted time of a run."""
        return sum(k.microseconds for k in self.kernels)

    def __str__(self) -> str:
        return table_format.tables_as_text(self.title(), self.tables())

    def _repr_html_(self) -> str:
        return table_format.tables_as_html(self.title(), self.tables())

    def title(self) -> str:
        """A summary in one line."""
        sizes = ", ".join([f"{name} = {n}" for name, n in self.sizes.items()])
        time = f"{f'for {sizes} ' if sizes else ''}{self.microseconds:,.1f} µs by {rates_source(self.rates)}"
        return f"{self.name}: {spelled_out(self.flops)} flops, {spelled_out(self.bytes)} bytes, {time}"

    def tables(self) -> list[table_format.ReportTable]:
        """The two tables, hot spots first."""
        whole = self.microseconds or 1.0
        kernels = [
            (k.microseconds / whole, k.microseconds, k.flops, k.bytes, k.times, k.bound, k.name, show(k.where))
            for k in self.kernels
        ]
        lines = [(x.microseconds / whole, x.microseconds, x.flops, x.bytes, x.line) for x in self.lines]
        return [
            table_format.ReportTable(("share", "µs", "flops", "bytes", "runs", "bound", "kernel", "line"), kernels),
            table_format.ReportTable(("share", "µs", "flops", "bytes", "line"), lines),
        ]


def rates_source(rates: Rates) -> str:
    """The origin of rates in words."""
    return "default rates (ws.calibrate() measures this machine's)" if rates == DEFAULT_RATES else "measured rates"


def count_costs(plan: LoweredProgram, rates: Rates = DEFAULT_RATES, sizes: Mapping[str, int] | None = None) -> Costs:
    """The costs of a plan, by the rates of a machine; `sizes` are the supposed values of symbolic sizes."""
    kernels: list[KernelCost] = []
    lines: dict[tuple[str, int], LineCost] = {}
    with supposing(sizes or {}):
        steps = substitute_sizes(plan).steps if sizes else plan.steps
        far = cache_misses(steps, rates)
        for (step, times), (now, _) in zip(
            expected_steps(plan.steps, rates), expected_steps(steps, rates), strict=True
        ):
            entry = kernel_cost(step, times, rates, far.get(id(now), 0.0))
            kernels.append(entry)
            for where, flops, nbytes, time in line_costs(step, entry, rates):
                before = lines.get(line_of(where), LineCost(show(where) or NO_USER_LINE, 0, 0, 0.0))
                lines[line_of(where)] = LineCost(
                    before.line, before.flops + flops, before.bytes + nbytes, before.microseconds + time
                )
    hot = tuple(sorted(kernels, key=lambda k: -k.microseconds))
    by_line = tuple(sorted(lines.values(), key=lambda x: -x.microseconds))
    return Costs(plan.name, hot, by_line, rates, dict(sizes or {}), plan if sizes else None)


def kernel_cost(step: Launch | RoutineCall, times: Size, rates: Rates, far: float) -> KernelCost:
    """The entry of one step, for its number of runs and the bytes from memory in each."""
    time, one = predict_time(step, rates, far), step_cost(step)
    name = (step.kernel.name or "move") if isinstance(step, Launch) else step.routine
    return KernelCost(
        name,
        step_location(step),
        times,
        contraction=times * one.contraction,
        flops=times * one.flops,
        bytes=times * one.distinct,
        moved=times * one.moved,
        microseconds=1e6 * most(times) * time.seconds,
        bound=time.bound,
    )


def joined_cost(costs: Sequence[KernelCost]) -> KernelCost:
    """The entry of kernels that are one launch, under the name of the slowest kernel."""
    if len(costs) == 1:
        return costs[0]
    longest = max(costs, key=lambda cost: cost.microseconds)
    counts = {name: sum([getattr(cost, name) for cost in costs]) for name in ("contraction", "flops", "bytes", "moved")}
    name, time = f"{longest.name} and {len(costs) - 1} more", sum([cost.microseconds for cost in costs])
    return longest._replace(name=name, microseconds=time, **counts)


def step_location(step: Launch | RoutineCall) -> Where:
    """The user's line of the operation with the most arithmetic in a step."""
    if isinstance(step, RoutineCall):
        return step.where
    known = [node for node in step.nodes if node.where is not None]
    return max(known, key=lambda n: most(n.op.flops(n))).where if known else None


def step_cost(step: Launch | RoutineCall) -> KernelCounts:
    """The arithmetic and bytes of one run; of routines only copies are counted."""
    if isinstance(step, Launch):
        return count_kernel(step.kernel)
    moved = 2 * step.params[0] if step.routine in COPY_ROUTINES else 0
    return KernelCounts(0, 0, moved, moved)


def line_costs(step: Launch | RoutineCall, entry: KernelCost, rates: Rates) -> Iterator[tuple[Where, int, int, float]]:
    """Flops, bytes and time divided among lines: products to contractions, bytes by the sizes of values of a node."""
    nodes = [n for n in step.nodes if n.where is not None] if isinstance(step, Launch) else []
    contraction, other, brought = most(entry.contraction), most(entry.flops - entry.contraction), most(entry.bytes)
    if not nodes:
        yield entry.where, contraction + other, brought, entry.microseconds
        return
    products = apportion(contraction, [contraction_flops(n) for n in nodes])
    others = apportion(other, [most(n.op.flops(n)) - contraction_flops(n) for n in nodes])
    nbytes = apportion(brought, [sum(most(v.type.nbytes) for v in (*n.inputs, *n.outputs)) for n in nodes])
    for node, p, o, b in zip(nodes, products, others, nbytes, strict=True):
        price = part_seconds(p, o, b, rates)
        whole = part_seconds(contraction, other, brought, rates)
        part = price / whole if whole else 1 / len(nodes)
        yield node.where, p + o, b, entry.microseconds * part


def contraction_flops(node: Node) -> int:
    """The arithmetic of a contraction."""
    return most(node.op.flops(node)) if node.op.kind == "contraction" else 0


def part_seconds(products: int, others: int, nbytes: int, rates: Rates) -> float:
    """The predicted time of a part of a kernel."""
    return products / rates.contraction + others / rates.elementwise + nbytes / rates.cache


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide an amount into integer parts in proportion to weights, or equally where all weights are 0.

    >>> apportion(10, [1, 1, 1]), apportion(3, [0, 0])
    ([3, 4, 3], [2, 1])
    """
    given = weights if any(weights) else [1] * len(weights)
    ends, so_far = [0], 0
    for weight in given:
        so_far += weight
        ends.append((2 * amount * so_far + sum(given)) // (2 * sum(given)))
    return [b - a for a, b in pairwise(ends)]
