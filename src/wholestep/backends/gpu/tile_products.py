"""Tiled products: a workgroup computes a tile of a contraction's result, whose operands it stages in shared memory.

for i in 1024: for j in 384: for r in 128: fold s = fma(x[128*i + r], w[384*r + j]); y[384*i + j] = s
-->
for I in 16: for J in 6: for threads (ty in 16, tx in 16): for q in 8 in order:
    16 terms of 64 rows and of 64 columns to shared memory; barrier;
    for k in 16: 4 x 4 folds of a thread from shared memory; barrier
then the kernel's epilogue, for the 16 sums of the thread

Each sum is one chain of its terms in order, so that it has the same bits as without tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from wholestep.backends.gpu.find_products import Product, find_product
from wholestep.backends.gpu.placed_values import PlacedValues
from wholestep.backends.gpu.tile_kernel import LEAST, TileKernel, thread_number
from wholestep.backends.gpu.tile_shapes import RUN, CardTiles, TileShape
from wholestep.kernel.index_arithmetic import divide_index
from wholestep.kernel.lang import I64, Axis, Buffer, DType, Index, Kernel, Var
from wholestep.kernel.summation import values_behind
from wholestep.kernel.workgroups import find_workgroup


def tile_product(kernel: Kernel, tiles: CardTiles) -> Kernel | None:
    """The kernel with workgroups that compute tiles, where it is a contraction and that pays; else None."""
    found = find_product(kernel)
    if found is None:
        return None
    shape = choose_shape(found, tiles)
    return None if shape is None else TiledProduct(found, shape).kernel()


def choose_shape(product: Product, tiles: CardTiles) -> TileShape | None:
    """The shape of a card's tiles that takes the least time; None where none fits or the product is too small."""
    rows, columns, terms = product.row.extent, product.column.extent, math.prod([a.extent for a in product.terms])
    if min(rows, columns, terms) < LEAST:
        return None
    results = find_workgroup(product.kernel).points
    if (results < tiles.least and terms < tiles.chain) or results * terms < tiles.work:
        return None
    fitting = [s for s in tiles.shapes if s.nbytes(product.result.dtype.itemsize) <= tiles.shared]
    if not fitting:
        return None
    sizes = results // (rows * columns), rows, columns, terms
    shape = min(fitting, key=lambda s: s.cost(*sizes, tiles.processors))
    staged = math.prod([tile.size for tile in term_tiles(product.terms, shape.terms)])
    return shape if staged % math.prod(shape.slices) == 0 else shape._replace(slices=(1, 1))


class TermTile(NamedTuple):
    """The part of an axis of terms that is staged at a time, and the number of such parts."""

    axis: Axis
    size: int
    parts: int


