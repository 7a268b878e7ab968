"""Register tiles of substitutions, Cholesky factors and eliminations: the rows and vectors of sums that a processor's
registers hold."""

from __future__ import annotations

from typing import NamedTuple

MOST_VECTORS = 6
LEAST_ROWS = 32
"""The fewest rows of a matrix: the widest tile is 24 numbers, and LAPACK is as quick on smaller ones."""
LEAST_COLUMNS = 2
"""The fewest columns of a right-hand side: LAPACK is as quick with one."""


class RegisterTile(NamedTuple):
    """A tile of sums: its rows, the vectors of each row, their lanes, and the bits of a floating-point number."""

    bits: int
    lanes: int
    rows: int
    vectors: int

    @property
    def kind(self) -> str:
        """The type of a number in LLVM."""
        return {32: "float", 64: "double"}[self.bits]

    @property
    def vector(self) -> str:
        """The type of a vector in LLVM."""
        return f"<{self.lanes} x {self.kind}>"

    @property
    def width(self) -> int:
        """The columns of a tile."""
        return self.lanes * self.vectors


class Substitution(NamedTuple):
    """A kind of substitution: `forward` from the first row on, else from the last one; `unit` with 1 on the diagonal;
    and `turned` with the transposed matrices."""

    forward: bool
    unit: bool
    turned: bool


def factor_tile(vector: int, registers: int) -> RegisterTile:
    """The tile of a factor in float64, as high as a vector is wide: the square on the diagonal is one vector wide."""
    lanes = vector // 8
    return RegisterTile(64, lanes, lanes, min((registers - 1) // (lanes + 1), MOST_VECTORS))


def substitution_tile(bits: int, columns: int, vector: int, registers: int) -> RegisterTile:
    """The tile of a substitution with this number of columns, at least those of one vector."""
    lanes, rows = min(8 * vector // bits, 1 << columns.bit_length() - 1), 8 if registers >= 32 else 4
    return RegisterTile(bits, lanes, rows, min((registers - 1) // (rows + 1), columns // lanes))


def elimination_tile(bits: int, vector: int, registers: int) -> RegisterTile:
    """The tile of an elimination: that with the most sums whose width is a multiple of its height."""
    lanes, fits = 8 * vector // bits, []
    for rows in (8, 4) if registers >= 32 else (4,):
        for vectors in range(1, min((registers - 1) // (rows + 1), MOST_VECTORS) + 1):
            if lanes * vectors % rows == 0:
                fits.append(RegisterTile(bits, lanes, rows, vectors))
    return max(fits, key=lambda tile: tile.rows * tile.vectors)
