"""The shapes of tiles in which workgroups compute products, and the time of each."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

CUDA_SHARED = 48 * 1024
"""The bytes of shared memory that a kernel of CUDA has without asking for more."""
PROCESSORS, FEW_PROCESSORS = 132, 16
"""The processors of a large card, and of a card of any maker, in the cost model that chooses a shape; each processor
runs one workgroup at a time."""
RUN = 4
"""The adjacent rows, and the adjacent columns, of a thread, which it loads from shared memory as a vector."""


class TileShape(NamedTuple):
    """The threads of a workgroup, as rows and columns, the rows and columns of the result that each thread computes,
    and the most terms that are staged at a time.

    `slices` of threads, as rows and columns, share the terms of the same sums; each slice finishes a part of the sums.
    A tile takes `start` microseconds, and `pace` for a term. In a `compact` kernel, the elements that a thread stages
    and the sums that it finishes are loops, and the thread stages terms just before it sums them.
    """

    down: int
    across: int
    rows: int
    columns: int
    terms: int
    start: float
    pace: float
    slices: tuple[int, int] = (1, 1)
    compact: bool = False

    @property
    def sliced(self) -> bool:
        """True where threads share the terms of a sum."""
        return self.slices != (1, 1)

    @property
    def height(self) -> int:
        """The rows of the tile."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """The columns of the tile."""
        return self.across * self.columns

    def nbytes(self, itemsize: int) -> int:
        """The most bytes of shared memory that a tile has: the terms of both factors, with rows that keep threads apart
        in the banks, and the parts of sums that slices of threads exchange."""
        parts = math.prod(self.slices) * self.height * self.width if self.sliced else 0
        return (self.terms * (self.height + self.width + 2 * RUN) + parts) * itemsize

    def cost(self, products: int, rows: int, columns: int, terms: int, processors: int) -> float:
        """The microseconds of so many products of these sizes."""
        tiles = products * -(-rows // self.height) * -(-columns // self.width)
        return self.start + -(-tiles // processors) * terms * self.pace


SHAPES = (
    TileShape(16, 16, 8, 8, 16, 5.0, 0.095),
    TileShape(8, 16, 8, 8, 16, 4.0, 0.053),
    TileShape(16, 16, 4, 4, 16, 3.3, 0.038),
    TileShape(8, 8, 4, 4, 32, 2.0, 0.0165, (2, 2)),
    TileShape(8, 8, 2, 2, 64, 1.9, 0.0072, (2, 2)),
)
"""The shapes of tiles, the largest first, with times of float32 that were measured on an H200."""
PLAIN_SHAPES = (
    TileShape(8, 8, 4, 4, 16, 0.0, 0.0094),
    TileShape(16, 4, 4, 4, 16, 0.0, 0.0094),
    TileShape(8, 8, 2, 4, 16, 0.0, 0.0071),
)
"""The shapes of cards of any maker, the last two for results of few columns or rows: 64 work items, as most workgroups
have, so that tiles are beside other kernels, with sums that fit the registers of all of them, and a text that browsers
compile soon. Their times are computed, not measured: a processor takes 32 loads from shared memory in each of 1.7
billion cycles a second."""


WARP = 32
"""The threads of a warp."""
VECTOR = 8
"""The elements of bfloat16 that are copied as one vector of 16 bytes."""


class MatrixShape(NamedTuple):
    """The warps of a workgroup, as rows and columns, the rows and columns of the result that each warp computes, the
    number of terms of a stage, and the number of stages in shared memory. A tile takes `start` microseconds, and `pace`
    for a term."""

    warps: tuple[int, int]
    rows: int
    columns: int
    terms: int
    stages: int
    start: float
    pace: float

    @property
    def height(self) -> int:
        """The rows of the tile."""
        return self.warps[0] * self.rows

    @property
    def width(self) -> int:
        """The columns of the tile."""
        return self.warps[1] * self.columns

    @property
    def sums(self) -> int:
        """The sums of a thread."""
        return self.rows * self.columns // WARP

    def cost(self, products: int, rows: int, columns: int, terms: int) -> float:
        """The microseconds of so many products of these sizes."""
        tiles = products * -(-rows // self.height) * -(-columns // self.width)
        return self.start + -(-tiles // PROCESSORS) * terms * self.pace


MATRIX_SHAPES = (
    MatrixShape((2, 4), 64, 64, 64, 3, 6.0, 0.0244),
    MatrixShape((2, 4), 64, 32, 64, 3, 5.0, 0.0142),
    MatrixShape((2, 2), 64, 32, 32, 4, 4.0, 0.0100),
    MatrixShape((2, 2), 32, 32, 64, 3, 3.0, 0.0062),
)
"""The shapes of tiles of matrix units, the larger first, with times that were measured on an H100."""


class CardTiles(NamedTuple):
    """The tiles of a card: their shapes, the most bytes of `shared` memory, and the `least` results and `work`, in
    multiplications, of products in tiles: fewer results occupy more of the card as work items, unless each has at least
    `chain` terms, and less work does not repay the text. `processors` is the number of groups that run at a time."""

    shapes: tuple[TileShape, ...]
    shared: int
    least: int = 0
    chain: int = sys.maxsize
    work: int = 0
    processors: int = PROCESSORS
