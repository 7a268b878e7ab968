"""Factorizations and solves expanded into LAPACK calls, which see row-major matrices transposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.backends.cpu.target.lapack import InArg, LapackArgument, OutArg, ScratchArg, StatusArg, lapack_call
from wholestep.backends.cpu.target.register_tiles import LEAST_COLUMNS, LEAST_ROWS
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import Type, array_type
from wholestep.lower.legalize import matrix_functions
from wholestep.lower.legalize.cofactors import LARGEST
from wholestep.lower.legalize.internal_ops import packed_factors, pivot_permutation, require, substitution, upper_factor
from wholestep.lower.legalize.matrix_functions import (
    INT,
    INTEGER,
    Values,
    complex_valued,
    modulus,
    root_by_schur_form,
    via_double,
    with_real_tops,
)
from wholestep.lower.legalize.small_matrices import (
    SINGULAR_DIAGONAL,
    is_small,
    small_cholesky,
    small_solve,
    small_triangular_solve,
)
from wholestep.lower.target import Expansion
from wholestep.primitives.family import conj, zeros
from wholestep.primitives.indexing import take_along
from wholestep.primitives.linalg import lu, solve
from wholestep.primitives.matrices import (
    along_columns,
    as_dtype,
    block,
    corner,
    diagonal,
    eye,
    mh,
    mm,
    mt,
    scaled_identity,
    triangle,
)

BLOCK = 64
"""Block size that workspaces are sized for."""


def vector_type(a: Value, n: int, dtype: Any = None) -> Type:
    """The type of n numbers for each matrix of a stack."""
    return array_type((*a.shape[:-2], n), a.dtype if dtype is None else dtype)


def matrix_type(a: Value, m: int, n: int) -> Type:
    """The type of an m by n matrix in memory order for each matrix of a stack."""
    return array_type((*a.shape[:-2], m, n), a.dtype)


def workspace(a: Value, count: int, *, real: bool = False) -> ScratchArg:
    """A workspace for `count` numbers of a dtype, or of its real parts."""
    return ScratchArg(max(count, 1) * (dtypes.real_of(a.dtype) if real else a.dtype).itemsize)


def nan_where(unknown: Value, x: Value) -> Value:
    """x, all NaN for the members of a stack for which that holds."""
    along = OPS["broadcast"](unknown, shape=x.shape, axes=tuple(range(unknown.ndim)))
    return OPS["select"](along, OPS["full"](value=np.nan, shape=x.shape, dtype=x.dtype), x)


# Elimination.


def in_tiles(a: Value) -> bool:
    """Test whether matrices are computed by our own tiles in registers: real ones that are not small.

    These tiles run on the threads of the program. OpenBLAS's own threads wait for each other so often in these routines
    that one more program on the machine makes them take up to two hundred times as long.
    """
    return not complex_valued(a) and isinstance(a.type.size, int) and a.type.size > 0 and a.shape[-1] >= LEAST_ROWS


def expand_cholesky(a: Value) -> Values:
    """The upper factor of the transposed matrix in memory is the lower factor of the matrix."""
    if is_small(a):
        return (small_cholesky(a),)
    n = a.shape[-1]
    if in_tiles(a):
        return (triangle(mt(upper_factor(mt(a))), lower=True),)
    failed = StatusArg("Matrix is not positive definite")
    (found,) = lapack_call("{}potrf", "U", n, OutArg(a.type, 0), max(n, 1), failed, of=[a])
    return (triangle(found, lower=True),)


def expand_triangular_solve(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Values:
    if trans == 2:
        return (conj(triangular_solution(a, conj(b), lower=lower, unit=unit, trans=1)),)
    return (triangular_solution(a, b, lower=lower, unit=unit, trans=trans),)


def triangular_solution(
    a: Value,
    b: Value,
    *,
    lower: bool,
    unit: bool = False,
    trans: int = 0,
    message: str = SINGULAR_DIAGONAL,
) -> Value:
    """The solution with one triangle of a matrix. It is transposed in LAPACK's memory, so the flags are flipped."""
    if is_small(a, b):
        return small_triangular_solve(a, b, lower=lower, unit=unit, turned=bool(trans), message=message)
    n, columns = b.shape[-2:]
    if in_tiles(a) and isinstance(columns, int) and columns >= LEAST_COLUMNS:
        turned = bool(trans)
        return substitution(a, b, forward=lower != turned, unit=unit, turned=turned, message=message)
    letters = "UL"[not lower], "NT"[not trans], "NU"[unit]
    given = (*letters, n, columns, InArg(0), max(n, 1), OutArg(mt(b).type, 1), max(n, 1))
    (found,) = lapack_call("{}trtrs", *given, StatusArg(message), of=[a, mt(b)])
    return mt(found)


