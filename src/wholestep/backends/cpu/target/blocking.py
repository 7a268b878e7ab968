"""Blocks of contractions: the choice of packed operands, and the sizes of the blocks that the caches hold."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wholestep.kernel.lang import DType
from wholestep.lower.blocking.block_sizes import PARTIAL_SUM_BYTES, BlockSizes, round_up
from wholestep.lower.blocking.contraction_nest import COLUMNS, ROWS, ContractionNest, runs_along
from wholestep.lower.target import Target

TILES = {15: (4, 2), 16: (6, 2), 32: (6, 4)}
"""Rows and vectors of a tile of sums, by the number of registers: the other registers hold one row of columns, and an
element. Of 32 some must stay free: with 14 by 2 the columns of the next term, which LLVM loads early, spill sums. The
15 are those of WebAssembly, where V8 may load all elements of a term before its first product. Measured.
"""
MIN_VECTORS = 2
"""Fewer vectors of columns do not pay for packing."""
IN_PLACE = 2
"""The size of an operand, in first caches, up to which it is read in place. Measured."""
MIN_ROWS, MIN_TERMS = 16, 32
"""The least rows and terms of a packed contraction: fewer rows reuse a packed operand too seldom, and fewer terms do
not repay the copy. Measured."""
MIN_PRODUCTS = 1 << 18
"""The least products of a packed sum over several axes, which in place is a nest of loops."""
MIN_SHARED_PRODUCTS = 1 << 23
"""The least multiply-adds of a product of matrices in a batch that threads share, one product after the other: from
there on packing gains more than the barriers cost. Measured.
"""
MIN_PANELS = 8
"""The least panels that threads share; with fewer panels they share rows."""
SHARES, PACKED_AHEAD = 8, 8
"""The least shares of panels, each of which is packed into one place of the scratch memory, and the prefetch distance,
in terms, of this packing: 5 to 8% faster for 32 rows, 2 to 4% for 128. Measured on Zen 3."""
NARROW_TILES = {32: (12, 2)}
"""Rows and vectors of a narrow tile, by the number of registers, where half the width gives `MIN_PANELS` panels:
threads that each pack their own panels need no barrier, which outweighs the narrow tile's additional loads. Measured.
"""
STRIPS = 2
"""The least strips that threads share."""
STRIP_TERMS = {15: 4, 16: 8, 32: 8}
"""The terms that are added in registers before sums return to the cache, by the number of registers. Measured."""
FAR_BYTES = 32 << 20
"""The bytes of a matrix that lies in memory, not in a cache, so that prefetching its columns pays. Measured."""
TOGETHER_BYTES = 1 << 10
"""The bytes of each row that are packed at once: adjacent bytes come from memory together. Measured."""
BLOCK_BYTES = {15: 1 << 20, 16: 1 << 20, 32: 1 << 19}
"""The bytes of a block of columns that every row is multiplied by, by the number of registers. A panel comes from the
third cache in time, and with larger blocks the sums are loaded and stored less often. Measured.
"""
TURNED_TERMS = 1024
"""The terms of a block whose columns are contiguous along the terms, where rows are few: each column is read in longer
pieces. Measured."""
UNROLL = {15: 1, 16: 2, 32: 2}
"""The unrolled terms, by the number of registers: four run no faster, and take a tenth longer to compile. V8 unrolls
loops of WebAssembly itself, and the loads of two terms at once spill sums. Measured.
"""
DOT_TERMS, DOT_PRODUCTS = 64, 1 << 15
"""The least terms and the least products of one row that is multiplied with vectors along the terms; smaller products
are chains."""
DOT_VECTORS, DOT_COLUMNS = 8, 64
"""The vectors of partial sums in registers, the best number of 2 to 16, and the columns of a strip."""
STREAMED_ROW_BYTES = 8 << 10
"""The bytes of a row from memory up to which rows are read one after the other, as the hardware prefetcher expects;
reading several rows at once is half as fast. Measured on Zen 4.
"""
NEAR_BYTES = 1 << 10
"""The distance in bytes between consecutive terms of a row up to which rows are read in place: a copy by one thread, or
by all of them with a barrier, takes longer. Lines that are further apart share too few sets of a cache. Measured.
"""
SCRATCH_BYTES = 4 << 20
"""The most bytes of one operand that are packed at a time."""


class Caches(NamedTuple):
    """The bytes of the first and second cache of a core."""

    first: int = 32 << 10
    second: int = 512 << 10


DEFAULT_CACHES = Caches()
"""The caches that most cores have at the least."""


def panel_columns(machine: Target, itemsize: int) -> int:
    """The columns of a panel; 0 where elements of this many bytes fill no vector."""
    lanes = machine.lanes(itemsize)
    return lanes * TILES[register_count(machine)][1] if lanes > 1 else 0


def register_count(machine: Target) -> int:
    """The number of vector registers that blocks are chosen for."""
    return max([n for n in TILES if n <= machine.registers])


def block_sizes(nest: ContractionNest, machine: Target, caches: Caches, dot_bf16: bool = False) -> BlockSizes | None:
    """The blocks of a contraction; None where its operands are better read in place. `dot_bf16` tells whether terms of
    bfloat16 are multiplied in pairs."""
    if nest.batch and not shares_products(nest.row_count, nest.column_count, nest.term_count):
        return None
    paired = dot_bf16 and nest.multiplies_bf16
    lanes = machine.lanes(nest.dtype.itemsize)
    # The bytes of a packed term, and of one that is read in place.
    size = nest.dtype.itemsize // (2 if paired else 1)
    registers = register_count(machine)
    tile_rows, vectors = tile_shape(nest, lanes, registers)
    panel = lanes * vectors
    terms = block_terms(panel * size, caches)
    row_elements = caches.second // (2 * size) if nest.column_count >= MIN_PANELS * panel else 0
    long = len(nest.terms) == 1 and nest.term_count >= 2 * TURNED_TERMS
    if long and nest.row_count * TURNED_TERMS <= row_elements and along_terms(nest):
        terms = TURNED_TERMS
    few = nest.row_count * terms <= row_elements
    if nest.row_count < MIN_ROWS:
        return dot_sizes(nest, machine) or strip_sizes(nest, machine, caches)
    if not is_packed(nest, MIN_VECTORS * lanes, IN_PLACE * caches.first // size):
        return None
    most = SCRATCH_BYTES // (terms * size)
    columns = most if few else BLOCK_BYTES[registers] // (terms * size)
    columns = max(columns // math.prod([a.extent for a in nest.columns[:-1]]) // panel, 1) * panel
    rows = max(most // math.prod([a.extent for a in nest.rows[:-1]]) // tile_rows, 1) * tile_rows
    # A group of rows fills a quarter of the second cache, beside the panel in the first.
    group = caches.second // (4 * min(terms, nest.term_count) * size)
    most_together = min(TOGETHER_BYTES, caches.second // (2 * terms)) // (panel * size)
    together = min(most_together, nest.column_count // (MIN_PANELS * panel))
    return BlockSizes(
        lanes,
        tile_rows,
        vectors,
        terms,
        columns,
        rows,
        unroll=UNROLL[registers],
        panels_outermost=few,
        group=group,
        scratch=SCRATCH_BYTES // size,
        scratch_sums=(1 if paired else 2) * SCRATCH_BYTES // nest.dtype.itemsize,
        near=NEAR_BYTES // size,
        together=max(together, 1),
        shares=SHARES if few else 0,
        ahead=PACKED_AHEAD if few else 0,
        paired=paired,
    )


def tile_shape(nest: ContractionNest, lanes: int, registers: int) -> tuple[int, int]:
    """The rows and vectors of a tile of sums: a narrow one where panels would be too few to be shared."""
    wide, narrow = TILES[registers], NARROW_TILES.get(registers)
    # Columns and terms of several axes may lie in panels of the usual width.
    if narrow is None or len(nest.columns) > 1 or len(nest.terms) > 1:
        return wide
    panels, more = [nest.column_count // (lanes * vectors) for _, vectors in (wide, narrow)]
    return narrow if panels < MIN_PANELS <= more else wide


def block_terms(panel: int, caches: Caches) -> int:
    """The terms of a block, such that a panel with `panel` bytes for each term fills the first cache; at least 256.
    Measured."""
    return max(caches.first // panel, 256)


def strip_sizes(nest: ContractionNest, machine: Target, caches: Caches) -> BlockSizes | None:
    """Strips of the columns of few rows; None where these run along their terms, or are in a cache."""
    size, terms, rows = nest.dtype.itemsize, nest.term_count, nest.row_count
    lanes, registers = machine.lanes(size), register_count(machine)
    many = registers == 32
    even = runs_along(nest.statements(COLUMNS), nest.columns[-1])
    tile_rows, vectors = (1, 4) if rows == 1 else (min(rows, 8 if many else 6), 2)
    group = lanes * vectors
    nbytes = nest.column_count * terms * size
    if nbytes < caches.second or nest.column_count < MIN_PANELS * group:
        return None
    if terms < MIN_TERMS or not even or len(nest.terms) > 1:
        return None
    far = nbytes >= FAR_BYTES
    gathered = rows > 1 and (many or far)
    fitting = caches.first // size // rows // (2 if gathered else 4)
    strip = max(min(nest.columns[-1].extent // STRIPS, fitting, 2048), group) // group * group
    return BlockSizes(
        lanes,
        tile_rows,
        vectors,
        terms,
        0,
        0,
        STRIP_TERMS[registers],
        strip=strip,
        gathered=gathered,
        ahead=int(gathered and far),
    )


def dot_sizes(nest: ContractionNest, machine: Target) -> BlockSizes | None:
    """Strips of columns that lie along the terms of one row; None where there are more rows or a batch, or few terms.

    The extents alone decide, since the order of addition depends on it.
    """
    size, column = nest.dtype.itemsize, nest.columns[-1]
    if nest.row_count > 1 or nest.batch or len(nest.terms) > 1 or not along_terms(nest):
        return None
    if nest.term_count < DOT_TERMS or nest.term_count * nest.column_count < DOT_PRODUCTS:
        return None
    partial_sums, lanes = PARTIAL_SUM_BYTES // size, machine.lanes(size)
    streamed = nest.term_count * size <= STREAMED_ROW_BYTES and nest.term_count * nest.column_count * size >= FAR_BYTES
    abreast = 1 if streamed else max(DOT_VECTORS * lanes // partial_sums, 1)
    # Equal strips are one kernel.
    widths = range(DOT_COLUMNS, DOT_COLUMNS // 4, -8)
    strip = next((n for n in widths if column.extent % n == 0), min(DOT_COLUMNS, round_up(column.extent, lanes)))
    return BlockSizes(lanes, 1, 1, nest.term_count, 0, 0, strip=strip, partial_sums=partial_sums, abreast=abreast)


def along_terms(nest: ContractionNest) -> bool:
    """True if the columns lie along their terms."""
    statements = nest.statements(COLUMNS)
    return runs_along(statements, nest.terms[-1]) and not runs_along(statements, nest.columns[-1])


def is_packed(nest: ContractionNest, columns: int, in_place: int) -> bool:
    """True if an operand has more elements than are read `in_place`: the columns, or rows that do not run along their
    terms; and wherever the columns run along the terms.
    """
    m, n, k = nest.row_count, nest.column_count, nest.term_count
    if m < MIN_ROWS or n < columns or k < MIN_TERMS:
        return False
    if len(nest.terms) > 1:
        return m * n * k >= MIN_PRODUCTS
    if n * k >= in_place or (m * k >= in_place and not runs_along(nest.statements(ROWS), nest.terms[-1])):
        return True
    return not runs_along(nest.statements(COLUMNS), nest.columns[-1])


def shares_products(rows: int, columns: int, terms: int) -> bool:
    """True if threads share each product of a batch; smaller ones are each one thread's, and in place."""
    return rows * columns * terms >= MIN_SHARED_PRODUCTS


def packs_turned(rows: int, columns: int, terms: int, dtype: DType, batched: bool, machine: Target) -> bool:
    """True if a contraction of these extents, or each of a batch, is packed where its columns run along the terms."""
    if batched and not shares_products(rows, columns, terms):
        return False
    if dtype not in (np.float32, np.float64):
        return False
    return rows >= MIN_ROWS and columns >= MIN_VECTORS * machine.lanes(dtype.itemsize) and terms >= MIN_TERMS
