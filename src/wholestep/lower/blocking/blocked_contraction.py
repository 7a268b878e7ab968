"""Blocked contraction: the launches, block of terms by block of terms, that replace the kernel of a contraction.

    c[i, j] = f(sum over k of a[i, k] * b[k, j])
    -->
    for each block of terms:
        pack the columns of b, panel by panel
        for each tile of rows, for each panel: add the terms to the sums; in the last block, f

An element is one chain of fused multiply-adds in the order of its terms, as in the kernel that is replaced, so that
blocks and tiles change no bit. The order of the loops is that of Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication", 2008, for the operand that stays in the second cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.lang import Axis, Kernel
from wholestep.lower.blocking.block_kernels import BlockExtents, BlockKernel, BlockWriter
from wholestep.lower.blocking.block_launches import BlockedContraction, BlockLaunches
from wholestep.lower.blocking.block_sizes import AxisPart, BlockSizes, PanelRun, even_parts, split_axis
from wholestep.lower.blocking.contraction_nest import ContractionNest, runs_along
from wholestep.lower.blocking.grouped_contraction import GroupedBlocks
from wholestep.lower.blocking.strip_kernels import BlockStripWriter
from wholestep.lower.program.steps import Launch, Step

COUNTED_BLOCKS = 16
"""The most blocks of terms whose operands are computed from a term's index: each has a packing kernel of its own."""


class Position(NamedTuple):
    """The parts of a block: of the rows, the columns and the terms."""

    rows: AxisPart
    columns: AxisPart
    terms: AxisPart


