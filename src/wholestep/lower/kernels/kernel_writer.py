"""Kernel writer: the loop nest of a fusion group around the code of the values that it stores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from wholestep.dims import Size
from wholestep.ir.analysis import in_order
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.kernel.lang import Axis, Index, Kernel, Var
from wholestep.lower.blocking.block_launches import BlockedContraction
from wholestep.lower.fusion.fusion_groups import FusionAnalysis
from wholestep.lower.fusion.iteration_space import AxisRuns, FusionGroup
from wholestep.lower.kernels.scalar_codegen import (
    ElementReader,
    Location,
    ReadableLocations,
    ScalarValue,
    components_of,
    scalar_of,
    working_dtype,
)
from wholestep.lower.program.allocation import Allocation


class BoundKernel(NamedTuple):
    """A kernel and the allocations of its buffers, in their order."""

    kernel: Kernel
    places: tuple[Allocation, ...]
    nodes: tuple[Node, ...] = ()
    """The operations that it computes."""
    parallel: bool = False
    """True if sharing it among threads pays."""
    blocked: BlockedContraction | None = None
    """The equivalent launches that replace the kernel, where it is a large contraction."""


class KernelWriter:
    """The writer of one group's kernel, which may load the values in `locations` and stores those in `targets`.

    `grid` and `rows`, the keys of its `axes`, are the orders of its loops; an axis that is in neither is unrolled.
    `row_lanes` is the target's method, and `doubles` its property.
    """

    def __init__(
        self,
        clustering: FusionAnalysis,
        group: FusionGroup,
        locations: ReadableLocations,
        targets: dict[Value, Location],
        row_lanes: Callable[[Size, int], int],
        grid: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        doubles: bool = True,
    ) -> None:
        self.fusion = clustering
        self.group = group
        self.targets = targets
        self.axes = {a: Axis(f"i{k}", n) for k, (a, n) in enumerate(group.sizes.items())}
        inner = [a for a in group.sizes if a in (group.rows or ()) and group.sizes[a] != 1]
        self.rows = inner if rows is None else [a for a in rows if a in inner]
        self.grid = [a for a in grid or group.grid if group.sizes[a] != 1]
        loops = {*self.grid, *self.rows}
        self.unrolled = {a: 0 for a in [*group.grid, *inner] if group.sizes[a] != 1 and a not in loops}
        """The step of each unrolled axis that is being written."""
        self.row_lanes = self.find_row_lanes(row_lanes)
        row = () if self.row_axis is None else (self.row_axis,)
        self.builder = KernelBuilder(kernel_name_of(group), doubles)
        terms = next((group.sizes[a] for a in inner if a in self.unrolled), 0)
        self.reader = ElementReader(self.builder, locations, row, terms)

    @property
    def row_axis(self) -> Axis | None:
        """The axis of a row that stays in registers, if there is one."""
        return self.axes[self.rows[0]] if self.row_lanes else None

    def split_axis(self, axis: int, inner: int) -> None:
        """Split an axis of the group in two, the second of this size; the kernel is then written anew."""
        self.fusion.split(self.group, axis, self.group.sizes[axis] // inner)

    def find_row_lanes(self, row_lanes: Callable[[Size, int], int]) -> int:
        """Find the lanes of a row that stays in registers from its first read to its last; 0 where it does not."""
        if len(self.rows) != 1 or self.rows[0] != list(self.group.sizes)[-1]:
            return 0
        reductions = [n for n in self.group.members if n in self.fusion.reduced]
        if not reductions or any(n.inputs[0].dtype.kind == "c" or n.op.fold == "mul" for n in reductions):
            return 0
        dtype = working_dtype(reductions[0].inputs[0].dtype)
        return row_lanes(self.group.sizes[self.rows[0]], dtype.itemsize)

    def at(self, v: Value) -> Coordinates:
        """The coordinates of a member in this kernel's axes."""
        return self.index_coordinates(self.fusion.current(self.fusion.placed[v][1]))

    def index_coordinates(self, coords: AxisRuns) -> Coordinates:
        """Coordinates as index expressions."""
        return tuple([self.line(c or ()) for c in coords])

    def line(self, axes: Sequence[int]) -> Index:
        sizes = [self.group.sizes[a] for a in axes]
        strides = {a: math.prod(sizes[i + 1 :]) for i, a in enumerate(axes) if sizes[i] != 1}
        start = sum([self.unrolled[a] * stride for a, stride in strides.items() if a in self.unrolled])
        return Index(start, {self.axes[a]: stride for a, stride in strides.items() if a not in self.unrolled})

    def kernel(self) -> Kernel:
        """Write the kernel."""
        with self.builder, ExitStack() as loops:
            for a in self.grid:
                loops.enter_context(self.builder.loop(self.axes[a]))
            if self.row_lanes:
                loops.enter_context(self.builder.loop(self.axes[self.rows[0]]))
            if self.rows and not self.row_lanes:
                self.emit_passes()
            else:
                self.emit_stores(list(self.targets))
        return self.builder.kernel()

    def bound(self, kernel: Kernel, parallel: bool) -> BoundKernel:
        """The kernel, once it is scheduled, with its buffers' places and its operations."""
        used = tuple(self.needed(list(self.targets)))
        return BoundKernel(kernel, tuple([place for place, _ in self.reader.buffers]), used, parallel)

    def emit_stores(self, values: Sequence[Value]) -> None:
        """Compute the values at the current point of the loops and all steps of unrolled axes, then store them."""
        found: dict[Value, dict[Coordinates, ScalarValue]] = {v: {} for v in values}
        for steps in itertools.product(*[range(self.group.sizes[a]) for a in self.unrolled]):
            self.unrolled.update(zip(self.unrolled, steps, strict=True))
            self.compute_members(values)
            for v, stored in found.items():
                stored[self.at(v)] = self.reader.read(v, self.at(v))
        for v, stored in found.items():
            for at, x in stored.items():
                self.reader.store(v, self.targets[v], at, x)

    def compute_members(self, values: Sequence[Value], behind_rows: bool = False) -> None:
        """Compute members in program order first, so that recursion goes no deeper than one operation; behind the loops
        over the rows those with an element per row."""
        needed = self.needed(values)
        for node in self.group.members:
            v = node.outputs[0]
            if node not in needed or node in self.fusion.reduced or v in self.reader.locations:
                continue
            if not behind_rows or self.level(v) == "row":
                self.reader.read(v, self.at(v))

    def needed(self, values: Sequence[Value]) -> dict[Node, None]:
        """The members that values are computed from, through values that are not stored."""
        members = set(self.group.members)
        found: dict[Node, None] = {}
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            v = stack.pop()
            if v in seen or v in self.reader.locations or v.node is None:
                continue
            seen.add(v)
            if v.node in members:
                found[v.node] = None
            stack.extend(v.node.inputs)
        return found

    # Rows too long for registers: several passes over the row.

    def reduction_stages(self) -> dict[Node, int]:
        """For each needed member the number of reductions over the row that must come before it."""
        needed = self.needed(list(self.targets))
        out: dict[Node, int] = {}
        memo: dict[Value, int] = {}

        def read(v: Value) -> Sequence[Value]:
            return () if v in self.reader.locations or v.node is None else v.node.inputs

        def enter(v: Value) -> None:
            after = max([memo[x] for x in read(v)], default=0)
            reduces = v.node in needed and v.node in self.fusion.reduced
            memo[v] = after + (reduces and v not in self.reader.locations)

        def stage(v: Value) -> int:
            in_order(v, memo.__contains__, read, enter)
            return memo[v]

        for node in self.group.members:
            if node in needed:
                out[node] = stage(node.outputs[0])
        for v in self.targets:
            if v.node is not None:
                out.setdefault(v.node, stage(v))
        return out

    def emit_passes(self) -> None:
        """Emit loops over the rows, each with the reductions and results of its stage; then the results per row."""
        stages = self.reduction_stages()
        level = {v: self.level(v) for v in self.targets}
        points = [v for v in self.targets if level[v] == "point"]
        for stage in range(max(stages.values(), default=0) + 1):
            folds = [n for n, s in stages.items() if n in self.fusion.reduced and s == stage + 1]
            due = [v for v in points if v.node is not None and stages[v.node] == stage]
            if folds or due:
                self.emit_row_pass(folds, due)
        rest = [v for v in self.targets if level[v] == "row"]
        self.compute_members(rest, behind_rows=True)
        found = [(v, self.reader.read(v, self.at(v))) for v in rest]
        for v, x in found:
            self.reader.store(v, self.targets[v], self.at(v), x)

    def level(self, v: Value) -> str:
        """ "point" for a result with an element per point, "row" for one with an element per row."""
        found = self.fusion.level(self.group, self.fusion.current(self.fusion.placed[v][1]))
        assert found is not None, "a member has the shape of the points or of the rows"
        return found

    def emit_row_pass(self, folds: Sequence[Node], points: Sequence[Value]) -> None:
        """Emit one loop nest over the rows."""
        starts = [self.reader.start(n.op.fold, n.inputs[0].dtype) for n in folds]
        found = self.emit_row_loops(self.rows, folds, points, starts)
        for node, values in zip(folds, found, strict=True):
            v = node.outputs[0]
            self.reader.memoize(v, self.at(v), self.reader.round_half(v, scalar_of(values)))

    def emit_row_loops(
        self, rows: Sequence[int], folds: Sequence[Node], points: Sequence[Value], init: Sequence[Sequence[Var]]
    ) -> list[list[Var]]:
        """Emit the loops over these rows; returns the results of the reductions."""
        with self.builder.loop(self.axes[rows[0]]) as loop:
            if len(rows) > 1:
                carried = [[loop.carry(v) for v in values] for values in init]
                inner = self.emit_row_loops(rows[1:], folds, points, carried)
                out = [
                    [loop.hand(c, v) for c, v in zip(cs, vs, strict=True)]
                    for cs, vs in zip(carried, inner, strict=True)
                ]
                loop.ordered = False
                return out
            self.compute_members([*[n.inputs[0] for n in folds], *points])
            out = []
            for node, starts in zip(folds, init, strict=True):
                at = self.index_coordinates(self.fusion.current(self.fusion.reduced[node]))
                values = components_of(self.reader.read(node.inputs[0], at))
                out.append([loop.fold(node.op.fold, v, init=i) for v, i in zip(values, starts, strict=True)])
            self.emit_stores(points)
        return out


TELLING_OPS = frozenset(("contract", "exp", "gather", "tanh"))
"""Operations, besides reductions, that name the kernel that they are in."""


def kernel_name_of(group: FusionGroup) -> str:
    """A kernel name from its most telling operations."""
    telling = dict.fromkeys([n.op.name for n in group.members if n.op.fold or n.op.name in TELLING_OPS])
    return "_".join([*telling][:4] or [n.op.name for n in group.members[:2]])
