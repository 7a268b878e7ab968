"""The choice of pivots in a strip: a vector of columns at a time is transposed, so that vectors run down columns."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.cpu.routines.strips import StripWriter
from wholestep.backends.cpu.target.register_tiles import RegisterTile


class PivotWriter(StripWriter):
    """The function `void name.pivoted(args, s)` under emission: eliminate strip s."""

    def __init__(self, name: str, tile: RegisterTile) -> None:
        super().__init__(name, tile, "pivoted", ("s",))
        f = self.f
        self.base = self.strip("%s")
        self.top = f.let(f"mul i64 %s, {tile.width}")
        self.pitch = f.let(f"add i64 {self.height}, {tile.lanes}")
        """The elements from one transposed column to the next, which must not share the sets of a cache."""
        turned = f.let(f"sub i64 {self.field('area')}, {f.let(f'mul i64 {self.pitch}, {tile.lanes}')}")
        self.turned = f.at(self.work, turned, self.size)

    def text(self) -> str:
        """The function: one vector of columns after the other."""
        f, t = self.f, self.tile

        def vector(b: str) -> None:
            column = f.let(f"mul i64 {b}, {t.lanes}")
            first = f.let(f"add i64 {self.top}, {column}")
            self.count_by(t.lanes, self.top, self.least(first, self.height), lambda r: self.solve(r, column))
            f.when(f.let(f"icmp slt i64 {first}, {self.pivots}"), lambda: self.eliminate(first, column))

        f.count_to(str(t.vectors), vector)
        return f.text("ret void")

    def lines(self, r: str) -> list[str]:
        """The addresses of as many rows as a vector has elements."""
        return [self.line(self.base, self.f.let(f"add i64 {r}, {i}")) for i in range(self.tile.lanes)]

    def rest(self, r: str, column: str, count: str) -> list[list[str]]:
        """A vector of columns in these rows, minus the products with the `count` columns of L before it."""
        f, t, writer = self.f, self.tile, self.writer
        lines, upper = self.lines(r), f.at(self.line(self.base, self.top), column, self.size)
        sums = [writer.load_vectors(f.at(line, column, self.size), 1) for line in lines]
        return writer.minus_products(
            sums, count, lambda k: [f.load(t.kind, line, k) for line in lines], lambda k: self.line(upper, k)
        )

    def solve(self, r: str, column: str) -> None:
        """Solve for rows of U."""
        f, t = self.f, self.tile
        before, lines = f.let(f"sub i64 {r}, {self.top}"), self.lines(r)
        found = self.writer.end_rows(
            self.rest(r, column, before),
            lambda i, k: f.load(t.kind, lines[i], f.let(f"add i64 {before}, {k}")),
            divided=False,
        )
        for line, vectors in zip(lines, found, strict=True):
            self.writer.store_vectors(vectors, f.at(line, column, self.size))

    def eliminate(self, first: str, column: str) -> None:
        """Eliminate a vector of columns from row `first` on."""
        f, t, writer = self.f, self.tile, self.writer
        height = f.let(f"sub i64 {self.height}, {first}")

        def turn(i: str) -> None:
            rows = [row[0] for row in self.rest(f.let(f"add i64 {first}, {i}"), column, column)]
            for k, vector in enumerate(self.transposed(rows)):
                writer.store_vectors([vector], self.place(k, i))

        def turn_back(i: str) -> None:
            columns = [self.vector(k, i) for k in range(t.lanes)]
            for line, vector in zip(self.lines(f.let(f"add i64 {first}, {i}")), self.transposed(columns), strict=True):
                writer.store_vectors([vector], f.at(line, column, self.size))

        self.count_by(t.lanes, "0", height, turn)
        pivot = ""
        for j in range(t.lanes):
            pivot = self.choose(j, pivot, first, height)
        self.divide(t.lanes - 1, pivot, height)
        self.exchange(self.base, first, self.least(f.let(f"add i64 {first}, {t.lanes}"), self.pivots))
        self.count_by(t.lanes, "0", height, turn_back)

    # Turned columns: row 0 is that of the first pivot.

    def place(self, k: int, i: str) -> str:
        """The address of an element of a transposed column."""
        return self.writer.place(self.turned, str(k), self.pitch, i)

    def vector(self, k: int, i: str) -> str:
        """The elements of a transposed column from row i on."""
        return self.writer.load_vectors(self.place(k, i), 1)[0]

    def lanes_from(self, j: int) -> str:
        """The truth values of a vector that hold from lane j on."""
        return "<" + ", ".join(f"i1 {int(lane >= j)}" for lane in range(self.tile.lanes)) + ">"

    def from_lane(self, j: int, new: str, old: str) -> str:
        """One vector up to lane j, and another from there on."""
        f, t = self.f, self.tile
        return f.let(f"select <{t.lanes} x i1> {self.lanes_from(j)}, {t.vector} {new}, {t.vector} {old}")

    def transposed(self, rows: Sequence[str]) -> list[str]:
        """A square of vectors, its rows and columns exchanged: halves of two, then quarters, and so on."""
        f, t = self.f, self.tile
        found, step = list(rows), t.lanes // 2
        while step:
            for i in [i for i in range(t.lanes) if not i & step]:
                a, b = found[i], found[i + step]
                low = [k if not k & step else t.lanes + k - step for k in range(t.lanes)]
                high = [k + step if not k & step else t.lanes + k for k in range(t.lanes)]
                for place, chosen in ((i, low), (i + step, high)):
                    mask = f"<{t.lanes} x i32> <" + ", ".join(f"i32 {k}" for k in chosen) + ">"
                    found[place] = f.let(f"shufflevector {t.vector} {a}, {t.vector} {b}, {mask}")
            step //= 2
        return found

    def choose(self, j: int, before: str, first: str, height: str) -> str:
        """Finish column j, and exchange its first row with that of its pivot, which is returned; `before` is the one
        of the column before, which is divided by it in the same pass."""
        f, t, writer = self.f, self.tile, self.writer
        top, uppers = self.finish_top(j, before)

        def finish(i: str, largest: str) -> list[str]:
            here = self.vector(j, i)
            for k, upper in enumerate(uppers):
                left = self.vector(k, i)
                if k == j - 1:
                    left = f.let(f"fdiv {t.vector} {left}, {writer.splat(before)}")
                    writer.store_vectors([left], self.place(k, i))
                here = writer.minus_product(upper, left, here)
            writer.store_vectors([here], self.place(j, i))
            return [f.let(f"add i64 {i}, {t.lanes}"), self.larger(self.sizes(here), largest)]

        none = writer.splat("-1.0")
        sizes = self.from_lane(j, self.sizes(top), none)
        _, largest = f.loop(
            ["i64", t.vector],
            [str(t.lanes), self.larger(sizes, none)],
            lambda i, _: f.let(f"icmp slt i64 {i}, {height}"),
            finish,
        )
        row = self.first_of(j, sizes, f.let(f"extractelement {t.vector} {top}, i64 {j}"), largest)
        return self.take(j, row, first)

    def finish_top(self, j: int, before: str) -> tuple[str, list[str]]:
        """Finish the first vector of column j; it, and the elements of U in it."""
        f, t, writer = self.f, self.tile, self.writer
        if j:
            old = self.vector(j - 1, "0")
            divided = f.let(f"fdiv {t.vector} {old}, {writer.splat(before)}")
            writer.store_vectors([self.from_lane(j, divided, old)], self.place(j - 1, "0"))
        top, uppers = self.vector(j, "0"), []
        for k in range(j):
            uppers.append(f.let(f"extractelement {t.vector} {top}, i64 {k}"))
            top = self.from_lane(k + 1, writer.minus_product(uppers[k], self.vector(k, "0"), top), top)
        writer.store_vectors([top], self.place(j, "0"))
        return top, uppers

    def larger(self, found: str, largest: str) -> str:
        """The larger of two vectors in each lane; the second one where the first is NaN."""
        t = self.tile
        more = self.f.let(f"fcmp ogt {t.vector} {found}, {largest}")
        return self.f.let(f"select <{t.lanes} x i1> {more}, {t.vector} {found}, {t.vector} {largest}")

    def sizes(self, vector: str) -> str:
        """The absolute values of a vector."""
        t = self.tile
        return self.f.let(f"call {t.vector} @llvm.fabs.v{t.lanes}f{t.bits}({t.vector} {vector})")

    def first_of(self, j: int, sizes: str, own: str, largest: str) -> str:
        """The first row of column j whose size is the largest, or the first of all where that one is NaN."""
        f, t, bits = self.f, self.tile, f"i{self.tile.lanes}"
        of = f"call nnan {t.kind} @llvm.vector.reduce.fmax.v{t.lanes}f{t.bits}({t.vector} {largest})"
        wanted = self.writer.splat(f.let(of))

        def equal(found: str) -> str:
            same = f.let(f"fcmp oeq {t.vector} {found}, {wanted}")
            return f.let(f"bitcast <{t.lanes} x i1> {same} to {bits}")

        def look(i: str, _: str) -> list[str]:
            at = f.let(f"add i64 {i}, {t.lanes}")
            return [at, equal(self.sizes(self.vector(j, at)))]

        unknown = f.let(f"fcmp uno {t.kind} {own}, {own}")
        start = f.let(f"select i1 {unknown}, {bits} {1 << j}, {bits} {equal(sizes)}")
        at, found = f.loop(["i64", bits], ["0", start], lambda _, x: f.let(f"icmp eq {bits} {x}, 0"), look)
        lane = f.let(f"call {bits} @llvm.cttz.{bits}({bits} {found}, i1 true)")
        return f.let(f"add i64 {at}, {f.let(f'zext {bits} {lane} to i64')}")

    def take(self, j: int, row: str, first: str) -> str:
        """Exchange row j with the one of its pivot, and note that; the pivot, or 1 for 0, by which nothing is
        divided."""
        f, t = self.f, self.tile
        number = f.let(f"add i64 {first}, {j}")
        other = f.let(f"trunc i64 {f.let(f'add i64 {first}, {row}')} to i32")
        f.when(
            f.let(f"icmp slt i64 {number}, {self.pivots}"),
            lambda: f.store("i32", other, self.exchanged, number),
        )
        pivot = ""
        for k in range(t.lanes):
            here, there = self.place(k, str(j)), self.place(k, row)
            upper, lower = f.load(t.kind, here), f.load(t.kind, there)
            f.store(t.kind, lower, here)
            f.store(t.kind, upper, there)
            pivot = lower if k == j else pivot
        zero = f.let(f"fcmp oeq {t.kind} {pivot}, 0.0")
        return f.let(f"select i1 {zero}, {t.kind} 1.0, {t.kind} {pivot}")

    def divide(self, k: int, pivot: str, height: str) -> None:
        """Divide the last transposed column by its pivot."""
        f, t = self.f, self.tile
        by = self.writer.splat(pivot)

        def one(i: str) -> None:
            self.writer.store_vectors([f.let(f"fdiv {t.vector} {self.vector(k, i)}, {by}")], self.place(k, i))

        self.count_by(t.lanes, str(t.lanes), height, one)
