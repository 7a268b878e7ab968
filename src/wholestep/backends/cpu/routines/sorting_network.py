"""Sorting networks over a matrix of records, without a branch on any key.

The columns are sorted by Batcher's networks ("Sorting networks and their applications", AFIPS 1968), W of them at a
time, as the lanes of vectors; where they are the parts of one row, they are then merged across lanes. Merges are
bitonic: records at mirrored places are exchanged first, then those at halved distances. Three such stages at a time
are worked on in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.routines.sorting_lanes import Lanes, Record

BASE = 8
"""The rows that are sorted in registers before merges begin."""

MATRIX = ("ptr", "matrix")
COUNT = ("i64", "count")
STEP = ("i64", "step")


def network_text(name: str, lanes: Lanes, *, across: bool) -> str:
    """Return `void name.columns(matrix, count)`, which sorts columns of `count` rows, and, with `across`,
    `void name.lanes(matrix)`, which merges sorted columns across lanes.

    The number of rows is a power of two, at least 8; rows from `count` on come last in the order.
    """
    parts = [
        stages_text(f"{name}.flip", lanes, 3, flip=True),
        *[stages_text(f"{name}.stage{k}", lanes, k) for k in (1, 2, 3)],
        halving_text(f"{name}.halve", name),
        columns_text(f"{name}.columns", name, lanes),
    ]
    return "".join([*parts, lanes_text(f"{name}.lanes", name, lanes)] if across else parts)


def exchange(f: FunctionBuilder, lanes: Lanes, records: list[Record], i: int, j: int) -> None:
    """Put two records of a list in order."""
    records[i], records[j] = lanes.in_order(f, records[i], records[j])


def halving_pairs(n: int) -> list[tuple[int, int]]:
    """The exchanges at halved distances among n places.

    >>> halving_pairs(4)
    [(0, 2), (1, 3), (0, 1), (2, 3)]
    """
    steps = [n >> k for k in range(1, n.bit_length())]
    return [(i, i + step) for step in steps for i in range(n) if not i & step]


def mirrored_pairs(n: int) -> list[tuple[int, int]]:
    """The exchanges at mirrored places, then those at halved distances: they merge two sorted halves."""
    half = n // 2
    inside = [pair for pair in halving_pairs(n) if pair[1] - pair[0] < half]
    return [(i, n - 1 - i) for i in range(half)] + inside


def batcher_pairs(n: int) -> list[tuple[int, int]]:
    """The exchanges of Batcher's odd-even merge sort of n places, a power of two.

    >>> batcher_pairs(4)
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    found = []
    for run in [1 << k for k in range(n.bit_length() - 1)]:
        for step in [run >> k for k in range(run.bit_length())]:
            for start in range(step % run, n - step, 2 * step):
                for i in range(start, min(start + step, n - step)):
                    if i // (2 * run) == (i + step) // (2 * run):
                        found.append((i, i + step))
    return found


def worked_on(f: FunctionBuilder, lanes: Lanes, rows: Sequence[Record], pairs: Sequence[tuple[int, int]]) -> None:
    """Exchange records of some rows of the matrix in registers."""
    records = [lanes.load(f, row) for row in rows]
    for i, j in pairs:
        exchange(f, lanes, records, i, j)
    for row, record in zip(rows, records, strict=True):
        lanes.store(f, record, row)


