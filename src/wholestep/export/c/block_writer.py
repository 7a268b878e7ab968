"""The text of blocks of sums: accumulators in variables of their own, and tails of fewer rows or columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wholestep import dtypes
from wholestep.export.c.accumulators import Steps
from wholestep.export.c.blocks import (
    Copies,
    Dependence,
    SumNest,
    find_sums,
    in_vectors,
    needed_for_sums,
    scalar_kind,
    store_of_sum,
    widened_load,
)
from wholestep.export.c.kernel import CKernelWriter
from wholestep.export.c.vectors import VectorType
from wholestep.kernel import c_scalars as scalars
from wholestep.kernel.lang import Loop, Var
from wholestep.kernel.summation import is_float_sum, sum_blocks

Cell = tuple[int, int]


class PartialSum(NamedTuple):
    """A vector or a number that a block of a sum adds up."""

    name: str
    kind: str
    zero: str


class BlockedKernelWriter(CKernelWriter):
    """A kernel whose sums are written in blocks where its schedule asks for that."""

    def whole(self, loop: Loop) -> None:
        nest = find_sums(loop, self.rows)
        if nest is not None:
            needed = needed_for_sums(nest, self.used)
            found = Dependence(nest)
            kind = in_vectors(nest, needed, found)
            if kind is not None:
                NestWriter(self, nest, needed, found, kind).write()
                return
        super().whole(loop)


class NestWriter:
    """The text of one nest."""

    def __init__(
        self, w: CKernelWriter, nest: SumNest, needed: Sequence[Var], found: Dependence, kind: VectorType
    ) -> None:
        self.w, self.nest, self.needed, self.found, self.kind = w, nest, needed, found, kind
        self.before = [v for v in needed if v in nest.before]
        self.inside = [v for v in needed if v not in nest.before]
        self.cells: dict[Var, dict[Cell, str]] = {}

    def write(self) -> None:
        """Write the sums of all rows and columns: whole blocks, then the remainder."""
        w, rows = self.w, self.nest.rows
        if rows is None:
            self.middle("0", 1)
            return
        axis = rows.axis
        tile = min(axis.tile, axis.extent)
        i, rest = w.number_of(axis), axis.extent % tile
        first = w.fresh("i")
        w.open(f"for (int64_t {first} = 0; {first} < {axis.extent - rest}; {first} += {tile})")
        self.middle(first, tile)
        w.close()
        if rest:
            self.middle(str(axis.extent - rest), rest)
        w.names[axis] = i

    def middle(self, row: str, rows: int) -> None:
        """The loops between rows and columns, then the columns."""
        w = self.w
        for loop in self.nest.between:
            i = w.number_of(loop.axis)
            w.open(f"for (int64_t {i} = 0; {i} < {loop.axis.extent}; {i}++)")
        self.columns(row, rows)
        for _ in self.nest.between:
            w.close()

    def columns(self, row: str, rows: int) -> None:
        """Write whole blocks of columns, whole vectors of the remainder, and the last columns one by one."""
        w, axis, lanes = self.w, self.nest.columns.axis, self.kind.lanes
        count = max(axis.block // lanes, 1)
        whole = axis.extent // (count * lanes) * count * lanes
        vectors = (axis.extent - whole) // lanes
        if whole:
            j = w.fresh("j")
            w.open(f"for (int64_t {j} = 0; {j} < {whole}; {j} += {count * lanes})")
            self.block(Copies(row, rows, j, [lanes] * count))
            w.close()
        if vectors:
            w.open("")
            self.block(Copies(row, rows, str(whole), [lanes] * vectors))
            w.close()
        done = whole + vectors * lanes
        if done < axis.extent:
            j = w.fresh("j")
            w.open(f"for (int64_t {j} = {done}; {j} < {axis.extent}; {j}++)")
            self.block(Copies(row, rows, j, [1]))
            w.close()

    # -- one block ---------------------------------------------------------------------------------------------------

    def block(self, at: Copies) -> None:
        """Write the sums of some rows and columns, and the statements after them."""
        w, outside = self.w, dict(self.w.names)
        self.cells = {}
        for v in self.before:
            self.value(v, at)
        sums = [
            self.accumulators(f.result, first, at) for f, first in zip(self.nest.folds, self.nest.first, strict=True)
        ]
        self.sum_over(self.nest.sums, sums, at)
        self.follow(sums, at)
        w.names = outside | {
            key: name for key, name in w.names.items() if key not in outside and not isinstance(key, Var)
        }

    def sum_over(self, loops: Sequence[Loop], held: list[dict[Cell, str]], at: Copies) -> None:
        """The loops of the sums, the outermost first; a sum that rounds begins at zero, and is added at its end."""
        w, axis = self.w, loops[0].axis
        own, added = list(held), []
        for n, f in enumerate(self.nest.folds):
            if is_float_sum(f):
                own[n] = {cell: w.fresh("s") for cell in held[n]}
                added += self.partial_sums(own[n], at)
        for a in added:
            w.put(f"{a.kind} {a.name} = {a.zero};")
        full = axis.extent // axis.block

        def steps(start: str, end: str) -> None:
            self.steps(loops, own, at, *[n if axis.block == 1 else f"{n} * {axis.block}" for n in (start, end)])

        blocks = sum_blocks(full) if added else ()
        if blocks:
            self.blocked(added, "0", str(full), blocks, steps)
            if axis.extent % axis.block:
                self.steps(loops, own, at, str(full * axis.block), str(axis.extent))
        else:
            self.steps(loops, own, at, "0", str(axis.extent))
        for before, after in zip(held, own, strict=True):
            if before is not after:
                for cell, name in before.items():
                    w.put(f"{name} = {self.added(name, after[cell], at.widths[cell[1]] > 1)};")

    def partial_sums(self, names: dict[Cell, str], at: Copies) -> list[PartialSum]:
        """The accumulators of a sum that begins at zero."""
        return [
            PartialSum(name, self.kind.name, self.kind.splat(f"({self.kind.element})0"))
            if at.widths[c] > 1
            else PartialSum(name, self.kind.element, "0")
            for (_, c), name in names.items()
        ]

    def blocked(self, sums: Sequence[PartialSum], start: str, end: str, blocks: tuple[int, ...], steps: Steps) -> None:
        """Steps in blocks of these lengths, outermost first, whose sums start at zero and are added up."""
        if not blocks:
            steps(start, end)
            return
        w = self.w
        first, last = w.fresh("t"), w.fresh("t")
        w.open(f"for (int64_t {first} = {start}; {first} < {end}; {first} += {blocks[0]})")
        w.put(f"const int64_t {last} = {first} + {blocks[0]} < {end} ? {first} + {blocks[0]} : {end};")
        before = [w.fresh("s") for _ in sums]
        for a, old in zip(sums, before, strict=True):
            w.put(f"const {a.kind} {old} = {a.name};")
            w.put(f"{a.name} = {a.zero};")
        self.blocked(sums, first, last, blocks[1:], steps)
        for a, old in zip(sums, before, strict=True):
            w.put(f"{a.name} = {self.added(old, a.name, a.kind == self.kind.name)};")
        w.close()

    def added(self, x: str, y: str, in_vectors: bool) -> str:
        """The sum of two partial sums."""
        return self.kind.applied("add", x, y) if in_vectors else f"{x} + {y}"

    def steps(self, loops: Sequence[Loop], own: list[dict[Cell, str]], at: Copies, start: str, end: str) -> None:
        """The steps of a loop from one number to another, and in them the loops inside."""
        w = self.w
        i = w.fresh("i")
        w.names[loops[0].axis] = i
        w.open(f"for (int64_t {i} = {start}; {i} < {end}; {i}++)")
        if len(loops) > 1:
            self.sum_over(loops[1:], own, at)
        else:
            for v in self.inside:
                self.value(v, at)
            for f, names in zip(self.nest.folds, own, strict=True):
                for (a, c), held in names.items():
                    given = [self.operand(v, a, c, at.widths[c]) for v in f.values]
                    w.put(self.accumulated(f.op, held, given, f.result, at.widths[c]))
        w.close()

    def accumulators(self, v: Var, first: Var, at: Copies) -> dict[Cell, str]:
        """A variable for each row and vector, set to the initial value of its sum."""
        w, names = self.w, {}
        for a in range(at.rows):
            for c, width in enumerate(at.widths):
                names[a, c] = name = w.fresh("s")
                w.put(f"{self.type_of(v, width)} {name} = {self.operand(first, a, c, width)};")
        return names

    def type_of(self, v: Var, width: int) -> str:
        """The C type of a value of some columns."""
        return self.kind.name if width > 1 else scalar_kind(v)

    def value(self, v: Var, at: Copies) -> None:
        """A value for each row and vector that it differs in; vectors of halves are read where they are widened."""
        w, (of_row, of_column) = self.w, self.found.of(v)
        if v.op == "const":
            w.value(v)
            return
        if scalars.is_word(v.dtype) and of_column and at.widths[0] > 1:
            return
        own: dict[Cell, str] = {}
        for a in range(at.rows if of_row else 1):
            for c in range(len(at.widths) if of_column else 1):
                width = at.widths[c] if of_column else 1
                self.stand_at(at, a, c)
                text = self.expression(v, a, c, width)
                own[a, c] = name = w.fresh()
                w.put(f"const {self.type_of(v, width)} {name} = {text};")
        self.cells[v] = own
        w.names[v] = own[0, 0]

    def stand_at(self, at: Copies, a: int, c: int) -> None:
        """Set the names of the loops' variables to those of a row and a vector."""
        if self.nest.rows is not None:
            self.w.names[self.nest.rows.axis] = at.row_at(a)
        self.w.names[self.nest.columns.axis] = at.column_at(c)

    def cell(self, v: Var, a: int, c: int) -> str:
        """The name of a value at a row and a vector."""
        if v not in self.cells:
            return self.w.names[v]
        of_row, of_column = self.found.of(v)
        return self.cells[v][a if of_row else 0, c if of_column else 0]

    def operand(self, v: Var, a: int, c: int, width: int) -> str:
        """A value as an operand of some columns."""
        name = self.cell(v, a, c)
        return name if width == 1 or self.found.of(v)[1] else self.kind.splat(name)

    def expression(self, v: Var, a: int, c: int, width: int) -> str:
        """The C expression of a value of some columns."""
        w = self.w
        half = width > 1 and widened_load(v)
        names = {x: self.cell(x, a, c) for x in (v.args[0] if half else v).reads()}
        if width == 1:
            outside = {x: w.names.get(x) for x in names}
            w.names.update(names)
            text = w.expression(v)
            w.names.update({x: name for x, name in outside.items() if name is not None})
            return text
        if half or v.op == "load":
            return self.loaded(v.args[0] if half else v, names, width)
        args = [self.operand(x, a, c, width) for x in v.args]
        return self.kind.applied(v.op, *args)

    def loaded(self, v: Var, names: dict[Var, str], width: int) -> str:
        """Some columns of a buffer."""
        w, (buffer, index) = self.w, v.attr
        w.names.update(names)
        stride = index.coefficient(self.nest.columns.axis)
        place = f"{w.names[buffer]} + {w.index(index)}"
        convert = f"ws_from_{dtypes.short(buffer.dtype)}" if scalars.is_word(buffer.dtype) else ""
        if stride == 1:
            return f"{convert}_{self.kind.short}({place})" if convert else f"*(const {self.kind.loose} *)({place})"
        parts = [f"{convert}(({place})[{stride * n}])" for n in range(width)]
        return self.kind.gathered(parts)

    def accumulated(self, op: str, held: str, given: Sequence[str], v: Var, width: int) -> str:
        """The statement by which a sum takes one more term."""
        if width == 1:
            return scalars.combined(op, held, given, v.dtype)
        operands = (*given, held) if op == "fma" else (held, *given)
        return f"{held} = {self.kind.applied(op, *operands)};"

    # -- statements after the sums -----------------------------------------------------------------------------------

    def follow(self, sums: Sequence[dict[Cell, str]], at: Copies) -> None:
        """The statements after the sums, for each row and column."""
        store = store_of_sum(self.nest, self.w.used)
        if store is not None:
            for (a, c), name in sums[0].items():
                self.stand_at(at, a, c)
                place = f"{self.w.names[store.buffer]} + {self.w.index(store.index)}"
                kind = self.kind.loose if at.widths[c] > 1 else scalar_kind(store.value)
                self.w.put(f"*({kind} *)({place}) = {name};")
            return
        pairs = zip(self.nest.results, sums, strict=True)
        self.each({v: self.spilled(names, at) for v, names in pairs if v in self.w.used}, at)

    def spilled(self, names: dict[Cell, str], at: Copies) -> str:
        """An array with the sums, row by row."""
        w = self.w
        array = w.fresh("sums")
        w.put(f"{self.kind.element} {array}[{at.rows}][{sum(at.widths)}];")
        for (a, c), name in names.items():
            place = f"{array}[{a}][{sum(at.widths[:c])}]"
            w.put(f"*({self.kind.loose} *)&{place} = {name};" if at.widths[c] > 1 else f"{place} = {name};")
        return array

    def each(self, arrays: Mapping[Var, str], at: Copies) -> None:
        """The statements after the sums, which lie in these arrays, one element at a time."""
        w, nest = self.w, self.nest
        a, c = w.fresh("a"), w.fresh("c")
        w.open(f"for (int64_t {a} = 0; {a} < {at.rows}; {a}++)")
        w.put("WS_INDEPENDENT")
        w.open(f"for (int64_t {c} = 0; {c} < {sum(at.widths)}; {c}++)")
        if nest.rows is not None:
            w.names[nest.rows.axis] = f"({at.row} + {a})"
        w.names[nest.columns.axis] = f"({at.column} + {c})"
        for v, array in arrays.items():
            w.names[v] = f"{array}[{a}][{c}]"
        wanted = {x for s in nest.after for x in s.reads()} if nest.after else set()  # type: ignore[union-attr]
        again = []
        for v in reversed(nest.before):
            if v in wanted:
                again.append(v)
                wanted |= set(v.reads())
        w.body([*reversed(again), *nest.after])
        w.close()
        w.close()
