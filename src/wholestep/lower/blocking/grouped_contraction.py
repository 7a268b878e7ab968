"""Grouped contraction: the blocks of a contraction whose rows or terms have several axes, as those of convolutions.

    y[n, x, y, o] = f(sum over i, j, c of p[n, x + i, y + j, c] * w[i, j, c, o])
    -->
    for each block of (i, j, c), in order:
        pack the columns of w, panel by panel
        for each group of places: pack their windows; for each panel, for each tile of places: add terms to the sums

Blocks of terms follow the order of the terms in a sum, so that no bit changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.build import named_by
from wholestep.kernel.lang import Axis, Kernel, Var, walk
from wholestep.lower.blocking.block_kernels import BlockKernel
from wholestep.lower.blocking.block_launches import BlockedContraction, BlockLaunches
from wholestep.lower.blocking.block_sizes import AxisPart, BlockSizes, TermSteps, even_parts, split_axis
from wholestep.lower.blocking.contraction_nest import RESULTS, ROWS, ContractionNest, runs_along
from wholestep.lower.blocking.group_kernels import GroupExtents, GroupWriter, choose_groups
from wholestep.lower.program.steps import Launch, Step

Parts = tuple[AxisPart, ...]

MOST_PANELS_IN_PLACE, MIN_TILES_IN_PLACE, MIN_TERMS_IN_PLACE = 4, 2, 32
"""The most panels for which rows are read in place, the least tiles along the last axis of such rows, and the least
contiguous terms. Measured."""
FULL_SQUARES = 3
"""The number of squares in a row above which transposing runs at full speed, also with a partial last one. Measured."""
MIN_GROUPS = 4
"""The approximate least number of groups that threads share, where there are rows enough for tiles."""


class GroupPosition(NamedTuple):
    """The parts of a block: of each axis of the rows, of the last column, and of each axis of the terms."""

    rows: Parts
    columns: AxisPart
    terms: Parts


def contiguous_rows(nest: ContractionNest, terms: int, lanes: int) -> Axis | None:
    """The axis of the rows along which their operand is contiguous, and packed; None where it is contiguous along its
    terms for a vector or more, or where so many terms fill the squares that are transposed.
    """
    rows = nest.statements(ROWS)
    if runs_along(rows, nest.terms[-1]):
        along_terms = terms >= lanes
    else:
        along_terms = terms % max(lanes // 2, 1) == 0 or terms > FULL_SQUARES * lanes
    if along_terms:
        return None
    return next((axis for axis in nest.rows if axis.extent >= lanes and runs_along(rows, axis)), None)


def results_order(nest: ContractionNest, last: Axis | None) -> list[Axis]:
    """The axes of the rows by their strides in the results, the largest first, except for one that comes last."""
    stored = [a.offset for a in memory_accesses(nest.statements(RESULTS)) if a.is_store]
    return sorted(nest.rows, key=lambda axis: (axis is last, -abs(stored[0].coefficient(axis))))


def joined_axes(nest: ContractionNest, order: Sequence[Axis], in_place: bool) -> int:
    """The number of last axes of the rows that collapse to one axis in the epilogue's accesses, and in the row operand
    where that is read in place.
    """
    statements = nest.statements(RESULTS)
    offsets = [a.offset for a in memory_accesses((*statements, *(nest.statements(ROWS) if in_place else ())))]
    told = {axis for s in walk(statements) if isinstance(s, Var) and s.op != "load" for axis in named_by(s)}
    count = 1
    for outer, inner in zip(reversed(order[:-1]), reversed(order[1:]), strict=True):
        even = all(i.coefficient(outer) == i.coefficient(inner) * inner.extent for i in offsets)
        if not even or outer in told or inner in told:
            break
        count += 1
    return count


def terms_as_one(nest: ContractionNest, extents: Sequence[int]) -> int:
    """The number of last axes of these terms that collapse to one axis in the row operand, which is loaded without a
    computation; 0 where it is computed, or is not contiguous along its terms.
    """
    if len(nest.row_values) != 1 or not runs_along(nest.row_values, nest.terms[-1]):
        return 0
    (load,) = memory_accesses(nest.row_values)
    wanted = 1
    for count, (axis, extent) in enumerate(zip(reversed(nest.terms), reversed(extents), strict=True)):
        if extent > 1 and load.offset.coefficient(axis) != wanted:
            return count
        wanted *= extent
    return len(extents)


def bounded_parts(
    axes: Sequence[Axis], most: int, split: Callable[[int, int, int], list[AxisPart]]
) -> list[list[AxisPart]]:
    """Parts of each of some axes, so that a block has about `most` consecutive points: single steps of the outer axes,
    parts of one axis by `split`, and the inner axes whole.
    """
    inside = 1
    found: list[list[AxisPart]] = []
    for axis in reversed(axes):
        if axis.extent * inside <= most + most // 2:
            found.append([AxisPart(0, axis.extent)])
        elif inside <= most:
            found.append(split(axis.extent, most // inside, 8 if inside == 1 else 1))
        else:
            found.append([AxisPart(0, 1, axis.extent)])  # step by step
        inside *= axis.extent
    return found[::-1]


def ends_apart(parts: Sequence[AxisPart], first: bool, last: bool) -> list[AxisPart]:
    """Parts of which the first, or the last, stands alone.

    >>> ends_apart([AxisPart(0, 1, 5)], True, False)
    [AxisPart(start=0, extent=1, trips=1), AxisPart(start=1, extent=1, trips=4)]
    """
    found = list(parts)
    if first and found[0].trips > 1:
        start, extent, trips = found[0]
        found[:1] = [AxisPart(start, extent), AxisPart(start + extent, extent, trips - 1)]
    if last and found[-1].trips > 1:
        start, extent, trips = found[-1]
        found[-1:] = [AxisPart(start, extent, trips - 1), AxisPart(start + (trips - 1) * extent, extent)]
    return found


class GroupedBlocks(BlockLaunches):
    """The blocks of a contraction with several axes of terms."""

    def __init__(
        self,
        nest: ContractionNest,
        sizes: BlockSizes,
        new_loop: Callable[[], int],
        worth_sharing: Callable[[Kernel], bool],
    ) -> None:
        super().__init__(nest, sizes, new_loop, worth_sharing)
        self.term_parts = bounded_parts(nest.terms, sizes.terms, split_axis)
        self.contiguous = contiguous_rows(nest, self.term_parts[-1][0].extent, sizes.lanes)
        self.order = results_order(nest, self.contiguous)
        one_block = all(len(parts) == 1 and parts[0].trips == 1 for parts in self.term_parts)
        self.waits = nest.plain_store is not None or one_block
        terms = math.prod([parts[0].extent for parts in self.term_parts])
        column = nest.columns[-1]
        others = math.prod([a.extent for a in nest.columns[:-1]])
        most = max(sizes.scratch // (terms * others) // sizes.panel, 1) * sizes.panel
        self.column_parts = (
            even_parts(column.extent, most, sizes.panel) if nest.movable(column) else [AxisPart(0, column.extent)]
        )
        rows = sizes.scratch // terms
        if not self.waits:
            rows = min(rows, sizes.scratch_sums // (self.column_parts[0].extent * others))
        self.row_parts = bounded_parts(self.order, rows, even_parts)

    def blocked(self) -> BlockedContraction | None:
        """The blocks; None where the parts of an axis cannot share a kernel."""
        cut = [*zip(self.order, self.row_parts, strict=True), *zip(self.nest.terms, self.term_parts, strict=True)]
        if not all(self.nest.movable(axis) for axis, parts in cut if len(parts) > 1 or parts[0].trips > 1):
            return None

        def of_rows(rows: Parts) -> list[Step]:
            if self.waits:
                return self.over_terms(
                    lambda terms, first, last: self.over(
                        [self.nest.columns[-1]],
                        [self.column_parts],
                        lambda columns: self.block(GroupPosition(rows, columns[0], terms), first, last),
                    )
                )
            return self.over(
                [self.nest.columns[-1]],
                [self.column_parts],
                lambda columns: self.over_terms(
                    lambda terms, first, last: self.block(GroupPosition(rows, columns[0], terms), first, last)
                ),
            )

        return self.made_of(self.over(self.order, self.row_parts, of_rows))

    # Loops over blocks.

    def over(
        self,
        axes: Sequence[Axis],
        parts: Sequence[Sequence[AxisPart]],
        steps: Callable[[Parts], list[Step]],
        chosen: Parts = (),
    ) -> list[Step]:
        """The steps for each combination of parts."""
        if len(chosen) == len(axes):
            return steps(chosen)
        out: list[Step] = []
        for part in parts[len(chosen)]:
            out += self.each(
                axes[len(chosen)],
                part,
                lambda part=part: self.over(axes, parts, steps, (*chosen, part)),  # type: ignore[misc]
            )
        return out

    def over_terms(
        self,
        steps: Callable[[Parts, bool, bool], list[Step]],
        chosen: Parts = (),
        first: bool = True,
        last: bool = True,
    ) -> list[Step]:
        """The steps for each block of terms in order; the first and the last block stand alone."""
        at = len(chosen)
        if at == len(self.nest.terms):
            return steps(chosen, first, last)
        out: list[Step] = []
        parts = ends_apart(self.term_parts[at], first, last)
        for part in parts:
            ends = first and part is parts[0], last and part is parts[-1]
            out += self.each(
                self.nest.terms[at],
                part,
                lambda part=part, ends=ends: self.over_terms(steps, (*chosen, part), *ends),  # type: ignore[misc]
            )
        return out

    # Launches.

    def block(self, at: GroupPosition, first: bool, last: bool) -> list[Step]:
        """The packing of columns, and the groups of rows."""
        # Sums that wait where they end up are stored there alike by every block.
        last = last or self.nest.plain_store is not None
        groups = self.launch("groups", at, first, last)
        extents = [part.extent for part in at.terms]
        if self.nest.lies_packed(extents, at.columns.extent, self.sizes.panel):
            return [groups]
        return [self.launch("pack_columns", at), groups]

    def launch(self, name: str, at: GroupPosition, first: bool = False, last: bool = False) -> Launch:
        """The launch of a kernel over one block."""
        rows, terms = [tuple([part.extent for part in parts]) for parts in (at.rows, at.terms)]
        extents = GroupExtents(rows, at.columns.extent, terms)
        key = (name, extents if name == "groups" else extents._replace(rows=()), first, last)
        places = [*zip(self.order, at.rows, strict=True), *zip(self.nest.terms, at.terms, strict=True)]
        places.append((self.nest.columns[-1], at.columns))
        return self.launched(key, lambda: self.write(name, extents, first, last), places)

    def terms_apart(self, extents: GroupExtents) -> list[TermSteps] | None:
        """The axes of terms that are not contiguous in rows that are read in place; None where rows are packed, which
        takes longer where few panels use them.
        """
        nest, terms = self.nest, extents.terms
        panels = -(-extents.columns // self.sizes.panel) * math.prod([a.extent for a in nest.columns[:-1]])
        together = terms_as_one(nest, terms)
        many = extents.rows[-1] >= MIN_TILES_IN_PLACE * self.sizes.tile_rows and together
        if not many or panels > MOST_PANELS_IN_PLACE or math.prod(terms[-together:]) < MIN_TERMS_IN_PLACE:
            return None
        return [TermSteps(axis, n) for axis, n in zip(nest.terms, terms, strict=True)][:-together]

    def write(self, name: str, extents: GroupExtents, first: bool, last: bool) -> BlockKernel:
        """Write a kernel."""
        nest, sizes = self.nest, self.sizes
        most = min(sizes.group, max(math.prod(extents.rows) // MIN_GROUPS, sizes.tile_rows))
        apart = self.terms_apart(extents)
        joined = joined_axes(nest, self.order, apart is not None)
        groups = choose_groups(extents.rows, joined, sizes.tile_rows, most)
        contiguous = self.contiguous is not None
        writer = GroupWriter(f"{nest.kernel.name}_{name}", nest, sizes, extents, self.order, groups, contiguous, apart)
        writer.columns_in_place = nest.lies_packed(extents.terms, extents.columns, sizes.panel)
        with writer.builder:
            if name == "pack_columns":
                writer.pack_columns()
            else:
                writer.groups_of_rows(first, last)
        return writer.made()
