"""Factorizations in graph words, column by column as scans over whole matrices: for targets that have no LAPACK.

An error that LAPACK reports is NaN or infinity here, as in other libraries that compile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.ir.build import build
from wholestep.ir.graph import Value
from wholestep.ir.types import Type, array_type
from wholestep.lower.legalize.matrix_functions import modulus
from wholestep.primitives.arithmetic import abs as absolute, imag, real
from wholestep.primitives.creation import cast, constant, iota, like
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.functions import sqrt
from wholestep.primitives.indexing import gather, take_along
from wholestep.primitives.logic import equal, less_equal, select
from wholestep.primitives.loops import scan
from wholestep.primitives.matrices import (
    along_columns,
    along_rows,
    as_dtype,
    column,
    diagonal,
    eye,
    hermitian,
    keep_where,
    mh,
    mm,
    mt,
    real_part,
    row,
)
from wholestep.primitives.movement import broadcast, permute, reshape, slice_along
from wholestep.primitives.order import sort
from wholestep.primitives.reduction import argmax, sum_

INTEGER = np.dtype(np.int64)


def for_each_place(
    step: Callable[..., Sequence[Value]], fixed: Sequence[Value], carry: Sequence[Value], count: int, reverse: bool
) -> Sequence[Value]:
    """step(*fixed, *carry, k) for each k below a count: the last carry, and the other results stacked."""
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


def places_of(x: Value) -> Value:
    """The place of each element along the last axis."""
    found: Value = iota(shape=x.shape, axis=x.ndim - 1, dtype=INTEGER)
    return found


def picked_number(x: Value, at: Value) -> Value:
    """The elements of vectors at one place each, as a mask says."""
    found: Value = sum_(keep_where(x, at), axes=(x.ndim - 1,))
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


def lower_factor(a: Value) -> Value:
    """The Cholesky factor: column k is that of the Schur complement, over the root of its diagonal element.

    l = cholesky(a)
    -->
    a', columns = scan(a, k): c = a[:, k] / sqrt(a[k, k]) below row k;  a' = a - c c^H
    """
    n, lead = a.shape[-1], a.ndim - 2
    if a.type.size == 0:
        return a

    def step(left: Value, k: Value) -> Sequence[Value]:
        here = read_column(left, k)
        places: Value = iota(shape=here.shape, axis=lead, dtype=INTEGER)
        root = sqrt(sum_(keep_where(real_part(here), is_place(places, k)), axes=(lead,)))
        below = less_equal(repeated_number(k, places), places)
        found = keep_where(here / as_dtype(along_columns(root, here.shape), here.dtype), below)
        return [left - products_of_all(found, conj(found), left.shape), found]

    # LAPACK reads of a complex matrix the real parts of its diagonal, and the elements below it.
    start = hermitian(a, lower=True) if is_complex_value(a) else a
    _, columns = for_each_place(step, (), (start,), n, False)
    factor: Value = permute(columns, axes=(*range(1, lead + 2), 0))
    return keep_where(factor, column(a.shape) <= row(a.shape))


def substituted(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Value:
    """The rows of the solution in turn, each from the rows before it; the other triangle is not read."""
    if b.type.size == 0:
        return b
    if trans:
        a, lower = mt(a) if trans == 1 else mh(a), not lower
    i, j = row(a.shape), column(a.shape)
    seen = keep_where(a, j <= i if lower else i <= j)

    def step(matrix: Value, right: Value, x: Value, k: Value) -> Sequence[Value]:
        mine = read_row(matrix, k)
        here = is_place(places_of(mine), k)
        others = keep_where(mine, ~here)
        product = mm(reshape(others, shape=(*others.shape[:-1], 1, others.shape[-1])), x)
        rest = read_row(right, k) - reshape(product, shape=(*x.shape[:-2], x.shape[-1]))
        if not unit:
            rest = rest / along_columns(picked_number(mine, here), rest.shape)
        return [select(is_place(row(x.shape), k), along_rows(rest, x.shape), x)]

    found: Value = for_each_place(step, (seen, b), (zeros(b.type),), a.shape[-1], not lower)[0]
    return found


def pivot_size(x: Value) -> Value:
    """The size by which LAPACK chooses a pivot: |x|, or |re x| + |im x| for a complex number."""
    found: Value = absolute(real(x)) + absolute(imag(x)) if is_complex_value(x) else absolute(x)
    return found


def eliminated_matrix(a: Value) -> Sequence[Value]:
    """Both factors in one matrix, exchanges and order: the largest number of each column is brought up."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    count, depth = min(m, n), a.ndim - 2
    order: Value = iota(shape=(*lead, m), axis=depth, dtype=INTEGER)
    if a.type.size == 0:
        return a, zeros(array_type((*lead, count), np.dtype(np.int32))), order

    def step(left: Value, order: Value, k: Value) -> Sequence[Value]:
        places: Value = iota(shape=order.shape, axis=depth, dtype=INTEGER)
        size = pivot_size(read_column(left, k))
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


def solved_by_elimination(a: Value, b: Value) -> Value:
    """The solutions of systems, by elimination."""
    if b.type.size == 0:
        return b
    packed, _, order = eliminated_matrix(a)
    return solved_in_triangles(packed, order, b)


def solved_in_triangles(packed: Value, order: Value, b: Value) -> Value:
    """The solutions of systems from both triangles of their elimination and the order of its rows."""
    moved = take_along(b, along_columns(order, b.shape), b.ndim - 2)
    half = substituted(packed, moved, lower=True, unit=True, trans=0)
    return substituted(packed, half, lower=False, unit=False, trans=0)


