"""Lanes of a sorting network: records in vectors, compare-exchanges of records, and transposed squares.

A record is a key, or a key and its original position. W records are one vector for each part; in a matrix of records
each part is an array of its own, and these arrays lie one after the other in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wholestep.backends.cpu.llvm_builder import FunctionBuilder

Record = tuple[str, ...]
"""The vectors of the parts of a record, or their addresses."""


@dataclass(frozen=True)
class Lanes:
    """The vectors of records: the bits of each part of a record, the lanes of a vector, and the vectors of an array."""

    parts: tuple[int, ...]
    lanes: int
    height: int

    def kind(self, bits: int) -> str:
        """The type of a vector of integers."""
        return f"<{self.lanes} x i{bits}>"

    @property
    def declarations(self) -> tuple[str, ...]:
        """The declarations of the intrinsics that compare-exchanges call."""
        kind, name = self.kind(self.parts[0]), f"v{self.lanes}i{self.parts[0]}"
        return tuple([f"declare {kind} @llvm.u{which}.{name}({kind}, {kind})" for which in ("min", "max")])

    def row(self, f: FunctionBuilder, number: str, base: Record = ()) -> Record:
        """The addresses of the parts of a row of the matrix, by its number, counted from the row `base` if given."""
        sizes = [bits * self.lanes // 8 for bits in self.parts]
        starts = [sum(sizes[:part]) * self.height for part in range(len(sizes))]
        arrays = base or [f.field("%matrix", start) if start else "%matrix" for start in starts]
        return tuple([f.at(array, number, size) for array, size in zip(arrays, sizes, strict=True)])

    def load(self, f: FunctionBuilder, row: Record) -> Record:
        """The records of a row of the matrix, given its addresses."""
        facts = zip(self.parts, row, strict=True)
        return tuple([f.let(f"load {self.kind(bits)}, ptr {place}, align {bits // 8}") for bits, place in facts])

    def store(self, f: FunctionBuilder, record: Record, row: Record) -> None:
        """Write a row of the matrix, given its addresses."""
        for bits, vector, place in zip(self.parts, record, row, strict=True):
            f.do(f"store {self.kind(bits)} {vector}, ptr {place}, align {bits // 8}")

    def last(self) -> Record:
        """Records that come after all others."""
        return tuple([f"splat (i{bits} -1)" for bits in self.parts])

    def in_order(self, f: FunctionBuilder, x: Record, y: Record) -> tuple[Record, Record]:
        """The smaller and the larger of two records, lane by lane."""
        kind = self.kind(self.parts[0])
        if len(self.parts) == 1:
            name = f"v{self.lanes}i{self.parts[0]}"
            low, high = [
                f.let(f"call {kind} @llvm.u{which}.{name}({kind} {x[0]}, {kind} {y[0]})") for which in ("min", "max")
            ]
            return (low,), (high,)
        flags = f"<{self.lanes} x i1>"
        greater, tied = [f.let(f"icmp {how} {kind} {x[0]}, {y[0]}") for how in ("ugt", "eq")]
        after = f.let(f"icmp ugt {self.kind(self.parts[1])} {x[1]}, {y[1]}")
        after = f.let(f"or {flags} {greater}, {f.let(f'and {flags} {tied}, {after}')}")

        def chosen(first: Record, second: Record) -> Record:
            kinds = map(self.kind, self.parts)
            pairs = zip(kinds, first, second, strict=True)
            return tuple([f.let(f"select {flags} {after}, {k} {a}, {k} {b}") for k, a, b in pairs])

        return chosen(y, x), chosen(x, y)

    def pick(self, f: FunctionBuilder, x: Record, y: Record, picks: Sequence[int]) -> Record:
        """Lanes of two records, those of the second numbered after those of the first."""
        return tuple([shuffled(f, self.kind(bits), a, b, picks) for bits, a, b in zip(self.parts, x, y, strict=True)])

    def crossed(self, f: FunctionBuilder, x: Record, flip: int) -> Record:
        """Each lane of a record from the lane whose number has these bits flipped."""
        return self.pick(f, x, x, [lane ^ flip for lane in range(self.lanes)])

    def halves(self, f: FunctionBuilder, x: Record, y: Record, bit: int) -> Record:
        """Lanes of the first record where a bit of their number is 0, else of the second."""
        return self.pick(f, x, y, [lane + self.lanes if lane & bit else lane for lane in range(self.lanes)])


def shuffled(f: FunctionBuilder, kind: str, x: str, y: str, picks: Sequence[int]) -> str:
    """Lanes of two vectors in this order."""
    mask = ", ".join([f"i32 {lane}" for lane in picks])
    return f.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(picks)} x i32> <{mask}>")


def transposed(f: FunctionBuilder, kind: str, rows: Sequence[str]) -> list[str]:
    """The columns of a square block of vectors: parts of 1, 2, 4, ... lanes change places."""
    made, n = list(rows), len(rows)
    for run in [1 << i for i in range(n.bit_length() - 1)]:
        low = [n + i - run if i & run else i for i in range(n)]
        high = [n + i if i & run else i + run for i in range(n)]
        for a in range(n):
            if not a & run:
                x, y = made[a], made[a + run]
                made[a], made[a + run] = shuffled(f, kind, x, y, low), shuffled(f, kind, x, y, high)
    return made
