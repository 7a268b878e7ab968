"""scipy.linalg: polar, Hessenberg and Schur forms of matrices, tridiagonal eigenproblems, functions of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.linalg

from wholestep import dtypes
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.control import fori_loop
from wholestep.frontend.custom import custom_jvp
from wholestep.frontend.derivatives import jvp
from wholestep.frontend.dispatch import binds, covers
from wholestep.frontend.promotion import cast_to, lift, wrap
from wholestep.frontend.source.entrance import followed
from wholestep.frontend.transposition import closure_convert
from wholestep.primitives import matrices as mx, matrix_functions as mf, schur_forms as sf, spectral as sp
from wholestep.scipy.outside import lapack_operands, np, refuse_estimate, square_operand

outside: Any = scipy.linalg


def adjoint(a: Any) -> Any:
    """The conjugate transposed matrices."""
    return np.conjugate(np.swapaxes(a, -1, -2))


@covers(outside.polar)
def polar(a: Any, side: str = "right") -> Any:
    """scipy.linalg.polar; a derivative needs columns, or of a wide matrix rows, that are linearly independent."""
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    (v,) = lapack_operands("polar", a)
    if v.ndim < 2:
        raise ShapeError(f"polar: takes matrices, not {v.type}")
    whole: Any = wrap(v)
    wide = v.shape[-2] < v.shape[-1]
    u = adjoint(unitary_factor(adjoint(whole))) if wide else unitary_factor(whole)
    p = adjoint(u) @ whole if side == "right" else whole @ adjoint(u)
    return u, (p + adjoint(p)) / 2


@custom_jvp
def unitary_factor(a: Any) -> Any:
    """u with orthonormal columns and a = u p, p Hermitian and without negative eigenvalues."""
    u, _, vh = sp.svd(a.value, full_matrices=False)
    return wrap(mx.mm(u, vh))


def unitary_tangent(primals: Any, tangents: Any) -> Any:
    """The derivative of `unitary_factor`: u x, with x p + p x the skew part, plus the part outside the column space.

    Higham, "Computing the polar decomposition, with applications", 1986.
    """
    (a,), (da,) = primals, tangents
    u = unitary_factor(a)
    p, moved = adjoint(u) @ a, adjoint(u) @ da
    turned = wrap(mf.solve_sylvester(p.value, p.value, (moved - adjoint(moved)).value))
    du = u @ turned
    if a.shape[-2] > a.shape[-1]:
        du = du + np.swapaxes(np.linalg.solve(np.swapaxes(p, -1, -2), np.swapaxes(da - u @ moved, -1, -2)), -1, -2)
    return u, du


unitary_factor.defjvp(unitary_tangent)


@binds(outside.hessenberg, ignored="overwrite_a check_finite")
def hessenberg(a: Any, calc_q: bool = False) -> Any:
    """scipy.linalg.hessenberg, by Householder's reflections with LAPACK's signs.

    A column that is zero below the subdiagonal already is not reflected, and has no derivative there.
    """
    v = square_operand("hessenberg", a)
    n = int(v.shape[-1])
    rows = np.arange(n)
    h: Any = wrap(v)
    q: Any = np.broadcast_to(lift(np.eye(n, dtype=v.dtype if n > 2 else np.float64)), v.shape)
    if n > 2:
        h, q = fori_loop(0, n - 1, lambda k, both: reflected(rows, k, *both), (h, q))
        h = np.where(rows[:, None] > rows + 1, 0, h)
    elif getattr(a, "dtype", None) == v.dtype:
        h = a  # SciPy hands the matrix itself back, which writes reach
    return (h, q) if calc_q else h


def reflected(rows: Any, k: Any, h: Any, q: Any) -> Any:
    """h with column k reflected onto its first k + 2 elements, from both sides, and q times the reflection.

    Golub and Van Loan, "Matrix computations", 2013, section 7.4.3.
    """
    column, first = h[..., k], h[..., k + 1, k]
    rest = np.where(rows > k + 1, column, 0)
    size = np.sum(np.abs(rest) ** 2, axis=-1)
    idle = (size == 0) & (first.imag == 0)
    length = np.sqrt(np.where(idle, 1.0, size + (first * np.conjugate(first)).real))
    beta = np.where(first.real >= 0, -length, length)
    away = np.where(idle, 1.0, first - beta)[..., None]
    w = np.where(rows == k + 1, 1.0, rest / away)
    tau = np.where(idle, 0.0, (beta - first) / beta)[..., None, None]
    across, down = np.conjugate(w)[..., None, :], w[..., None]
    h = h - tau * (h @ down) * across
    return h - np.conjugate(tau) * down * (across @ h), q - tau * (q @ down) * across


@binds(outside.schur, ignored="lwork overwrite_a check_finite")
def schur(a: Any, output: str = "real", sort: Any = None) -> Any:
    """scipy.linalg.schur; of complex output the largest component of each column of the unitary factor is positive.

    A real form has SciPy's signs. Derivatives need eigenvalues that differ: equal ones pass nothing between their
    columns, and a pair whose block is a multiple of a rotation nothing within.
    """
    if output not in ("real", "complex", "r", "c"):
        raise ValueError("argument must be 'real', or 'complex'")
    if sort is not None:
        raise UnsupportedError(
            "schur: sort= is not covered for traced arrays, since the number of chosen eigenvalues is not known",
            hint="sort the eigenvalues, which are on the diagonal, instead",
        )
    v = square_operand("schur", a)
    if output[0] == "c":
        v = cast_to(v, dtypes.complex_of(v.dtype))
    t, z = sf.schur(v)
    return wrap(t), wrap(z)


@covers(outside.rsf2csf)
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> Any:
    """scipy.linalg.rsf2csf, by the complex form of the real one; phases are those of `schur`."""
    upper, turned = [wrap(x) for x in lapack_operands("rsf2csf", T, Z)]
    t, z = schur(upper, output="complex")
    if turned.shape != upper.shape:
        raise ShapeError(f"rsf2csf: sizes differ: {upper.value.type} and {turned.value.type}")
    return t, turned @ z


@binds(outside.eigh_tridiagonal, ignored="check_finite tol lapack_driver")
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: Any = "a", select_range: Any = None) -> Any:
    """scipy.linalg.eigh_tridiagonal, by a dense matrix; all eigenvalues, or those of a range of indices."""
    chosen = slice(None)
    if select in ("i", 2):
        low, high = select_range
        chosen = slice(int(low), int(high) + 1)
    elif select not in ("a", 0):
        raise UnsupportedError(
            f"eigh_tridiagonal: select={select!r} makes a result whose size depends on values",
            hint="take all eigenvalues and choose by np.where, or select='i'",
        )
    along, beside = [wrap(x) for x in lapack_operands("eigh_tridiagonal", d, e)]
    if along.dtype.kind == "c" or along.ndim != 1 or beside.shape != (along.shape[0] - 1,):
        raise ShapeError(
            f"eigh_tridiagonal: takes a real diagonal [n] and one [n - 1] below, not {along.type} and {beside.type}"
        )
    w, vectors = sp.eigh((np.diag(along) + np.diag(beside, -1)).value, lower=True)
    return wrap(w)[chosen] if eigvals_only else (wrap(w)[chosen], wrap(vectors)[:, chosen])


@binds(outside.eigvalsh_tridiagonal, ignored="check_finite tol lapack_driver")
def eigvalsh_tridiagonal(d: Any, e: Any, select: Any = "a", select_range: Any = None) -> Any:
    """scipy.linalg.eigvalsh_tridiagonal, as eigh_tridiagonal."""
    return eigh_tridiagonal(lift(d), e, eigvals_only=True, select=select, select_range=select_range)


@covers(outside.funm)
def funm(A: Any, func: Callable[..., Any], disp: Any = True) -> Any:
    """scipy.linalg.funm, by eigenvectors, of which the matrix has as many as rows; of a real one real, or else NaN."""
    refuse_estimate("funm", disp)
    whole, real = complex_and_real("funm", A)
    f, closed = closure_convert(followed(func), np.zeros(whole.shape[:-1], whole.dtype))
    found = function_of_matrix(f, whole, closed)
    return real_or_nan(found) if real else found


def complex_and_real(name: str, a: Any) -> tuple[Any, bool]:
    """A stack of square matrices as complex ones, and whether it was real."""
    v = square_operand(name, a)
    return wrap(cast_to(v, dtypes.complex_of(v.dtype))), v.dtype.kind != "c"


def real_or_nan(found: Any) -> Any:
    """The real parts of matrices that are real to rounding, and NaN for others."""
    eps = dtypes.limits(dtypes.real_of(found.dtype)).eps
    limit = 1e3 * eps * np.max(np.abs(found), axis=(-2, -1), keepdims=True)
    return np.where(np.max(np.abs(found.imag), axis=(-2, -1), keepdims=True) <= limit, found.real, np.nan)


def times_inverse(x: Any, vectors: Any) -> Any:
    """x times the inverse of the vectors."""
    return np.swapaxes(np.linalg.solve(np.swapaxes(vectors, -1, -2), np.swapaxes(x, -1, -2)), -1, -2)


@custom_jvp
def function_of_matrix(f: Any, a: Any, closed: Any) -> Any:
    """f of a complex matrix, f with the arrays that it closes over as further arguments."""
    w, vectors = [wrap(x) for x in sp.eig(a.value)]
    return times_inverse(vectors * f(w, *closed)[..., None, :], vectors)


def function_tangent(primals: Any, tangents: Any) -> Any:
    """The derivative of `function_of_matrix`, by divided differences; near equal eigenvalues the slope between them.

    Daleckii and Krein, "Integration and differentiation of functions of Hermitian operators", 1965; Higham, "Functions
    of matrices", 2008, section 3.2.
    """
    (f, a, closed), (_, da, dclosed) = primals, tangents
    w, vectors = [wrap(x) for x in sp.eig(a.value)]
    there, moved = jvp(lambda *given: f(w, *given), closed, dclosed) if closed else (f(w), None)
    left, right = w[..., :, None], w[..., None, :]
    gap, scale = left - right, 1 + np.abs(left) + np.abs(right)
    near = np.abs(gap) < float(dtypes.limits(dtypes.real_of(w.dtype)).eps) ** (1 / 3) * scale
    middle = (left + right) / 2
    slope = jvp(lambda w: f_of_columns(f, w, closed), (middle,), (np.ones_like(middle),))[1]
    quotient = (there[..., :, None] - there[..., None, :]) / np.where(near, 1.0, gap)
    change = np.where(near, slope, quotient) * np.linalg.solve(vectors, da @ vectors)
    inside = vectors @ change if moved is None else vectors @ change + vectors * moved[..., None, :]
    return function_of_matrix(f, a, closed), times_inverse(inside, vectors)


def f_of_columns(f: Any, w: Any, closed: Any) -> Any:
    """f of each column of numbers; f takes as many numbers at a time as a matrix has eigenvalues."""
    return np.stack([f(w[..., j], *closed) for j in range(int(w.shape[-1]))], axis=-1)


function_of_matrix.defjvp(function_tangent)
