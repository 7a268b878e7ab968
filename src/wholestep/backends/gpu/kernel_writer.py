"""The walk over a kernel: its grid becomes work items or workgroups, and its body the statements of one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from wholestep.backends.gpu.beside_kernels import BesideSection, KernelsBeside, group_size, sections_of
from wholestep.backends.gpu.index_width import has_short_indices
from wholestep.backends.gpu.keep_roundings import keep_roundings
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame, KernelLanguage
from wholestep.backends.gpu.short_integers import shorten_integers
from wholestep.backends.gpu.statement_writer import GpuStatementWriter
from wholestep.backends.gpu.vector_items import items_of_run
from wholestep.kernel.lang import Axis, Kernel
from wholestep.kernel.workgroups import find_workgroup

ITEMS = 64
"""The work items of a workgroup of a kernel whose points are independent work items."""
MANY = 1 << 15
"""The least points of a kernel with larger workgroups: so many points still occupy a card."""
ROUNDS, BUSY = 16, 256
"""The most rounds in which a long group runs its points, and the least number of groups."""


class KernelCode(NamedTuple):
    """A kernel as text, and its launch: the number of workgroups, and of work items in each."""

    name: str
    text: str
    groups: int
    threads: int
    shared: int = 0
    """The bytes of shared memory that the launch asks for."""


class GroupsOfSection(NamedTuple):
    """The groups that run a kernel of a launch: the `first` of them, and the work items of each. `long` groups run
    their points in several rounds, and the `last` kernel has all remaining groups."""

    first: int
    items: int
    long: bool
    last: bool

    def head(self, end: int, chained: bool) -> str:
        """The head of the statements of these groups, which end before one; `chained` to those of the groups before."""
        if not self.first:
            return f"if ({GROUP} < {end})"
        if not chained:
            return f"if (({GROUP} >= {self.first}) & ({GROUP} < {end}))"
        return "else" if self.last else f"else if ({GROUP} < {end})"

    @property
    def number(self) -> str:
        """The number of a group among these."""
        return f"({GROUP} - {self.first})" if self.first else GROUP


def write_kernel(
    kernel: Kernel | KernelsBeside,
    name: str,
    language: KernelLanguage,
    unless: Sequence[str] = (),
    aligned: Collection[int] = (),
) -> KernelCode:
    """The text of a kernel, or of kernels beside each other as one; it returns at once where a test of `unless` holds.

    A kernel with thread loops has its own workgroups; in other kernels, every point of the grid is a work item. The
    buffers with the numbers `aligned` begin at a multiple of 16 bytes.
    """
    if isinstance(kernel, KernelsBeside):
        return write_beside(kernel, name, language, unless, aligned)
    writer = GpuKernelWriter(kernel_as_written(kernel, language), language, aligned)
    if language.vectors:
        writer.run = items_of_run(kernel, writer.aligned)
    points, items = writer.workgroup.points, writer.items()
    groups = points if writer.workgroup.threads else -(-(points // writer.run) // items)
    writer.items_of_group(GROUP, items)
    frame = KernelFrame(name, kernel.buffers, kernel.scratch, items, has_short_indices(kernel), unless)
    text = language.kernel(frame, writer.text())
    return KernelCode(name, text, groups, items, language.asked_for(frame.scratch))


def write_beside(
    beside: KernelsBeside, name: str, language: KernelLanguage, unless: Sequence[str], aligned: Collection[int]
) -> KernelCode:
    """Kernels beside each other as one; each is done by groups of its own."""
    lines: list[str] = []
    first = buffers = kernels = 0
    places, items = beside.scratch_places(), beside.items
    waiting = any(find_workgroup(kernel).threads for kernel in beside.kernels)
    if not waiting:
        points = sum([find_workgroup(kernel).points for kernel in beside.kernels])
        items = max(group_items(points, language), items)
    for section in sections_of(beside.kernels, language.chosen):
        writer = GpuKernelWriter(
            kernel_as_written(section.kernel, language), language, aligned, buffers, places[kernels]
        )
        if language.vectors:
            writer.run = items_of_run(section.kernel, writer.aligned)
        kernels += max(1, len(section.points))
        groups = GroupsOfSection(first, items, waiting and language.long_groups, kernels == len(beside.kernels))
        first = writer.section(section, groups)
        lines += writer.text()
        buffers += max(1, len(section.points)) * len(section.kernel.buffers)
    short = all(map(has_short_indices, beside.kernels))
    text = language.kernel(KernelFrame(name, beside.buffers, beside.scratch, items, short, unless), lines)
    return KernelCode(name, text, first, items, language.asked_for(beside.scratch))


def group_items(points: int, language: KernelLanguage) -> int:
    """The work items of a workgroup for this number of points: more for many points, since a card begins groups one by
    one."""
    return (ITEMS if points < MANY else language.items) if points >= ITEMS else max(points, 1)


def kernel_as_written(kernel: Kernel, language: KernelLanguage) -> Kernel:
    """The kernel prepared for the language: with short integers, and with `exact` for the roundings that its compilers
    could omit."""
    short = shorten_integers(kernel) if language.short_integers else kernel
    return keep_roundings(short) if language.relaxed else short


class GpuKernelWriter(GpuStatementWriter):
    """The statements of one kernel with its grid: what a work item or a workgroup does, from its number."""

    def items(self) -> int:
        """The work items of a workgroup."""
        return group_size(self.kernel) or group_items(self.workgroup.points, self.language)

    def items_of_group(self, group: str, items: int) -> None:
        """The statements of the work items of a group."""
        grid, threads, _ = self.workgroup
        if threads:
            self.coordinates(grid, group)
            self.coordinates(threads, THREAD)
            self.body(self.kernel.body)
        else:
            self.items_below(f"{group} * {items} + {THREAD}", str(self.workgroup.points // self.run))

    def items_below(self, point: str, points: str) -> None:
        """The statements of a work item, where its point is one of the grid."""
        self.put(self.language.index_declaration("point", point))
        self.open(f"if (point < {points})")
        self.coordinates(self.workgroup.grid, "point", self.run)
        self.body(self.kernel.body)
        self.close()

    def section(self, section: BesideSection, groups: GroupsOfSection) -> int:
        """A kernel of a launch, done by groups of its own; where they end."""
        first, items = groups.first, groups.items
        points = list(section.points) or [
            self.workgroup.points * items if self.workgroup.threads else self.workgroup.points // self.run
        ]
        alone = groups.long and not self.workgroup.threads and len(points) == 1
        rounds = max(1, min(ROUNDS, points[0] // (items * BUSY))) if alone else 1
        own = [-(-n // (items * rounds)) for n in points]
        ends = [first + sum(own[: i + 1]) for i in range(len(own))]
        self.open(groups.head(ends[-1], self.language.chained))
        if len(own) > 1:
            self.names |= {b: f"p{i}" for i, b in enumerate(self.kernel.buffers)}
            for line in self.language.chosen_arrays([first, *ends], section.points, self.kernel.buffers, self.first):
                self.put(line)
            self.items_below(f"({GROUP} - before) * {items} + {THREAD}", "points")
        elif rounds > 1:
            self.items_in_rounds(groups, items * rounds, points[0])
        elif section.points:
            self.items_below(f"{groups.number} * {items} + {THREAD}", str(points[0]))
        else:
            self.items_of_group(groups.number, items)
        self.close()
        return ends[-1]

    def items_in_rounds(self, groups: GroupsOfSection, own: int, points: int) -> None:
        """The statements of the work items of a group that runs `own` of the points, in several rounds."""
        begin = f"{groups.number} * {own}"
        end = f"min({begin} + {own}, {points})"
        self.open(self.language.points_head("point", f"{begin} + {THREAD}", end, groups.items))
        self.coordinates(self.workgroup.grid, "point", self.run)
        self.body(self.kernel.body)
        self.close()

    def coordinates(self, axes: Sequence[Axis], number: str, run: int = 1) -> None:
        """Write the steps of axes, the last axis first, from the number of a work item or workgroup; a work item has a
        run of steps of the last axis, whose first is written."""
        inside = 1
        for axis in reversed(axes):
            self.names[axis] = name = self.fresh("i")
            extent, each = axis.extent // run, f" * {run}" if run > 1 else ""
            whole = number if inside == 1 else f"{number} / {inside}"
            self.put(
                self.language.index_declaration(name, (whole if axis is axes[0] else f"{whole} % {extent}") + each)
            )
            inside, run = inside * extent, 1
