"""Singular values and eigenvalues by rotations of pairs of columns, of all disjoint pairs at a time.

One-sided Jacobi: Hestenes, "Inversion of matrices by biorthogonalization and related results" (1958). Columns go round
a table between two rotations, so that each meets each other one: Brent and Luk, "The solution of singular-value and
symmetric eigenvalue problems on multiprocessor arrays" (1985). A sweep takes as long as some products of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep import dtypes
from wholestep.export.rules.matrices import for_each_place, plane_rotation, reflected
from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.lower.legalize.matrix_functions import modulus
from wholestep.primitives.creation import like
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.functions import sqrt
from wholestep.primitives.indexing import take_along
from wholestep.primitives.logic import less_equal, select
from wholestep.primitives.matrices import (
    along_rows,
    as_dtype,
    diagonal,
    eye,
    hermitian,
    keep_where,
    mh,
    real_part,
)
from wholestep.primitives.movement import broadcast, concat, slice_along
from wholestep.primitives.order import sort
from wholestep.primitives.reduction import max_, sum_

SWEEPS = 12
"""The number of sweeps over all pairs of columns: each squares the products of the columns once these are small."""
ORTHOGONAL = 1e-15
"""The share of their lengths at which the product of two columns counts as 0."""
NEGLIGIBLE = 1e-15
"""The share of the largest singular value below which the direction of a column is noise."""


class Columns(NamedTuple):
    """Orthogonal columns `turned` = a v of a matrix a, their lengths, and the unitary v."""

    lengths: Value
    turned: Value
    v: Value


def some_rows(a: Value, rows: tuple[int, int]) -> Value:
    """Some rows of each matrix."""
    found: Value = slice_along(a, a.ndim - 2, *rows)
    return found


def some_columns(a: Value, start: int, stop: int) -> Value:
    """Some columns of each matrix."""
    found: Value = slice_along(a, a.ndim - 1, start, stop)
    return found


def side_by_side(*parts: Value) -> Value:
    """Columns beside each other."""
    kept = [x for x in parts if x.shape[-1]]
    found: Value = concat(*kept, axis=kept[0].ndim - 1) if len(kept) > 1 else kept[0]
    return found


def squares(a: Value) -> Value:
    """The squared length of each column."""
    found: Value = sum_(real_part(a * conj(a)), axes=(a.ndim - 2,))
    return found


def rotated_columns(x: Value, y: Value, m: int) -> tuple[Value, Value]:
    """Each column of x and that of y, turned in their plane until their first m rows are orthogonal."""
    first, second = some_rows(x, (0, m)), some_rows(y, (0, m))
    own, other = squares(first), squares(second)
    product = sum_(conj(first) * second, axes=(x.ndim - 2,))
    size = modulus(product)
    nothing = less_equal(size, sqrt(own) * sqrt(other) * ORTHOGONAL)
    phase, cosine, sine = plane_rotation(own, other, product, size, nothing)
    c, s = (along_rows(as_dtype(z, x.dtype), x.shape) for z in (cosine, sine))
    straight = y * along_rows(conj(phase), y.shape)
    return x * c - straight * s, x * s + straight * c


def orthogonal_columns(a: Value) -> Columns:
    """The columns of a matrix rotated in pairs until they are orthogonal; a zero column makes their number even."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    half = (n + 1) // 2
    whole: Value = concat(a, eye(array_type((*lead, n, n), a.dtype)), axis=a.ndim - 2)
    whole = side_by_side(whole, zeros(array_type((*lead, m + n, 2 * half - n), a.dtype)))

    def step(x: Value, y: Value, k: Value) -> Sequence[Value]:
        x, y = rotated_columns(x, y, m)
        if half == 1:
            return [x, y]
        turned = side_by_side(some_columns(x, 0, 1), some_columns(y, 0, 1), some_columns(x, 1, half - 1))
        return [turned, side_by_side(some_columns(y, 1, half), some_columns(x, half - 1, half))]

    start = (some_columns(whole, 0, half), some_columns(whole, half, 2 * half))
    x, y = for_each_place(step, (), start, SWEEPS * (2 * half - 1), False)
    whole = side_by_side(x, y)
    lengths = sqrt(squares(some_rows(whole, (0, m))))
    added = squares(some_rows(whole, (m, m + n))) < 0.5
    lengths, order = sort(select(added, like(lengths, -1.0), lengths), axis=lengths.ndim - 1)
    whole = some_columns(take_along(whole, along_rows(order, whole.shape), a.ndim - 1), 2 * half - n, 2 * half)
    lengths = slice_along(lengths, lengths.ndim - 1, 2 * half - n, 2 * half)
    return Columns(lengths, some_rows(whole, (0, m)), some_rows(whole, (m, m + n)))


