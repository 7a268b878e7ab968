"""The walk over a kernel: its grid becomes work items or workgroups, and its body the statements of one of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from wholestep.backends.gpu.beside_kernels import BesideSection, KernelsBeside, sections_of
from wholestep.backends.gpu.index_width import has_short_indices
from wholestep.backends.gpu.keep_roundings import keep_roundings
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame, KernelLanguage
from wholestep.backends.gpu.matrix_loops import (
    find_matrix_loop,
    find_vector_copy,
    is_store_pair,
    matrix_lines,
)
from wholestep.backends.gpu.nested_values import NestedValues, renumbered_names
from wholestep.backends.gpu.short_forms import continued_values, filling_stores
from wholestep.backends.gpu.short_integers import shorten_integers
from wholestep.backends.gpu.vector_items import VectorItems, items_of_run
from wholestep.errors import KernelError
from wholestep.kernel.block_text import BlockText
from wholestep.kernel.lang import I32, Axis, Barrier, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.summation import is_float_sum, live_variables, sum_blocks
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
    points, items = writer.points(), writer.items()
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
        points = sum([math.prod([a.extent for a in find_workgroup(kernel).grid]) for kernel in beside.kernels])
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


class GpuKernelWriter(BlockText):
    """The statements of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        language: KernelLanguage,
        aligned: Collection[int] = (),
        buffers: int = 0,
        scratch: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.language, self.first = kernel, language, buffers
        self.workgroup = find_workgroup(kernel)
        self.used = live_variables(kernel)
        self.nested = NestedValues(kernel)
        self.given: set[str] = set()
        """The names that this writer has made for values and axes."""
        self.stored: set[Store] = set()
        """The stores that were written with those before them."""
        self.continued: set[Var] = set()
        """The carried values whose variables are also the accumulators of folds."""
        self.copies = False
        """True where copies of vectors to shared memory are pending, for which the next barrier waits."""
        self.names |= {b: f"b{i}" for i, b in enumerate(kernel.buffers, buffers)}
        self.run = 1
        """The points of the grid that a work item runs."""
        self.aligned = {b for i, b in enumerate(kernel.buffers, buffers) if i in aligned}
        places = range(len(kernel.scratch)) if scratch is None else scratch
        self.names |= {b: f"s{i}" for i, b in zip(places, kernel.scratch, strict=True)}

    def points(self) -> int:
        """The points of the grid."""
        return math.prod([a.extent for a in self.workgroup.grid])

    def items(self) -> int:
        """The work items of a workgroup."""
        threads = self.workgroup.threads
        return math.prod([a.extent for a in threads]) if threads else group_items(self.points(), self.language)

    def items_of_group(self, group: str, items: int) -> None:
        """The statements of the work items of a group."""
        grid, threads, _ = self.workgroup
        if threads:
            self.coordinates(grid, group)
            self.coordinates(threads, THREAD)
            self.body(self.kernel.body)
        else:
            self.items_below(f"{group} * {items} + {THREAD}", str(self.points() // self.run))

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
            self.points() * items if self.workgroup.threads else self.points() // self.run
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

    def text(self) -> list[str]:
        """The lines; where values are nested, names that became no declaration leave no gap."""
        nested = self.language.nested
        return renumbered_names(self.lines, self.given, self.language.reserved) if nested else self.lines

    def fresh(self, letter: str = "v") -> str:
        name = super().fresh(letter)
        if name in self.language.reserved:
            name = super().fresh(letter)
        self.given.add(name)
        return name

    def put(self, line: str) -> None:
        line = self.nested.placed(line)
        for declared in self.nested.taken():
            super().put(declared)
        super().put(line)

    # -- text --------------------------------------------------------------------------------------------------------

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

    def index(self, index: Index) -> str:
        moving = {k: c for k, c in index.terms.items() if not isinstance(k, Axis) or k.extent > 1}
        return super().index(Index(index.const, moving))

    def index_term(self, key: Any) -> str:
        """The step of an axis, or a value, as a term of an index."""
        name = self.names[key]
        return self.language.as_index(name, key.dtype) if isinstance(key, Var) else name

    # -- statements --------------------------------------------------------------------------------------------------

    def body(self, body: Iterable[Statement]) -> None:
        """Statements one after the other."""
        statements = list(body)
        while statements:
            s, following = statements[0], statements[1] if len(statements) > 1 else None
            filled = filling_stores(statements)
            if filled and (text := self.language.array(filled[0].value.dtype, [self.names[x.value] for x in filled])):
                self.put(f"{self.names[filled[0].buffer]} = {text};")
                del statements[: len(filled)]
                continue
            del statements[0]
            if self.language.vectors and isinstance(s, Store) and self.paired(s, following):
                continue
            if isinstance(s, Var):
                self.value(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Barrier):
                self.put(f"ws_arrived<{s.late}>(); {self.language.barrier}" if self.copies else self.language.barrier)
            elif self.run > 1 and s.axis is self.workgroup.grid[-1]:
                VectorItems(self, self.run).write(s)
            elif s.axis in self.workgroup.grid or s.axis in self.workgroup.threads:
                self.body(s.body)
            else:
                self.loop(s)

    def value(self, v: Var) -> None:
        """A value; a constant is written where it is used."""
        if v not in self.used:
            return
        if v.op == "const":
            self.names[v] = self.language.number(v.attr, v.dtype)
            return
        self.names[v] = name = self.fresh()
        args = [self.names[x] for x in v.args]
        if v.op == "load" and args:
            self.put(self.language.declaration(name, v.dtype, self.language.number(0, v.dtype), constant=False))
            self.put(f"if ({args[0]}) {{ {name} = {self.element(v)}; }}")
            return
        if v.op == "load":
            text = self.element(v)
        elif v.op == "index":
            text = self.language.index_value(self.index(v.attr), v.dtype)
            steps = [self.names[key] for key in v.attr.terms if isinstance(key, Axis)]
            if v.dtype == I32 and text in steps:  # a step may be of 32 bits, and a value may not be declared yet
                self.names[v] = text
                return
        elif v.op in ("across", "size"):
            raise KernelError(f"{self.language.name}: {v.op} has no meaning in a kernel of {self.kernel.name}")
        else:
            text = self.language.expression(v, args)
        if self.language.nested:
            self.nested.add(v, name, text, self.language.declaration)
        else:
            self.put(self.language.declaration(name, v.dtype, text))

    def element(self, v: Var) -> str:
        """The element that a load reads."""
        buffer, index = v.attr
        return self.language.load(buffer, self.names[buffer], self.index(index))

    def store(self, s: Store) -> None:
        """A store, where its guard holds."""
        text = self.language.store(s.buffer, self.names[s.buffer], self.index(s.index), self.names[s.value])
        self.put(text if s.guard is None else f"if ({self.names[s.guard]}) {{ {text} }}")

    def loop(self, loop: Loop) -> None:
        """Write a loop, with the variables of its folds and carried values."""
        axis = loop.axis
        for f in loop.folds:
            first = self.names[f.init]
            self.names[f.result] = first if f.init in self.continued else self.variable(f.result, first)
        for c in loop.carries:
            self.names[c.inside] = self.names[c.after] = self.variable(c.inside, self.names[c.init])
        if self.language.vectors and self.by_matrix_units(loop):
            return
        if loop.guard is not None:
            self.open(f"if ({self.names[loop.guard]})")
        sums = [BlockedSum(self, f, axis.extent) for f in loop.folds]
        self.names[axis] = i = self.fresh("i")
        if axis.tile > 1 and self.language.unrolled:
            self.put(self.language.unrolled)
        if axis.extent > 1:
            self.open(self.language.loop_head(i, axis.extent))
        self.continued |= continued_values(loop, self.nested.uses)
        self.body(loop.body)
        for held in sums:
            held.take(i)
        self.hand_on(loop)
        if axis.extent > 1:
            self.close()
        for held in sums:
            held.end()
        if loop.guard is not None:
            self.close()

    def by_matrix_units(self, loop: Loop) -> bool:
        """Write a loop that runs on matrix units, or a copy of one vector; False, without output, for other loops."""
        copy, matrices = find_vector_copy(loop), find_matrix_loop(loop, self.workgroup.threads)
        if copy is not None and copy.source in self.aligned:
            target = f"&{self.names[copy.target]}[{self.index(copy.to)}]"
            source = f"&{self.names[copy.source]}[{self.index(copy.place)}]"
            here = "true" if copy.guard is None else self.names[copy.guard]
            self.put(f"ws_copy({target}, {source}, {here});")
            self.copies = True
            return True
        if matrices is None:
            return False
        for line in matrix_lines(matrices, self.names.__getitem__, self.index):
            self.put(line)
        return True

    def paired(self, s: Store, following: Statement | None) -> bool:
        """Write a store and the next one as a single store of a pair, or omit the latter; False where they are no
        pair."""
        if s in self.stored:
            return True
        if s.buffer not in self.aligned or not isinstance(following, Store) or not is_store_pair(s, following):
            return False
        self.stored.add(following)
        buffer, values = self.names[s.buffer], f"{self.names[s.value]}, {self.names[following.value]}"
        self.put(f"ws_store(&{buffer}[{self.index(s.index)}], {values});")
        return True

    def variable(self, v: Var, first: str) -> str:
        """Declare a variable that a loop updates; returns its name."""
        name = self.fresh("r")
        self.put(self.language.declaration(name, v.dtype, first, constant=False))
        return name

    def hand_on(self, loop: Loop) -> None:
        """Assign the next values of carried variables; values that are read from another such variable are read before
        any is written."""
        moves = {self.names[c.inside]: c.next for c in loop.carries if self.names[c.inside] != self.names[c.next]}
        kept = {v: self.fresh() for v in moves.values() if len(moves) > 1 and self.names[v] in moves}
        for v, name in kept.items():
            self.put(self.language.declaration(name, v.dtype, self.names[v]))
        for name, v in moves.items():
            self.put(f"{name} = {kept.get(v, self.names[v])};")


class BlockedSum:
    """A fold: one variable, and beside that of a long floating-point sum one for each level of blocks."""

    def __init__(self, w: GpuKernelWriter, fold: Fold, extent: int) -> None:
        self.w, self.fold = w, fold
        self.blocks = sum_blocks(extent)[::-1] if is_float_sum(fold) else ()
        zero = w.language.number(0, fold.result.dtype)
        self.held = [*[w.variable(fold.result, zero) for _ in self.blocks], w.names[fold.result]]

    def take(self, i: str) -> None:
        """Write the end of a step; at the end of a block its sum is added to the next level."""
        w = self.w
        dtype = self.fold.result.dtype
        w.put(w.language.combined(self.fold.op, self.held[0], [w.names[v] for v in self.fold.values], dtype))
        for level, steps in enumerate(self.blocks):
            w.open(f"if ({i} % {steps} == {steps - 1})")
            self.pass_on(level)
            w.put(f"{self.held[level]} = {w.language.number(0, dtype)};")
        for _ in self.blocks:
            w.close()

    def pass_on(self, level: int) -> None:
        """Add the sum of a level to that of the next."""
        text = self.w.language.combined("add", self.held[level + 1], [self.held[level]], self.fold.result.dtype)
        self.w.put(text)

    def end(self) -> None:
        """Add the partial sums of the unfinished blocks."""
        for level in range(len(self.blocks)):
            self.pass_on(level)
