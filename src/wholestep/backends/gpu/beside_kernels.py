"""Kernels beside each other: independent kernels in one launch, each on workgroups of its own.

kernel a on groups 0 to 8, kernel b on groups 0 to 4    -->    one launch of 12 groups: those from 8 on are b's

Equal kernels over arrays of different sizes are written once: a group selects its arrays by its number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wholestep.backends.gpu.share_loops import THREADS, PlacedAxes
from wholestep.kernel.lang import Axis, Buffer, DType, Index, Kernel, Loop, Space, Statement, Store, Var, walk
from wholestep.kernel.text import canonical_text
from wholestep.kernel.workgroups import find_workgroup


class KernelsBeside(NamedTuple):
    """Kernels of one launch, whose arguments are the buffers of all of them."""

    kernels: tuple[Kernel, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers, those of the first kernel first."""
        return tuple([b for kernel in self.kernels for b in kernel.buffers])

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The shared and private buffers, which the kernels reuse, since a group runs one of the kernels alone."""
        slots: list[Buffer] = []
        for kernel, places in zip(self.kernels, self.scratch_places(), strict=True):
            for b, i in zip(kernel.scratch, places, strict=True):
                room = max([b.size, *[x.size for x in slots[i : i + 1]]])
                slots[i : i + 1] = [Buffer(f"s{i}", b.dtype, room, written=True, space=b.space)]
        return tuple(slots)

    def scratch_places(self) -> list[list[int]]:
        """For each kernel, the positions of its shared and private buffers in `scratch`."""
        kinds: list[tuple[DType, Space]] = []
        out: list[list[int]] = []
        for kernel in self.kernels:
            out.append([])
            for b in kernel.scratch:
                free = [i for i, kind in enumerate(kinds) if kind == (b.dtype, b.space) and i not in out[-1]]
                out[-1].append(free[0] if free else len(kinds))
                kinds += [] if free else [(b.dtype, b.space)]
        return out

    @property
    def items(self) -> int:
        """The work items of a workgroup."""
        return max(map(group_size, self.kernels)) or THREADS


def kernels_of(launched: Kernel | KernelsBeside) -> tuple[Kernel, ...]:
    """The kernels of a launch."""
    return launched.kernels if isinstance(launched, KernelsBeside) else (launched,)


def launch_text(launched: Kernel | KernelsBeside) -> str:
    """A text that is the same for launches of the same kernels."""
    return "\n".join(map(canonical_text, kernels_of(launched)))


def group_size(kernel: Kernel) -> int:
    """The work items of a kernel's workgroups, which all kernels of a launch must share; 0 where any number will do."""
    threads = find_workgroup(kernel).threads
    return math.prod([a.extent for a in threads]) if threads else 0


class FlatKernel(NamedTuple):
    """An elementwise kernel over arrays of one size and any shape, and that size; `kernel` covers the elements of one
    workgroup."""

    kernel: Kernel
    points: int
    text: str
    """The canonical text of the kernel, equal for equal kernels."""


def flat_kernel(kernel: Kernel) -> FlatKernel | None:
    """The flat form of a kernel; None where the kernel is not elementwise."""
    group = find_workgroup(kernel)
    inner = [s for s in walk(group.body) if isinstance(s, Loop)]
    if group.threads or kernel.scratch or inner or any(a.symbolic for a in group.grid):
        return None
    indices = {i: None for s in walk(kernel.body) for i in indices_of(s) if i.terms}
    if len(indices) != 1 or not counts_elements(next(iter(indices)), group.points):
        return None
    made = KernelFlattening(kernel, group.grid).kernel()
    return FlatKernel(made, group.points, canonical_text(made))


def indices_of(s: Statement) -> tuple[Index, ...]:
    """The indices in a value or a store."""
    if isinstance(s, Store):
        return (s.index,)
    return (s.index,) if isinstance(s, Var) and s.op in ("load", "index") else ()


def counts_elements(index: Index, points: int) -> bool:
    """Test whether an index enumerates the points from 0 on, with the axes in any order."""
    size = 1
    for key, factor in sorted(index.terms.items(), key=lambda term: term[1]):
        if isinstance(key, Var) or factor != size:
            return False
        size *= key.extent
    return index.const == 0 and size == points


class KernelFlattening(PlacedAxes):
    """A copy of a kernel, whose grid is one axis."""

    def __init__(self, kernel: Kernel, grid: Sequence[Axis]) -> None:
        super().__init__()
        self.given, self.axis = kernel, Axis("i", THREADS)
        (index,) = {i: None for s in walk(kernel.body) for i in indices_of(s) if i.terms}
        self.places |= {a: Index(0, {self.axis: 1} if index.coefficient(a) == 1 else {}) for a in grid}
        at_points = {b for s in walk(kernel.body) for b in buffers_of(s) if indices_of(s)[0].terms}
        for b in kernel.buffers:
            self.new[b] = Buffer(b.name, b.dtype, THREADS if b in at_points else b.room, b.written, b.space)

    def kernel(self) -> Kernel:
        """The kernel with one grid axis; statements before the outermost loop stay before it."""
        first, *others = self.nest(self.given.body)
        body = (*first, Loop(self.axis, tuple([s for part in others for s in part])))
        return Kernel(self.given.name, tuple([self.new[b] for b in self.given.buffers]), body)

    def nest(self, body: Sequence[Statement]) -> list[tuple[Statement, ...]]:
        """The statements before the first loop, before the second one, and so on."""
        if body and isinstance(loop := body[-1], Loop):
            return [self.body(body[:-1]), *self.nest(loop.body)]
        return [self.body(body)]


def buffers_of(s: Statement) -> tuple[Buffer, ...]:
    """The buffer that a statement reads or writes."""
    if isinstance(s, Store):
        return (s.buffer,)
    return (s.attr[0],) if isinstance(s, Var) and s.op == "load" else ()


class BesideSection(NamedTuple):
    """A kernel of a launch, which is written once, and the number of points of each set of arrays that it runs over;
    empty where it runs over one set, on a grid of its own."""

    kernel: Kernel
    points: tuple[int, ...] = ()


def sections_of(kernels: Sequence[Kernel], chosen: bool) -> list[BesideSection]:
    """Kernels as they are written: consecutive equal kernels once, where a group can select its arrays (`chosen`)."""
    out: list[BesideSection] = []
    texts: list[str] = []
    for kernel in kernels:
        flat = flat_kernel(kernel) if chosen else None
        if flat is not None and texts and texts[-1] == flat.text:
            out[-1] = BesideSection(flat.kernel, (*out[-1].points, flat.points))
        elif flat is not None:
            out.append(BesideSection(flat.kernel, (flat.points,)))
        else:
            out.append(BesideSection(kernel))
        texts.append("" if flat is None else flat.text)
    return out
