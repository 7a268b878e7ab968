"""Linear algebra expanded into simpler operations and LAPACK calls, which see row-major matrices transposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import Type, array_type
from wholestep.lower.legalize.internal_ops import (
    InArg,
    LapackArgument,
    OutArg,
    ScratchArg,
    StatusArg,
    lapack,
    pivot_permutation,
    require,
)
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.matrices import along_columns, as_dtype, block, corner, diagonal, eye, mh, mm, mt, triangle
from wholestep.primitives.spectral import reciprocal, svd

PREFIX = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
BLOCK = 64
"""Block size that workspaces are sized for."""
INT, INTEGER, DOUBLE = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)

Values = Sequence[Value]


def lapack_call(routine: str, *arguments: LapackArgument, of: Sequence[Value]) -> tuple[Value, ...]:
    """One routine call for each matrix of a stack; `{}` in its name stands for the letter of the dtype."""
    name = "lapack." + routine.format(PREFIX[dtypes.short(of[0].dtype)])
    return lapack(*of, routine=name, count=math.prod(of[0].shape[:-2]), arguments=arguments)


def vector_type(a: Value, n: int, dtype: Any = None) -> Type:
    """The type of n numbers for each matrix of a stack."""
    return array_type((*a.shape[:-2], n), a.dtype if dtype is None else dtype)


def matrix_type(a: Value, m: int, n: int) -> Type:
    """The type of an m by n matrix in memory order for each matrix of a stack."""
    return array_type((*a.shape[:-2], m, n), a.dtype)


def workspace(a: Value, count: int, *, real: bool = False) -> ScratchArg:
    """A workspace for `count` numbers of a dtype, or of its real parts."""
    return ScratchArg(max(count, 1) * (dtypes.real_of(a.dtype) if real else a.dtype).itemsize)


def complex_valued(a: Value) -> bool:
    return dtypes.is_complex(a.dtype)


def modulus(x: Value) -> Value:
    """The absolute values."""
    return OPS["hypot"](OPS["real"](x), OPS["imag"](x)) if complex_valued(x) else OPS["abs"](x)


def via_double(rule: Callable[..., Values]) -> Callable[..., Values]:
    """A rule in double precision, as in NumPy, so that vectors have the same signs."""

    def wide(*xs: Value, **params: Any) -> Values:
        if dtypes.real_of(xs[0].dtype) == DOUBLE:
            return rule(*xs, **params)
        complex_too = dtypes.complex_of(DOUBLE)
        found = rule(*[OPS["cast"](x, dtype=complex_too if complex_valued(x) else DOUBLE) for x in xs], **params)
        narrow = {DOUBLE: dtypes.real_of(xs[0].dtype), complex_too: dtypes.complex_of(xs[0].dtype)}
        return [OPS["cast"](y, dtype=narrow[y.dtype]) for y in found]

    return wide


# Elimination.


def expand_cholesky(a: Value) -> Values:
    """The upper factor of the transposed matrix in memory is the lower factor of the matrix."""
    n = a.shape[-1]
    failed = StatusArg("Matrix is not positive definite")
    (found,) = lapack_call("{}potrf", "U", n, OutArg(a.type, 0), max(n, 1), failed, of=[a])
    return (triangle(found, lower=True),)


def expand_triangular_solve(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Values:
    """The matrix is transposed in memory, so the flags are flipped."""
    if trans == 2:
        (found,) = expand_triangular_solve(a, conj(b), lower=lower, unit=unit, trans=1)
        return (conj(found),)
    n, columns = b.shape[-2:]
    letters = "UL"[not lower], "NT"[not trans], "NU"[unit]
    given = (*letters, n, columns, InArg(0), max(n, 1), OutArg(mt(b).type, 1), max(n, 1))
    (found,) = lapack_call(
        "{}trtrs", *given, StatusArg("singular matrix: resolution failed at diagonal {value}"), of=[a, mt(b)]
    )
    return (mt(found),)


def expand_solve(a: Value, b: Value) -> Values:
    n, columns = b.shape[-2:]
    given = (n, columns, OutArg(a.type, 0), max(n, 1), ScratchArg(4 * max(n, 1)), OutArg(mt(b).type, 1), max(n, 1))
    _, found = lapack_call("{}gesv", *given, StatusArg("Singular matrix"), of=[mt(a), mt(b)])
    return (mt(found),)


def packed_lu(a: Value) -> tuple[Value, Value]:
    """L and U in one matrix, and the row exchanges, counted from 0."""
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


def expand_slogdet(a: Value) -> Values:
    """Sign and logarithm of the product of U's diagonal; each row exchange flips the sign."""
    if a.shape[-1] == 0:
        real = array_type(a.shape[:-2], dtypes.real_of(a.dtype))
        return ones(array_type(a.shape[:-2], a.dtype)), zeros(real)
    packed, pivots = packed_lu(a)
    d = diagonal(packed)
    last = (d.ndim - 1,)
    here = OPS["iota"](shape=pivots.shape, axis=pivots.ndim - 1, dtype=INT)
    exchanges = OPS["sum"](OPS["cast"](OPS["not_equal"](pivots, here), dtype=INT), axes=last)
    odd = exchanges & OPS["full"](value=1, shape=a.shape[:-2], dtype=INT)
    turned = OPS["cast"](1 - odd - odd, dtype=a.dtype)
    size = modulus(d)
    nothing = OPS["any"](size.equals(0), axes=last)
    signs = OPS["prod"](d * as_dtype(reciprocal(size), d.dtype) if complex_valued(a) else OPS["sign"](d), axes=last)
    sign, logs = signs * turned, OPS["sum"](OPS["log"](size), axes=last)
    least = OPS["full"](value=-np.inf, shape=logs.shape, dtype=logs.dtype)
    return OPS["select"](nothing, zeros(sign.type), sign), OPS["select"](nothing, least, logs)


def expand_det(a: Value) -> Values:
    sign, logs = expand_slogdet(a)
    return (sign * as_dtype(OPS["exp"](logs), a.dtype),)


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
    """u, s and vh of a stack; s alone for the job "N"."""
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


def expand_pinv(a: Value, *, rcond: float) -> Values:
    if a.type.size == 0:
        return (zeros(mt(a).type),)
    u, s, vh = svd(a, full_matrices=False)
    most = OPS["max"](s, axes=(s.ndim - 1,))
    shape = s.shape
    large = s > OPS["broadcast"](most * rcond, shape=shape, axes=tuple(range(len(shape) - 1)))
    share = OPS["select"](large, 1 / OPS["select"](large, s, ones(s.type)), zeros(s.type))
    uh = mh(u)
    return (mm(mh(vh), as_dtype(along_columns(share, uh.shape), a.dtype) * uh),)


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
    return values, mt(v)


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


EXPANSIONS: dict[str, Callable[..., Values | None]] = {
    "cholesky": via_double(expand_cholesky),
    "triangular_solve": expand_triangular_solve,
    "solve": via_double(expand_solve),
    "lu": expand_lu,
    "slogdet": via_double(expand_slogdet),
    "det": via_double(expand_det),
    "qr": via_double(expand_qr),
    "svd": via_double(expand_svd),
    "svdvals": via_double(expand_svdvals),
    "pinv": expand_pinv,
    "eigh": via_double(expand_eigh),
    "eig": via_double(expand_eig),
}
"""Expansion of each operation."""
