"""Strip kernels: a few rows times a strip of columns that are read in place, once, while the sums stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from wholestep.kernel.lang import Axis, Buffer, Index, Var
from wholestep.lower.blocking.block_kernels import BlockWriter
from wholestep.lower.blocking.block_sizes import PanelRun
from wholestep.lower.blocking.contraction_nest import RESULTS
from wholestep.lower.blocking.element_copy import ElementCopy


class BlockStripWriter(BlockWriter):
    """The writer of one kernel of strips."""

    def strips_by_columns(self, run: PanelRun, packed: bool) -> None:
        """Strips of one width, whose sums stay in the first cache while the columns are read, a few terms at a time."""
        nest, unroll = self.nest, self.sizes.unroll
        with ExitStack() as loops:
            columns = self.outer_loops(loops, "h", nest.columns)
            strip = loops.enter_context(self.loop("p", run.panels))
            with self.strip_points(run, columns, strip) as (_, sums, _):
                self.builder.store(*sums, self.builder.constant(0, nest.dtype))
            full, rest = divmod(self.extents.terms, unroll)
            if full:
                axis = Axis("s", full, ahead=self.sizes.ahead)
                with self.builder.loop(axis, ordered=True):
                    self.add_terms(run, columns, strip, Index(0, {axis: unroll}), unroll, packed)
            if rest:
                self.add_terms(run, columns, strip, Index(full * unroll), rest, packed)
            self.end_strip(run, columns, strip)

    def dots_by_columns(self, run: PanelRun, packed: bool) -> None:
        """Strips of one width, of columns that are contiguous along their terms: each sum is that of a fixed number of
        partial sums, independent of the processor's vector length."""
        nest, sizes = self.nest, self.sizes
        with ExitStack() as loops:
            columns = self.outer_loops(loops, "h", nest.columns)
            strip = loops.enter_context(self.loop("p", run.panels))
            with self.strip_points(run, columns, strip, 1, sizes.abreast) as (results, sums, row):
                start = self.builder.constant(0, nest.dtype)
                axis = Axis("k", self.extents.terms, lanes=sizes.partial_sums)
                total = self.sum_of_terms(results, row, axis, Index(), start, packed)
                self.builder.store(*sums, total)
            self.end_strip(run, columns, strip)

    def end_strip(self, run: PanelRun, columns: dict[Axis, Index], strip: Index) -> None:
        """Write the epilogue of a strip's complete sums, unless that is the plain store that they have had already."""
        nest = self.nest
        if nest.plain_store is None or self.sizes.gathered:
            with self.strip_points(run, columns, strip) as (copy, sums, _):
                copy.values[nest.result] = self.builder.load(*sums, here=True)
                copy.write((*nest.result_values, *nest.epilogue))

    @contextmanager
    def strip_points(
        self, run: PanelRun, columns: dict[Axis, Index], strip: Index, lanes: int = 0, tile: int = 0
    ) -> Iterator[tuple[ElementCopy, tuple[Buffer, Index], Index]]:
        """Open the loops over a strip; yields a point's results, the place of its sum, and the number of its row."""
        nest, sizes = self.nest, self.sizes
        with ExitStack() as loops:
            schedule = (lanes or sizes.lanes, tile or sizes.tile_vectors)
            column = loops.enter_context(self.loop("t", run.width, *schedule))
            outer = self.outer_loops(loops, "b", nest.rows)
            last = loops.enter_context(self.row_loop())
            places = {**outer, **columns, nest.rows[-1]: last}
            row = self.row_number(places, last)
            places[nest.columns[-1]] = strip * sizes.panel + column + run.start
            copy = self.element_copy(places, RESULTS)
            number = self.panel_number(columns, strip, run)
            yield copy, self.partial_sums(copy, number, row, column), row

    def add_terms(
        self, run: PanelRun, columns: dict[Axis, Index], strip: Index, start: Index, count: int, packed: bool
    ) -> None:
        """Add some terms to the sums of a strip."""
        with self.strip_points(run, columns, strip) as (results, sums, row):
            so_far = self.builder.load(*sums, here=True)
            axis = Axis("k", count, tile=count)
            self.builder.store(*sums, self.sum_of_terms(results, row, axis, start, so_far, packed))

    def sum_of_terms(
        self, results: ElementCopy, row: Index, axis: Axis, start: Index, so_far: Var, packed: bool
    ) -> Var:
        """A sum with the terms from `start` on added, whose columns are read in place."""
        nest = self.nest
        with self.builder.loop(axis) as loop:
            places = {**results.places, nest.terms[-1]: start + Index(0, {axis: 1})}
            x = self.row_element(places, row, places[nest.terms[-1]], packed)
            y = self.column_element(places, places[nest.terms[-1]])
            return loop.fold("fma", *[x if v is nest.row_operand else y for v in nest.fold.values], init=so_far)