def term_tiles(axes: Sequence[Axis], most: int) -> list[TermTile]:
    """The parts of the axes of terms that are staged at a time: the inner axes whole, as long as their product is at
    most `most`, and of the next axis its largest divisor that fits, or as many terms as fit where that is far smaller.
    """
    out: list[TermTile] = []
    for axis in reversed(axes):
        size = max([n for n in range(1, min(axis.extent, most) + 1) if axis.extent % n == 0])
        if size < axis.extent and 4 * size <= most:
            size = most
        out.append(TermTile(axis, size, -(-axis.extent // size)))
        most = most // size if size == axis.extent else 1
    return out[::-1]


@dataclass
class Staged:
    """A factor in shared memory: the axis of its rows or columns, their number, and its buffer, [term, row]."""

    factor: Var
    axis: Axis
    extent: int
    origin: Index
    buffer: Buffer
    stride: int
    along_terms: bool
    """True where the factor has its smallest stride along the terms, as adjacent threads then do."""


class StagedElement(NamedTuple):
    """An element that a thread stages: its place in shared memory, its value, and a guard where not all threads have
    one."""

    place: Index
    value: Var
    guard: Var | None


class ThreadStep(NamedTuple):
    """A step of a thread along an axis, and a test where not all threads have it."""

    place: Index
    here: Var | None


class TiledProduct(TileKernel):
    """The kernel of a product in tiles of a shape."""

    def __init__(self, product: Product, shape: TileShape) -> None:
        super().__init__(product, shape.height, shape.width)
        self.shape = shape
        self.dtype: DType = product.result.dtype
        self.tiles = term_tiles(product.terms, shape.terms)
        self.depth = math.prod([t.size for t in self.tiles])
        """The terms that are staged at a time."""
        self.parts = math.prod([t.parts for t in self.tiles])
        above, beside = shape.slices
        self.slice_row, self.slice_column = Axis("tr", above, thread=True), Axis("tc", beside, thread=True)
        self.down, self.across = Axis("ty", shape.down, thread=True), Axis("tx", shape.across, thread=True)

    def kernel(self) -> Kernel:
        """The kernel."""
        slices = (self.slice_row, self.slice_column) if self.shape.sliced else ()
        with self.workgroups((*slices, self.down, self.across)):
            if self.shape.compact:
                self.finish_in_loop(self.sums_of_parts(self.sides()))
            else:
                sums = self.sums(self.sides())
                for pair in self.totals(sums) if self.shape.sliced else self.own_totals(sums):
                    self.finish([pair])
        return self.made()

    # -- staging -----------------------------------------------------------------------------------------------------

    def sides(self) -> tuple[Staged, Staged]:
        """Both factors, with their shared memory."""
        product = self.product
        pairs = zip(product.factors, (product.row, product.column), (self.shape.height, self.shape.width), strict=True)
        first, second = [self.side(*pair) for pair in pairs]
        return first, second

    def side(self, factor: Var, axis: Axis, extent: int) -> Staged:
        """A factor; where its threads are along the terms, rows more keep them apart in the banks of the memory."""
        along = self.lies_along_terms(factor, axis)
        stride = extent + (RUN if along else 0)
        buffer = self.b.buffer(f"s{axis}", self.dtype, self.depth * stride, True, "shared")
        return Staged(factor, axis, extent, self.corner[axis], buffer, stride, along)

    def lies_along_terms(self, factor: Var, axis: Axis) -> bool:
        """Test whether elements of a factor are closer along the last axis of its terms than along its own."""
        closest = self.product.terms[-1]
        indices = [v.attr[1] for v in values_behind([factor]) if v.op == "load"]
        return any(abs(i.coefficient(closest)) == 1 for i in indices) and not any(
            abs(i.coefficient(axis)) == 1 for i in indices
        )

    def term_places(self, part: Index) -> list[Index]:
        """The first step of each axis of terms in a part."""
        out: list[Index] = []
        for tile in reversed(self.tiles[1:]):
            part, rest = divide_index(self.b, part, tile.parts)
            out.append(rest * tile.size)
        return [part * self.tiles[0].size, *out[::-1]]

    def staged(self, side: Staged, part: Index) -> list[StagedElement]:
        """The elements of a part of the terms that a thread stages: each one's place in shared memory, its value, and a
        guard where not all threads have one.
        """
        first, (nearest, farthest) = self.term_places(part), self.extents(side)
        return [
            self.staged_element(side, near, far, first)
            for near in self.steps((self.slice_column, self.across), nearest)
            for far in self.steps((self.slice_row, self.down), farthest)
        ]

    def put_in_loops(self, side: Staged, part: Index) -> None:
        """Stage a part of the terms by loops over the elements of a thread."""
        first, (nearest, farthest) = self.term_places(part), self.extents(side)
        with ExitStack() as loops:
            near = self.looped_step(loops, "u", self.across, nearest)
            far = self.looped_step(loops, "v", self.down, farthest)
            self.put(side, [self.staged_element(side, near, far, first)])

    def extents(self, side: Staged) -> tuple[int, int]:
        """The elements of a factor that are staged along the axis with its smallest stride, and along the other."""
        return (self.depth, side.extent) if side.along_terms else (side.extent, self.depth)

    def steps(self, threads: Sequence[Axis], end: int) -> Iterator[ThreadStep]:
        """The steps of an axis that threads share."""
        number, count = thread_number(threads)
        for start in range(0, end, count):
            yield ThreadStep(number + start, self.below(number + start, end) if start + count > end else None)

    def looped_step(self, loops: ExitStack, name: str, threads: Axis, end: int) -> ThreadStep:
        """A step of a loop over the elements of an axis that threads share."""
        axis = Axis(name, -(-end // threads.extent))
        loops.enter_context(self.b.loop(axis, ordered=True))
        place = Index(0, {axis: threads.extent, threads: 1})
        return ThreadStep(place, self.below(place, end) if end % threads.extent else None)

    def staged_element(self, side: Staged, near: ThreadStep, far: ThreadStep, first: Sequence[Index]) -> StagedElement:
        """The element at a step of both axes, `near` along the one with the factor's smallest stride."""
        term, row = (near, far) if side.along_terms else (far, near)
        here = self.all_of([step.here for step in (near, far) if step.here is not None])
        value = self.element(side, row.place, term.place, first, here)
        return StagedElement(term.place * side.stride + row.place, value, here)

    def element(self, side: Staged, row: Index, term: Index, first: Sequence[Index], here: Var | None) -> Var:
        """The factor in a row of the tile and a term of the part; a zero that keeps the sum where there is no such
        term."""
        places, rest = {side.axis: side.origin + row}, term
        ends: list[Var] = []
        for tile, begin in zip(reversed(self.tiles), reversed(first), strict=True):
            rest, step = (Index(), rest) if tile is self.tiles[0] else divide_index(self.b, rest, tile.size)
            places[tile.axis] = begin + step
            if tile.axis.extent % tile.size:
                ends.append(self.below(places[tile.axis], tile.axis.extent))
        term_there = self.all_of(ends)
        inside = [] if here is None else [here]
        if side.axis.extent % side.extent:
            inside.append(self.below(places[side.axis], side.axis.extent))
        guard = self.all_of([*inside, *([] if term_there is None else [term_there])])
        value = PlacedValues(self.b, places, guard).of(side.factor)
        if term_there is None:
            return value
        nothing = self.b.constant(-0.0 if side.axis is self.product.row else 0.0, self.dtype)
        return self.b.op("select", term_there, value, nothing)

    def put(self, side: Staged, elements: Sequence[StagedElement]) -> None:
        """Store the elements that a thread stages to shared memory."""
        for index, value, guard in elements:
            self.b.store(side.buffer, index, value, guard)

    # -- sums --------------------------------------------------------------------------------------------------------

    def points(self) -> Iterator[tuple[int, int]]:
        """The sums of a thread, by row and column."""
        for m in range(self.shape.rows):
            for n in range(self.shape.columns):
                yield m, n

    def of_thread(self, number: Index, thread: Axis, count: int) -> Index:
        """One of the rows or columns of a tile that a thread has; `RUN` of them are adjacent."""
        run = min(RUN, count)
        block, rest = divide_index(self.b, number, run)
        return block * (run * thread.extent) + rest + Index(0, {thread: run})

    def row_of(self, m: Index) -> Index:
        """One of the rows of a thread, in the tile."""
        return self.of_thread(m, self.down, self.shape.rows)

    def column_of(self, n: Index) -> Index:
        """One of the columns of a thread, in the tile."""
        return self.of_thread(n, self.across, self.shape.columns)

    def place_of(self, m: Index, n: Index) -> dict[Axis, Index]:
        """The row and the column of one of a thread's sums."""
        return self.place(self.row_of(m), self.column_of(n))

    def sums(self, sides: tuple[Staged, Staged]) -> dict[tuple[int, int], Var]:
        """The sums of a thread, over all terms."""
        b = self.b
        zero = b.constant(0.0, self.dtype) if self.shape.sliced else None
        starts = {p: zero or self.start(self.place_of(*map(Index, p))) for p in self.points()}
        ahead = [self.staged(side, Index()) for side in sides]
        if self.parts == 1:
            for side, elements in zip(sides, ahead, strict=True):
                self.put(side, elements)
            b.barrier()
            return self.part_sums(sides, starts)
        part = Axis("q", self.parts)
        with b.loop(part, ordered=True) as loop:
            sums = {p: loop.carry(v) for p, v in starts.items()}
            held = [[x._replace(value=loop.carry(x.value)) for x in elements] for elements in ahead]
            for side, elements in zip(sides, held, strict=True):
                self.put(side, elements)
            b.barrier()
            # The next part is on its way from memory while this one is summed; after the last comes the last again.
            last = b.constant(self.parts - 1, I64)
            following = Index(0, {b.op("min", b.index(Index(1, {part: 1})), last): 1})
            coming = [self.staged(side, following) for side in sides]
            found = self.part_sums(sides, sums)
            b.barrier()
            after = {p: loop.hand(sums[p], found[p]) for p in self.points()}
            for inside, next_one in zip(itertools.chain(*held), itertools.chain(*coming), strict=True):
                loop.hand(inside.value, next_one.value)
        return after

    def sums_of_parts(self, sides: tuple[Staged, Staged]) -> dict[tuple[int, int], Var]:
        """The sums of a thread, over all terms, each part of which is staged when it is summed."""
        starts = {p: self.start(self.place_of(*map(Index, p))) for p in self.points()}
        part = Axis("q", self.parts)
        with self.b.loop(part, ordered=True) as loop:
            sums = {p: loop.carry(v) for p, v in starts.items()}
            for side in sides:
                self.put_in_loops(side, Index(0, {part: 1}))
            self.b.barrier()
            found = self.part_sums(sides, sums)
            self.b.barrier()
            return {p: loop.hand(sums[p], found[p]) for p in self.points()}

    def finish_in_loop(self, sums: Mapping[tuple[int, int], Var]) -> None:
        """Write the kernel's epilogue for the sums of a thread as a loop over them."""
        kept = self.b.buffer("sums", self.dtype, len(sums), True, "private")
        for i, total in enumerate(sums.values()):
            self.b.store(kept, Index(i), total)
        down, across = Axis("m", self.shape.rows), Axis("n", self.shape.columns)
        with self.b.loop(down, ordered=True), self.b.loop(across, ordered=True):
            place = self.place_of(Index(0, {down: 1}), Index(0, {across: 1}))
            self.finish([(place, self.b.load(kept, Index(0, {down: self.shape.columns, across: 1})))])

    def part_sums(
        self, sides: tuple[Staged, Staged], starts: Mapping[tuple[int, int], Var]
    ) -> dict[tuple[int, int], Var]:
        """The sums of a thread with the terms that are staged."""
        first, second = sides
        slices, count = thread_number((self.slice_row, self.slice_column))
        own = self.depth // count
        term = Axis("k", own, tile=own)
        at = slices * own + Index(0, {term: 1})
        with self.b.loop(term) as loop:
            places = [self.row_of(Index(m)) for m in range(self.shape.rows)]
            rows = [self.b.load(first.buffer, at * first.stride + place) for place in places]
            places = [self.column_of(Index(n)) for n in range(self.shape.columns)]
            columns = [self.b.load(second.buffer, at * second.stride + place) for place in places]
            return {(m, n): loop.fold("fma", rows[m], columns[n], init=starts[m, n]) for m, n in self.points()}

    def own_totals(self, sums: Mapping[tuple[int, int], Var]) -> Iterator[tuple[dict[Axis, Index], Var]]:
        """The sums of a thread, and their places."""
        for (m, n), total in sums.items():
            yield self.place_of(Index(m), Index(n)), total

    def totals(self, sums: Mapping[tuple[int, int], Var]) -> Iterator[tuple[dict[Axis, Index], Var]]:
        """The sums that a thread of a sliced tile finishes, each of all slices in their order, and their places."""
        b, shape, init = self.b, self.shape, self.product.init
        slices, count = thread_number((self.slice_row, self.slice_column))
        thread, threads = thread_number((self.down, self.across))
        buffer = b.buffer("parts", self.dtype, count * len(sums) * threads, True, "shared")
        for i, part in enumerate(sums.values()):
            b.store(buffer, slices * (len(sums) * threads) + thread + i * threads, part)
        b.barrier()
        rows, columns = shape.rows // shape.slices[0], shape.columns // shape.slices[1]
        for m in range(rows):
            for n in range(columns):
                row, column = Index(m, {self.slice_row: rows}), Index(n, {self.slice_column: columns})
                own = row * shape.columns + column
                found, *others = [
                    b.load(buffer, (own + z * len(sums)) * threads + thread, here=True) for z in range(count)
                ]
                for part in others:
                    found = b.op("add", found, part)
                place = self.place_of(row, column)
                if init.op != "const" or init.attr:
                    found = b.op("add", PlacedValues(self.b, place).of(init), found)
                yield place, found
