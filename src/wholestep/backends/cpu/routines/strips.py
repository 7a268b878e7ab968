"""Strips of a matrix: its columns, as many as a tile has, row after row without a gap, with zeros where it ends."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.routines.substitution import TileWriter
from wholestep.backends.cpu.target.register_tiles import RegisterTile

FIELDS = ("a", "packed", "pivots", "work", "context", "m", "n", "height", "area", "first", "low", "high", "but")
"""The record of an elimination: its arrays and the program's context; the rows and columns of a matrix, the rows of a
strip and the elements of work memory; the number of item 0, the range of the strips of L to apply, and the strip that
is skipped."""


def field_type(field: str) -> str:
    """The type of a field in LLVM."""
    return "ptr" if FIELDS.index(field) < FIELDS.index("m") else "i64"


def strip_declarations(tile: RegisterTile) -> tuple[str, ...]:
    """The declarations of intrinsics for eliminations, in addition to those for substitutions."""
    v, name, bits = tile.vector, f"v{tile.lanes}f{tile.bits}", f"i{tile.lanes}"
    return (
        f"declare {v} @llvm.fabs.{name}({v})",
        f"declare {tile.kind} @llvm.vector.reduce.fmax.{name}({v})",
        f"declare {bits} @llvm.cttz.{bits}({bits}, i1)",
    )


class StripWriter:
    """A function on the strips of a matrix, under emission."""

    def __init__(self, name: str, tile: RegisterTile, part: str, given: tuple[str, ...] = ("low", "high")) -> None:
        self.f = FunctionBuilder("void", f"{name}.{part}", (("ptr", "args"), *[("i64", word) for word in given]))
        self.tile, self.size = tile, tile.bits // 8
        self.writer = TileWriter(self.f, tile)
        self.work, self.exchanged, self.n, self.height = (
            self.field(word) for word in ("work", "pivots", "n", "height")
        )
        self.pivots = self.least(self.field("m"), self.n)

    def field(self, word: str) -> str:
        """A field of the record."""
        return self.f.load(field_type(word), "%args", str(FIELDS.index(word)))

    def least(self, x: str, y: str) -> str:
        """The lesser of two numbers."""
        return self.f.let(f"call i64 @llvm.smin.i64(i64 {x}, i64 {y})")

    def strip(self, c: str) -> str:
        """The address of a strip."""
        elements = self.f.let(f"mul i64 {self.height}, {self.tile.width}")
        return self.f.at(self.work, self.f.let(f"mul i64 {c}, {elements}"), self.size)

    def line(self, strip: str, row: str) -> str:
        """The address of a row of a strip."""
        return self.f.at(strip, row, self.size * self.tile.width)

    def columns_from(self, start: str) -> str:
        """The number of columns of a strip that are the matrix's."""
        return self.least(self.f.let(f"sub i64 {self.n}, {start}"), str(self.tile.width))

    def count_by(self, step: int, start: str, end: str, body: Callable[[str], None]) -> None:
        """Emit a loop over the numbers from `start` up to but not including `end`, in steps of `step`."""

        def one(i: str) -> list[str]:
            body(i)
            return [self.f.let(f"add i64 {i}, {step}")]

        self.f.loop(["i64"], [start], lambda i: self.f.let(f"icmp slt i64 {i}, {end}"), one)

    def copy_line(self, source: str, target: str, count: str) -> None:
        """Copy `count` elements of a row."""
        f, t = self.f, self.tile

        def whole() -> None:
            self.writer.store_vectors(self.writer.load_vectors(source, t.vectors), target)

        def each() -> None:
            f.count_to(count, lambda j: f.store(t.kind, f.load(t.kind, source, j), target, j))

        f.either(f.let(f"icmp eq i64 {count}, {t.width}"), whole, each)

    def exchange(self, strip: str, start: str, end: str) -> None:
        """Exchange the rows of a strip with those of the pivots from `start` to before `end`."""
        f, vectors = self.f, self.tile.vectors

        def swap(i: str) -> None:
            other = f.let(f"sext i32 {f.load('i32', self.exchanged, i)} to i64")
            here, there = self.line(strip, i), self.line(strip, other)
            upper, lower = self.writer.load_vectors(here, vectors), self.writer.load_vectors(there, vectors)
            self.writer.store_vectors(lower, here)
            self.writer.store_vectors(upper, there)

        f.count_to(end, swap, start)