def stages_text(name: str, lanes: Lanes, k: int, *, flip: bool = False) -> str:
    """Return `void name(matrix, count, step)`: the exchanges at the distances step 2^(k-1), ..., 2 step, step, in every
    block of step 2^k rows; with `flip` the first are those at mirrored places of each block."""
    f = FunctionBuilder("void", name, (MATRIX, COUNT, STEP))
    n = 1 << k
    size = f.let(f"mul i64 %step, {n}")
    past = f.let(f"sub i64 {size}, 1")
    # Two halves of a block are merged where the second one begins before `count`; else the second one is empty.
    used = f.let(f"sub i64 %count, {f.let('mul i64 %step, ' + str(n // 2))}") if flip else "%count"
    steps = [f.let(f"mul i64 %step, {j}") for j in range(n)]
    mirrored = [f.let(f"sub i64 {step}, 1") for step in steps]

    def block(start: str) -> list[str]:
        begins = [*steps[: n // 2], *mirrored[n // 2 + 1 :], past] if flip else steps
        bases = [lanes.row(f, f.let(f"add i64 {start}, {begin}")) for begin in begins]

        def group(r: str) -> None:
            back = f.let(f"sub i64 0, {r}") if flip else r
            rows = [lanes.row(f, back if j >= n // 2 else r, base) for j, base in enumerate(bases)]
            worked_on(f, lanes, rows, mirrored_pairs(n) if flip else halving_pairs(n))

        f.count_to("%step", group)
        return [f.let(f"add i64 {start}, {size}")]

    f.loop(["i64"], ["0"], lambda start: f.let(f"icmp slt i64 {start}, {used}"), block)
    return f.text("ret void")


def halving_text(name: str, network: str) -> str:
    """Return `void name(matrix, count, step)`: the exchanges at all distances less than a step, halved every time."""
    f = FunctionBuilder("void", name, (MATRIX, COUNT, STEP))

    def stages(k: int, step: str) -> list[str]:
        less = f.let(f"lshr i64 {step}, {k}")
        f.do(f"call void @{network}.stage{k}(ptr %matrix, i64 %count, i64 {less})")
        return [less]

    def some(step: str) -> list[str]:
        many = f.let(f"icmp uge i64 {step}, 8")
        many = f.let(f"and i1 {many}, {f.let(f'icmp ne i64 {step}, 16')}")
        two = f.let(f"icmp uge i64 {step}, 4")

        def fewer() -> list[str]:
            return list(f.choose(two, ["i64"], lambda: stages(2, step), lambda: stages(1, step)))

        return list(f.choose(many, ["i64"], lambda: stages(3, step), fewer))

    f.loop(["i64"], ["%step"], lambda step: f.let(f"icmp ugt i64 {step}, 1"), some)
    return f.text("ret void")


def columns_text(name: str, network: str, lanes: Lanes) -> str:
    """Return `void name(matrix, count)`, which sorts each column."""
    f = FunctionBuilder("void", name, (MATRIX, COUNT))

    def base(start: str) -> list[str]:
        first = lanes.row(f, start)
        rows = [lanes.row(f, str(i), first) for i in range(BASE)]
        worked_on(f, lanes, rows, batcher_pairs(BASE))
        return [f.let(f"add i64 {start}, {BASE}")]

    def merge(run: str) -> list[str]:
        step = f.let(f"lshr i64 {run}, 2")
        f.do(f"call void @{network}.flip(ptr %matrix, i64 %count, i64 {step})")
        f.do(f"call void @{network}.halve(ptr %matrix, i64 %count, i64 {step})")
        return [f.let(f"mul i64 {run}, 2")]

    f.loop(["i64"], ["0"], lambda start: f.let(f"icmp slt i64 {start}, %count"), base)
    f.loop(["i64"], [str(BASE)], lambda run: f.let(f"icmp slt i64 {run}, %count"), merge)
    return f.text("ret void")


def lanes_text(name: str, network: str, lanes: Lanes) -> str:
    """Return `void name(matrix)`, which merges sorted columns: pairs of columns, then pairs of merged groups.

    The order continues from the end of a column at the start of the next.
    """
    f = FunctionBuilder("void", name, (MATRIX,))
    for group in [2 << k for k in range(lanes.lanes.bit_length() - 1)]:

        def merge(row: str, group: int = group) -> None:
            places = [lanes.row(f, number) for number in (row, f.let(f"sub i64 {lanes.height - 1}, {row}"))]
            x, y = [lanes.load(f, place) for place in places]
            y = lanes.crossed(f, y, group - 1)
            low, high = lanes.in_order(f, x, y)
            x = lanes.halves(f, low, high, group // 2)
            y = lanes.crossed(f, lanes.halves(f, high, low, group // 2), group - 1)
            for record, place in zip((x, y), places, strict=True):
                for step in [group >> k for k in range(2, group.bit_length())]:
                    record = lanes.halves(f, *lanes.in_order(f, record, lanes.crossed(f, record, step)), step)
                lanes.store(f, record, place)

        f.count_to(str(lanes.height // 2), merge)
        f.do(f"call void @{network}.halve(ptr %matrix, i64 {lanes.height}, i64 {lanes.height})")
    return f.text("ret void")