def for_each_matrix(x: Value, shape: tuple[int, ...]) -> Value:
    """A number of each matrix, for each of its elements, or of the elements of a row."""
    found: Value = broadcast(x, shape=shape, axes=tuple(range(x.ndim)))
    return found


def largest(x: Value, axes: int) -> Value:
    """The largest number of each matrix, along its last axes."""
    found: Value = max_(x, axes=tuple(range(x.ndim - axes, x.ndim)))
    return found


def descending(x: Columns) -> Columns:
    """The columns in the order of their lengths, the longest first."""
    _, order = sort(-x.lengths, axis=x.lengths.ndim - 1)
    turned, v = (take_along(y, along_rows(order, y.shape), y.ndim - 1) for y in (x.turned, x.v))
    return Columns(take_along(x.lengths, order, order.ndim - 1), turned, v)


def at_unit_size(a: Value) -> tuple[Value, Value]:
    """Matrices whose largest element is 1, so that no square overflows, and the factors that restore their size."""
    most = largest(modulus(a), 2)
    most = select(most > 0, most, ones(most.type))
    return a / as_dtype(for_each_matrix(most, a.shape), a.dtype), most


def singular_values(a: Value) -> Value:
    """The singular values, the largest first."""
    m, n = a.shape[-2:]
    if a.type.size == 0:
        return zeros(array_type((*a.shape[:-2], min(m, n)), dtypes.real_of(a.dtype)))
    small, most = at_unit_size(a if n <= m else mh(a))
    lengths = -sort(-orthogonal_columns(small).lengths, axis=a.ndim - 2)[0]
    return lengths * for_each_matrix(most, lengths.shape)


def singular_vectors(a: Value, *, full_matrices: bool) -> Sequence[Value]:
    """u, s and v^H; columns of u that are noise or missing are a basis of the orthogonal complement of the others."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    if a.type.size == 0:
        rows, columns = (m, n) if full_matrices else (0, 0)
        square = [array_type((*lead, *shape), a.dtype) for shape in ((m, rows), (columns, n))]
        return eye(square[0]), singular_values(a), eye(square[1])
    if m < n:
        u, s, vh = singular_vectors(mh(a), full_matrices=full_matrices)
        return mh(vh), s, mh(u)
    small, most = at_unit_size(a)
    lengths, turned, v = descending(orthogonal_columns(small))
    clear = lengths > for_each_matrix(largest(lengths, 1) * NEGLIGIBLE, lengths.shape)
    safe = select(clear, lengths, ones(lengths.type))
    known = keep_where(turned / as_dtype(along_rows(safe, turned.shape), a.dtype), along_rows(clear, turned.shape))
    u, r = reflected(known, mode="complete" if full_matrices else "reduced")
    ends = diagonal(some_rows(r, (0, n)))
    size = modulus(ends)
    phase = select(clear, ends / as_dtype(select(clear, size, ones(size.type)), a.dtype), ones(ends.type))
    if full_matrices:
        phase = concat(phase, ones(array_type((*lead, m - n), a.dtype)), axis=phase.ndim - 1) if m > n else phase
    return u * along_rows(phase, u.shape), lengths * for_each_matrix(most, lengths.shape), mh(v)


def eigenvalues_and_vectors(a: Value, *, lower: bool) -> Sequence[Value]:
    """Eigenvalues, the smallest first, and vectors of Hermitian matrices, moved up until they are positive."""
    if a.type.size == 0:
        return zeros(array_type(a.shape[:-1], dtypes.real_of(a.dtype))), a
    small, most = at_unit_size(hermitian(a, lower=lower))
    bound = largest(sum_(modulus(small), axes=(a.ndim - 2,)), 1) * 1.5
    moved = small + eye(a.type) * as_dtype(for_each_matrix(bound, a.shape), a.dtype)
    lengths, _, v = orthogonal_columns(moved)
    values = (lengths - for_each_matrix(bound, lengths.shape)) * for_each_matrix(most, lengths.shape)
    return values, v
