"""Blocks of sums: rows and vectors of columns side by side in registers, as the schedule of a kernel asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wholestep.export.c.vectors import IN_VECTORS, VectorType, vector_of
from wholestep.kernel import c_scalars as scalars
from wholestep.kernel.lang import Axis, Fold, Loop, Statement, Store, Var

FOLDS = ("add", "mul", "fma")
MOST_LANES = 64


class SumNest(NamedTuple):
    """Independent loops around sums: rows in register tiles, columns in vectors, and the loops that are summed over."""

    rows: Loop | None
    between: tuple[Loop, ...]
    """Loops between rows and columns, whose bodies contain only values and the next loop."""
    columns: Loop
    before: tuple[Var, ...]
    """The values in front of the sums, in all these loops."""
    sums: tuple[Loop, ...]
    """The loops that are summed over, the outermost first; all but the last carry the sums that the last one folds."""
    after: tuple[Statement, ...]

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The sums."""
        return self.sums[-1].folds

    @property
    def first(self) -> tuple[Var, ...]:
        """The value that each sum begins with."""
        return tuple([c.init for c in self.sums[0].carries] or [f.init for f in self.folds])

    @property
    def results(self) -> tuple[Var, ...]:
        """The values that the sums are afterwards."""
        return tuple([c.after for c in self.sums[0].carries] or [f.result for f in self.folds])


def find_sums(loop: Loop, rows_across: Iterable[Axis]) -> SumNest | None:
    """The nest that begins at a loop; None where its sums are not written in blocks."""
    before: list[Var] = []
    chain = [loop]
    while True:
        own = chain[-1]
        if not own.independent or own.guard is not None or own.axis in rows_across or own.axis.symbolic:
            return None
        inner = [s for s in own.body if isinstance(s, Loop)]
        if len(inner) != 1:
            return None
        at = own.body.index(inner[0])
        if not all(isinstance(s, Var) for s in own.body[:at]):
            return None
        before += [s for s in own.body[:at] if isinstance(s, Var)]
        if not inner[0].independent:
            return nest_of(chain, before, inner[0], own.body[at + 1 :], rows_across)
        if at != len(own.body) - 1:
            return None
        chain.append(inner[0])


def nest_of(
    chain: Sequence[Loop], before: Sequence[Var], first: Loop, after: tuple[Statement, ...], rows_across: Iterable[Axis]
) -> SumNest | None:
    """The nest of these independent loops around a sum."""
    columns = [loop for loop in chain if loop.axis.lanes > 1]
    rows = [loop for loop in chain if loop.axis.lanes == 1 and loop.axis.tile > 1]
    sums = tuple(summed_loops(first))
    fine = (
        len(columns) == 1
        and len(rows) < 2
        and sums
        and not any(s.axis in rows_across or s.axis.lanes > 1 for s in sums)
    )
    if not fine or not all(isinstance(s, Var | Store) for s in after):
        return None
    row = rows[0] if rows else None
    ends = (row, columns[0])
    if chain[0] not in ends or (row is not None and chain[0] is not row and len(chain) > 2):
        return None
    between = tuple([loop for loop in chain if loop not in ends])
    return SumNest(row, between, columns[0], tuple(before), sums, after)


def summed_loops(loop: Loop) -> Iterator[Loop]:
    """The loops of a sum, where each but the last only carries the results of the next one; none for another loop."""
    found = [loop]
    while found[-1].carries:
        own = found[-1]
        inner = own.body[-1]
        plain = not own.ordered and not own.folds and own.guard is None and len(own.body) == 1
        if not plain or not isinstance(inner, Loop) or not handed_on(own, inner):
            return
        found.append(inner)
    last = found[-1]
    if last.folds and not last.ordered and last.guard is None and all(isinstance(s, Var) for s in last.body):
        yield from found


