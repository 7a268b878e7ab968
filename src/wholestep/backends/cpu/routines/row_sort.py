"""Sort of rows by a network: keys become the records of a matrix, and its columns go back where they belong.

Short rows are columns, as many at a time as a vector has lanes; a long one is cut into columns that are merged.
"""

from __future__ import annotations

from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.routines.equal_keys import FloatKeys, restore_text
from wholestep.backends.cpu.routines.sorting_lanes import Lanes, Record, transposed
from wholestep.backends.cpu.routines.sorting_network import BASE, network_text
from wholestep.backends.cpu.target.row_sort import RowSort


def row_sort_text(name: str, sort: RowSort) -> str:
    """Return `void name(keys, result, scratch, rows)`: the result is the order as int64, or the sorted keys."""
    writer = RowSortWriter(name, sort)
    network = network_text(name, writer.lanes, across=not sort.beside)
    restore = restore_text(f"{name}.restore", FloatKeys(sort.bits)) if sort.floats else ""
    return network + restore + (writer.rows_beside() if sort.beside else writer.row_by_row())


def row_sort_declarations(sort: RowSort) -> tuple[str, ...]:
    """The declarations that the function needs."""
    minimum = "declare i64 @llvm.smin.i64(i64, i64)"
    memmove = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)"
    return (*Lanes(sort.parts, sort.lanes, sort.height).declarations, minimum, memmove)


