"""Factorizations in graph words, column by column as scans over whole matrices: for targets that have no LAPACK.

What LAPACK reports as an error is NaN or infinity here, as in other libraries that compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.export.rules.random_words import like
from wholestep.ir.build import build
from wholestep.ir.graph import Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.arithmetic import abs as absolute
from wholestep.primitives.creation import cast, iota
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import sqrt
from wholestep.primitives.indexing import take_along
from wholestep.primitives.logic import equal, less_equal, select
from wholestep.primitives.loops import scan
from wholestep.primitives.matrices import along_columns, along_rows, column, keep_where, mm, mt, row
from wholestep.primitives.movement import broadcast, permute, reshape
from wholestep.primitives.reduction import argmax, sum_

INTEGER = np.dtype(np.int64)


def for_each_place(
    step: Callable[..., Sequence[Value]], fixed: Sequence[Value], carry: Sequence[Value], count: int, reverse: bool
) -> Sequence[Value]:
    """step(*fixed, *carry, k) for each k below a count: the last carry, and what else it gives in rows."""
    number = array_type((), INTEGER)
    types: list[Type] = [*[v.type for v in (*fixed, *carry)], number]
    graph, _ = build(step, types, name="columns")
    places = iota(shape=(count,), axis=0, dtype=INTEGER)
    sizes = (len(fixed), len(carry))
    found: Sequence[Value] = scan(*fixed, *carry, places, graph=graph, sizes=sizes, length=count, reverse=reverse)
    return found


def repeated_number(k: Value, like_this: Value) -> Value:
    """A number for each element of an array of integers."""
    found: Value = broadcast(k, shape=like_this.shape, axes=())
    return found


def is_place(places: Value, k: Value) -> Value:
    """True where a place is k."""
    found: Value = equal(places, repeated_number(k, places))
    return found


def read_column(a: Value, k: Value) -> Value:
    """Column k of each matrix."""
    found: Value = sum_(keep_where(a, is_place(column(a.shape), k)), axes=(a.ndim - 1,))
    return found


def read_row(a: Value, k: Value) -> Value:
    """Row k of each matrix."""
    found: Value = sum_(keep_where(a, is_place(row(a.shape), k)), axes=(a.ndim - 2,))
    return found


def products_of_all(x: Value, y: Value, shape: tuple[int, ...]) -> Value:
    """The products of the elements of two stacks of vectors."""
    return along_columns(x, shape) * along_rows(y, shape)


def lower_factor(a: Value) -> Value | None:
    """Cholesky's factor: column k is that of what is left, over the root of its diagonal.

    l = cholesky(a)
    -->
    a', columns = scan(a, k): c = a[:, k] / sqrt(a[k, k]) below row k;  a' = a - c c^T
    """
    if is_complex_value(a):
        return None
    n, lead = a.shape[-1], a.ndim - 2
    if a.type.size == 0:
        return a

    def step(left: Value, k: Value) -> Sequence[Value]:
        here = read_column(left, k)
        places: Value = iota(shape=here.shape, axis=lead, dtype=INTEGER)
        root = sqrt(sum_(keep_where(here, is_place(places, k)), axes=(lead,)))
        below = less_equal(repeated_number(k, places), places)
        found = keep_where(here / along_columns(root, here.shape), below)
        return [left - products_of_all(found, found, left.shape), found]

    _, columns = for_each_place(step, (), (a,), n, False)
    factor: Value = permute(columns, axes=(*range(1, lead + 2), 0))
    return keep_where(factor, column(a.shape) <= row(a.shape))


def substituted(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Value | None:
    """Rows of the solution one after the other, each by those before it; the other triangle is not read."""
    if is_complex_value(a):
        return None
    if b.type.size == 0:
        return b
    if trans:
        a, lower = mt(a), not lower
    i, j = row(a.shape), column(a.shape)
    seen = keep_where(a, j <= i if lower else i <= j)

    def step(matrix: Value, right: Value, x: Value, k: Value) -> Sequence[Value]:
        mine = read_row(matrix, k)
        at: Value = iota(shape=mine.shape, axis=mine.ndim - 1, dtype=INTEGER)
        others = keep_where(mine, ~is_place(at, k))
        product = mm(reshape(others, shape=(*others.shape[:-1], 1, others.shape[-1])), x)
        rest = read_row(right, k) - reshape(product, shape=(*x.shape[:-2], x.shape[-1]))
        if not unit:
            size = sum_(keep_where(mine, is_place(at, k)), axes=(mine.ndim - 1,))
            rest = rest / along_columns(size, rest.shape)
        return [select(is_place(row(x.shape), k), along_rows(rest, x.shape), x)]

    found: Value = for_each_place(step, (seen, b), (zeros(b.type),), a.shape[-1], not lower)[0]
    return found


def eliminated_matrix(a: Value) -> Sequence[Value] | None:
    """Both factors in one matrix, exchanges and order: the largest number of each column is brought up."""
    if is_complex_value(a):
        return None
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    count, depth = min(m, n), a.ndim - 2
    order: Value = iota(shape=(*lead, m), axis=depth, dtype=INTEGER)
    if a.type.size == 0:
        return a, zeros(array_type((*lead, count), np.dtype(np.int32))), order

    def step(left: Value, order: Value, k: Value) -> Sequence[Value]:
        places: Value = iota(shape=order.shape, axis=depth, dtype=INTEGER)
        size = absolute(read_column(left, k))
        size = select(less_equal(repeated_number(k, places), places), size, like(size, -1.0))
        best: Value = argmax(size, axis=depth)
        chosen = along_columns(best, places.shape)
        first, second = is_place(places, k), equal(places, chosen)
        moved = select(first, chosen, select(second, repeated_number(k, places), places))
        left = take_along(left, along_columns(moved, left.shape), depth)
        order = take_along(order, moved, depth)
        here, pivots = read_column(left, k), read_row(left, k)
        pivot = along_columns(sum_(keep_where(here, first), axes=(depth,)), here.shape)
        nothing = equal(pivot, zeros(pivot.type))
        factors = here / select(nothing, ones(pivot.type), pivot)
        factors = keep_where(factors, ~less_equal(places, repeated_number(k, places)))
        right = ~less_equal(column(left.shape), repeated_number(k, column(left.shape)))
        lower = ~less_equal(row(left.shape), repeated_number(k, row(left.shape)))
        rest = left - keep_where(products_of_all(factors, pivots, left.shape), right)
        stored = is_place(column(left.shape), k) & lower
        return [select(stored, along_columns(factors, left.shape), rest), order, best]

    packed, order, exchanges = for_each_place(step, (), (a, order), count, False)
    pivots = cast(permute(exchanges, axes=(*range(1, depth + 1), 0)), dtype=np.dtype(np.int32))
    return packed, pivots, order


def solved_by_elimination(a: Value, b: Value) -> Value | None:
    """Both triangles solved_by_elimination after the exchanges of elimination."""
    if is_complex_value(a):
        return None
    if b.type.size == 0:
        return b
    made = eliminated_matrix(a)
    assert made is not None
    packed, _, order = made
    moved = take_along(b, along_columns(order, b.shape), b.ndim - 2)
    half = substituted(packed, moved, lower=True, unit=True, trans=0)
    assert half is not None
    return substituted(packed, half, lower=False, unit=False, trans=0)


MATRIX_RULES: Mapping[str, Rule] = {
    "cholesky": lower_factor,
    "triangular_solve": substituted,
    "lu": eliminated_matrix,
    "solve": solved_by_elimination,
}
"""Rules of factorizations."""
