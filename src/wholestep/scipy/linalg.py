"""scipy.linalg: triangular and banded systems, factorisations and matrix functions, over stacks of matrices."""

from __future__ import annotations

from typing import Any

import scipy.linalg

from wholestep import dtypes
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, covers
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, lift, wrap
from wholestep.ir.graph import Value
from wholestep.primitives import linalg as la, matrices as mx, matrix_functions as mf, spectral as sp
from wholestep.scipy.matrix_forms import (
    eigh_tridiagonal as eigh_tridiagonal,
    eigvalsh_tridiagonal as eigvalsh_tridiagonal,
    funm as funm,
    hessenberg as hessenberg,
    polar as polar,
    rsf2csf as rsf2csf,
    schur as schur,
)
from wholestep.scipy.matrix_series import (
    coshm as coshm,
    cosm as cosm,
    fractional_matrix_power as fractional_matrix_power,
    logm as logm,
    signm as signm,
    sinhm as sinhm,
    sinm as sinm,
    tanhm as tanhm,
    tanm as tanm,
)
from wholestep.scipy.outside import check_square, fallback, lapack_operands, np, refuse_estimate, square_operand

outside: Any = scipy.linalg


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


def systems(name: str, a: Any, b: Any) -> tuple[Value, Value, bool]:
    """A stack of square matrices, right-hand sides over the same leading axes, and whether they are vectors."""
    left, right = lapack_operands(name, a, b)
    check_square(name, left)
    single = right.ndim == 1
    if right.ndim == 0 or right.shape[-1 if single else -2] != left.shape[-1]:
        raise ShapeError(f"{name}: sizes differ: {left.type} and {right.type}", hint="b has as many rows as a")
    if single:
        right = wrap(right)[:, None].value
    head = broadcast_shapes(name, [left.shape[:-2], right.shape[:-2]])
    left, right = [broadcast_to(v, (*head, *v.shape[-2:])) for v in (left, right)]
    return left, right, single


def solution_like(made: Value, single: bool) -> Any:
    """Solutions, as a vector where the right-hand side was one."""
    return wrap(made)[..., 0] if single else wrap(made)


def transposition(trans: Any) -> int:
    """0, 1 or 2 for the matrix, its transpose, its conjugate transpose."""
    found = {"N": 0, "T": 1, "C": 2, 0: 0, 1: 1, 2: 2}.get(trans)
    if found is None:
        raise ValueError(f"trans is {trans!r}, not one of 0, 1, 2, 'N', 'T', 'C'")
    return found


@binds(outside.solve_triangular, ignored="overwrite_b check_finite")
def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """scipy.linalg.solve_triangular: reads one triangle, where the gradient lands too."""
    left, right, single = systems("solve_triangular", a, b)
    made = la.triangular_solve(left, right, lower=bool(lower), unit=bool(unit_diagonal), trans=transposition(trans))
    return solution_like(made, single)


def factor_of(v: Value, lower: bool) -> Value:
    """The Cholesky factor of the triangle that is read."""
    return la.cholesky(v) if lower else mx.mh(la.cholesky(mx.mh(v)))


@covers(outside.cholesky)
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """scipy.linalg.cholesky: reads one triangle, where the gradient lands too."""
    return wrap(factor_of(square_operand("cholesky", a), lower))


@covers(outside.cho_factor)
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """scipy.linalg.cho_factor, with zeros in the triangle that SciPy leaves undefined."""
    return cholesky(a, lower), lower


@covers(outside.cho_solve)
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """scipy.linalg.cho_solve."""
    factor, lower = c_and_lower
    left, right, single = systems("cho_solve", factor, b)
    return solution_like(from_factor(left, right, bool(lower)), single)


def from_factor(factor: Value, b: Value, lower: bool) -> Value:
    """The solution of a x = b from a's Cholesky factor."""
    half = la.triangular_solve(factor, b, lower=lower, unit=False, trans=0 if lower else 2)
    return la.triangular_solve(factor, half, lower=lower, unit=False, trans=2 if lower else 0)


