"""Consequences of the complex Schur form: eigenvalues and vectors of any matrix, square roots, Sylvester's equation.

Golub and Van Loan, "Matrix computations", 7.6; Bjorck and Hammarling, "A Schur method for the square root of a matrix"
(1983); Bartels and Stewart, "Solution of the matrix equation AX + XB = C" (1972). All is complex, and in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wholestep import dtypes
from wholestep.export.rules.jacobi import at_unit_size, for_each_matrix, largest
from wholestep.export.rules.matrices import (
    for_each_place,
    is_place,
    picked_number,
    places_of,
    read_column,
    read_row,
    repeated_number,
    substituted,
)
from wholestep.export.rules.schur import ROUNDING, complex_schur_form, safely_divided
from wholestep.ir.graph import Value
from wholestep.lower.legalize.matrix_functions import modulus, root_by_schur_form
from wholestep.primitives.arithmetic import abs as absolute, imag, make_complex, maximum, real
from wholestep.primitives.creation import cast, like
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.functions import sqrt
from wholestep.primitives.logic import less, select
from wholestep.primitives.matrices import (
    along_columns,
    along_rows,
    as_dtype,
    column,
    diagonal,
    keep_where,
    mh,
    mm,
    real_part,
    row,
    scaled_identity,
)
from wholestep.primitives.movement import reshape
from wholestep.primitives.reduction import argmax, max_, sum_

WIDE = np.dtype(np.complex128)
TINY = 1e-290
"""The least difference of eigenvalues that is divided by."""
FULL = 1e100
"""The size from which vectors are scaled down."""
NEARLY_REAL = 1e-15
"""The share of an eigenvalue of a real matrix up to which an imaginary part is rounding."""


def vectors_of_triangles(t: Value, values: Value) -> Value:
    """The eigenvectors of upper triangles, as columns, row by row from the last; equal eigenvalues count as apart."""
    least = maximum(modulus(values) * ROUNDING, like(real_part(values), TINY))

    def step(t: Value, values: Value, least: Value, y: Value, k: Value) -> Sequence[Value]:
        mine = read_row(t, k)
        places = places_of(mine)
        here, after = is_place(places, k), less(repeated_number(k, places), places)
        others = reshape(keep_where(mine, ~here), shape=(*mine.shape[:-1], 1, mine.shape[-1]))
        total = reshape(mm(others, y), shape=mine.shape)
        apart = along_columns(picked_number(mine, here), mine.shape) - values
        apart = select(modulus(apart) < least, as_dtype(least, t.dtype), apart)
        found = select(here, ones(mine.type), keep_where(-total / apart, after))
        y = select(is_place(row(y.shape), k), along_rows(found, y.shape), y)
        size = modulus(found)
        factor = select(size > FULL, 1 / select(size > FULL, size, ones(size.type)), ones(size.type))
        return [y * along_rows(as_dtype(factor, y.dtype), y.shape)]

    found: Value = for_each_place(step, (t, values, least), (zeros(t.type),), t.shape[-1], True)[0]
    return found


def at_unit_length(v: Value) -> Value:
    """Columns of length 1, the largest component of which is real and positive."""
    size = modulus(v)
    most = max_(size, axes=(v.ndim - 2,))
    v = v * as_dtype(along_rows(safely_divided(ones(most.type), most), v.shape), v.dtype)
    length = sqrt(sum_(real_part(v * conj(v)), axes=(v.ndim - 2,)))
    at = row(v.shape).equals(along_rows(argmax(size, axis=v.ndim - 2), v.shape))
    top = sum_(keep_where(v, at), axes=(v.ndim - 2,))
    turn = conj(top) * as_dtype(safely_divided(ones(length.type), length * modulus(top)), v.dtype)
    return v * along_rows(turn, v.shape)


def eigenvalues_of_any(a: Value) -> Sequence[Value]:
    """Eigenvalues and vectors of any matrix; those of a real one are real where their imaginary parts are rounding."""
    wide = cast(a, dtype=WIDE)
    if a.type.size == 0:
        return diagonal(wide), wide
    small, most = at_unit_size(wide)
    t, z = complex_schur_form(small)
    values = diagonal(t)
    v = at_unit_length(mm(z, vectors_of_triangles(t, values)))
    values = values * as_dtype(for_each_matrix(most, values.shape), WIDE)
    if not dtypes.is_complex(a.dtype):
        straight = absolute(imag(values)) <= absolute(real(values)) * NEARLY_REAL
        values, v = (
            make_complex(real(x), keep_where(imag(x), ~at))
            for x, at in ((values, straight), (v, along_rows(straight, v.shape)))
        )
        v = at_unit_length(v)
    return values, v


def principal_root(a: Value) -> Sequence[Value]:
    """The principal square root."""
    if a.type.size == 0:
        return (a,)
    small, most = at_unit_size(cast(a, dtype=WIDE))
    t, z = complex_schur_form(small)
    return root_by_schur_form(a, t * as_dtype(for_each_matrix(most, t.shape), WIDE), z)


def sylvester_solution(a: Value, b: Value, q: Value) -> tuple[Value, Value]:
    """x with a x + x b = q, and for each matrix and pair of eigenvalues whether their sum is not 0."""
    wide = [cast(x, dtype=WIDE) for x in (a, b, q)]
    (r, u), (s, v) = complex_schur_form(wide[0]), complex_schur_form(wide[1])
    f = mm(mh(u), mm(wide[2], v))

    def step(r: Value, s: Value, f: Value, y: Value, k: Value) -> Sequence[Value]:
        mine = read_column(s, k)
        at = is_place(places_of(mine), k)
        before = reshape(keep_where(mine, ~at), shape=(*mine.shape, 1))
        right = reshape(read_column(f, k), shape=(*f.shape[:-1], 1)) - mm(y, before)
        x = substituted(r + scaled_identity(picked_number(mine, at), r.type), right, lower=False, unit=False, trans=0)
        return [select(is_place(column(y.shape), k), along_columns(reshape(x, shape=y.shape[:-1]), y.shape), y)]

    y = for_each_place(step, (r, s, f), (zeros(f.type),), s.shape[-1], False)[0]
    sums = along_columns(diagonal(r), f.shape) + along_rows(diagonal(s), f.shape)
    size = maximum(largest(modulus(r), 2), largest(modulus(s), 2)) * ROUNDING
    return mm(u, mm(y, mh(v))), modulus(sums) > for_each_matrix(size, sums.shape)
