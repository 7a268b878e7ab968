"""Elimination with partial pivoting by tiles in registers: an element is one chain of multiply-adds in order, so that
neither tiles, panels, vectors nor threads show in the bits.

A matrix lies in strips as wide as a tile, with zeros around it, so that all tiles are whole. A panel of strips is
eliminated; then a thread takes each strip to its right, exchanges its rows, solves for the rows of U, and subtracts the
products from the rows below (right-looking, as in Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4).
"""

from __future__ import annotations

from functools import partial

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.routines.pivot_choice import PivotWriter
from wholestep.backends.cpu.routines.strips import FIELDS, StripWriter, field_type
from wholestep.backends.cpu.routines.substitution import WORTH_SHARING, quotient_above
from wholestep.backends.cpu.target.register_tiles import RegisterTile


def elimination_text(name: str, tile: RegisterTile, panel: int) -> str:
    """Return `void name(context, a, packed, pivots, work, m, n, height, area, count, together)`: L and U of m by n
    matrices, and the rows that were exchanged, counted from 0.

    The work memory has `area` elements for each of as many matrices as are eliminated `together`, each by a thread of
    its own; where this is 1, threads share each matrix. As in LAPACK, nothing is divided by a pivot of 0.
    """
    loaded, updated, stored = (StripWriter(name, tile, part) for part in ("loaded", "updated", "stored"))
    parts = (load_strips(loaded), update_strips(updated), store_strips(stored, panel), PivotWriter(name, tile).text())
    return "".join([*parts, MatrixWriter(name, tile, panel).text(), stack_text(name)])


def stack_text(name: str) -> str:
    """The function of a stack of matrices."""
    arrays, sizes = FIELDS[:4], ("m", "n", "height", "area", "count", "together")
    words = [("ptr", "context"), *[("ptr", x) for x in arrays], *[("i64", x) for x in sizes]]
    f = FunctionBuilder("void", name, words, exported=True)
    args = f.let(f"alloca [{len(FIELDS)} x i64]")
    for word in (*arrays, *sizes[:4]):
        f.store(field_type(word), f"%{word}", args, str(FIELDS.index(word)))
    first, context = str(FIELDS.index("first")), str(FIELDS.index("context"))

    def in_turn() -> None:
        f.store("ptr", "%context", args, context)
        f.store("i64", "0", args, first)
        f.do(f"call void @{name}.matrices(ptr {args}, i64 0, i64 %count)")

    def some(start: str) -> list[str]:
        f.store("i64", start, args, first)
        items = f.let(f"call i64 @llvm.smin.i64(i64 %together, i64 {f.let(f'sub i64 %count, {start}')})")
        f.do(f"call void @ws_parallel(ptr %context, ptr @{name}.matrices, ptr {args}, i64 {items})")
        return [f.let(f"add i64 {start}, %together")]

    def together() -> None:
        f.store("ptr", "null", args, context)
        f.loop(["i64"], ["0"], lambda start: f.let(f"icmp slt i64 {start}, %count"), some)

    f.either(f.let("icmp sgt i64 %together, 1"), together, in_turn)
    return f.text("ret void")