@binds(outside.solve, ignored="overwrite_a overwrite_b check_finite")
def solve(a: Any, b: Any, lower: bool = False, assume_a: Any = None, transposed: bool = False) -> Any:
    """scipy.linalg.solve: `assume_a`, the structure of the matrix, selects the triangle that is read."""
    left, right, single = systems("solve", a, b)
    trans = 1 if transposed else 0
    if assume_a in ("upper triangular", "lower triangular"):
        low = assume_a == "lower triangular"
        return solution_like(la.triangular_solve(left, right, lower=low, unit=False, trans=trans), single)
    if assume_a in ("pos", "positive definite", "her", "hermitian", "sym", "symmetric"):
        if assume_a in ("sym", "symmetric") and left.dtype.kind == "c":
            part = mx.triangle(left, lower, strict=True)
            left = mx.triangle(left, lower) + mx.mt(part)
        else:
            left = mx.hermitian(left, bool(lower))
    elif assume_a not in (None, "gen", "general", "diagonal", "tridiagonal", "banded"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return solution_like(la.solve(mx.mt(left) if transposed else left, right), single)


@binds(outside.inv, ignored="overwrite_a check_finite")
def inv(a: Any, assume_a: Any = None, lower: bool = False) -> Any:
    """scipy.linalg.inv."""
    v = square_operand("inv", a)
    return solve(wrap(v), np.eye(int(v.shape[-1]), dtype=v.dtype), lower=lower, assume_a=assume_a)


@covers(outside.det)
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """scipy.linalg.det, in double precision as SciPy gives it."""
    (v,) = lapack_operands("det", a)
    wide = wrap(v).astype(np.complex128 if v.dtype.kind == "c" else np.float64).value
    return wrap(la.det(check_square("det", wide)))


@covers(outside.lu_factor)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """scipy.linalg.lu_factor."""
    (v,) = lapack_operands("lu_factor", a)
    packed, pivots, _ = la.lu(v)
    return wrap(packed), wrap(pivots)


@covers(outside.lu_solve)
def lu_solve(lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """scipy.linalg.lu_solve; the pivots are exchanged one after the other."""
    packed, pivots = lu_and_piv
    left, right, single = systems("lu_solve", packed, b)
    n, kind = int(left.shape[-1]), transposition(trans)
    order = permutation(lift(pivots), n)
    head = right.shape[:-2]
    index = np.broadcast_to(order[..., None], (*head, n, right.shape[-1]))
    if kind == 0:
        moved = np.take_along_axis(wrap(right), index, -2).value
        half = la.triangular_solve(left, moved, lower=True, unit=True, trans=0)
        return solution_like(la.triangular_solve(left, half, lower=False, unit=False, trans=0), single)
    half = la.triangular_solve(left, right, lower=False, unit=False, trans=kind)
    made = wrap(la.triangular_solve(left, half, lower=True, unit=True, trans=kind))
    back = np.broadcast_to(np.argsort(order, axis=-1)[..., None], index.shape)
    return solution_like(np.take_along_axis(made, back, -2).value, single)


def permutation(pivots: Any, n: int) -> Any:
    """The order of rows that a sequence of exchanges makes."""
    rows = np.arange(n)
    order = np.broadcast_to(rows, (*pivots.shape[:-1], n))
    for i in range(pivots.shape[-1]):
        j = pivots[..., i : i + 1].astype(np.int64)
        here = order[..., i : i + 1]
        there = np.take_along_axis(lift(order), j, -1)
        order = np.where(rows == i, there, np.where(rows == j, here, order))
    return lift(order)


@binds(outside.lu, ignored="overwrite_a check_finite")
def lu(a: Any, permute_l: bool = False, p_indices: bool = False) -> Any:
    """scipy.linalg.lu."""
    (v,) = lapack_operands("lu", a)
    packed, _, order = la.lu(v)
    m, n = v.shape[-2:]
    k = min(m, n)
    lower = mx.triangle(mx.corner(packed, m, k), lower=True, strict=True)
    left: Any = wrap(lower + mx.eye(lower.type))
    upper = wrap(mx.triangle(mx.corner(packed, k, n), lower=False))
    back = np.argsort(wrap(order), axis=-1)
    if permute_l:
        return np.take_along_axis(left, np.broadcast_to(back[..., None], left.shape), -2), upper
    if p_indices:
        return back.astype(np.int32), left, upper
    return (back[..., None] == np.arange(int(m))).astype(dtypes.real_of(v.dtype)), left, upper


@covers(outside.expm)
def expm(A: Any) -> Array:
    """scipy.linalg.expm."""
    a = square_operand("expm", A)
    # The series of one infinite element is nan, and its exponential is not.
    return np.exp(wrap(a)) if a.shape[-1] == 1 else wrap(mf.expm(a))


@covers(outside.sqrtm)
def sqrtm(A: Any, disp: Any = True, blocksize: Any = None) -> Array:
    """scipy.linalg.sqrtm; a real matrix must have a real root. Raises UnsupportedError for disp=False."""
    refuse_estimate("sqrtm", disp)
    return wrap(mf.sqrtm(square_operand("sqrtm", A)))


@covers(outside.solve_sylvester)
def solve_sylvester(a: Any, b: Any, q: Any) -> Array:
    """scipy.linalg.solve_sylvester."""
    return wrap(mf.solve_sylvester(*lapack_operands("solve_sylvester", a, b, q)))


@binds(outside.solve_banded, ignored="overwrite_ab overwrite_b check_finite")
def solve_banded(l_and_u: Any, ab: Any, b: Any) -> Any:
    """scipy.linalg.solve_banded, by a dense solve."""
    below, above = l_and_u
    bands = lift(ab)
    if bands.ndim != 2 or bands.shape[0] != below + above + 1:
        raise ShapeError(f"solve_banded: {bands.type} does not have {below + above + 1} rows of diagonals")
    n = int(bands.shape[1])
    rows, columns = np.indices((n, n))
    inside = (rows - columns <= below) & (columns - rows <= above)
    dense = np.where(inside, bands[np.where(inside, above + rows - columns, 0), columns], 0)
    return solve(dense, b)


@covers(outside.block_diag)
def block_diag(*arrs: Any) -> Any:
    """scipy.linalg.block_diag."""
    blocks = [np.atleast_2d(lift(a)) for a in arrs]
    width = sum(int(b.shape[1]) for b in blocks)
    rows, start = [], 0
    for b in blocks:
        if b.ndim != 2:
            raise ShapeError(f"block_diag: takes matrices, not {b.type}")
        stop = start + int(b.shape[1])
        rows.append(np.pad(b, ((0, 0), (start, width - stop))))
        start = stop
    return np.concatenate(rows, axis=0)


@covers(outside.toeplitz)
def toeplitz(c: Any, r: Any = None) -> Any:
    """scipy.linalg.toeplitz, of vectors."""
    column = lift(c)
    row = np.conjugate(column) if r is None else lift(r)
    if column.ndim != 1 or row.ndim != 1:
        raise ShapeError(f"toeplitz: takes vectors: {column.type} and {row.type}")
    numbers = np.concatenate([column[::-1], row[1:]])
    m, n = int(column.shape[0]), int(row.shape[0])
    return numbers[np.arange(m)[::-1, None] + np.arange(n)]


@binds(outside.solve_toeplitz, ignored="check_finite")
def solve_toeplitz(c_or_cr: Any, b: Any) -> Any:
    """scipy.linalg.solve_toeplitz, by a dense solve in double precision."""
    column, row = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    matrix, side = toeplitz(column, row), lift(b)
    if side.ndim not in (1, 2) or matrix.shape != (side.shape[0],) * 2:
        raise ShapeError(f"solve_toeplitz: sizes differ: {matrix.type} and {side.type}", hint="b has as many rows as c")
    return solve(*[x.astype(np.result_type(x.dtype, np.float64), copy=False) for x in (matrix, side)])


@covers(outside.eigh)
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, **options: Any) -> Any:
    """scipy.linalg.eigh, of one matrix or of a pair (a x = w b x); the signs of vectors are those of numpy.linalg."""
    chosen = {k: v for k, v in options.items() if k.startswith("subset") and v is not None}
    if chosen or options.get("type", 1) != 1:
        raise UnsupportedError("eigh: subsets of eigenvalues and other problem types are not covered for traced arrays")
    if b is None:
        w, vectors = sp.eigh(square_operand("eigh", a), lower=bool(lower))
        return wrap(w) if eigvals_only else (wrap(w), wrap(vectors))
    left, right = lapack_operands("eigh", a, b)
    factor = factor_of(check_square("eigh", right), lower)
    factor = factor if lower else mx.mh(factor)
    half = la.triangular_solve(factor, mx.hermitian(left, bool(lower)), lower=True, unit=False, trans=0)
    middle = la.triangular_solve(factor, mx.mh(half), lower=True, unit=False, trans=0)
    w, y = sp.eigh(middle, lower=True)
    if eigvals_only:
        return wrap(w)
    return wrap(w), wrap(la.triangular_solve(factor, y, lower=True, unit=False, trans=2))


@covers(outside.eigvalsh)
def eigvalsh(a: Any, b: Any = None, *, lower: bool = True, **options: Any) -> Any:
    """scipy.linalg.eigvalsh."""
    return eigh(lift(a), b, lower=lower, eigvals_only=True, **options)


@binds(outside.svd, ignored="overwrite_a check_finite lapack_driver")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """scipy.linalg.svd."""
    (v,) = lapack_operands("svd", a)
    if not compute_uv:
        return wrap(sp.svdvals(v))
    return tuple([wrap(x) for x in sp.svd(v, full_matrices=full_matrices or v.shape[-1] == v.shape[-2])])


@covers(outside.svdvals)
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """scipy.linalg.svdvals."""
    return wrap(sp.svdvals(*lapack_operands("svdvals", a)))


@binds(outside.qr, ignored="overwrite_a lwork check_finite")
def qr(a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    """scipy.linalg.qr in the modes full, economic and r, without pivoting."""
    if pivoting or mode not in ("full", "economic", "r"):
        raise UnsupportedError(f"qr: pivoting and mode {mode!r} are not covered", hint="use mode='economic'")
    (v,) = lapack_operands("qr", a)
    tall = max(v.shape[-2] - v.shape[-1], 0)
    q, r = sp.qr(v, mode="complete" if mode == "full" and tall else "reduced")
    if mode == "r":
        return (np.pad(wrap(r), [(0, 0)] * (v.ndim - 2) + [(0, tall), (0, 0)]),)
    return wrap(q), wrap(r)