class RowSortWriter:
    """The function that sorts rows, under emission."""

    def __init__(self, name: str, sort: RowSort) -> None:
        arguments = (("ptr", "keys"), ("ptr", "result"), ("ptr", "matrix"), ("i64", "rows"))
        self.name, self.sort, self.f = name, sort, FunctionBuilder("void", name, arguments, exported=True)
        self.lanes = Lanes(sort.parts, sort.lanes, sort.height)
        self.n, self.width = sort.n, sort.lanes
        self.key, self.flags = f"i{sort.bits}", f"<{sort.lanes} x i1>"
        self.moved = "i32" if sort.ordered else self.key
        """The type of an element of the result while it is moved."""
        self.result = "i64" if sort.ordered else self.key

    # Records.

    def record(self, keys: str, positions: str) -> Record:
        """The records of a vector of keys and one of their positions, which are integers as wide as the last part."""
        f, parts = self.f, self.sort.parts
        kind = self.lanes.kind(parts[0])
        word = keys if parts[0] == self.sort.bits else f.let(f"zext {self.lanes.kind(self.sort.bits)} {keys} to {kind}")
        if not self.sort.ordered:
            return (word,)
        if len(parts) > 1:
            return (word, positions)
        shift = parts[0] - self.sort.bits
        return (f.let(f"or {kind} {f.let(f'shl {kind} {word}, splat (i{parts[0]} {shift})')}, {positions}"),)

    def write(self, record: Record, row: str) -> None:
        """Write a row of the matrix."""
        self.lanes.store(self.f, record, self.lanes.row(self.f, row))

    def elements(self, row: str) -> str:
        """The elements of the result that the records in a row of the matrix stand for."""
        f, (bits, *more) = self.f, self.sort.parts
        record = self.lanes.load(f, self.lanes.row(f, row))
        kind, moved = self.lanes.kind(bits), f"<{self.width} x {self.moved}>"
        if more:
            return record[1]
        if not self.sort.ordered:
            return record[0] if bits == self.sort.bits else f.let(f"trunc {kind} {record[0]} to {moved}")
        mask = (1 << (bits - self.sort.bits)) - 1
        place = f.let(f"and {kind} {record[0]}, splat (i{bits} {mask})")
        return place if bits == 32 else f.let(f"trunc {kind} {place} to {moved}")

    def lines(self, row: str) -> tuple[str, str]:
        """The addresses of a row of keys and of its result."""
        line = self.f.let(f"mul i64 {row}, {self.n}")
        return self.f.at("%keys", line, self.sort.bits // 8), self.f.at("%result", line, self.sort.result_bytes)

    def fill(self, first: int) -> None:
        """Write records that come last from a row of the matrix on."""
        if first < self.sort.height:
            last = self.lanes.last()
            self.f.count_to(str(self.sort.height), lambda row: self.write(last, row), str(first))

    def load_keys(self, base: str, index: str) -> str:
        """As many keys as there are lanes."""
        place = self.f.at(base, index, self.sort.bits // 8)
        return self.f.let(f"load {self.lanes.kind(self.sort.bits)}, ptr {place}, align {self.sort.bits // 8}")

    def store_results(self, moved: str, base: str, index: str) -> None:
        """Write as many elements of the result as there are lanes."""
        f, kind = self.f, f"<{self.width} x {self.result}>"
        wide = f.let(f"zext <{self.width} x i32> {moved} to {kind}") if self.sort.ordered else moved
        f.do(f"store {kind} {wide}, ptr {f.at(base, index, self.sort.result_bytes)}, align {self.sort.result_bytes}")

    # Rows beside each other.

    def rows_beside(self) -> str:
        """The function for short rows, `lanes` of them at a time; the last row fills the lanes beyond it."""
        f = self.f
        blocks = -(-self.n // self.width)
        self.fill(self.n if self.n >= self.width else 0)
        count = -(-self.n // BASE) * BASE
        final = f.let("sub i64 %rows, 1")

        def batch(start: str) -> list[str]:
            rows = [f.let(f"add i64 {start}, {lane}") for lane in range(self.width)]
            rows = [f.let(f"call i64 @llvm.smin.i64(i64 {row}, i64 {final})") for row in rows]
            keys, results = map(list, zip(*map(self.lines, rows), strict=True))
            if self.n < self.width:
                self.columns_in(keys)
            else:
                f.count_to(str(blocks), lambda block: self.block_in(keys, self.block_start(block)))
            f.do(f"call void @{self.name}.columns(ptr %matrix, i64 {count})")
            if self.n < self.width:
                self.columns_out(results)
            else:
                f.count_to(str(blocks), lambda block: self.block_out(results, self.block_start(block)))
            following = f.let(f"add i64 {start}, {self.width}")
            if self.sort.floats:
                end = f.let(f"call i64 @llvm.smin.i64(i64 {following}, i64 %rows)")
                f.count_to(end, lambda row: self.restore(*self.lines(row)), start)
            return [following]

        f.loop(["i64"], ["0"], lambda start: f.let(f"icmp slt i64 {start}, %rows"), batch)
        return f.text("ret void")

    def block_start(self, block: str) -> str:
        """The first column of a block; the last block ends with the row, and may overlap the one before."""
        start = self.f.let(f"mul i64 {block}, {self.width}")
        return self.f.let(f"call i64 @llvm.smin.i64(i64 {start}, i64 {self.n - self.width})")

    def splat(self, number: str) -> str:
        """A position in all lanes, as the last part of a record has it."""
        f, bits = self.f, self.sort.parts[-1]
        kind = self.lanes.kind(bits)
        narrow = number if bits == 64 else f.let(f"trunc i64 {number} to i{bits}")
        first = f.let(f"insertelement {kind} poison, i{bits} {narrow}, i64 0")
        return f.let(f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer")

    def block_in(self, rows: list[str], start: str) -> None:
        """A square block of keys into as many rows of the matrix."""
        block = transposed(self.f, self.lanes.kind(self.sort.bits), [self.load_keys(row, start) for row in rows])
        for j, keys in enumerate(block):
            at = self.f.let(f"add i64 {start}, {j}")
            self.write(self.record(keys, self.splat(at) if self.sort.ordered else ""), at)

    def block_out(self, rows: list[str], start: str) -> None:
        """As many rows of the matrix as a square block of the result."""
        places = [self.f.let(f"add i64 {start}, {j}") for j in range(self.width)]
        found = [self.elements(at) for at in places]
        for row, moved in zip(rows, transposed(self.f, f"<{self.width} x {self.moved}>", found), strict=True):
            self.store_results(moved, row, start)

    def columns_in(self, rows: list[str]) -> None:
        """Rows shorter than a vector into the matrix, one column of keys after the other."""
        f, kind = self.f, self.lanes.kind(self.sort.bits)

        def column(at: str) -> None:
            keys = "poison"
            for lane, row in enumerate(rows):
                keys = f.let(f"insertelement {kind} {keys}, {self.key} {f.load(self.key, row, at)}, i64 {lane}")
            self.write(self.record(keys, self.splat(at) if self.sort.ordered else ""), at)

        f.count_to(str(self.n), column)

    def columns_out(self, rows: list[str]) -> None:
        """Rows of the matrix to rows of the result that are shorter than a vector."""
        f, kind = self.f, f"<{self.width} x {self.moved}>"

        def column(at: str) -> None:
            found = self.elements(at)
            for lane, row in enumerate(rows):
                moved = f.let(f"extractelement {kind} {found}, i64 {lane}")
                self.put(moved, row, at)

        f.count_to(str(self.n), column)

    def put(self, moved: str, base: str, index: str) -> None:
        """Write one element of the result."""
        wide = self.f.let(f"zext i32 {moved} to i64") if self.sort.ordered else moved
        self.f.store(self.result, wide, base, index)

    # One row after the other.

    def row_by_row(self) -> str:
        """The function for long rows: vectors of keys are rows of the matrix, sorted columns are merged."""
        f, n, width = self.f, self.n, self.width
        full, rest = divmod(n, width)
        count = full + bool(rest)
        padded = f.at("%matrix", str(self.sort.matrix_bytes), 1)

        def sort_row(row: str) -> None:
            keys, result = self.lines(row)
            self.fill(count)
            f.count_to(str(full), lambda at: self.vector_in(at, self.load_keys(keys, f.let(f"mul i64 {at}, {width}"))))
            if rest:
                self.rest_in(str(full), keys, rest)
            f.do(f"call void @{self.name}.columns(ptr %matrix, i64 {-(-count // BASE) * BASE})")
            f.do(f"call void @{self.name}.lanes(ptr %matrix)")
            self.row_out(padded)
            size = n * self.sort.result_bytes
            f.do(f"call void @llvm.memmove.p0.p0.i64(ptr {result}, ptr {padded}, i64 {size}, i1 0)")
            if self.sort.floats:
                self.restore(keys, result)

        f.count_to("%rows", sort_row)
        return f.text("ret void")

    def positions(self, row: str) -> str:
        """The positions of the keys in a row of the matrix."""
        f, bits = self.f, self.sort.parts[-1]
        first = self.splat(f.let(f"mul i64 {row}, {self.width}"))
        steps = ", ".join([f"i{bits} {lane}" for lane in range(self.width)])
        return f.let(f"add {self.lanes.kind(bits)} {first}, <{steps}>")

    def vector_in(self, row: str, keys: str) -> None:
        """A vector of keys into a row of the matrix."""
        self.write(self.record(keys, self.positions(row) if self.sort.ordered else ""), row)

    def rest_in(self, row: str, keys: str, rest: int) -> None:
        """The last keys, fewer than lanes, into a row of the matrix, before records that come last."""
        f, found = self.f, f"splat ({self.key} -1)"
        for lane in range(rest):
            key = f.load(self.key, keys, str(int(row) * self.width + lane))
            found = f.let(f"insertelement {self.lanes.kind(self.sort.bits)} {found}, {self.key} {key}, i64 {lane}")
        picks = [lane if lane < rest else lane + self.width for lane in range(self.width)]
        record = self.record(found, self.positions(row) if self.sort.ordered else "")
        self.write(self.lanes.pick(f, record, self.lanes.last(), picks), row)

    def row_out(self, padded: str) -> None:
        """The columns of the matrix to one after the other."""
        f, width = self.f, self.width

        def block(number: str) -> None:
            start = f.let(f"mul i64 {number}, {width}")
            places = [f.let(f"add i64 {start}, {j}") for j in range(width)]
            found = [self.elements(at) for at in places]
            for lane, moved in enumerate(transposed(f, f"<{width} x {self.moved}>", found)):
                self.store_results(moved, padded, f.let(f"add i64 {start}, {lane * self.sort.height}"))

        f.count_to(str(self.sort.height // width), block)

    def restore(self, keys: str, result: str) -> None:
        """Put equal keys of a row in the order in which they came."""
        self.f.do(f"call void @{self.name}.restore(ptr {keys}, ptr {result}, i64 {self.n})")
