"""Kernels in tiles: a workgroup computes a tile of a product's sums, and runs the kernel's epilogue on each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from wholestep.backends.gpu.find_products import Product
from wholestep.backends.gpu.placed_values import PlacedValues
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import I64, Axis, Index, Kernel, Var
from wholestep.kernel.workgroups import find_workgroup

LEAST = 16
"""The least rows, columns and terms of a product in tiles."""


class TileKernel:
    """The kernel of a product in tiles of `height` rows and `width` columns."""

    def __init__(self, product: Product, height: int, width: int) -> None:
        self.product, self.height, self.width = product, height, width
        self.given = find_workgroup(product.kernel)
        self.tile_row = Axis("I", -(-product.row.extent // height))
        self.tile_column = Axis("J", -(-product.column.extent // width))
        self.b = KernelBuilder(product.kernel.name)
        self.b.buffers = list(product.kernel.buffers)

    @contextmanager
    def workgroups(self, threads: Sequence[Axis]) -> Iterator[None]:
        """Open the loops over workgroups and threads, inside which the statements of a thread are written."""
        others = [a for a in self.given.grid if a not in (self.product.row, self.product.column)]
        with self.b, self.b.loops((*others, self.tile_row, self.tile_column, *threads)):
            yield

    def made(self) -> Kernel:
        """The finished kernel."""
        given, made = self.product.kernel, self.b.kernel()
        return Kernel(given.name, given.buffers, made.body, made.scratch)

    def below(self, index: Index, end: int) -> Var:
        """The test that an index is below its end."""
        return self.b.op("lt", self.b.index(index), self.b.constant(end, I64))

    def all_of(self, tests: Sequence[Var]) -> Var | None:
        """The test that all of these hold; None where there are none."""
        found: Var | None = None
        for test in tests:
            found = test if found is None else self.b.op("and", found, test)
        return found

    @cached_property
    def corner(self) -> dict[Axis, Index]:
        """The first row and column of the tile."""
        product = self.product
        return {
            product.row: Index(0, {self.tile_row: self.height}),
            product.column: Index(0, {self.tile_column: self.width}),
        }

    def place(self, row: Index, column: Index) -> dict[Axis, Index]:
        """The row and the column of a sum, by those in the tile."""
        product = self.product
        return {product.row: self.corner[product.row] + row, product.column: self.corner[product.column] + column}

    def start(self, places: Mapping[Axis, Index]) -> Var:
        """The initial value of a sum."""
        return PlacedValues(self.b, places).of(self.product.init)

    def finish(self, sums: Sequence[tuple[Mapping[Axis, Index], Var]]) -> None:
        """Write the kernel's epilogue for some sums at their places, with the stores to each buffer together."""
        values = [self.finished(*pair) for pair in sums]
        for s in self.product.after:
            if isinstance(s, Var):
                for of in values:
                    of.of(s)
                continue
            stored = [(of.at(s.index), of.of(s.value), of.guarded(s.guard)) for of in values]
            for index, value, guard in stored:
                self.b.store(s.buffer, index, value, guard)

    def finished(self, places: Mapping[Axis, Index], total: Var) -> PlacedValues:
        """The values of the kernel's epilogue for one sum."""
        product = self.product
        tests = [
            self.below(places[axis], axis.extent)
            for axis, size in ((product.row, self.height), (product.column, self.width))
            if axis.extent % size
        ]
        guard = self.all_of(tests)
        return PlacedValues(self.b, places, guard, {product.result: total})


def thread_number(axes: Sequence[Axis]) -> tuple[Index, int]:
    """The linear index of a point of several axes, the last one the fastest, and the number of points."""
    number, count = Index(), 1
    for axis in reversed(axes):
        number += Index(0, {axis: count}) if axis.extent > 1 else Index()
        count *= axis.extent
    return number, count
