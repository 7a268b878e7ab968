"""Formulas in native programs: library calls of the code of this process, written out in other operations.

All are computed in float64 for every dtype, as the library computes them, so that results rounded to float32 or less
nearly always have the library's bits. An error that LAPACK reports is an error here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.rules.bessel import BESSEL_FUNCTIONS
from wholestep.export.rules.bessel_orders import ORDER_FUNCTIONS
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.export.rules.hypergeometric import HYPERGEOMETRIC_FUNCTIONS
from wholestep.export.rules.incomplete import INCOMPLETE_FUNCTIONS
from wholestep.export.rules.incomplete_inverses import INVERSES
from wholestep.export.rules.integrals import INTEGRALS
from wholestep.export.rules.jacobi import (
    at_unit_size,
    eigenvalues_and_vectors,
    for_each_matrix,
    singular_values,
    singular_vectors,
)
from wholestep.export.rules.matrices import eliminated_matrix, lower_factor, reflected, solved_in_triangles, substituted
from wholestep.export.rules.modified_bessel import MODIFIED_FUNCTIONS
from wholestep.export.rules.schur import complex_schur_form
from wholestep.export.rules.schur_functions import (
    eigenvalues_of_any,
    principal_root,
    sylvester_solution,
)
from wholestep.export.rules.special import FUNCTIONS
from wholestep.ir.graph import Value
from wholestep.lower.legalize.internal_ops import require
from wholestep.lower.legalize.matrix_functions import via_double, with_real_tops
from wholestep.lower.target import Expansion
from wholestep.primitives.creation import cast
from wholestep.primitives.logic import isfinite
from wholestep.primitives.matrices import as_dtype, diagonal, real_part
from wholestep.primitives.reduction import all_


def special_formula(f: Callable[..., Value]) -> Expansion:
    """The expansion of a function of scipy.special by its formula, in float64."""
    wide = via_double(lambda *xs: (f(*xs),))

    def expand(*xs: Value, **params: Any) -> Sequence[Value] | None:
        return None if is_complex_value(xs[0]) else wide(*xs, **params)

    return expand


SPECIAL_TABLES: Sequence[Mapping[str, Callable[..., Value]]] = (
    FUNCTIONS,
    BESSEL_FUNCTIONS,
    ORDER_FUNCTIONS,
    MODIFIED_FUNCTIONS,
    HYPERGEOMETRIC_FUNCTIONS,
    INTEGRALS,
    INCOMPLETE_FUNCTIONS,
    INVERSES,
)
SPECIAL_FORMULAS: Mapping[str, Expansion] = {
    name: special_formula(f) for table in SPECIAL_TABLES for name, f in table.items()
}
"""The expansions of special functions."""


def demand(x: Value, holds: Value, message: str) -> Value:
    """x, if a condition holds for all matrices; else the program ends with an error."""
    found: Value = require(x, all_(holds, axes=tuple(range(holds.ndim))), kind="linalg", message=message, hint="")
    return found


def lower_factors(a: Value) -> Sequence[Value]:
    """Cholesky's factors of positive definite matrices."""
    found = lower_factor(a)
    return (demand(found, real_part(diagonal(found)) > 0, "Matrix is not positive definite"),)


def solved(a: Value, b: Value) -> Sequence[Value]:
    """The solutions of systems by elimination."""
    if b.type.size == 0:
        return (b,)
    packed, _, order = eliminated_matrix(a)
    packed = demand(packed, ~diagonal(packed).equals(0), "Singular matrix")
    return (solved_in_triangles(packed, order, b),)


def solved_triangles(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Sequence[Value]:
    """The solutions of triangular systems."""
    if not unit and b.type.size:
        a = demand(a, ~diagonal(a).equals(0), "singular matrix: a diagonal has a 0")
    return (substituted(a, b, lower=lower, unit=unit, trans=trans),)


def finite_first(f: Callable[..., Sequence[Value]], at: int, what: str) -> Callable[..., Sequence[Value]]:
    """A factorization that fails where the numbers in one of its results are not finite."""

    def checked(a: Value, **params: Any) -> Sequence[Value]:
        found = list(f(a, **params))
        found[at] = demand(found[at], isfinite(found[at]), f"{what} did not converge")
        return found

    return checked


def any_eigenvectors(a: Value) -> Sequence[Value]:
    """Eigenvalues and vectors of any matrices whose numbers are finite."""
    a = demand(a, isfinite(a), "Array must not contain infs or NaNs")
    values, vectors = eigenvalues_of_any(a)
    found = demand(values, isfinite(values), "Eigenvalues did not converge")
    dtype = dtypes.complex_of(a.dtype)
    return as_dtype(found, dtype), as_dtype(vectors, dtype)


def complex_schur_forms(a: Value) -> Sequence[Value] | None:
    """The Schur forms of complex matrices; those of real ones, with blocks for conjugate pairs, have no formula."""
    if not is_complex_value(a):
        return None
    if a.type.size == 0:
        return a, a
    a = demand(a, isfinite(a), "Array must not contain infs or NaNs")
    small, most = at_unit_size(cast(a, dtype=np.dtype(np.complex128)))
    t, z = complex_schur_form(small)
    t, z = with_real_tops(t * as_dtype(for_each_matrix(most, t.shape), t.dtype), z)
    return as_dtype(t, a.dtype), as_dtype(z, a.dtype)


def sylvester_solutions(a: Value, b: Value, q: Value) -> Sequence[Value]:
    """The solutions of Sylvester's equations."""
    if q.type.size == 0:
        return (q,)
    found, holds = sylvester_solution(a, b, q)
    found = demand(found, holds, "Singular Sylvester equation")
    return (as_dtype(found if is_complex_value(q) else real_part(found), q.dtype),)


MATRIX_FORMULAS: Mapping[str, Expansion] = {
    "cholesky": via_double(lower_factors),
    "triangular_solve": via_double(solved_triangles),
    "solve": via_double(solved),
    "lu": eliminated_matrix,
    "qr": via_double(reflected),
    "svd": via_double(finite_first(singular_vectors, 1, "SVD")),
    "svdvals": via_double(finite_first(lambda a: [singular_values(a)], 0, "SVD")),
    "eig": any_eigenvectors,
    "sqrtm": principal_root,
    "schur": complex_schur_forms,
    "solve_sylvester": sylvester_solutions,
    "eigh": via_double(finite_first(eigenvalues_and_vectors, 0, "Eigenvalues")),
}
"""The expansions of factorizations."""
FORMULAS: Mapping[str, Expansion] = {**SPECIAL_FORMULAS, **MATRIX_FORMULAS}
"""The expansion of each operation that has a formula, by name."""
