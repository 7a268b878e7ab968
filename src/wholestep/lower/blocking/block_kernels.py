"""Block kernels: the packing of operands, and the register tiles that run over packed operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.dependence import ValueRanges
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Var
from wholestep.lower.blocking.block_sizes import (
    BlockSizes,
    PanelRun,
    TermSteps,
    even_shares,
    panels_together,
    rows_of_tile,
)
from wholestep.lower.blocking.contraction_nest import COLUMNS, RESULTS, ROWS, ContractionNest, runs_along
from wholestep.lower.blocking.element_copy import ElementCopy
from wholestep.lower.blocking.paired_terms import (
    WORD,
    packed_count,
    paired_word,
    pairs_in_memory,
    swapped_halves,
    term_runs,
    word_index,
)

PACKED_COLUMNS, PACKED_ROWS, PARTIAL_SUMS = "packed_columns", "packed_rows", "partial_sums"
SCRATCH = (PACKED_COLUMNS, PACKED_ROWS, PARTIAL_SUMS)
"""The scratch buffers of a blocked contraction, in the order of their slots."""


class BlockExtents(NamedTuple):
    """The rows, columns and terms of one block: of the last axis of each, where there are several."""

    rows: int
    columns: int
    terms: int


class BlockKernel(NamedTuple):
    """A kernel of a block, and the operand of each of its buffers: a role and a buffer of the nest, or the name of a
    scratch buffer and None."""

    kernel: Kernel
    operands: tuple[tuple[str, Buffer | None], ...]


class BlockWriter:
    """The writer of one kernel of a block."""

    apart: Sequence[TermSteps] = ()
    """The outer axes of the terms that lie apart in a row operand that is read in place."""
    columns_in_place = False
    """True where the columns already have the packed layout in memory."""
    reuse = Index()
    """The distance, in panels, from a panel to the place where it is packed."""

    def __init__(
        self, name: str, nest: ContractionNest, sizes: BlockSizes, extents: BlockExtents, first_term: int = 0
    ) -> None:
        self.nest, self.sizes, self.extents = nest, sizes, extents
        self.origins = {nest.terms[-1]: first_term}
        self.builder = KernelBuilder(name)
        self.operands: dict[tuple[str, Buffer | None], Buffer] = {}
        self.axes = 0
        rows = [a.extent for a in nest.rows[:-1]]
        self.row_count = self.packed_row_count = math.prod(rows) * extents.rows
        self.outer_columns = math.prod([a.extent for a in nest.columns[:-1]])
        full, rest = divmod(extents.columns, sizes.panel)
        together = panels_together(full, sizes.together) if sizes.panels_outermost else 1
        even = full - full % together
        runs = [
            PanelRun(even, sizes.panel, 0, together),
            PanelRun(full - even, sizes.panel, even * sizes.panel),
            PanelRun(1, rest, full * sizes.panel),
        ]
        self.runs = [run for run in runs if run.panels and run.width]
        self.panels = full + bool(rest)
        self.count_terms((extents.terms,))

    def count_terms(self, extents: Sequence[int]) -> None:
        """Derive the sizes of packed rows and columns from the extents of a block's terms."""
        paired = self.sizes.paired
        self.packed_terms, self.term_runs = packed_count(extents, paired), term_runs(extents[-1], paired)
        # Rows that lie powers of two apart would share one set of a cache.
        self.pitch = self.packed_terms + self.sizes.lanes * self.sizes.gathered

    def made(self) -> BlockKernel:
        """The finished kernel; the size of each buffer is the end of its accesses."""
        reaches: dict[Buffer, list[float]] = {buffer: [] for buffer in self.builder.buffers}
        values = ValueRanges()
        for access in memory_accesses(self.builder.frames[0].body):
            reaches[access.buffer].append(values.index(access.offset)[1])
        for buffer, reach in reaches.items():
            buffer.resize(min(buffer.room, int(max(reach)) + 1) if all(map(math.isfinite, reach)) else buffer.room)
        return BlockKernel(self.builder.kernel(), tuple(self.operands))

    # Buffers and loops.

    def buffers(self, role: str, words: bool = False) -> Callable[[Buffer], Buffer]:
        """The buffers that stand for those of the nest in a role, or their elements two by two as words."""

        def buffer(old: Buffer) -> Buffer:
            key = (role, old)
            if key not in self.operands:
                dtype, room = (WORD, old.room // 2) if words else (old.dtype, old.room)
                self.operands[key] = self.builder.buffer(f"{role}_{old.name}", dtype, room)
            return self.operands[key]

        return buffer

    def scratch(self, name: str) -> Buffer:
        """A scratch buffer."""
        room = {
            PACKED_COLUMNS: self.outer_columns * self.panels * self.sizes.panel * self.packed_terms,
            PACKED_ROWS: self.packed_row_count * self.pitch,
            PARTIAL_SUMS: self.row_count * self.outer_columns * self.panels * self.sizes.panel,
        }
        key = (name, None)
        if key not in self.operands:
            dtype = WORD if self.sizes.paired and name != PARTIAL_SUMS else self.nest.dtype
            self.operands[key] = self.builder.buffer(name, dtype, room[name])
        return self.operands[key]

    def element_copy(self, places: dict[Axis, Index], role: str) -> ElementCopy:
        """A copy of the statements of a role at some places, in the first product of the batch."""
        first = dict.fromkeys(self.nest.batch, Index())
        return ElementCopy(self.builder, {**first, **places}, self.buffers(role), self.origins)

    @contextmanager
    def loop(self, name: str, extent: int, lanes: int = 1, tile: int = 1, ahead: int = 0) -> Iterator[Index]:
        """Open an independent loop; yields its index."""
        self.axes += 1
        axis = Axis(f"{name}{self.axes}", extent, lanes=lanes, tile=tile, ahead=ahead)
        with self.builder.loop(axis):
            yield Index(0, {axis: 1})

    def outer_loops(self, loops: ExitStack, name: str, axes: Sequence[Axis]) -> dict[Axis, Index]:
        """Loops over all axes but the last, and the places of these."""
        return {a: loops.enter_context(self.loop(name, a.extent)) for a in axes[:-1]}

    # Places in scratch memory.

    def position(self, axes: Sequence[Axis], places: dict[Axis, Index]) -> Index:
        """The position among the points of all axes but the last."""
        found = Index()
        for a in axes[:-1]:
            found = found * a.extent + places[a]
        return found

    def panel_number(self, outer: dict[Axis, Index], panel: Index, run: PanelRun) -> Index:
        """The number of a panel among all of them."""
        number = panel + run.start // self.sizes.panel
        return self.position(self.nest.columns, outer) * self.panels + number

    def row_number(self, outer: dict[Axis, Index], row: Index) -> Index:
        """The number of a row among all of them."""
        return self.position(self.nest.rows, outer) * self.extents.rows + row

    def packed_column(self, number: Index, term: Index, column: Index) -> Index:
        """The place of an element in the packed columns: panel by panel, term by term."""
        return ((number + self.reuse) * self.packed_terms + term) * self.sizes.panel + column

    def packed_row(self, number: Index, term: Index) -> Index:
        """The place of an element in the packed rows: row by row."""
        return number * self.pitch + term

    def partial_sum(self, panel: Index, row: Index, column: Index) -> Index:
        """The place of a partial sum: panel by panel, row by row."""
        return (panel * self.row_count + row) * self.sizes.panel + column

    # Packing.

    def pack_element(self, role: str, places: dict[Axis, Index], terms: int, name: str, at: Index) -> None:
        """Store an element of an operand in a packed buffer: that of a term, or of so many at twice its place."""
        value = self.packed_value(role, places, terms)
        self.builder.store(self.scratch(name), at, value)

    def packed_value(self, role: str, places: dict[Axis, Index], terms: int) -> Var:
        """A packed element of an operand."""
        last, builder = self.nest.terms[-1], self.builder
        if not self.sizes.paired:
            return self.element(role, places)
        pair = places[last] * 2
        if not pairs_in_memory(self.nest, role):
            return paired_word(builder, [self.element(role, {**places, last: pair + i}) for i in range(terms)])
        (load,) = memory_accesses(self.nest.statements(role))
        index = word_index(self.element_copy({**places, last: pair}, role).index(load.offset))
        return swapped_halves(builder, builder.load(self.buffers(role, words=True)(load.buffer), index))

    def element(self, role: str, places: dict[Axis, Index]) -> Var:
        """An element of an operand."""
        nest = self.nest
        values, wanted = (
            (nest.row_values, nest.row_operand) if role == ROWS else (nest.column_values, nest.column_operand)
        )
        copy = self.element_copy(places, role)
        copy.write(values)
        return copy.values[wanted]

    def pack_panels(self, run: PanelRun, outer: dict[Axis, Index], first: Index) -> None:
        """Pack panels side by side: rows of vectors, across all panels, or squares that are transposed in registers."""
        turned = self.turned(COLUMNS, self.nest.columns[-1], self.nest.terms[-1])
        lanes = self.sizes.lanes
        vectors = -(-run.width // lanes)
        alone = run.together == 1
        for terms in self.term_runs:
            loops = [
                ("s", terms.extent, 1, 4 if alone else 1, self.sizes.ahead),
                ("p", run.together, 1, run.together, 0),
                ("t", run.width, lanes, vectors, 0),
            ]
            if turned:
                loops = [("p", run.together, 1, 1, 0), ("t", run.width, lanes, 1, 0), ("s", terms.extent, 1, lanes, 0)]
            with ExitStack() as stack:
                at = {facts[0]: stack.enter_context(self.loop(*facts)) for facts in loops}
                self.pack_column(run, outer, first + at["p"], at["s"] + terms.start, at["t"], terms.terms)

    def pack_column(
        self, run: PanelRun, outer: dict[Axis, Index], panel: Index, term: Index, column: Index, terms: int
    ) -> None:
        """Pack one element of a panel."""
        lane = panel * self.sizes.panel + column + run.start
        places = {**outer, self.nest.columns[-1]: lane, self.nest.terms[-1]: term}
        place = self.packed_column(self.panel_number(outer, panel, run), term, column)
        self.pack_element(COLUMNS, places, terms, PACKED_COLUMNS, place)

    def pack_columns(self) -> None:
        """Pack the columns of a block, with their terms shared among threads."""
        turned = self.turned(COLUMNS, self.nest.columns[-1], self.nest.terms[-1])
        lanes = self.sizes.lanes
        for terms in self.term_runs:
            with self.loop("s", terms.extent, 1, lanes if turned else 1) as term:
                for run in self.runs:
                    with ExitStack() as loops:
                        outer = self.outer_loops(loops, "h", self.nest.columns)
                        panel = loops.enter_context(self.loop("p", run.panels))
                        tile = 1 if turned else -(-run.width // lanes)
                        column = loops.enter_context(self.loop("t", run.width, lanes, tile))
                        self.pack_column(run, outer, panel, term + terms.start, column, terms.terms)

    def pack_rows(self) -> None:
        """Pack the rows of a block, with the rows shared among threads."""
        nest, lanes = self.nest, self.sizes.lanes
        turned = self.turned(ROWS, nest.terms[-1], nest.rows[-1])
        with ExitStack() as loops:
            row = loops.enter_context(self.loop("i", self.extents.rows, 1, lanes if turned else 1))
            outer = self.outer_loops(loops, "b", nest.rows)
            for terms in self.term_runs:
                with self.loop("s", terms.extent, lanes, 1 if turned else 4) as s:
                    term = s + terms.start
                    places = {**outer, nest.rows[-1]: row, nest.terms[-1]: term}
                    place = self.packed_row(self.row_number(outer, row), term)
                    self.pack_element(ROWS, places, terms.terms, PACKED_ROWS, place)

    def turned(self, role: str, axis: Axis, across: Axis) -> bool:
        """True if an operand is contiguous along another axis than the one that it is packed along, so that squares of
        it are transposed."""
        statements = self.nest.statements(role)
        return runs_along(statements, across) and not runs_along(statements, axis)

    # Tiles.

    def blocks_by_rows(self, packed: bool, first: bool, last: bool) -> None:
        """All tiles of a block, with the rows shared among threads."""
        with ExitStack() as loops:
            row = loops.enter_context(self.row_loop())
            outer = self.outer_loops(loops, "b", self.nest.rows)
            for run in self.runs:
                with ExitStack() as inner:
                    columns = self.outer_loops(inner, "h", self.nest.columns)
                    panel = inner.enter_context(self.loop("p", run.panels))
                    self.tile({**outer, **columns, self.nest.rows[-1]: row}, run, panel, packed, first, last)

    def panels_by_columns(self, run: PanelRun, packed: bool, first: bool, last: bool) -> None:
        """Panels of one width; a thread packs some of them at a time, and then computes the tiles over these."""
        with ExitStack() as loops:
            columns = self.outer_loops(loops, "h", self.nest.columns)
            first_panel = loops.enter_context(self.panel_groups(run))
            self.pack_panels(run, columns, first_panel)
            panel = first_panel + loops.enter_context(self.loop("p", run.together))
            outer = self.outer_loops(loops, "b", self.nest.rows)
            row = loops.enter_context(self.row_loop())
            self.tile({**outer, **columns, self.nest.rows[-1]: row}, run, panel, packed, first, last)

    @contextmanager
    def panel_groups(self, run: PanelRun) -> Iterator[Index]:
        """Loops over the panels that are packed at once; yields the first one.

        Threads share the outer loop; the groups of a share take turns in one place of the scratch memory.
        """
        groups = run.panels // run.together
        shares = even_shares(groups, self.sizes.shares if len(self.nest.columns) == 1 else 0)
        with self.loop("g", shares) as share:
            if shares == groups:
                yield share * run.together
                return
            axis = Axis(f"q{self.axes}", groups // shares)
            with self.builder.loop(axis, ordered=True):
                first = (share * axis.extent + Index(0, {axis: 1})) * run.together
                self.reuse = share * run.together + first * -1
                yield first

    def row_loop(self) -> AbstractContextManager[Index]:
        """The loop over tiles of rows."""
        return self.loop("i", self.extents.rows, 1, rows_of_tile(self.extents.rows, self.sizes))

    def tile(
        self, places: dict[Axis, Index], run: PanelRun, panel: Index, packed: bool, first: bool, last: bool
    ) -> None:
        """One tile: sums with 0 or partial sums as initial values, followed by the epilogue or stored as partial
        sums."""
        nest, sizes = self.nest, self.sizes
        number = self.panel_number(places, panel, run)
        row = self.row_number(places, places[nest.rows[-1]])
        with self.loop("t", run.width, sizes.lanes, -(-run.width // sizes.lanes)) as column:
            here = {**places, nest.columns[-1]: panel * sizes.panel + column + run.start}
            copy = self.element_copy(here, RESULTS)
            sums = None if first and last else self.partial_sums(copy, number, row, column)
            if first or sums is None:
                start = self.builder.constant(0, nest.dtype)
            else:
                start = self.builder.load(*sums, here=True)
            total = self.add_block(here, row, (number, column), packed, start)
            if last:
                copy.values[nest.result] = total
                copy.write((*nest.result_values, *nest.epilogue))
            else:
                assert sums is not None
                self.builder.store(*sums, total)

    def add_block(
        self,
        places: dict[Axis, Index],
        row: Index,
        panel: tuple[Index, Index],
        packed: bool,
        so_far: Var,
        outer: tuple[Index, ...] = (),
    ) -> Var:
        """A sum with the terms of a block added: one loop for each axis that is not contiguous in the row operand, and
        one for all others together; `panel` is the number of a panel, and a column in it.
        """
        nest, apart = self.nest, self.apart[len(outer) :]
        if apart:
            step = Axis("a", apart[0].extent)
            with self.builder.loop(step) as loop:
                inside = loop.carry(so_far)
                here = {**places, apart[0].axis: Index(0, {step: 1})}
                total = self.add_block(here, row, panel, packed, inside, (*outer, Index(0, {step: 1})))
                after = loop.hand(inside, total)
                loop.ordered = False
            return after
        together = self.packed_terms // math.prod([part.extent for part in self.apart])
        axis = Axis("k", together, tile=self.sizes.unroll)
        with self.builder.loop(axis) as loop:
            term = Index(0, {axis: 1})
            x = self.row_element({**places, nest.terms[-1]: term}, row, term, packed)
            first = Index()
            for part, at in zip(self.apart, outer, strict=True):
                first = first * part.extent + at
            y = self.column_element(places, first * together + term, panel)
            given = [x if v is nest.row_operand else y for v in nest.fold.values]
            return loop.fold("dot_bf16x2" if self.sizes.paired else "fma", *given, init=so_far)

    def row_element(self, places: dict[Axis, Index], row: Index, term: Index, packed: bool) -> Var:
        """The element of the row operand: a packed one, or computed in place."""
        if packed:
            return self.builder.load(self.scratch(PACKED_ROWS), self.packed_row(row, term))
        copy = self.element_copy(places, ROWS)
        copy.write(self.nest.row_values)
        return copy.values[self.nest.row_operand]

    def column_element(self, places: dict[Axis, Index], term: Index, panel: tuple[Index, Index] | None = None) -> Var:
        """The element of the column operand at a term: a packed one of a panel, or computed in place."""
        nest = self.nest
        if panel is not None and not self.columns_in_place:
            return self.builder.load(self.scratch(PACKED_COLUMNS), self.packed_column(panel[0], term, panel[1]))
        at = places | dict.fromkeys(nest.terms, Index()) | {nest.terms[-1]: term}
        copy = self.element_copy(at, COLUMNS)
        copy.write(nest.column_values)
        return copy.values[nest.column_operand]

    def partial_sums(self, copy: ElementCopy, panel: Index, row: Index, column: Index) -> tuple[Buffer, Index]:
        """The place of a partial sum between blocks of terms: that of the result, if the epilogue is a plain store."""
        store = self.nest.plain_store
        if store is not None and not self.sizes.gathered:
            copy.write(self.nest.result_values)
            return copy.buffers(store.buffer), copy.index(store.index)
        return self.scratch(PARTIAL_SUMS), self.partial_sum(panel, row, column)
