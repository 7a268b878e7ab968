"""Substitution and Cholesky factors by tiles in registers: an element is one chain of multiply-adds in order, then a
division, so that neither tiles, vectors nor threads show in the bits.

A tile takes part in all terms before it while its sums stay in registers (left-looking, as in Golub and Van Loan,
"Matrix Computations", 4th edition, sections 3.1 and 4.2), then ends with the small triangle of its own rows. The last
tile of rows or columns overlaps the one before, and computes the same bits again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.target.register_tiles import RegisterTile, Substitution

WORTH_SHARING = 1 << 15
"""The multiply-adds of a part of a routine below which one thread is quicker. Measured."""


def substitution_declarations(tile: RegisterTile) -> tuple[str, ...]:
    """The declarations that the functions of this file need."""
    v, name = tile.vector, f"v{tile.lanes}f{tile.bits}"
    return (
        f"declare {v} @llvm.fmuladd.{name}({v}, {v}, {v})",
        f"declare {tile.kind} @llvm.sqrt.f{tile.bits}({tile.kind})",
        "declare i64 @llvm.smin.i64(i64, i64)",
    )


def substitution_text(name: str, tile: RegisterTile, how: Substitution) -> str:
    """Return `i64 name(context, a, b, x, n, columns, count)`: solve a x = b for triangular matrices, from the first row
    or from the last one on; the number of the first 0 on a diagonal, from 1, or 0."""
    words = [("ptr", "context"), ("ptr", "a"), ("ptr", "b"), ("ptr", "x")]
    f = FunctionBuilder("i64", name, [*words, *[("i64", size) for size in ("n", "columns", "count")]], exported=True)
    if not how.unit:
        f.count_to("%count", lambda matrix: return_if_singular(f, tile, matrix))
    args = f.let("alloca [6 x i64]")
    for i, (kind, word) in enumerate((*[("ptr", w) for w in "abx"], ("i64", "n"), ("i64", "columns"))):
        f.store(kind, f"%{word}", args, str(i))
    strips = quotient_above(f, "%columns", tile.width)
    f.store("i64", strips, args, "5")
    items = f.let(f"mul i64 {strips}, %count")
    f.do(f"call void @ws_parallel(ptr %context, ptr @{name}.strips, ptr {args}, i64 {items})")
    return SubstitutionWriter(name, tile, how).strips() + f.text("ret i64 0")


def return_if_singular(f: FunctionBuilder, tile: RegisterTile, matrix: str) -> None:
    """Return the number of the first 0 on the diagonal of a matrix."""
    start = f.let(f"mul i64 {matrix}, {f.let('mul i64 %n, %n')}")
    step = f.let("add i64 %n, 1")

    def look(i: str) -> None:
        place = f.let(f"add i64 {start}, {f.let(f'mul i64 {i}, {step}')}")
        zero = f.let(f"fcmp oeq {tile.kind} {f.load(tile.kind, '%a', place)}, 0.0")
        f.return_if(zero, f"i64 {f.let(f'add i64 {i}, 1')}")

    f.count_to("%n", look)


def quotient_above(f: FunctionBuilder, n: str, by: int) -> str:
    """The quotient n / by, rounded up."""
    return f.let(f"sdiv i64 {f.let(f'add i64 {n}, {by - 1}')}, {by}")


class TileWriter:
    """The tile of a function under emission: sums in registers, one for each of its rows and vectors."""

    def __init__(self, f: FunctionBuilder, tile: RegisterTile) -> None:
        self.f, self.tile = f, tile

    def splat(self, scalar: str) -> str:
        """A number in all lanes."""
        v, lanes = self.tile.vector, self.tile.lanes
        first = self.f.let(f"insertelement {v} poison, {self.tile.kind} {scalar}, i64 0")
        return self.f.let(f"shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer")

    def place(self, base: str, row: str, pitch: str, column: str) -> str:
        """The address of an element of a matrix."""
        line = self.f.let(f"add i64 {self.f.let(f'mul i64 {row}, {pitch}')}, {column}")
        return self.f.at(base, line, self.tile.bits // 8)

    def load_vectors(self, start: str, vectors: int) -> list[str]:
        """Vectors that lie one after the other."""
        f, t = self.f, self.tile
        places = [f.at(start, str(k * t.lanes), t.bits // 8) for k in range(vectors)]
        return [f.let(f"load {t.vector}, ptr {place}, align {t.bits // 8}") for place in places]

    def store_vectors(self, vectors: Sequence[str], start: str) -> None:
        """Write vectors one after the other."""
        f, t = self.f, self.tile
        for k, vector in enumerate(vectors):
            f.do(f"store {t.vector} {vector}, ptr {f.at(start, str(k * t.lanes), t.bits // 8)}, align {t.bits // 8}")

    def minus_product(self, left: str, right: str, held: str) -> str:
        """held - left * right, of a number and vectors."""
        f, t = self.f, self.tile
        negative = self.splat(f.let(f"fneg {t.kind} {left}"))
        given = f"{t.vector} {negative}, {t.vector} {right}, {t.vector} {held}"
        return f.let(f"call {t.vector} @llvm.fmuladd.v{t.lanes}f{t.bits}({given})")

    def minus_products(
        self,
        sums: Sequence[Sequence[str]],
        count: str,
        lefts: Callable[[str], Sequence[str]],
        right: Callable[[str], str],
    ) -> list[list[str]]:
        """The sums of each row after `count` terms; `lefts` are the factors of the rows, `right` is the address of
        those of the columns."""
        f, vectors = self.f, len(sums[0])

        def term(t: str, *held: str) -> list[str]:
            factors = self.load_vectors(right(t), vectors)
            rows = [held[i : i + vectors] for i in range(0, len(held), vectors)]
            new = [
                self.minus_product(left, factor, one)
                for left, row in zip(lefts(t), rows, strict=True)
                for factor, one in zip(factors, row, strict=True)
            ]
            return [f.let(f"add i64 {t}, 1"), *new]

        flat = [one for row in sums for one in row]
        types = ["i64", *[self.tile.vector] * len(flat)]
        _, *after = f.loop(types, ["0", *flat], lambda t, *_: f.let(f"icmp slt i64 {t}, {count}"), term)
        return [after[i : i + vectors] for i in range(0, len(after), vectors)]

    def end_rows(
        self, sums: Sequence[Sequence[str]], left: Callable[[int, int], str], divided: bool = True
    ) -> list[list[str]]:
        """The elements of the rows, by the triangle of the tile: `left(r, s)` is the factor of row s in row r."""
        found: list[list[str]] = []
        for r, row in enumerate(sums):
            new = list(row)
            for s, before in enumerate(found):
                factor = left(r, s)
                new = [self.minus_product(factor, x, held) for x, held in zip(before, new, strict=True)]
            if divided:
                by = self.splat(left(r, r))
                new = [self.f.let(f"fdiv {self.tile.vector} {x}, {by}") for x in new]
            found.append(new)
        return found


class SubstitutionWriter:
    """The function that solves strips of columns, under emission."""

    def __init__(self, name: str, tile: RegisterTile, how: Substitution) -> None:
        self.f = FunctionBuilder("void", f"{name}.strips", (("ptr", "args"), ("i64", "low"), ("i64", "high")))
        self.tile, self.how = tile, how
        self.writer = TileWriter(self.f, tile)

    def strips(self) -> str:
        """The function; an item is a strip of one matrix, as wide as a tile."""
        f = self.f
        self.a, self.b, self.x = (f.load("ptr", "%args", str(i)) for i in range(3))
        self.n, self.columns, count = (f.load("i64", "%args", str(i)) for i in range(3, 6))
        f.count_to("%high", lambda item: self.strip(item, count), "%low")
        return f.text("ret void")

    def strip(self, item: str, count: str) -> None:
        """Solve one strip."""
        f, t = self.f, self.tile
        matrix = f.let(f"udiv i64 {item}, {count}")
        start = f.let(f"mul i64 {f.let(f'urem i64 {item}, {count}')}, {t.width}")
        last = f.let(f"sub i64 {self.columns}, {t.width}")
        start = f.let(f"call i64 @llvm.smin.i64(i64 {start}, i64 {last})")
        size = t.bits // 8
        whole = f.let(f"mul i64 {matrix}, {f.let(f'mul i64 {self.n}, {self.n}')}")
        beside = f.let(f"mul i64 {matrix}, {f.let(f'mul i64 {self.n}, {self.columns}')}")
        line = f.let(f"add i64 {beside}, {start}")
        a, b, x = f.at(self.a, whole, size), f.at(self.b, line, size), f.at(self.x, line, size)
        tiles = quotient_above(f, self.n, t.rows)
        f.count_to(tiles, lambda k: self.rows(self.first(k), a, b, x))

    def first(self, k: str) -> str:
        """The first row of a tile, counted in the direction of the solve."""
        f = self.f
        last = f.let(f"sub i64 {self.n}, {self.tile.rows}")
        return f.let(f"call i64 @llvm.smin.i64(i64 {f.let(f'mul i64 {k}, {self.tile.rows}')}, i64 {last})")

    def number(self, i: str) -> str:
        """The number of a row that is counted in the direction of the solve."""
        return i if self.how.forward else self.f.let(f"sub i64 {self.f.let(f'sub i64 {self.n}, 1')}, {i}")

    def rows(self, first: str, a: str, b: str, x: str) -> None:
        """Solve the rows of a tile."""
        f, t, writer = self.f, self.tile, self.writer
        rows = [self.number(f.let(f"add i64 {first}, {r}")) for r in range(t.rows)]
        lines = [writer.place(a, row, self.n, "0") for row in rows]
        turned = self.how.turned
        sums = [writer.load_vectors(writer.place(b, row, self.columns, "0"), t.vectors) for row in rows]

        def lefts(at: str) -> list[str]:
            if turned:
                line = writer.place(a, self.number(at), self.n, "0")
                return [f.load(t.kind, line, row) for row in rows]
            return [f.load(t.kind, line, self.number(at)) for line in lines]

        def left(r: int, s: int) -> str:
            return f.load(t.kind, lines[s], rows[r]) if turned else f.load(t.kind, lines[r], rows[s])

        sums = writer.minus_products(sums, first, lefts, lambda at: writer.place(x, self.number(at), self.columns, "0"))
        found = writer.end_rows(sums, left, divided=not self.how.unit)
        for row, vectors in zip(rows, found, strict=True):
            writer.store_vectors(vectors, writer.place(x, row, self.columns, "0"))


def factor_text(name: str, tile: RegisterTile) -> str:
    """Return `i64 name(context, a, u, n, count)`: the upper factors u^T u of symmetric matrices, from their upper
    triangles; its result is the number of the first row whose pivot is not positive, from 1, or 0. The elements below
    the diagonals of u are unspecified.

    As in LAPACK, a pivot of NaN does not count as a failure.
    """
    return FactorWriter(name, tile).columns() + FactorWriter(name, tile).factors()


class FactorWriter:
    """The functions that factor matrices, under emission: a square tile on the diagonal, then those to its right."""

    def __init__(self, name: str, tile: RegisterTile) -> None:
        self.name, self.tile = name, tile

    def factors(self) -> str:
        """The function of all matrices: one strip of rows after the other."""
        words = (("ptr", "context"), ("ptr", "a"), ("ptr", "u"), ("i64", "n"), ("i64", "count"))
        f, t = FunctionBuilder("i64", self.name, words, exported=True), self.tile
        writer, size = TileWriter(f, t), t.bits // 8
        args, square = f.let("alloca [5 x i64]"), f.let(f"alloca [{t.rows * t.rows} x {t.kind}], align 64")
        f.store("ptr", square, args, "4")
        f.store("i64", "%n", args, "2")
        last = f.let(f"sub i64 %n, {t.rows}")

        def strip(k: str, a: str, u: str) -> None:
            first = f.let(f"call i64 @llvm.smin.i64(i64 {f.let(f'mul i64 {k}, {t.rows}')}, i64 {last})")
            f.store("i64", first, args, "3")
            self.diagonal(writer, first, a, u, square)
            items = quotient_above(f, f.let(f"sub i64 {last}, {first}"), t.width)
            work = f.let(f"mul i64 {f.let(f'sub i64 %n, {first}')}, {f.let(f'mul i64 {first}, {t.rows}')}")
            f.either(
                f.let(f"icmp sgt i64 {work}, {WORTH_SHARING}"),
                lambda: f.do(
                    f"call void @ws_parallel(ptr %context, ptr @{self.name}.columns, ptr {args}, i64 {items})"
                ),
                lambda: f.do(f"call void @{self.name}.columns(ptr {args}, i64 0, i64 {items})"),
            )
            # The last tile may have come over the one on the diagonal.
            for r in range(t.rows):
                row = writer.load_vectors(f.at(square, str(r * t.rows), size), 1)
                writer.store_vectors(row, writer.place(u, f.let(f"add i64 {first}, {r}"), "%n", first))

        def matrix(number: str) -> None:
            start = f.let(f"mul i64 {number}, {f.let('mul i64 %n, %n')}")
            a, u = f.at("%a", start, size), f.at("%u", start, size)
            f.store("ptr", a, args, "0")
            f.store("ptr", u, args, "1")
            f.count_to(quotient_above(f, "%n", t.rows), lambda k: strip(k, a, u))

        f.count_to("%count", matrix)
        return f.text("ret i64 0")

    def factors_above(self, writer: TileWriter, u: str, n: str, first: str) -> Callable[[str], list[str]]:
        """The numbers of a row of u, above, by which it takes part in the rows of the tile from `first` on."""
        f, t = writer.f, self.tile

        def numbers(at: str) -> list[str]:
            line = writer.place(u, at, n, first)
            return [f.load(t.kind, line, str(r)) for r in range(t.rows)]

        return numbers

    def diagonal(self, writer: TileWriter, first: str, a: str, u: str, square: str) -> None:
        """Factor the tile on the diagonal, which is as wide as a vector, into a square of its own and into u."""
        f, t = writer.f, self.tile
        rows = [f.let(f"add i64 {first}, {r}") for r in range(t.rows)]
        sums = [writer.load_vectors(writer.place(a, row, "%n", first), 1) for row in rows]
        lefts = self.factors_above(writer, u, "%n", first)
        sums = writer.minus_products(sums, first, lefts, lambda at: writer.place(u, at, "%n", first))
        held = [row[0] for row in sums]
        for r, row in enumerate(rows):
            pivot = f.let(f"extractelement {t.vector} {held[r]}, i64 {r}")
            bad = f.let(f"fcmp ole {t.kind} {pivot}, 0.0")
            f.return_if(bad, f"i64 {f.let(f'add i64 {row}, 1')}")
            root = f.let(f"call {t.kind} @llvm.sqrt.f{t.bits}({t.kind} {pivot})")
            whole = f.let(f"fdiv {t.vector} {held[r]}, {writer.splat(root)}")
            whole = f.let(f"insertelement {t.vector} {whole}, {t.kind} {root}, i64 {r}")
            for s in range(r + 1, t.rows):
                factor = f.let(f"extractelement {t.vector} {whole}, i64 {s}")
                held[s] = writer.minus_product(factor, whole, held[s])
            writer.store_vectors([whole], f.at(square, str(r * t.rows), t.bits // 8))
            writer.store_vectors([whole], writer.place(u, row, "%n", first))

    def columns(self) -> str:
        """The function of tiles to the right of the diagonal."""
        t = self.tile
        f = FunctionBuilder("void", f"{self.name}.columns", (("ptr", "args"), ("i64", "low"), ("i64", "high")))
        writer = TileWriter(f, t)
        a, u, square = (f.load("ptr", "%args", i) for i in "014")
        n, first = f.load("i64", "%args", "2"), f.load("i64", "%args", "3")
        beyond, last = f.let(f"add i64 {first}, {t.rows}"), f.let(f"sub i64 {n}, {t.width}")
        rows = [f.let(f"add i64 {first}, {r}") for r in range(t.rows)]

        lefts = self.factors_above(writer, u, n, first)

        def one(k: str) -> None:
            start = f.let(f"add i64 {beyond}, {f.let(f'mul i64 {k}, {t.width}')}")
            start = f.let(f"call i64 @llvm.smin.i64(i64 {start}, i64 {last})")
            sums = [writer.load_vectors(writer.place(a, row, n, start), t.vectors) for row in rows]
            sums = writer.minus_products(sums, first, lefts, lambda at: writer.place(u, at, n, start))
            found = writer.end_rows(sums, lambda r, s: f.load(t.kind, square, str(s * t.rows + r)))
            for row, vectors in zip(rows, found, strict=True):
                writer.store_vectors(vectors, writer.place(u, row, n, start))

        f.count_to("%high", one, "%low")
        return f.text("ret void")
