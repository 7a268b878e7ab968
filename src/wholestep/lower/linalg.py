"""Linear algebra: each operation in simpler ones and in calls of LAPACK, which sees row-major matrices transposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import Type, array_type
from wholestep.lower.inner import Argument, In, Out, Scratch, Status, exchanged, lapack, require
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.linalg import (
    along_columns,
    as_dtype,
    corner,
    diagonal,
    eye,
    mh,
    mm,
    mt,
    triangle,
)
from wholestep.primitives.spectral import block, reciprocal, svd

PREFIX = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
BLOCK = 64
"""The block size that workspaces have room for."""
INT, INTEGER, DOUBLE = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)

Values = Sequence[Value]


def call(routine: str, *arguments: Argument, of: Sequence[Value]) -> tuple[Value, ...]:
    """One routine for each matrix of a stack; `{}` in its name stands for the letter of the dtype."""
    name = "lapack." + routine.format(PREFIX[dtypes.short(of[0].dtype)])
    return lapack(*of, routine=name, count=math.prod(of[0].shape[:-2]), arguments=arguments)


def vectors(a: Value, n: int, dtype: Any = None) -> Type:
    """The type of n numbers for each matrix of a stack."""
    return array_type((*a.shape[:-2], n), a.dtype if dtype is None else dtype)


def matrices(a: Value, m: int, n: int) -> Type:
    """The type of an m by n matrix, as it lies in memory, for each matrix of a stack."""
    return array_type((*a.shape[:-2], m, n), a.dtype)


def room(a: Value, count: int) -> Scratch:
    """Memory for so many numbers of a dtype."""
    return Scratch(max(count, 1) * a.dtype.itemsize)


def real_room(a: Value, count: int) -> Scratch:
    """Memory for so many real numbers."""
    return Scratch(max(count, 1) * dtypes.real_of(a.dtype).itemsize)


def is_complex(a: Value) -> bool:
    return dtypes.is_complex(a.dtype)


def size_of(x: Value) -> Value:
    """The absolute values."""
    found: Value = OPS["hypot"](OPS["real"](x), OPS["imag"](x)) if is_complex(x) else OPS["abs"](x)
    return found


def in_double(rule: Callable[..., Values]) -> Callable[..., Values]:
    """The rule in double precision, as NumPy computes what it has: the signs that vectors get are the same."""

    def wide(*xs: Value, **params: Any) -> Values:
        if dtypes.real_of(xs[0].dtype) == DOUBLE:
            return rule(*xs, **params)
        complex_too = dtypes.complex_of(DOUBLE)
        found = rule(*[OPS["cast"](x, dtype=complex_too if is_complex(x) else DOUBLE) for x in xs], **params)
        narrow = {DOUBLE: dtypes.real_of(xs[0].dtype), complex_too: dtypes.complex_of(xs[0].dtype)}
        return [OPS["cast"](y, dtype=narrow[y.dtype]) for y in found]

    return wide


# Elimination.


def cholesky(a: Value) -> Values:
    """The upper factor of the transposed matrix, in memory, is the lower factor of the matrix."""
    n = a.shape[-1]
    failed = Status("Matrix is not positive definite")
    (found,) = call("{}potrf", "U", n, Out(a.type, 0), max(n, 1), failed, of=[a])
    return (triangle(found, lower=True),)


def triangular_solve(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Values:
    """In memory the matrix is transposed: so is what is asked for."""
    if trans == 2:
        (found,) = triangular_solve(a, conj(b), lower=lower, unit=unit, trans=1)
        return (conj(found),)
    n, columns = b.shape[-2:]
    letters = "UL"[not lower], "NT"[not trans], "NU"[unit]
    given = (*letters, n, columns, In(0), max(n, 1), Out(mt(b).type, 1), max(n, 1))
    (found,) = call("{}trtrs", *given, Status("singular matrix: resolution failed at diagonal {value}"), of=[a, mt(b)])
    return (mt(found),)


def solved(a: Value, b: Value) -> Values:
    n, columns = b.shape[-2:]
    given = (n, columns, Out(a.type, 0), max(n, 1), Scratch(4 * max(n, 1)), Out(mt(b).type, 1), max(n, 1))
    _, found = call("{}gesv", *given, Status("Singular matrix"), of=[mt(a), mt(b)])
    return (mt(found),)


def eliminated(a: Value) -> tuple[Value, Value]:
    """L and U in one matrix, and the exchanges of rows, counted from 0."""
    m, n = a.shape[-2:]
    given = (m, n, Out(mt(a).type, 0), max(m, 1), Out(vectors(a, min(m, n), INT)), Status())
    packed, pivots = call("{}getrf", *given, of=[mt(a)])
    return mt(packed), pivots - 1


def lu(a: Value) -> Values:
    if min(a.shape[-2:]) == 0:
        rows = OPS["iota"](shape=(*a.shape[:-2], a.shape[-2]), axis=a.ndim - 2, dtype=INTEGER)
        return zeros(a.type), zeros(vectors(a, 0, INT)), rows
    packed, pivots = eliminated(a)
    return packed, pivots, exchanged(pivots, size=a.shape[-2])


def slogdet(a: Value) -> Values:
    """Sign and logarithm of the product of U's diagonal, each exchange of rows turning the sign."""
    if a.shape[-1] == 0:
        real = array_type(a.shape[:-2], dtypes.real_of(a.dtype))
        return ones(array_type(a.shape[:-2], a.dtype)), zeros(real)
    packed, pivots = eliminated(a)
    d = diagonal(packed)
    last = (d.ndim - 1,)
    here = OPS["iota"](shape=pivots.shape, axis=pivots.ndim - 1, dtype=INT)
    odd = OPS["bitwise_and"](OPS["sum"](OPS["cast"](OPS["not_equal"](pivots, here), dtype=INT), axes=last), one_of(a))
    turned = OPS["cast"](1 - odd - odd, dtype=a.dtype)
    size = size_of(d)
    nothing = OPS["any"](size.equals(0), axes=last)
    signs = OPS["prod"](d * as_dtype(reciprocal(size), d.dtype) if is_complex(a) else OPS["sign"](d), axes=last)
    sign, logs = signs * turned, OPS["sum"](OPS["log"](size), axes=last)
    least = OPS["full"](value=-np.inf, shape=logs.shape, dtype=logs.dtype)
    return OPS["select"](nothing, zeros(sign.type), sign), OPS["select"](nothing, least, logs)