class MatrixWriter(StripWriter):
    """The function of some matrices, under emission; they share the work memory of the first of them."""

    def __init__(self, name: str, tile: RegisterTile, panel: int) -> None:
        super().__init__(name, tile, "matrices")
        self.name, self.panel = name, panel
        self.m, self.area, self.context = (self.field(word) for word in ("m", "area", "context"))
        self.args = self.f.let(f"alloca [{len(FIELDS)} x i64]")
        self.strips = quotient_above(self.f, self.n, tile.width)
        self.ends = quotient_above(self.f, self.pivots, tile.width)
        """The strip after the last one with a pivot."""

    def text(self) -> str:
        """The function."""
        f = self.f
        start, arrays = self.field("first"), [self.field(word) for word in ("a", "packed", "pivots")]
        work = f.at(self.work, f.let(f"mul i64 %low, {self.area}"), self.size)
        self.put(work=work, m=self.m, n=self.n, height=self.height, area=self.area)
        elements = f.let(f"mul i64 {self.m}, {self.n}")

        def one(i: str) -> None:
            number = f.let(f"add i64 {start}, {i}")
            places = [f.let(f"mul i64 {number}, {count}") for count in (elements, elements, self.pivots)]
            self.put(
                a=f.at(arrays[0], places[0], self.size),
                packed=f.at(arrays[1], places[1], self.size),
                pivots=f.at(arrays[2], places[2], 4),
            )
            self.share("loaded", self.strips, elements)
            self.count_by(self.panel, "0", self.ends, self.eliminate)
            self.share("stored", self.strips, elements)

        f.count_to("%high", one, "%low")
        return f.text("ret void")

    def put(self, **words: str) -> None:
        """Write fields of the record that the parts get."""
        for word, value in words.items():
            self.f.store(field_type(word), value, self.args, str(FIELDS.index(word)))

    def share(self, part: str, items: str, products: str) -> None:
        """Run a part on threads where that is faster and there is a context, or else in the calling thread."""
        f, function = self.f, f"@{self.name}.{part}"
        worth = f.let(f"icmp sgt i64 {products}, {WORTH_SHARING}")
        f.either(
            f.let(f"and i1 {worth}, {f.let(f'icmp ne ptr {self.context}, null')}"),
            lambda: f.do(f"call void @ws_parallel(ptr {self.context}, ptr {function}, ptr {self.args}, i64 {items})"),
            lambda: f.do(f"call void {function}(ptr {self.args}, i64 0, i64 {items})"),
        )

    def eliminate(self, first: str) -> None:
        """Eliminate a panel, and update the strips to its right."""
        f = self.f
        end = self.least(f.let(f"add i64 {first}, {self.panel}"), self.ends)

        def one(s: str) -> None:
            f.do(f"call void @{self.name}.pivoted(ptr {self.args}, i64 {s})")
            self.update((first, end), (s, f.let(f"add i64 {s}, 1")), s)

        f.count_to(end, one, first)
        self.update((end, self.strips), (first, end), "-1")

    def update(self, strips: tuple[str, str], by: tuple[str, str], but: str) -> None:
        """Update strips, except one, by some of L; ranges of strips are their first and the one after the last."""
        f, width = self.f, self.tile.width
        self.put(first=strips[0], low=by[0], high=by[1], but=but)
        items, terms = (f.let(f"sub i64 {end}, {first}") for first, end in (strips, by))
        rows = f.let(f"sub i64 {self.height}, {f.let(f'mul i64 {by[0]}, {width}')}")
        products = f.let(f"mul i64 {f.let(f'mul i64 {items}, {terms}')}, {width**2}")
        self.share("updated", items, f.let(f"mul i64 {products}, {rows}"))


def load_strips(writer: StripWriter) -> str:
    """The function that copies a matrix into strips."""
    f, tile = writer.f, writer.tile
    a, m = writer.field("a"), writer.field("m")

    def strip(c: str) -> None:
        start, base = f.let(f"mul i64 {c}, {tile.width}"), writer.strip(c)
        count = writer.columns_from(start)

        def row(i: str) -> None:
            line = writer.line(base, i)
            writer.copy_line(writer.writer.place(a, i, writer.n, start), line, count)
            f.count_to(str(tile.width), lambda j: f.store(tile.kind, "0.0", line, j), count)

        f.count_to(m, row)
        zeros = ["zeroinitializer"] * tile.vectors
        f.count_to(writer.height, lambda i: writer.writer.store_vectors(zeros, writer.line(base, i)), m)

    f.count_to("%high", strip, "%low")
    return f.text("ret void")


