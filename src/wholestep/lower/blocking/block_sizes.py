"""Block sizes: the parts of a contraction that are in registers, in each cache and in scratch memory at a time."""

from __future__ import annotations

from typing import NamedTuple

from wholestep.kernel.lang import Axis

PARTIAL_SUM_BYTES = 64
"""The bytes of the partial sums of one sum where vectors run along its terms, the same on every processor."""


FEWEST_SUMS = 8
"""The sums that a core adds to at the same time: two multiply-adds begin in a cycle, and each takes four."""


class BlockSizes(NamedTuple):
    """The block sizes that a target chooses for one contraction; only `partial_sums` changes the bits of results.

    `tile_rows` rows by `tile_vectors` vectors of `lanes` elements are in registers, `terms` terms of `columns` columns
    and of `rows` rows are packed at a time, and `unroll` terms are unrolled.
    """

    lanes: int
    tile_rows: int
    tile_vectors: int
    terms: int
    columns: int
    rows: int
    unroll: int = 4
    panels_outermost: bool = False
    """True where threads share the panels of columns, and each thread packs its own; otherwise they share the rows."""
    group: int = 96
    """The approximate number of rows that a thread packs for itself at a time, if rows or terms have several axes."""
    scratch: int = 1 << 20
    """The most elements that are packed at a time of one operand."""
    scratch_sums: int = 1 << 21
    """The most partial sums in scratch memory between blocks of terms, where the result cannot hold them."""
    near: int = 0
    """The most elements from one term to the next at which adjacent rows are read in place."""
    together: int = 1
    """The number of panels packed at once where threads share them, so that more of each row is read."""

    shares: int = 0
    """The least number of shares of the panels, where threads share them: the panels of a share are packed one after
    the other into the same scratch memory, which stays in the second cache; 0 where each has its own.
    """

    strip: int = 0
    """The columns of a strip, where rows are too few for packing; 0 for contractions in panels."""
    gathered: bool = False
    """True where the rows of a strip and its sums are copied to adjacent scratch memory while columns are read."""
    ahead: int = 0
    """The prefetch distance of columns, in steps of a strip, or in terms of panels that threads share."""
    partial_sums: int = 0
    """The number n of partial sums of a sum, each of every n-th term; 0 where the sum is one chain."""
    abreast: int = 1
    """The number of columns of a strip that are read side by side, where there are partial sums."""
    paired: bool = False
    """True where both operands are bfloat16 numbers, two consecutive terms of which are packed as one word."""

    @property
    def panel(self) -> int:
        """The columns of a panel, or of a strip."""
        return self.strip or self.lanes * self.tile_vectors


class AxisPart(NamedTuple):
    """A part of an axis: its start, its extent, and the number of consecutive parts of that extent."""

    start: int
    extent: int
    trips: int = 1


class PanelRun(NamedTuple):
    """Panels of one width: their number, their columns, their first column, and the number packed at once."""

    panels: int
    width: int
    start: int
    together: int = 1


class TermSteps(NamedTuple):
    """An axis of terms with a loop of its own, and the steps of it in a block."""

    axis: Axis
    extent: int


def round_up(extent: int, multiple: int) -> int:
    """The least multiple that is not less than an extent.

    >>> round_up(13, 8)
    16
    """
    return -(-extent // multiple) * multiple


def panels_together(panels: int, most: int) -> int:
    """The number of panels that are packed at once, of which threads have equal shares: `most`, or down to half of it.

    >>> panels_together(48, 4), panels_together(36, 4), panels_together(501, 4)
    (4, 3, 4)
    """

    def waited(together: int) -> int:
        """The panels that 2 and 4 threads have time for, in sixteenths of all panels."""
        steps, rest = divmod(panels, together)
        times = [n * (together * -(-steps // n) + -(-rest // n)) for n in (2, 4)]
        return 16 * sum(times) // max(2 * panels, 1)

    return min(range(-(-most // 2), most + 1), key=lambda n: (waited(n), -n))


def rows_of_tile(rows: int, sizes: BlockSizes) -> int:
    """The rows of a tile, such that the tiles of all rows take the least time; the last one may have fewer rows.

    A term of a tile takes as long as its multiply-adds, at least `FEWEST_SUMS` of them, and one more for its loads.

    >>> sizes = BlockSizes(8, 6, 2, 256, 0, 0)
    >>> [rows_of_tile(rows, sizes) for rows in (16, 20, 32, 64)]
    [6, 5, 4, 6]
    """

    def time(tile: int) -> int:
        full, rest = divmod(rows, tile)
        tiles = [tile] * full + ([rest] if rest else [])
        return sum([max(n * sizes.tile_vectors, FEWEST_SUMS) + 1 for n in tiles])

    even = -(-rows // -(-rows // sizes.tile_rows))
    choices: list[int] = [even, *range(sizes.tile_rows, sizes.tile_rows // 2, -1)]
    return min(choices, key=time)


def even_shares(groups: int, least: int) -> int:
    """The number of equal shares of groups of panels: a divisor from `least` to twice that, an even one where there is
    one; all groups where there is none, or `least` is 0.

    >>> even_shares(32, 8), even_shares(18, 8), even_shares(27, 8), even_shares(31, 8)
    (8, 9, 9, 31)
    """
    found = [n for n in range(max(least, 1), 2 * least + 1) if groups % n == 0]
    return min(found, key=lambda n: (n % 2, n), default=groups)


def split_axis(extent: int, most: int, multiple: int) -> list[AxisPart]:
    """An axis in parts of about `most`, as even as can be: a divisor of the extent where one is near.

    The first and the last part stand alone where there are more than two, since sums begin in one and end in the other.

    >>> split_axis(1024, 256, 8)[1]
    AxisPart(start=256, extent=256, trips=2)
    >>> split_axis(300, 256, 8)
    [AxisPart(start=0, extent=152, trips=1), AxisPart(start=152, extent=148, trips=1)]
    """
    if extent <= most:
        return [AxisPart(0, extent)]
    count = -(-extent // most)
    near = [n for n in range(count, count + count // 2 + 1) if extent % n == 0 and extent // n % multiple == 0]
    count = near[0] if near else count
    each = round_up(-(-extent // count), multiple)
    if each >= extent:
        return [AxisPart(0, extent)]
    full, rest = divmod(extent, each)
    last = AxisPart(full * each, rest) if rest else AxisPart((full - 1) * each, each)
    between = last.start // each - 1
    return [AxisPart(0, each), *([AxisPart(each, each, between)] if between else []), last]


def even_parts(extent: int, most: int, multiple: int) -> list[AxisPart]:
    """An axis in equal parts of about `most`, and a remainder.

    >>> even_parts(1000, 256, 16)
    [AxisPart(start=0, extent=256, trips=3), AxisPart(start=768, extent=232, trips=1)]
    """
    if extent <= most:
        return [AxisPart(0, extent)]
    count = -(-extent // most)
    each = min(round_up(-(-extent // count), multiple), extent)
    full, rest = divmod(extent, each)
    return [AxisPart(0, each, full), *([AxisPart(full * each, rest)] if rest else [])]
