"""Group kernels: groups of rows over several axes, each packed and then multiplied by one thread.

The rows of a convolution are places, and its terms the channels and offsets of a window: packing reads windows in
place, a few rows at a time, so that no array of all windows is made.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from wholestep.kernel.lang import Axis, Index
from wholestep.lower.blocking.block_kernels import PACKED_COLUMNS, PACKED_ROWS, BlockExtents, BlockWriter
from wholestep.lower.blocking.block_sizes import BlockSizes, TermSteps
from wholestep.lower.blocking.contraction_nest import COLUMNS, ROWS, ContractionNest, runs_along
from wholestep.lower.blocking.paired_terms import TermRun, packed_count


class GroupExtents(NamedTuple):
    """The extents of a block along each axis of its rows, along the last axis of its columns, and along each axis of
    its terms.
    """

    rows: tuple[int, ...]
    columns: int
    terms: tuple[int, ...]


class RowGroups(NamedTuple):
    """Rows in groups: `steps` steps of an axis, with all axes after it, are one group, whose results are evenly strided
    in memory. Equal groups cover the block.
    """

    axis: int
    steps: int

    def size(self, extents: Sequence[int]) -> int:
        """The number of rows of one group."""
        return self.steps * math.prod(extents[self.axis + 1 :])


def divisors(extent: int) -> list[int]:
    """All divisors, the least first.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [n for n in range(1, extent + 1) if extent % n == 0]