def one_of(a: Value) -> Value:
    """A one for each matrix of a stack."""
    made: Value = OPS["full"](value=1, shape=a.shape[:-2], dtype=INT)
    return made


def det(a: Value) -> Values:
    sign, logs = slogdet(a)
    return (sign * as_dtype(OPS["exp"](logs), a.dtype),)


# Orthogonal factors.


def qr(a: Value, *, mode: str) -> Values:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    if k == 0:
        return eye(matrices(a, m, columns)), zeros(matrices(a, columns, n))
    lda, lwork = max(m, 1), BLOCK * max(m, n)
    work = room(a, lwork), lwork, Status()
    packed, tau = call("{}geqrf", m, n, Out(mt(a).type, 0), lda, Out(vectors(a, k)), *work, of=[mt(a)])
    r = triangle(corner(mt(packed), columns, n), lower=False)
    q = mt(corner(mt(packed), m, columns))
    name = "{}ungqr" if is_complex(a) else "{}orgqr"
    (made,) = call(name, m, columns, k, Out(q.type, 0), lda, In(1), *work, of=[q, tau])
    return mt(made), r


def svd_call(a: Value, job: str) -> tuple[Value, ...]:
    """u, s and vh of a stack; s alone for the job "N"."""
    m, n = a.shape[-2:]
    k = min(m, n)
    columns, rows = (m, n) if job == "A" else (k, k)
    lwork = 5 * k * k + 10 * k + (BLOCK + 1) * (m + n)
    shapes: tuple[Argument, ...] = (Out(matrices(a, columns, m)), m, Out(matrices(a, n, rows)), rows)
    if job == "N":
        shapes = (None, m, None, n)
    extra = (real_room(a, 7 * k * k + 7 * k + 2 * (m + n) * k),) if is_complex(a) else ()
    work = room(a, lwork), lwork, *extra, Scratch(32 * k), Status("SVD did not converge")
    s = Out(vectors(a, k, dtypes.real_of(a.dtype)))
    _, values, *rest = call("{}gesdd", job, m, n, Out(mt(a).type, 0), m, s, *shapes, *work, of=[mt(a)])
    return (mt(rest[0]), values, mt(rest[1])) if rest else (values,)