def block_contraction(
    nest: ContractionNest,
    sizes: BlockSizes,
    new_loop: Callable[[], int],
    worth_sharing: Callable[[Kernel], bool],
) -> BlockedContraction | None:
    """The blocks of a contraction; None where the blocks of its terms, or the products of its batch, cannot share a
    kernel at other offsets."""
    if not all(nest.movable(axis) for axis in nest.batch):
        return None
    if len(nest.terms) > 1 or (len(nest.rows) > 1 and not sizes.strip and packs_rows(nest, sizes.near)):
        return GroupedBlocks(nest, sizes._replace(strip=0, gathered=False), new_loop, worth_sharing).blocked()
    if sizes.strip:
        return ContractionBlocks(nest, sizes, new_loop, worth_sharing).in_strips()
    (term_axis,) = nest.terms
    terms = split_axis(term_axis.extent, sizes.terms, 8)
    if len(terms) > 1 and nest.counted(term_axis):
        terms = [AxisPart(part.start + i * part.extent, part.extent) for part in terms for i in range(part.trips)]
        if len(terms) > COUNTED_BLOCKS:
            return None
    if len(terms) > 1 and not nest.separable(term_axis):
        return None
    row_axis, column_axis = nest.rows[-1], nest.columns[-1]
    rows, columns = [AxisPart(0, row_axis.extent)], [AxisPart(0, column_axis.extent)]
    if nest.movable(column_axis):
        columns = even_parts(column_axis.extent, sizes.columns, sizes.panel)
    if nest.movable(row_axis) and (sizes.paired or packs_rows(nest, sizes.near)):
        in_scratch = nest.plain_store is None and len(terms) > 1
        most = min(sizes.rows, sizes.scratch_sums // columns[0].extent) if in_scratch else sizes.rows
        rows = even_parts(row_axis.extent, max(most, sizes.tile_rows), sizes.tile_rows)
    return ContractionBlocks(nest, sizes, new_loop, worth_sharing).blocked(rows, columns, terms)


def lie_along_terms(nest: ContractionNest) -> bool:
    """Test whether the rows of a contraction with one axis of terms are loaded, and are contiguous along that axis."""
    return len(nest.row_values) == 1 and runs_along(nest.row_values, nest.terms[-1])


def packs_rows(nest: ContractionNest, near: int) -> bool:
    """Test whether the rows of a contraction with one axis of terms are packed: rows that are contiguous along it are
    not, and neither are adjacent rows whose next term is at most `near` elements away.
    """
    if lie_along_terms(nest):
        return False
    if len(nest.row_values) > 1 or not runs_along(nest.row_values, nest.rows[-1]):
        return True
    (load,) = memory_accesses(nest.row_values)
    return abs(load.offset.coefficient(nest.terms[-1])) > near


class ContractionBlocks(BlockLaunches):
    """The blocks of a contraction with one axis of terms."""

    def __init__(
        self,
        nest: ContractionNest,
        sizes: BlockSizes,
        new_loop: Callable[[], int],
        worth_sharing: Callable[[Kernel], bool],
    ) -> None:
        super().__init__(nest, sizes, new_loop, worth_sharing)
        self.rows, self.columns = nest.rows[-1], nest.columns[-1]
        self.counted = nest.counted(nest.terms[-1])
        self.pack_rows = sizes.paired or packs_rows(nest, sizes.near)

    def blocked(
        self, rows: Sequence[AxisPart], columns: Sequence[AxisPart], terms: Sequence[AxisPart]
    ) -> BlockedContraction:
        """All blocks, with those of the terms outermost where the result can hold partial sums, else innermost."""
        nest = self.nest
        waits = nest.plain_store is not None or len(terms) == 1

        def inside(row: AxisPart) -> list[Step]:
            if waits:
                return self.over(nest.terms[-1], terms, lambda term: self.term_block(row, columns, term, terms))
            return self.over(self.columns, columns, lambda column: self.column_block(row, column, terms))

        return self.made_of(self.over(self.rows, rows, inside))

    def in_strips(self) -> BlockedContraction:
        """Strips of columns, whose rows are packed unless they are contiguous in the order of reading."""
        nest = self.nest
        whole = [AxisPart(0, axis.extent) for axis in (self.rows, self.columns, nest.terms[-1])]
        at = Position(*whole)
        self.pack_rows = self.sizes.gathered or not lie_along_terms(nest)
        packed = [self.launch("pack_rows", at)] if self.pack_rows else []
        name = "dots" if self.sizes.partial_sums else "strips"
        writer = BlockWriter(name, nest, self.sizes, BlockExtents(*[part.extent for part in whole]))
        return self.made_of([*packed, *[self.launch(name, at, run=run) for run in writer.runs]])

    def over(self, axis: Axis, parts: Sequence[AxisPart], steps: Callable[[AxisPart], list[Step]]) -> list[Step]:
        """The steps for each part of an axis, in loops."""
        return [step for part in parts for step in self.each(axis, part, partial(steps, part))]

    def term_block(
        self, row: AxisPart, columns: Sequence[AxisPart], term: AxisPart, terms: Sequence[AxisPart]
    ) -> list[Step]:
        """The steps of one block of terms."""
        first = Position(row, columns[0], term)
        packed = [self.launch("pack_rows", first)] if self.pack_rows else []
        return [
            *packed,
            *self.over(self.columns, columns, lambda column: self.tiles(Position(row, column, term), terms)),
        ]

    def column_block(self, row: AxisPart, column: AxisPart, terms: Sequence[AxisPart]) -> list[Step]:
        """The steps of one block of columns."""

        def block(term: AxisPart) -> list[Step]:
            at = Position(row, column, term)
            return [*([self.launch("pack_rows", at)] if self.pack_rows else []), *self.tiles(at, terms)]

        return self.over(self.nest.terms[-1], terms, block)

    def tiles(self, at: Position, terms: Sequence[AxisPart]) -> list[Step]:
        """The packing of columns, and the tiles over them."""
        # Sums that wait where they end up are stored there alike by every block.
        ends = (at.terms is terms[0], at.terms is terms[-1] or self.nest.plain_store is not None)
        if not self.sizes.panels_outermost:
            packed = self.nest.lies_packed([at.terms.extent], at.columns.extent, self.sizes.panel)
            tiles = self.launch("tiles", at, *ends)
            return [tiles] if packed else [self.launch("pack_columns", at), tiles]
        writer = BlockWriter("panels", self.nest, self.sizes, BlockExtents(1, at.columns.extent, 1))
        return [self.launch("panels", at, *ends, run) for run in writer.runs]

    def launch(
        self, name: str, at: Position, first: bool = False, last: bool = False, run: PanelRun | None = None
    ) -> Launch:
        """The launch of a kernel over one block."""
        extents = BlockExtents(at.rows.extent, at.columns.extent, at.terms.extent)
        # Tiles load packed operands, or elements that are not computed from an index.
        first_term = at.terms.start if self.counted and name != "tiles" else 0
        key = (name, extents if name != "pack_rows" else extents._replace(columns=1), first, last, run, first_term)
        places = [(self.rows, at.rows), (self.columns, at.columns), (self.nest.terms[-1], at.terms)]
        return self.launched(key, lambda: self.write(*key), places)

    def write(
        self, name: str, extents: BlockExtents, first: bool, last: bool, run: PanelRun | None, first_term: int
    ) -> BlockKernel:
        """Write a kernel."""
        called = f"{self.nest.kernel.name}_{name}"
        if name in ("strips", "dots"):
            assert run is not None
            strips = BlockStripWriter(called, self.nest, self.sizes, extents, first_term)
            with strips.builder:
                (strips.strips_by_columns if name == "strips" else strips.dots_by_columns)(run, self.pack_rows)
            return strips.made()
        writer = BlockWriter(called, self.nest, self.sizes, extents, first_term)
        with writer.builder:
            if name == "pack_rows":
                writer.pack_rows()
            elif name == "pack_columns":
                writer.pack_columns()
            elif run is not None:
                writer.panels_by_columns(run, self.pack_rows, first, last)
            else:
                writer.columns_in_place = self.nest.lies_packed([extents.terms], extents.columns, self.sizes.panel)
                writer.blocks_by_rows(self.pack_rows, first, last)
        return writer.made()