def odd_multiple(extent: int, multiple: int) -> int:
    """The least odd number of multiples that is not less than an extent: rows at this pitch use all sets of a cache.

    >>> odd_multiple(30, 16), odd_multiple(33, 16)
    (48, 48)
    """
    return (-(-extent // multiple) | 1) * multiple


def evenness(extent: int) -> float:
    """The fraction of time for which threads that share a loop are busy, averaged over 2 and 4 threads.

    >>> [round(evenness(n), 2) for n in (3, 4, 5, 7, 14, 16)]
    [0.75, 1.0, 0.73, 0.88, 0.94, 1.0]
    """
    return sum([extent / (-(-extent // n) * n) for n in (2, 4)]) / 2


def choose_groups(extents: Sequence[int], joined: int, tile: int, most: int) -> RowGroups:
    """The groups whose tiles are the fullest, and which threads share most evenly, of about `most` rows; the last
    `joined` axes may be one.

    >>> choose_groups((32, 8, 8), 3, 6, 96)
    RowGroups(axis=0, steps=2)
    >>> choose_groups((8, 197), 1, 6, 64)
    RowGroups(axis=1, steps=197)
    """
    found: dict[RowGroups, int] = {}
    for axis in range(len(extents) - joined, len(extents)):
        for steps in divisors(extents[axis]):
            groups = RowGroups(axis, steps)
            found[groups] = groups.size(extents)

    def fullness(groups: RowGroups) -> float:
        return found[groups] / (-(-found[groups] // tile) * tile)

    def worth(groups: RowGroups) -> tuple[int, int]:
        numbers = (*extents[: groups.axis], extents[groups.axis] // groups.steps)
        return round(16 * fullness(groups) * max(map(evenness, numbers))), found[groups]

    fitting = [g for g, n in found.items() if n <= most + most // 2] or [min(found, key=lambda g: found[g])]
    best = max(fitting, key=worth)
    if fullness(best) > HALF_FULL or most < tile:
        return best
    # An extent with few divisors, such as a prime: larger groups leave a cache, and tiles of one row are slower.
    return max([best, *[g for g, n in found.items() if n <= LARGER * most]], key=worth)


HALF_FULL, LARGER = 0.5, 8
"""The fullness of tiles up to which larger groups are considered, and the most rows of these, as a multiple."""


class GroupWriter(BlockWriter):
    """The writer of one kernel of a block whose rows or terms have several axes; rows are numbered in `order`, and the
    row operand is contiguous along its last axis if `contiguous`. It is read in place if `apart` gives the axes of
    its terms that are not contiguous, and packed otherwise.
    """

    def __init__(
        self,
        name: str,
        nest: ContractionNest,
        sizes: BlockSizes,
        extents: GroupExtents,
        order: Sequence[Axis],
        groups: RowGroups,
        contiguous: bool,
        apart: Sequence[TermSteps] | None,
    ) -> None:
        super().__init__(name, nest, sizes, BlockExtents(1, extents.columns, math.prod(extents.terms)))
        self.count_terms(extents.terms)
        self.block, self.order, self.groups = extents, tuple(order), groups
        self.apart, self.in_place = apart or (), apart is not None
        self.row_count = math.prod(extents.rows)
        self.even = runs_along(nest.statements(ROWS), nest.terms[-1])
        size = groups.size(extents.rows)
        self.term_pitch = odd_multiple(size, sizes.lanes) if contiguous else 0
        self.packed_row_count = self.row_count // size * (self.term_pitch or size)

    def flat(self, axes: Sequence[Axis], extents: Sequence[int], places: dict[Axis, Index]) -> Index:
        """The number of a point among those of some axes."""
        found = Index()
        for axis, extent in zip(axes, extents, strict=True):
            found = found * extent + places[axis]
        return found

    @contextmanager
    def term_loops(self, run: TermRun, lanes: int, tile: int) -> Iterator[dict[Axis, Index]]:
        """Loops over the packed elements of terms, the innermost over a run, with these lanes and this tile."""
        nest, extents = self.nest, self.block.terms
        with ExitStack() as loops:
            at = {
                axis: loops.enter_context(self.loop("s", extent))
                for axis, extent in zip(nest.terms[:-1], extents[:-1], strict=True)
            }
            yield at | {nest.terms[-1]: loops.enter_context(self.loop("s", run.extent, lanes, tile)) + run.start}

    def term_number(self, terms: dict[Axis, Index]) -> Index:
        """The number of a packed element among those of all terms."""
        last = packed_count(self.block.terms[-1:], self.sizes.paired)
        return self.flat(self.nest.terms, (*self.block.terms[:-1], last), terms)

    def pack_columns(self) -> None:
        """Pack the columns of a block, with the panels shared among threads."""
        nest, lanes = self.nest, self.sizes.lanes
        turned = self.turned(COLUMNS, nest.columns[-1], nest.terms[-1])
        for run, some in itertools.product(self.runs, self.term_runs):
            with ExitStack() as loops:
                panel = loops.enter_context(self.loop("p", run.panels))
                outer = self.outer_loops(loops, "h", nest.columns)
                if turned:
                    column = loops.enter_context(self.loop("t", run.width, lanes))
                terms = loops.enter_context(self.term_loops(some, 1, lanes if turned else 4))
                if not turned:
                    column = loops.enter_context(self.loop("t", run.width, lanes, -(-run.width // lanes)))
                place = self.packed_column(self.panel_number(outer, panel, run), self.term_number(terms), column)
                lane = panel * self.sizes.panel + column + run.start
                places = {**outer, **terms, nest.columns[-1]: lane}
                self.pack_element(COLUMNS, places, some.terms, PACKED_COLUMNS, place)

    def groups_of_rows(self, first: bool, last: bool) -> None:
        """All groups of a block: each is packed, and then multiplied by all panels of columns."""
        sizes, (at, steps), extents = self.sizes, self.groups, self.block.rows
        numbers = {axis: n for axis, n in zip(self.order[:at], extents[:at], strict=True)}
        numbers[self.order[at]] = extents[at] // steps
        rows = self.groups.size(extents)
        with ExitStack() as loops:
            # Threads share the outermost loop.
            evenest = sorted(numbers, key=lambda axis: (-evenness(numbers[axis]), -numbers[axis]))
            outer = {axis: loops.enter_context(self.loop("g", numbers[axis])) for axis in evenest}
            group = self.flat(self.order[: at + 1], [numbers[axis] for axis in self.order[: at + 1]], outer)
            outer[self.order[at]] = outer[self.order[at]] * steps
            self.group = group
            if not self.in_place:
                self.pack_group(outer)
            for run in self.runs:
                with ExitStack() as inner:
                    columns = self.outer_loops(inner, "h", self.nest.columns)
                    panel = inner.enter_context(self.loop("p", run.panels))
                    tiles = -(-rows // sizes.tile_rows)
                    row = inner.enter_context(self.loop("i", rows, 1, -(-rows // tiles)))
                    places = {**{axis: Index() for axis in (*self.order, *self.nest.terms)}, **outer, **columns}
                    places[self.order[-1]] = places[self.order[-1]] + row
                    self.group, self.row = group, row
                    self.tile(places, run, panel, not self.in_place, first, last)

    def row_number(self, outer: dict[Axis, Index], row: Index) -> Index:
        """The number of the row whose tile is written."""
        return self.group * self.groups.size(self.block.rows) + self.row

    def packed_row(self, number: Index, term: Index) -> Index:
        """The place of an element in the packed rows: row by row, or term by term in each group."""
        if not self.term_pitch:
            return super().packed_row(number, term)
        return (self.group * self.packed_terms + term) * self.term_pitch + self.row

    def pack_group(self, outer: dict[Axis, Index]) -> None:
        """Pack the rows of a group: vectors along the last axis of the terms where that is contiguous, or along that of
        the rows where that is; otherwise squares are transposed."""
        lanes, (at, steps), extents = self.sizes.lanes, self.groups, self.block.rows
        own = dict(zip(self.order[at:], (steps, *extents[at + 1 :]), strict=True))
        if self.term_pitch:
            for run in self.term_runs:
                with ExitStack() as loops:
                    terms = loops.enter_context(self.term_loops(run, 1, 1))
                    vectors = -(-own[self.order[-1]] // lanes)
                    schedule = {self.order[-1]: (lanes, max(n for n in (1, 2, 3, 4) if vectors % n == 0))}
                    inner = {
                        axis: loops.enter_context(self.loop("m", extent, *schedule.get(axis, (1, 1))))
                        for axis, extent in own.items()
                    }
                    self.pack_row(outer, own, inner, terms, run.terms)
            return
        statements = self.nest.statements(ROWS)
        turned = None if self.even else next((axis for axis in own if runs_along(statements, axis)), None)
        with ExitStack() as loops:
            inner = {}
            for axis in sorted(own, key=lambda axis: axis is turned):
                inner[axis] = loops.enter_context(self.loop("m", own[axis], 1, lanes if axis is turned else 1))
            for run in self.term_runs:
                with self.term_loops(run, lanes, 4 if self.even else 1) as terms:
                    self.pack_row(outer, own, inner, terms, run.terms)

    def pack_row(
        self,
        outer: dict[Axis, Index],
        own: dict[Axis, int],
        inner: dict[Axis, Index],
        terms: dict[Axis, Index],
        together: int,
    ) -> None:
        """Pack one element of a group's rows."""
        first = self.order[self.groups.axis]
        self.row = self.flat(list(own), list(own.values()), inner)
        places = {**outer, **inner, **terms, first: outer[first] + inner[first]}
        place = self.packed_row(self.row_number(places, self.row), self.term_number(terms))
        self.pack_element(ROWS, places, together, PACKED_ROWS, place)