def handed_on(own: Loop, inner: Loop) -> bool:
    """True if an inner loop's sums start from the values that an outer one carries and become its next ones."""
    first = [c.init for c in inner.carries] or [f.init for f in inner.folds]
    left = [c.after for c in inner.carries] or [f.result for f in inner.folds]
    return first == [c.inside for c in own.carries] and left == [c.next for c in own.carries]


class Copies:
    """The place of one block: the first row and column as C, how many rows, and the width of each vector of columns."""

    def __init__(self, row: str, rows: int, column: str, widths: Sequence[int]) -> None:
        self.row, self.rows, self.column, self.widths = row, rows, column, widths

    def row_at(self, a: int) -> str:
        """A row."""
        return f"({self.row} + {a})" if a else self.row

    def column_at(self, c: int) -> str:
        """The first column of a vector."""
        at = sum(self.widths[:c])
        return f"({self.column} + {at})" if at else self.column


class Dependence:
    """The axes of a nest, of rows and of columns, that a value depends on."""

    def __init__(self, nest: SumNest) -> None:
        self.row = nest.rows.axis if nest.rows is not None else None
        self.column = nest.columns.axis
        self.known: dict[Var, tuple[bool, bool]] = {}

    def of(self, v: Var) -> tuple[bool, bool]:
        """Of the row, of the column."""
        if v not in self.known:
            parts = [self.of(x) for x in v.reads()]
            own = v.index.terms
            self.known[v] = (
                self.row in own or any(p[0] for p in parts),
                self.column in own or any(p[1] for p in parts),
            )
        return self.known[v]


def in_vectors(nest: SumNest, needed: Sequence[Var], found: Dependence) -> VectorType | None:
    """The vectors of a nest: None where something that varies along the columns cannot be said in them."""
    kinds = {f.result.dtype for f in nest.folds}
    kind = vector_of(nest.folds[0].result.dtype, nest.columns.axis.lanes)
    if len(kinds) != 1 or kind is None or any(f.op not in FOLDS for f in nest.folds):
        return None
    for v in needed:
        if not found.of(v)[1]:
            continue
        plain = v.op in (*IN_VECTORS, "fma") or widened_load(v)
        loaded = v.op == "load" and not v.args and not any(found.of(x)[1] for x in v.index.values())
        if loaded and scalars.is_word(v.dtype) and all(widened_load(x) for x in needed if v in x.args):
            continue
        if v.dtype not in kinds or not (plain or loaded):
            return None
    for f in nest.folds:
        if any(v.dtype not in kinds for v in f.values):
            return None
    return kind if max(nest.columns.axis.block, 1) <= MOST_LANES else None


def widened_load(v: Var) -> bool:
    """True for a load of a half-precision number, converted to float32."""
    return (
        v.op == "convert" and v.dtype == scalars.FLOAT and v.args[0].op == "load" and scalars.is_word(v.args[0].dtype)
    )


def needed_for_sums(nest: SumNest, used: set[Var]) -> list[Var]:
    """The values that the sums depend on, in order: first those before the loops, then those inside."""
    inside = [s for s in nest.sums[-1].body if isinstance(s, Var) and s in used]
    wanted = {v for f in nest.folds for v in f.values} | set(nest.first)
    for v in reversed(inside):
        wanted |= set(v.reads())
    before = []
    for v in reversed(nest.before):
        if v in wanted:
            before.append(v)
            wanted |= set(v.reads())
    return [*reversed(before), *inside]


def store_of_sum(nest: SumNest, used: set[Var]) -> Store | None:
    """The store of a nest whose only use of its sum is this store; None for other nests."""
    rest = [s for s in nest.after if not isinstance(s, Var) or s in used]
    if len(rest) != 1 or not isinstance(rest[0], Store) or len(nest.folds) != 1:
        return None
    store = rest[0]
    fits = store.guard is None and store.value is nest.results[0] and store.index.coefficient(nest.columns.axis) == 1
    return store if fits and not store.index.values() and store.buffer.dtype == store.value.dtype else None


def scalar_kind(v: Var) -> str:
    """The C type of a value."""
    return scalars.value_type(v.dtype)