def reflected(a: Value, *, mode: str) -> Sequence[Value]:
    """Householder's reflections, one for each column, which are gathered in a square factor."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    depth, count = a.ndim - 2, min(m, n)
    size = m if mode == "complete" else count
    square = array_type((*lead, m, m), a.dtype)
    if a.type.size == 0:
        return (eye(array_type((*lead, m, size), a.dtype)), zeros(array_type((*lead, size, n), a.dtype)))

    def step(right: Value, q: Value, k: Value) -> Sequence[Value]:
        here = read_column(right, k)
        places: Value = iota(shape=here.shape, axis=depth, dtype=INTEGER)
        here = keep_where(here, less_equal(repeated_number(k, places), places))
        top = sum_(keep_where(here, is_place(places, k)), axes=(depth,))
        length = sqrt(real_part(sum_(here * conj(here), axes=(depth,))))
        length = as_dtype(select(real_part(top) < 0, length, -length), top.dtype)
        v = select(is_place(places, k), along_columns(top - length, here.shape), here)
        scale = length * conj(length - top)
        nothing = equal(scale, zeros(scale.type))
        factor = 1 / select(nothing, ones(scale.type), scale)
        line = reshape(conj(v), shape=(*lead, 1, m))
        across = reshape(mm(line, right), shape=(*lead, n)) * along_columns(conj(factor), (*lead, n))
        down = reshape(mm(q, mh(line)), shape=(*lead, m)) * along_columns(factor, (*lead, m))
        return [right - products_of_all(v, across, right.shape), q - products_of_all(down, conj(v), q.shape)]

    right, q = for_each_place(step, (), (a, eye(square)), count, False)
    right = keep_where(right, row(right.shape) <= column(right.shape))
    return slice_along(q, depth + 1, 0, size), slice_along(right, depth, 0, size)


SWEEPS = 12
"""The number of times that each pair of axes is turned: errors are squared by each sweep once they are small."""

NEGLIGIBLE = 1e-18
"""The size of an element, relative to the diagonal's, that counts as 0: squares of quotients stay finite in float32."""


def turned_columns(a: Value, p: Value, q: Value, c: Value, s: Value, phase: Value) -> Value:
    """Columns p and q, the second divided by a phase, turned by an angle whose cosine and sine each matrix has."""
    first = read_column(a, p)
    second = read_column(a, q) * along_columns(conj(phase), first.shape)
    c, s = along_columns(c, first.shape), along_columns(s, first.shape)
    at = column(a.shape)
    turned = select(is_place(at, q), along_columns(first * s + second * c, a.shape), a)
    found: Value = select(is_place(at, p), along_columns(first * c - second * s, a.shape), turned)
    return found


def plane_rotation(pp: Value, qq: Value, pq: Value, size: Value, nothing: Value) -> tuple[Value, Value, Value]:
    """The phase of pq, and the cosine and sine of the rotation that makes it 0; no rotation for `nothing`."""
    size = select(nothing, ones(size.type), size)
    phase = select(nothing, ones(pq.type), pq / as_dtype(size, pq.dtype))
    ratio = (qq - pp) / (2 * size)
    tangent = 1 / (absolute(ratio) + sqrt(ratio * ratio + 1))
    tangent = keep_where(select(ratio < 0, -tangent, tangent), ~nothing)
    cosine = 1 / sqrt(tangent * tangent + 1)
    return phase, cosine, tangent * cosine


def diagonalized(a: Value, *, lower: bool) -> Sequence[Value]:
    """Jacobi's rotations: each pair of axes is rotated, several times, so that its off-diagonal element becomes 0."""
    n, depth = a.shape[-1], a.ndim - 2
    if a.type.size == 0:
        return zeros(array_type(a.shape[:-1], dtypes.real_of(a.dtype))), a
    pairs = np.array(list(itertools.combinations(range(n), 2)) * SWEEPS, np.int64).reshape(-1, 2)

    def step(left: Value, vectors: Value, k: Value) -> Sequence[Value]:
        p, q = (gather(constant(value=np.ascontiguousarray(at)), k, axes=(0,)) for at in pairs.T)
        first, second = read_column(left, p), read_column(left, q)
        places: Value = iota(shape=first.shape, axis=depth, dtype=INTEGER)
        here, there = is_place(places, p), is_place(places, q)
        pp, qq, pq = (
            sum_(keep_where(x, at), axes=(depth,)) for x, at in ((first, here), (second, there), (second, here))
        )
        pp, qq, size = real_part(pp), real_part(qq), modulus(pq)
        nothing = less_equal(size, (absolute(pp) + absolute(qq)) * NEGLIGIBLE)
        phase, c, s = plane_rotation(pp, qq, pq, size, nothing)
        turn = p, q, as_dtype(c, a.dtype), as_dtype(s, a.dtype), phase
        left = mh(turned_columns(mh(turned_columns(left, *turn)), *turn))
        return [left, turned_columns(vectors, *turn)]

    left, vectors = for_each_place(step, (), (hermitian(a, lower=lower), eye(a.type)), len(pairs), False)
    found, order = sort(real_part(diagonal(left)), axis=depth)
    return found, take_along(vectors, along_rows(order, vectors.shape), depth + 1)


MATRIX_RULES: Mapping[str, Rule] = {
    "cholesky": lower_factor,
    "triangular_solve": substituted,
    "lu": eliminated_matrix,
    "qr": reflected,
    "eigh": diagonalized,
    "solve": solved_by_elimination,
}
"""Rules of factorizations."""