def svd_full(a: Value, *, full_matrices: bool) -> Values:
    m, n = a.shape[-2:]
    if min(m, n) == 0:
        rows, columns = (m, n) if full_matrices else (0, 0)
        s = zeros(vectors(a, 0, dtypes.real_of(a.dtype)))
        return eye(matrices(a, m, rows)), s, eye(matrices(a, columns, n))
    return svd_call(a, "A" if full_matrices else "S")


def svdvals(a: Value) -> Values:
    if min(a.shape[-2:]) == 0:
        return (zeros(vectors(a, 0, dtypes.real_of(a.dtype))),)
    return svd_call(a, "N")


def pinv(a: Value, *, rcond: float) -> Values:
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


def eigh(a: Value, *, lower: bool) -> Values:
    n = a.shape[-1]
    lwork = 2 * n + n * max(n, BLOCK) if is_complex(a) else 1 + 6 * n + 2 * n * n + BLOCK * n
    lrwork, liwork = 1 + 5 * n + 2 * n * n, 3 + 5 * n
    extra = (real_room(a, lrwork), lrwork) if is_complex(a) else ()
    w = Out(vectors(a, n, dtypes.real_of(a.dtype)))
    work = room(a, lwork), lwork, *extra, Scratch(4 * liwork), liwork, Status("Eigenvalues did not converge")
    name = "{}heevd" if is_complex(a) else "{}syevd"
    v, values = call(name, "V", "UL"[lower], n, Out(a.type, 0), max(n, 1), w, *work, of=[mt(a)])
    return values, mt(v)


def eig(a: Value) -> Values:
    finite = OPS["all"](OPS["isfinite"](a), axes=tuple(range(a.ndim)))
    a = require(a, finite, kind="linalg", message="Array must not contain infs or NaNs", hint="")
    n = a.shape[-1]
    lwork = (2 * BLOCK + 4) * n
    work = room(a, lwork), lwork, *((real_room(a, 2 * n),) if is_complex(a) else ())
    parts = [Out(vectors(a, n))] * (1 if is_complex(a) else 2)
    end = Out(a.type), max(n, 1), *work, Status("Eigenvalues did not converge")
    _, *w, v = call("{}geev", "N", "V", n, Out(a.type, 0), max(n, 1), *parts, room(a, 1), 1, *end, of=[mt(a)])
    return (w[0], mt(v)) if is_complex(a) else (OPS["make_complex"](*w), mt(paired(v, w[1])))


def paired(v: Value, imaginary: Value) -> Value:
    """The rows of v as complex vectors: a conjugate pair of values has the parts of its vectors in two rows."""
    n, axis = v.shape[-1], v.ndim - 2
    if n == 0:
        return OPS["make_complex"](v, v)
    after = OPS["concat"](block(v, (1, n), (0, n)), block(v, (0, 1), (0, n)), axis=axis)
    before = OPS["concat"](block(v, (n - 1, n), (0, n)), block(v, (0, n - 1), (0, n)), axis=axis)
    w = along_columns(imaginary, v.shape)
    first, second = w > 0, w < 0
    re = OPS["select"](second, before, v)
    return OPS["make_complex"](re, OPS["select"](first, after, OPS["select"](second, -v, zeros(v.type))))


def schur(a: Value) -> tuple[Value, Value]:
    """t and z of a = z t z^H, as they lie in memory: transposed."""
    n = a.shape[-1]
    lwork = (BLOCK + 3) * n
    w = room(a, n), *(() if is_complex(a) else (room(a, n),))
    extra = (real_room(a, n),) if is_complex(a) else ()
    failed = Status("Schur form not found. Possibly ill-conditioned.")
    end = Out(a.type), max(n, 1), room(a, lwork), lwork, *extra, None, failed
    t, z = call("{}gees", "V", "N", None, n, Out(a.type, 0), max(n, 1), Scratch(4), *w, *end, of=[mt(a)])
    return t, z


EXPANSIONS: dict[str, Callable[..., Values | None]] = {
    "cholesky": in_double(cholesky),
    "triangular_solve": triangular_solve,
    "solve": in_double(solved),
    "lu": lu,
    "slogdet": in_double(slogdet),
    "det": in_double(det),
    "qr": in_double(qr),
    "svd": in_double(svd_full),
    "svdvals": in_double(svdvals),
    "pinv": pinv,
    "eigh": in_double(eigh),
    "eig": in_double(eig),
}
"""What each operation is."""
