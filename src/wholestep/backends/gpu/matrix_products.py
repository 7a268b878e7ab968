"""Products of bfloat16 in the tiles of matrix units: warps of 32 threads multiply tiles that lie in shared memory.

for i in 1024: for j in 768: for r in 512: fold s = fma(f32(x[512*i + r]), f32(w[768*r + j])); y[768*i + j] = s
-->
for I in 8: for J in 6: for threads (warps as rows and columns, 8 rows and 4 columns of a warp): for q in 8 in order:
    barrier; 32 terms of a later part to one stage of shared memory, as vectors;
    for k in 32: the folds of a thread from another stage; then the same with the next stage, and so on
then the kernel's epilogue, for the sums of the thread

The sums of a thread are its elements of a fragment of `mma.m16n8k16`, so that a language with matrix units runs the
loop over k on fragments (matrix_loops.py); in any other language it is a loop of folds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wholestep import dtypes
from wholestep.backends.gpu.collapse_folds import collapse_folds
from wholestep.backends.gpu.find_products import Product, find_product
from wholestep.backends.gpu.matrix_loops import COLUMNS, ROWS
from wholestep.backends.gpu.placed_values import PlacedValues
from wholestep.backends.gpu.tile_kernel import LEAST, TileKernel
from wholestep.backends.gpu.tile_shapes import MATRIX_SHAPES, VECTOR, MatrixShape
from wholestep.kernel.collapse_loops import LoopCollapse, is_collapsible, is_independent
from wholestep.kernel.index_arithmetic import divide_index, index_in_range
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Loop, Statement, Var
from wholestep.kernel.workgroups import find_workgroup

BFLOAT16, FLOAT32 = dtypes.from_short("bf16"), dtypes.from_short("f32")
MANY_SUMS, FEW_STATEMENTS = 64, 8
"""The most sums of a thread whose epilogue has more statements than the second number: registers are few."""

Sums = dict[tuple[int, int], Var]
"""The sums of a thread, by the numbers of its rows and columns."""


def tile_matrix_product(kernel: Kernel) -> Kernel | None:
    """The kernel with workgroups that compute tiles by matrix units, where it is a product of bfloat16; else None."""
    found = find_product(collapse_grid(collapse_folds(kernel)))
    if found is None or any(narrow_factor(x) is None for x in found.factors):
        return None
    rows, columns, terms = found.row.extent, found.column.extent, math.prod([a.extent for a in found.terms])
    if min(rows, columns, terms) < LEAST:
        return None
    products = find_workgroup(found.kernel).points // (rows * columns)
    whole = [s for s in MATRIX_SHAPES if len(found.terms) == 1 or found.terms[-1].extent % s.terms == 0]
    fitting = [s for s in whole if s.sums <= MANY_SUMS or len(found.after) <= FEW_STATEMENTS]
    if not fitting:
        return None
    shape = min(fitting, key=lambda s: s.cost(products, rows, columns, terms))
    return MatrixProduct(found, shape).kernel()


def narrow_factor(factor: Var) -> Var | None:
    """The bfloat16 number that a factor of a product is; None where it is another one."""
    if factor.op != "convert" or factor.args[0].dtype != BFLOAT16 or factor.dtype != FLOAT32:
        return None
    return factor.args[0]


def collapse_grid(kernel: Kernel) -> Kernel:
    """The kernel with those axes of its grid joined that go through all memory as one."""
    loops = list(grid_loops(kernel.body))
    for outer, inner in pairwise(loops):
        if outer.body == (inner,) and is_collapsible(kernel, outer.axis, inner.axis, 1):
            return collapse_grid(replace(kernel, body=LoopCollapse(outer, inner).body(kernel.body)))
    return kernel


def grid_loops(body: Sequence[Statement]) -> Iterator[Loop]:
    """The loops of the grid, outermost first."""
    while body and isinstance(last := body[-1], Loop) and is_independent(last):
        yield last
        body = last.body


def binary_axes(name: str, count: int) -> tuple[Axis, ...]:
    """Axes of two threads each, as many as make `count`, a power of two; the last one is the fastest."""
    return tuple([Axis(f"{name}{i}", 2, thread=True) for i in reversed(range(count.bit_length() - 1))])


def binary_number(axes: Sequence[Axis]) -> Index:
    """The number whose bits are the steps of binary axes."""
    return Index(0, {axis: 1 << i for i, axis in enumerate(reversed(axes))})


@dataclass
class MatrixFactor:
    """A factor: the axis of its rows or columns, their number in a tile, and their buffers in shared memory.

    It has the memory order of global memory there: [row, term] if `along_terms`, else [term, row]. Each stage is a
    buffer of its own. `vectors` is True where its elements are copied as vectors.
    """

    factor: Var
    axis: Axis
    extent: int
    along_terms: bool
    vectors: bool
    stride: int
    stages: tuple[Buffer, ...]


class MatrixProduct(TileKernel):
    """The kernel of a product in tiles of matrix units. Parts are of the last axis of terms."""

    def __init__(self, product: Product, shape: MatrixShape) -> None:
        super().__init__(product, shape.height, shape.width)
        self.shape, self.term = shape, product.terms[-1]
        self.depth = shape.terms
        self.each = -(-self.term.extent // self.depth)
        """The parts of the last axis of terms."""
        self.parts = self.each * math.prod([a.extent for a in product.terms[:-1]])
        self.stages = min(shape.stages, self.parts)
        above, beside = shape.warps
        self.warp_rows, self.warp_columns = binary_axes("wr", above), binary_axes("wc", beside)
        self.lane_rows, self.lane_columns = binary_axes("lr", ROWS), binary_axes("lc", COLUMNS)
        self.threads = (*self.warp_rows, *self.warp_columns, *self.lane_rows, *self.lane_columns)

    def kernel(self) -> Kernel:
        """The kernel."""
        with self.workgroups(self.threads):
            found = [(self.place(self.row_of(m), self.column_of(n)), total) for (m, n), total in self.sums().items()]
            for i in range(0, len(found), 2):
                self.finish(found[i : i + 2])
        return self.made()

    # -- places ------------------------------------------------------------------------------------------------------

    def row_of(self, m: int) -> Index:
        """One of the rows of a thread, in the tile."""
        return binary_number(self.warp_rows) * self.shape.rows + binary_number(self.lane_rows) + ROWS * m

    def column_of(self, n: int) -> Index:
        """One of the columns of a thread, in the tile: two lie next to each other."""
        own = binary_number(self.warp_columns) * self.shape.columns + binary_number(self.lane_columns) * 2
        return own + (2 * COLUMNS * (n // 2) + n % 2)

    # -- staging -----------------------------------------------------------------------------------------------------

    def operand(self, factor: Var, axis: Axis, extent: int) -> MatrixFactor:
        """A factor with its shared memory; rows are apart by a vector more, so that threads are in other banks."""
        vectors, along = self.closest(factor, axis)
        ends = (extent, self.depth) if along else (self.depth, extent)
        stride = ends[1] + VECTOR
        stages = [self.b.buffer(f"{axis}s{i}", BFLOAT16, ends[0] * stride, True, "shared") for i in range(self.stages)]
        return MatrixFactor(factor, axis, extent, along, vectors, stride, tuple(stages))

    def closest(self, factor: Var, axis: Axis) -> tuple[bool, bool]:
        """Test whether a factor is a matrix that can be copied as vectors, and whether its terms are closest."""
        source = narrow_factor(factor)
        assert source is not None
        if source.op != "load" or source.args:
            return False, False
        index: Index = source.attr[1]
        near = next((a for a in (self.term, axis) if index.coefficient(a) == 1), None)
        if near is None:
            return False, False
        rest = [index.const, near.extent, *[c for key, c in index.terms.items() if key is not near]]
        return all(c % VECTOR == 0 for c in rest), near is self.term

    def term_places(self, part: Index) -> dict[Axis, Index]:
        """The places where the terms of a part begin, by its number."""
        places: dict[Axis, Index] = {}
        for axis, count in [(self.term, self.each), *[(a, a.extent) for a in reversed(self.product.terms[:-1])]]:
            part, rest = (part, part) if axis is self.product.terms[0] else divide_index(self.b, part, count)
            places[axis] = rest * (self.depth if axis is self.term else 1)
        return places

    def stage(self, operand: MatrixFactor, stage: int, part: Index) -> None:
        """Copy a part of the terms of a factor to a stage of its shared memory, with zeros for missing terms."""
        step = VECTOR if operand.vectors else 1
        across, down = (self.depth, operand.extent) if operand.along_terms else (operand.extent, self.depth)
        begin, last = self.term_places(part), not index_in_range(part, 0, self.parts)
        beyond = [self.below(part, self.parts)] if last else []
        for far, near, over in self.shared_out(down, across // step):
            row, term = (far, near * step) if operand.along_terms else (near * step, far)
            tests = [self.below(far, down)] if over else []
            has = self.all_of(tests)
            guard = self.all_of([*tests, *beyond, *self.inside(operand, row, term, begin)])
            to = far * operand.stride + near * step
            if not operand.vectors:
                self.b.store(operand.stages[stage], to, self.element(operand, row, term, begin, guard), has)
                continue
            axis = Axis("e", VECTOR, lanes=VECTOR)
            along = Index(0, {axis: 1})
            with self.b.loop(axis):
                row, term = (row, term + along) if operand.along_terms else (row + along, term)
                self.b.store(operand.stages[stage], to + along, self.element(operand, row, term, begin, guard), has)

    def shared_out(self, down: int, across: int) -> Iterator[tuple[Index, Index, bool]]:
        """The elements of a matrix that a thread copies, such that adjacent threads copy adjacent elements; each with
        True if not all threads have it.
        """
        beside = [n for n in range(len(self.threads) + 1) if 1 << n <= across][-1]
        split = len(self.threads) - beside
        first, width = binary_number(self.threads[split:]), 1 << beside
        above, height = binary_number(self.threads[:split]), 1 << split
        for i in range(0, down, height):
            for j in range(0, across, width):
                yield above + i, first + j, i + height > down

    def inside(self, operand: MatrixFactor, row: Index, term: Index, begin: Mapping[Axis, Index]) -> list[Var]:
        """The tests that an element is inside the factor, without those that always hold."""
        tests: list[Var] = []
        if operand.axis.extent % operand.extent:
            tests.append(self.below(self.corner[operand.axis] + row, operand.axis.extent))
        if self.term.extent % self.depth:
            tests.append(self.below(begin[self.term] + term, self.term.extent))
        return tests

    def element(
        self, operand: MatrixFactor, row: Index, term: Index, begin: Mapping[Axis, Index], guard: Var | None
    ) -> Var:
        """An element of a factor."""
        source = narrow_factor(operand.factor)
        assert source is not None
        places = {**begin, operand.axis: self.corner[operand.axis] + row, self.term: begin[self.term] + term}
        return PlacedValues(self.b, places, guard).of(source)

    # -- sums --------------------------------------------------------------------------------------------------------

    def sums(self) -> Sums:
        """The sums of a thread, over all terms: a part is on its way while the one before it is summed."""
        product, b, shape = self.product, self.b, self.shape
        first = self.operand(product.factors[0], product.row, shape.height)
        second = self.operand(product.factors[1], product.column, shape.width)
        operands = (first, second)
        points = [(m, n) for m in range(shape.rows // ROWS) for n in range(shape.columns // COLUMNS)]
        sums = {(m, n): self.start(self.place(self.row_of(m), self.column_of(n))) for m, n in points}
        ahead = self.stages - 1
        for i in range(max(ahead, 1)):
            if i:
                b.barrier(late=ahead)
            self.bring(operands, i, Index(i))
        rounds, rest = divmod(self.parts, self.stages)
        if rounds and ahead:
            turn = Axis("q", rounds)
            with b.loop(turn, ordered=True) as loop:
                held = {p: loop.carry(v) for p, v in sums.items()}
                found = held
                for i in range(self.stages):
                    b.barrier(late=ahead - 1)
                    coming = Index(i + ahead, {turn: self.stages})
                    self.bring(operands, (i + ahead) % self.stages, coming)
                    found = self.part_sums(operands, i, found)
                sums = {p: loop.hand(held[p], found[p]) for p in points}
        for i in range(rest if ahead else 1):
            b.barrier(late=max(ahead - 1, 0))
            sums = self.part_sums(operands, i, sums)
        return sums

    def bring(self, operands: Sequence[MatrixFactor], stage: int, part: Index) -> None:
        """Copy a part of the terms of both factors to a stage of shared memory."""
        for operand in operands:
            self.stage(operand, stage, part)

    def part_sums(self, operands: tuple[MatrixFactor, MatrixFactor], stage: int, starts: Sums) -> Sums:
        """The sums of a thread with the terms of a stage."""
        first, second = operands
        term = Axis("k", self.depth, tile=self.depth)
        with self.b.loop(term) as loop:
            rows = {m: self.held(first, stage, self.row_of(m), term) for m, _ in starts}
            columns = {n: self.held(second, stage, self.column_of(n), term) for _, n in starts}
            return {(m, n): loop.fold("fma", rows[m], columns[n], init=v) for (m, n), v in starts.items()}

    def held(self, operand: MatrixFactor, stage: int, row: Index, term: Axis) -> Var:
        """An element of a factor in shared memory, as float32."""
        along = Index(0, {term: 1})
        place = row * operand.stride + along if operand.along_terms else along * operand.stride + row
        return self.b.convert(self.b.load(operand.stages[stage], place), FLOAT32)
