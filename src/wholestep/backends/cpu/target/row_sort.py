"""Row sorts: the rows that a sorting network orders, their records, and the layout of these in its matrix."""

from __future__ import annotations

from typing import NamedTuple

LEAST_LANES = 4
MAX_BESIDE = 1024
"""The most keys of a row whose lanes are rows: the matrix of longer ones is larger than the first cache."""
MERGING = 1.25
"""The time for a key where lanes are parts of a row, which are then merged, relative to that where lanes are rows.
Measured."""
MAX_SORTED = 8192
"""The most keys of a row that a network sorts: longer rows exceed the caches, and are sorted by radix."""


class RowSort(NamedTuple):
    """A sort of rows of n keys each: of the keys themselves, or, if `ordered`, of their positions; with `floats`, keys
    may be NaN.

    `vector` is the bytes of a vector, whose lanes are rows, or parts of one row.
    """

    bits: int
    n: int
    rows: int
    ordered: bool
    floats: bool
    vector: int

    @property
    def parts(self) -> tuple[int, ...]:
        """The bits of the parts of a record: a key, or a key and its position, in one integer where they fit."""
        if not self.ordered:
            return (max(self.bits, 32),)
        for width in (32, 64):
            if width > self.bits and self.n < 1 << (width - self.bits):
                return (width,)
        return (64, 32)

    @property
    def lanes(self) -> int:
        """The records side by side."""
        return max(8 * self.vector // self.parts[0], LEAST_LANES)

    @property
    def beside(self) -> bool:
        """True where lanes are rows, which is so for rows that are short, and fill most lanes."""
        batches = -(-self.rows // self.lanes)
        together, apart = batches * self.lanes * self.n, self.rows * self.column * self.lanes * MERGING
        return self.n <= MAX_BESIDE and together <= apart

    @property
    def column(self) -> int:
        """The height of the matrix where lanes are parts of one row: a power of two."""
        return max(1 << (-(-self.n // self.lanes) - 1).bit_length(), self.lanes, 8)

    @property
    def height(self) -> int:
        """The rows of the matrix, a power of two."""
        return max(1 << (self.n - 1).bit_length(), self.lanes, 8) if self.beside else self.column

    @property
    def result_bytes(self) -> int:
        """The bytes of an element of the result."""
        return 8 if self.ordered else self.bits // 8

    @property
    def matrix_bytes(self) -> int:
        """The bytes of the matrix."""
        return self.height * self.lanes * sum(self.parts) // 8

    @property
    def scratch_bytes(self) -> int:
        """The matrix, and a padded row of results where lanes are parts of one."""
        return self.matrix_bytes + (0 if self.beside else self.height * self.lanes * self.result_bytes)
