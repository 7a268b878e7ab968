"""The shapes of tiles in which workgroups compute products, and what each takes."""

from __future__ import annotations

import math
from typing import NamedTuple

PROCESSORS = 132
"""The processors of a large card, each of which has a workgroup at a time, for the choice among shapes."""
RUN = 4
"""The rows, and the columns, of a thread that lie next to each other, so that it loads them as a vector from shared
memory."""


class TileLimits(NamedTuple):
    """The room that a card has for a tile: so many bytes of shared memory."""

    shared: int


class TileShape(NamedTuple):
    """The threads of a workgroup, as rows and columns, the rows and columns of the result that each of them has, and
    how many terms are staged at a time, at most.

    So many `slices` of threads, as rows and columns, share the terms of the same sums, of which each finishes a part.
    A tile takes `start` microseconds, and `pace` for a term.
    """

    down: int
    across: int
    rows: int
    columns: int
    terms: int
    start: float
    pace: float
    slices: tuple[int, int] = (1, 1)

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

    def cost(self, products: int, rows: int, columns: int, terms: int) -> float:
        """The microseconds of so many products of these sizes."""
        tiles = products * -(-rows // self.height) * -(-columns // self.width)
        return self.start + -(-tiles // PROCESSORS) * terms * self.pace


SHAPES = (
    TileShape(16, 16, 8, 8, 16, 5.0, 0.095),
    TileShape(8, 16, 8, 8, 16, 4.0, 0.053),
    TileShape(16, 16, 4, 4, 16, 3.3, 0.038),
    TileShape(8, 8, 4, 4, 32, 2.0, 0.0165, (2, 2)),
    TileShape(8, 8, 2, 2, 64, 1.9, 0.0072, (2, 2)),
)
"""The shapes of tiles, the largest first, with times of float32 that were measured on an H200."""