def store_strips(writer: StripWriter, panel: int) -> str:
    """The function that exchanges the rows of L as panels after theirs did, and copies strips into a matrix."""
    f, width = writer.f, writer.tile.width
    packed, m = writer.field("packed"), writer.field("m")

    def strip(c: str) -> None:
        start, base = f.let(f"mul i64 {c}, {width}"), writer.strip(c)
        count, after = writer.columns_from(start), f.let(f"add i64 {f.let(f'udiv i64 {c}, {panel}')}, 1")
        writer.exchange(base, f.let(f"mul i64 {after}, {panel * width}"), writer.pivots)

        def row(i: str) -> None:
            writer.copy_line(writer.line(base, i), writer.writer.place(packed, i, writer.n, start), count)

        f.count_to(m, row)

    f.count_to("%high", strip, "%low")
    return f.text("ret void")


def update_strips(writer: StripWriter) -> str:
    """The function that exchanges the rows of strips, solves for the rows of U in the strips right of a panel, and
    subtracts the products from the rows below."""
    f, tile = writer.f, writer.tile
    first, low, high, but = (writer.field(word) for word in ("first", "low", "high", "but"))
    top, bottom = f.let(f"mul i64 {low}, {tile.width}"), f.let(f"mul i64 {high}, {tile.width}")
    inside = writer.least(bottom, writer.height)

    def strip(item: str) -> None:
        c = f.let(f"add i64 {first}, {item}")
        base = writer.strip(c)

        def solve() -> None:
            writer.count_by(tile.rows, top, inside, partial(update_tile, writer, base, low=low, solved=True))
            below = partial(update_tile, writer, base, low=low, solved=False)
            writer.count_by(tile.rows, bottom, writer.height, below)

        def change() -> None:
            writer.exchange(base, top, writer.least(bottom, writer.pivots))
            f.when(f.let(f"icmp sge i64 {c}, {high}"), solve)

        f.when(f.let(f"icmp ne i64 {c}, {but}"), change)

    f.count_to("%high", strip, "%low")
    return f.text("ret void")


def update_tile(writer: StripWriter, base: str, r: str, low: str, solved: bool) -> None:
    """Take the products with the strips of L off the tile of a strip whose first row is r; those of U also end with
    the triangle of L in their own rows."""
    f, tile, tiles = writer.f, writer.tile, writer.writer
    width, high = tile.width, writer.field("high")
    places = [writer.line(base, f.let(f"add i64 {r}, {i}")) for i in range(tile.rows)]
    sums = [tiles.load_vectors(place, tile.vectors) for place in places]

    def left_lines(s: str) -> list[str]:
        strip = writer.strip(s)
        return [writer.line(strip, f.let(f"add i64 {r}, {i}")) for i in range(tile.rows)]

    def terms(s: str, *held: str) -> list[str]:
        start, lines = f.let(f"mul i64 {s}, {width}"), left_lines(s)
        count = writer.least(f.let(f"sub i64 {r}, {start}"), str(width)) if solved else str(width)
        upper = writer.line(base, start)
        rows = [held[i : i + tile.vectors] for i in range(0, len(held), tile.vectors)]
        new = tiles.minus_products(
            rows, count, lambda t: [f.load(tile.kind, line, t) for line in lines], lambda t: writer.line(upper, t)
        )
        return [f.let(f"add i64 {s}, 1"), *[x for row in new for x in row]]

    def going(s: str, *_: str) -> str:
        return f.let(f"icmp slt i64 {f.let(f'mul i64 {s}, {width}')}, {r}" if solved else f"icmp slt i64 {s}, {high}")

    flat = [x for row in sums for x in row]
    _, *after = f.loop(["i64", *[tile.vector] * len(flat)], [low, *flat], going, terms)
    found = [list(after[i : i + tile.vectors]) for i in range(0, len(after), tile.vectors)]
    if solved:
        own, column = left_lines(f.let(f"udiv i64 {r}, {width}")), f.let(f"urem i64 {r}, {width}")
        found = tiles.end_rows(
            found, lambda i, s: f.load(tile.kind, own[i], f.let(f"add i64 {column}, {s}")), divided=False
        )
    for place, vectors in zip(places, found, strict=True):
        tiles.store_vectors(vectors, place)
