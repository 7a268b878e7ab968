"""Contraction nest: a kernel that folds products, as its rows, columns, terms, prologue and epilogue."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.build import named_by
from wholestep.kernel.collapse_loops import lone_loops
from wholestep.kernel.lang import Axis, Buffer, DType, Fold, Kernel, Loop, Statement, Store, Var, walk

ROWS, COLUMNS, RESULTS = "rows", "columns", "results"
"""The roles of a buffer: the operand that varies along the rows, that along the columns, and the results."""
ROLES = (ROWS, COLUMNS, RESULTS)


@dataclass(frozen=True, eq=False)
class ContractionNest:
    """Sums of products over `terms`, one for each point of `batch`, `rows` and `columns`; the last ones are blocked.

    Both operands vary along the axes of the batch, and one of them along those of the rows or the columns. The last
    column runs along the lanes of vectors. Terms are added axis by axis, the outermost first.
    """

    kernel: Kernel
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    terms: tuple[Axis, ...]
    fold: Fold
    result: Var
    """A complete sum."""
    row_operand: Var
    column_operand: Var
    prologue: tuple[Var, ...]
    """The prologue: every value that is computed before the sum is complete, in order."""
    epilogue: tuple[Statement, ...]
    """The statements after the complete sum."""

    @property
    def dtype(self) -> DType:
        """The dtype of the sums."""
        return self.result.dtype

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return math.prod([a.extent for a in self.rows])

    @property
    def column_count(self) -> int:
        """The number of columns."""
        return math.prod([a.extent for a in self.columns])

    @property
    def term_count(self) -> int:
        """The number of terms of a sum."""
        return math.prod([a.extent for a in self.terms])

    @cached_property
    def plain_store(self) -> Store | None:
        """The unguarded store of the sum that is the whole epilogue; None for other epilogues."""
        if len(self.epilogue) != 1 or not isinstance(self.epilogue[0], Store):
            return None
        store = self.epilogue[0]
        return store if store.value is self.result and store.guard is None else None

    @cached_property
    def row_values(self) -> tuple[Var, ...]:
        """The values that the row operand is computed from, itself included."""
        return needed_values(self.prologue, [self.row_operand])

    @cached_property
    def column_values(self) -> tuple[Var, ...]:
        """The values that the column operand is computed from, itself included."""
        return needed_values(self.prologue, [self.column_operand])

    @cached_property
    def result_values(self) -> tuple[Var, ...]:
        """The values made before the sum that the epilogue reads."""
        return needed_values(self.prologue, values_read(self.epilogue))

    @cached_property
    def multiplies_bf16(self) -> bool:
        """True if both operands are bfloat16 numbers, in float32."""
        return all(
            v.op == "convert" and v.dtype == np.float32 and v.args[0].dtype.name == "bfloat16"
            for v in (self.row_operand, self.column_operand)
        )

    def statements(self, role: str) -> tuple[Statement, ...]:
        """The statements that access the buffers of a role."""
        if role == ROWS:
            return self.row_values
        return self.column_values if role == COLUMNS else (*self.result_values, *self.epilogue)

    def stride(self, role: str, buffer: Buffer, axis: Axis) -> int:
        """The stride, in elements, of the accesses to a buffer along an axis that is `separable`."""
        offsets = [a.offset for a in memory_accesses(self.statements(role)) if a.buffer is buffer]
        return offsets[0].coefficient(axis) if offsets else 0

    def lies_packed(self, terms: Sequence[int], columns: int, panel: int) -> bool:
        """True if a block of these terms and columns already has the packed layout: one panel, term by term."""
        if len(self.column_values) != 1 or columns > panel:
            return False
        (load,) = memory_accesses(self.column_values)
        steps = [load.offset.coefficient(axis) for axis in self.terms]
        wanted = steps[-1]
        if load.offset.coefficient(self.columns[-1]) != 1 or wanted < columns or panel % max(wanted, 1):
            return False
        for step, extent in zip(reversed(steps), reversed(terms), strict=True):
            if extent > 1 and step != wanted:
                return False
            wanted *= extent
        return True

    def counted(self, axis: Axis) -> bool:
        """True if a value is computed from the index along an axis, as that of a mask is."""
        values = [s for role in ROLES for s in walk(self.statements(role)) if isinstance(s, Var)]
        return any(s.op != "load" and axis in named_by(s) for s in values)

    def movable(self, axis: Axis) -> bool:
        """True if every part of an axis is the same code, at other offsets in its buffers."""
        return self.separable(axis) and not self.counted(axis)

    def separable(self, axis: Axis) -> bool:
        """True if a step along an axis moves every access to a buffer by the same number of elements."""
        for role in ROLES:
            strides: dict[Buffer, int] = {}
            for access in memory_accesses(self.statements(role)):
                stride = access.offset.coefficient(axis)
                unknown = stride and access.offset.values()
                if stride < 0 or unknown or strides.setdefault(access.buffer, stride) != stride:
                    return False
        return True


def runs_along(statements: Sequence[Statement], axis: Axis) -> bool:
    """True if every load has a stride of 1 or 0 along an axis."""
    found = [a.offset.coefficient(axis) for a in memory_accesses(statements)]
    return bool(found) and all(c in (0, 1) for c in found)


def values_read(statements: Sequence[Statement]) -> list[Var]:
    """The values that statements read."""
    return [v for s in walk(tuple(statements)) if isinstance(s, Var | Store | Loop) for v in s.reads()]


def needed_values(values: Sequence[Var], wanted: Iterable[Var]) -> tuple[Var, ...]:
    """Those of some values, in their order, from which the wanted ones are computed."""
    needed = set(wanted)
    for v in reversed(values):
        if v in needed:
            needed.update(v.reads())
    return tuple([v for v in values if v in needed])


def find_contraction(kernel: Kernel) -> ContractionNest | None:
    """A kernel as a contraction nest; None where it is no contraction, or its sums are not chains of their terms.

    One of the operands, or both, must vary along each independent axis.
    """
    values: list[Var] = []
    grid: list[Axis] = []
    body: Sequence[Statement] = kernel.body
    for outer in lone_loops(kernel):
        if any(isinstance(s, Store) for s in body):
            break
        values += [s for s in body if isinstance(s, Var)]
        grid.append(outer.axis)
        body = outer.body
    at = next((i for i, s in enumerate(body) if isinstance(s, Loop)), None)
    if at is None or not all(isinstance(s, Var) for s in body[:at]):
        return None
    loop = body[at]
    assert isinstance(loop, Loop)
    loops = product_sum(loop)
    if not loops or any(a.symbolic for a in (*grid, *[x.axis for x in loops])):
        return None
    values += [s for s in (*body[:at], *[s for x in loops for s in x.body]) if isinstance(s, Var)]
    return with_roles(kernel, values, grid, loops, tuple(body[at + 1 :]))


def product_sum(loop: Loop) -> tuple[Loop, ...]:
    """The nested loops of a sum of float products, added in order from 0; empty where a loop computes anything else."""
    loops: list[Loop] = []
    start = (loop.carries or loop.folds)[0].init if loop.carries or loop.folds else None
    if start is None or start.op != "const" or start.attr != 0:
        return ()
    while loop.guard is None and loop.axis.lanes == 1 and all(isinstance(s, Var | Loop) for s in loop.body):
        loops.append(loop)
        inner = [s for s in loop.body if isinstance(s, Loop)]
        values = [s for s in loop.body if isinstance(s, Var)]
        if any(s.op == "across" for s in values):
            return ()
        if not inner:
            return tuple(loops) if adds_products(loop, start) else ()
        if len(inner) != 1 or loop.body[-1] is not inner[0] or loop.folds or len(loop.carries) != 1:
            return ()
        (carry,) = loop.carries
        if carry.init is not start or carry.next is not complete_sum(inner[0]):
            return ()
        loop, start = inner[0], carry.inside
    return ()


def adds_products(loop: Loop, start: Var) -> bool:
    """True for a loop whose one fold adds float products to the initial value `start`."""
    if loop.carries or len(loop.folds) != 1:
        return False
    (fold,) = loop.folds
    return fold.op == "fma" and fold.result.dtype in (np.float32, np.float64) and fold.init is start


def complete_sum(loop: Loop) -> Var | None:
    """The one result of a loop; None where there are several."""
    left = [*[f.result for f in loop.folds], *[c.after for c in loop.carries]]
    return left[0] if len(left) == 1 else None


def with_roles(
    kernel: Kernel, values: Sequence[Var], grid: Sequence[Axis], loops: Sequence[Loop], epilogue: tuple[Statement, ...]
) -> ContractionNest | None:
    """The nest, with each grid axis assigned to the batch, the rows or the columns; None where an axis is in none of
    them, or the lanes lie along the batch."""
    (fold,), result = loops[-1].folds, complete_sum(loops[0])
    assert result is not None, "a sum leaves one value behind"
    lane = next((a for a in grid if a.lanes > 1), None)
    if lane is None or not all(isinstance(s, Var | Store | Loop) for s in walk(epilogue)):
        return None
    first, second = [axes_under(values, v) for v in fold.values]
    x, y = fold.values
    if lane in first:
        first, second, x, y = second, first, y, x
    if lane in first or lane not in second or any(a not in first and a not in second for a in grid):
        return None
    batch = [a for a in grid if a in first and a in second]
    rows = sorted([a for a in grid if a in first and a not in second], key=lambda a: a.extent)
    if len(loops) > 1 and not rows:
        return None
    columns = [*[a for a in grid if a in second and a not in first and a is not lane], lane]
    if any(isinstance(s, Loop) and any(isinstance(t, Store) for t in walk(s.body)) for s in epilogue):
        return None
    terms = tuple([loop.axis for loop in loops])
    roles = tuple(batch), tuple(rows or [Axis("i", 1)]), tuple(columns), terms
    return ContractionNest(kernel, *roles, fold, result, x, y, tuple(values), epilogue)


def axes_under(values: Sequence[Var], wanted: Var) -> set[Axis]:
    """The axes on which a value depends."""
    return {a for v in needed_values(values, [wanted]) for a in named_by(v) if isinstance(a, Axis)}