def expand_solve(a: Value, b: Value) -> Values:
    if is_small(a, b):
        return (small_solve(a, b),)
    n, columns = b.shape[-2:]
    if in_tiles(a):
        packed, _, order = expand_lu(a)
        b = take_along(b, along_columns(order, b.shape), b.ndim - 2)
        y = triangular_solution(packed, b, lower=True, unit=True)
        return (triangular_solution(packed, y, lower=False, message="Singular matrix"),)
    given = (n, columns, OutArg(a.type, 0), max(n, 1), ScratchArg(4 * max(n, 1)), OutArg(mt(b).type, 1), max(n, 1))
    _, found = lapack_call("{}gesv", *given, StatusArg("Singular matrix"), of=[mt(a), mt(b)])
    return (mt(found),)


def packed_lu(a: Value) -> tuple[Value, Value]:
    """L and U in one matrix, and the row exchanges, counted from 0."""
    if in_tiles(a) and a.shape[-2] >= LEAST_ROWS:
        packed, pivots = packed_factors(a)
        return packed, pivots
    m, n = a.shape[-2:]
    given = (m, n, OutArg(mt(a).type, 0), max(m, 1), OutArg(vector_type(a, min(m, n), INT)), StatusArg())
    packed, pivots = lapack_call("{}getrf", *given, of=[mt(a)])
    return mt(packed), pivots - 1


def expand_lu(a: Value) -> Values:
    if min(a.shape[-2:]) == 0:
        rows = OPS["iota"](shape=(*a.shape[:-2], a.shape[-2]), axis=a.ndim - 2, dtype=INTEGER)
        return zeros(a.type), zeros(vector_type(a, 0, INT)), rows
    packed, pivots = packed_lu(a)
    return packed, pivots, pivot_permutation(pivots, size=a.shape[-2])


REGULAR = float(np.finfo(np.float64).eps) ** 0.5
"""The least quotient of a matrix's pivots of smallest and largest absolute value with which it counts as regular."""


def adjugate_by_factors(a: Value) -> Values:
    """det(a) a^-1 where all matrices of a stack are regular; otherwise by singular values, which divide by nothing."""
    if a.shape[-1] <= LARGEST:
        return matrix_functions.expand_adjugate(a)
    size = modulus(diagonal(lu(a)[0]))
    least, most = (OPS[name](size, axes=(size.ndim - 1,)) for name in ("min", "max"))
    singular = OPS["any"](OPS["less_equal"](least, most * REGULAR), axes=tuple(range(least.ndim)))
    ways = (lambda a: (solve(a, scaled_identity(OPS["det"](a), a.type)),), matrix_functions.expand_adjugate)
    branches = tuple([build(way, [a.type], name="adjugate")[0] for way in ways])
    found: Any = OPS["cond"](OPS["cast"](singular, dtype=INTEGER), a, branches=branches)
    return tuple(found)


# Orthogonal factors.


def expand_qr(a: Value, *, mode: str) -> Values:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    if k == 0:
        return eye(matrix_type(a, m, columns)), zeros(matrix_type(a, columns, n))
    lda, lwork = max(m, 1), BLOCK * max(m, n)
    work = workspace(a, lwork), lwork, StatusArg()
    packed, tau = lapack_call("{}geqrf", m, n, OutArg(mt(a).type, 0), lda, OutArg(vector_type(a, k)), *work, of=[mt(a)])
    r = triangle(corner(mt(packed), columns, n), lower=False)
    q = mt(corner(mt(packed), m, columns))
    name = "{}ungqr" if complex_valued(a) else "{}orgqr"
    (made,) = lapack_call(name, m, columns, k, OutArg(q.type, 0), lda, InArg(1), *work, of=[q, tau])
    return mt(made), r


def svd_call(a: Value, job: str) -> tuple[Value, ...]:
    """u, s and vh of a stack; s alone for the job "N". A NaN is an error to LAPACK, an infinity might never end."""
    a = nan_where(~OPS["all"](OPS["isfinite"](a), axes=(a.ndim - 2, a.ndim - 1)), a)
    m, n = a.shape[-2:]
    k = min(m, n)
    columns, rows = (m, n) if job == "A" else (k, k)
    lwork = 5 * k * k + 10 * k + (BLOCK + 1) * (m + n)
    shapes: tuple[LapackArgument, ...] = (OutArg(matrix_type(a, columns, m)), m, OutArg(matrix_type(a, n, rows)), rows)
    if job == "N":
        shapes = (None, m, None, n)
    extra = (workspace(a, 7 * k * k + 7 * k + 2 * (m + n) * k, real=True),) if complex_valued(a) else ()
    work = workspace(a, lwork), lwork, *extra, ScratchArg(32 * k), StatusArg("SVD did not converge")
    s = OutArg(vector_type(a, k, dtypes.real_of(a.dtype)))
    _, values, *rest = lapack_call("{}gesdd", job, m, n, OutArg(mt(a).type, 0), m, s, *shapes, *work, of=[mt(a)])
    return (mt(rest[0]), values, mt(rest[1])) if rest else (values,)


def expand_svd(a: Value, *, full_matrices: bool) -> Values:
    m, n = a.shape[-2:]
    if min(m, n) == 0:
        rows, columns = (m, n) if full_matrices else (0, 0)
        s = zeros(vector_type(a, 0, dtypes.real_of(a.dtype)))
        return eye(matrix_type(a, m, rows)), s, eye(matrix_type(a, columns, n))
    return svd_call(a, "A" if full_matrices else "S")


def expand_svdvals(a: Value) -> Values:
    if min(a.shape[-2:]) == 0:
        return (zeros(vector_type(a, 0, dtypes.real_of(a.dtype))),)
    return svd_call(a, "N")


# Eigenvalues.


def expand_eigh(a: Value, *, lower: bool) -> Values:
    n = a.shape[-1]
    lwork = 2 * n + n * max(n, BLOCK) if complex_valued(a) else 1 + 6 * n + 2 * n * n + BLOCK * n
    lrwork, liwork = 1 + 5 * n + 2 * n * n, 3 + 5 * n
    extra = (workspace(a, lrwork, real=True), lrwork) if complex_valued(a) else ()
    w = OutArg(vector_type(a, n, dtypes.real_of(a.dtype)))
    work = workspace(a, lwork), lwork, *extra, ScratchArg(4 * liwork), liwork, StatusArg("Eigenvalues did not converge")
    name = "{}heevd" if complex_valued(a) else "{}syevd"
    v, values = lapack_call(name, "V", "UL"[lower], n, OutArg(a.type, 0), max(n, 1), w, *work, of=[mt(a)])
    unknown = OPS["any"](OPS["isnan"](triangle(a, lower)), axes=(a.ndim - 2, a.ndim - 1))
    return nan_where(unknown, values), mt(v)  # LAPACK finds numbers for some matrices with NaN


def expand_eig(a: Value) -> Values:
    finite = OPS["all"](OPS["isfinite"](a), axes=tuple(range(a.ndim)))
    a = require(a, finite, kind="linalg", message="Array must not contain infs or NaNs", hint="")
    n = a.shape[-1]
    lwork = (2 * BLOCK + 4) * n
    work = workspace(a, lwork), lwork, *((workspace(a, 2 * n, real=True),) if complex_valued(a) else ())
    parts = [OutArg(vector_type(a, n))] * (1 if complex_valued(a) else 2)
    end = OutArg(a.type), max(n, 1), *work, StatusArg("Eigenvalues did not converge")
    _, *w, v = lapack_call(
        "{}geev", "N", "V", n, OutArg(a.type, 0), max(n, 1), *parts, workspace(a, 1), 1, *end, of=[mt(a)]
    )
    return (w[0], mt(v)) if complex_valued(a) else (OPS["make_complex"](*w), mt(complex_eigenvectors(v, w[1])))


def complex_eigenvectors(v: Value, imaginary: Value) -> Value:
    """The rows of v as complex vectors: a conjugate pair has the parts of its vectors in two rows."""
    n, axis = v.shape[-1], v.ndim - 2
    if n == 0:
        return OPS["make_complex"](v, v)
    after = OPS["concat"](block(v, (1, n), (0, n)), block(v, (0, 1), (0, n)), axis=axis)
    before = OPS["concat"](block(v, (n - 1, n), (0, n)), block(v, (0, n - 1), (0, n)), axis=axis)
    w = along_columns(imaginary, v.shape)
    first, second = w > 0, w < 0
    re = OPS["select"](second, before, v)
    return OPS["make_complex"](re, OPS["select"](first, after, OPS["select"](second, -v, zeros(v.type))))


def schur_form(a: Value) -> tuple[Value, Value]:
    """t and z of a = z t z^H, transposed as they lie in memory."""
    n = a.shape[-1]
    lwork = (BLOCK + 3) * n
    w = workspace(a, n), *(() if complex_valued(a) else (workspace(a, n),))
    extra = (workspace(a, n, real=True),) if complex_valued(a) else ()
    failed = StatusArg("Schur form not found. Possibly ill-conditioned.")
    end = OutArg(a.type), max(n, 1), workspace(a, lwork), lwork, *extra, None, failed
    t, z = lapack_call("{}gees", "V", "N", None, n, OutArg(a.type, 0), max(n, 1), ScratchArg(4), *w, *end, of=[mt(a)])
    return t, z


def expand_solve_sylvester(a: Value, b: Value, q: Value) -> Values:
    m, n = q.shape[-2:]
    if q.type.size == 0:
        return (zeros(q.type),)
    (r, u), (s, v) = schur_form(a), schur_form(mh(b))
    f = mm(mh(mt(u)), mm(q, mt(v)))
    scale = OutArg(vector_type(a, 1, dtypes.real_of(a.dtype)))
    end = InArg(0), m, InArg(1), n, OutArg(mt(q).type, 2), m, scale, StatusArg("Singular Sylvester equation")
    y, shrunk = lapack_call("{}trsyl", "N", "C" if complex_valued(a) else "T", 1, m, n, *end, of=[r, s, mt(f)])
    whole = OPS["broadcast"](as_dtype(shrunk, a.dtype), shape=(*q.shape[:-1], 1), axes=(*range(q.ndim - 2), q.ndim - 1))
    whole = OPS["reshape"](whole, shape=q.shape[:-1])
    return (mm(mt(u), mm(mt(y) / along_columns(whole, q.shape), mh(mt(v)))),)


def expand_sqrtm(a: Value) -> Values:
    wide = as_dtype(a, dtypes.complex_of(a.dtype))
    t, z = schur_form(wide) if not complex_valued(a) else schur_form(a)
    return root_by_schur_form(a, triangle(mt(t), lower=False), mt(z))


def expand_schur(a: Value) -> Values:
    """The Schur form by LAPACK; for a real matrix its result is exactly 0 below the diagonal blocks of up to 2 by 2."""
    if a.type.size == 0:
        return zeros(a.type), zeros(a.type)
    finite = OPS["all"](OPS["isfinite"](a), axes=tuple(range(a.ndim)))
    a = require(a, finite, kind="linalg", message="Array must not contain infs or NaNs", hint="")
    t, z = (mt(x) for x in schur_form(a))
    return with_real_tops(triangle(t, lower=False), z) if complex_valued(a) else (t, z)


LAPACK_EXPANSIONS: dict[str, Expansion] = {
    "adjugate": via_double(adjugate_by_factors),
    "cholesky": via_double(expand_cholesky),
    "triangular_solve": expand_triangular_solve,
    "solve": via_double(expand_solve),
    "lu": expand_lu,
    "qr": via_double(expand_qr),
    "svd": via_double(expand_svd),
    "svdvals": via_double(expand_svdvals),
    "eigh": via_double(expand_eigh),
    "eig": via_double(expand_eig),
    "solve_sylvester": expand_solve_sylvester,
    "sqrtm": expand_sqrtm,
    "schur": expand_schur,
}
"""Expansion of each operation that LAPACK computes: (operands, **params) -> results."""
