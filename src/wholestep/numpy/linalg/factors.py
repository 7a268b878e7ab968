"""numpy.linalg: solves and factorisations over stacks of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, lift, promoted, wrap
from wholestep.ir.graph import Value
from wholestep.primitives import linalg as la, matrices as mx, spectral as sp
from wholestep.primitives.order import sort

_NO_VALUE = np._NoValue
_ONE = np.eye(1)
_SLOGDET: Any = type(np.linalg.slogdet(_ONE))
_QR: Any = type(np.linalg.qr(_ONE))
_EIG: Any = type(np.linalg.eig(_ONE))
_EIGH: Any = type(np.linalg.eigh(_ONE))
_SVD: Any = type(np.linalg.svd(_ONE))


def common_inexact(name: str, *xs: Any) -> list[Value]:
    """Operands in the one dtype that NumPy's linear algebra computes in: integers in float64, no half precision."""
    arrays = [lift(x) for x in xs]
    wide = np.zeros((), np.float64 if any(x.dtype.kind in "biu" for x in arrays) else arrays[0].dtype)
    values = promoted(*arrays, wide)[:-1]
    dtype = values[0].dtype
    if dtypes.short(dtype) in ("f16", "bf16"):
        raise DtypeError(
            f"{name}: array type {dtype} is unsupported in linalg", hint="cast to float32 or float64 first"
        )
    return values


def largest(a: Any, axis: int, keepdims: bool = False) -> Any:
    """The largest of numbers that are not negative, along an axis; 0 of none."""
    n = a.shape[axis]
    none: dict[str, Any] = {"initial": 0} if isinstance(n, int) and n == 0 else {}
    return np.max(a, axis=axis, keepdims=keepdims, **none)


def check_matrix(name: str, x: Any, square: bool = False) -> Value:
    """A stack of matrices; raises ShapeError for anything else."""
    (v,) = common_inexact(name, x)
    return checked_matrix(name, v, square)


def checked_matrix(name: str, v: Value, square: bool = False) -> Value:
    """The value, checked to be a stack of matrices, square if `square`; raises ShapeError."""
    if v.ndim < 2:
        raise ShapeError(f"{name}: takes matrices, arrays of two axes or more, not {v.type}")
    if square and v.shape[-1] != v.shape[-2]:
        raise ShapeError(f"{name}: the last two sizes must be equal, and {v.type} is not square")
    return v


def with_head(v: Value, head: tuple[Any, ...], core: int = 2) -> Value:
    """A stack repeated over leading axes."""
    return broadcast_to(v, (*head, *v.shape[v.ndim - core :]))


def together(name: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Two stacks of matrices with the same leading axes."""
    if a.shape[:-2] == b.shape[:-2]:
        return a, b
    head = broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    return with_head(a, head), with_head(b, head)


@covers(np.linalg.solve)
def solve(a: Any, b: Any) -> Array:
    """numpy.linalg.solve; b is a vector where it has one axis, and a stack of matrices otherwise."""
    left, right = common_inexact("solve", a, b)
    checked_matrix("solve", left, square=True)
    if right.ndim == 0 or right.shape[max(right.ndim - 2, 0)] != left.shape[-1]:
        raise ShapeError(f"solve: sizes differ: {left.type} and {right.type}", hint="b has as many rows as a")
    if right.ndim == 1:
        wide = with_head(wrap(right)[:, None].value, left.shape[:-2])
        return wrap(la.solve(left, wide))[..., 0]  # type: ignore[no-any-return]
    return wrap(la.solve(*together("solve", left, right)))


@covers(np.linalg.inv)
def inv(a: Any) -> Array:
    """numpy.linalg.inv."""
    return wrap(la.inverse(check_matrix("inv", a, square=True)))


@covers(np.linalg.det)
def det(a: Any) -> Array:
    """numpy.linalg.det; differentiable at singular matrices too."""
    return wrap(la.det(check_matrix("det", a, square=True)))


@covers(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """numpy.linalg.slogdet."""
    return _SLOGDET(*[wrap(v) for v in la.slogdet(check_matrix("slogdet", a, square=True))])


@covers(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Array:
    """numpy.linalg.cholesky: reads one triangle, where the gradient lands too."""
    v = check_matrix("cholesky", a, square=True)
    return wrap(mx.mh(la.cholesky(mx.mh(v)))) if upper else wrap(la.cholesky(v))


@covers(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """numpy.linalg.qr in the modes reduced, complete and r."""
    if mode not in ("reduced", "complete", "r"):
        raise UnsupportedError(
            f"qr: mode {mode!r} is not covered for traced arrays", hint="use 'reduced' or 'complete'"
        )
    v = check_matrix("qr", a)
    q, r = sp.qr(v, mode="complete" if mode == "complete" else "reduced")
    return wrap(r) if mode == "r" else _QR(wrap(q), wrap(r))


def lower_triangle(UPLO: str) -> bool:
    """Test whether the lower triangle is the one to read."""
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper() == "L"


@covers(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """numpy.linalg.eigh: reads one triangle, where the gradient lands too."""
    lower = lower_triangle(UPLO)
    return _EIGH(*[wrap(v) for v in sp.eigh(check_matrix("eigh", a, square=True), lower=lower)])


@covers(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Array:
    """numpy.linalg.eigvalsh."""
    return wrap(sp.eigh(check_matrix("eigvalsh", a, square=True), lower=lower_triangle(UPLO))[0])


def as_found(a: Value, w: Value, *others: Value) -> list[Value]:
    """Eigenvalues and vectors, real ones where the matrix is real and they are known to be real."""
    known = w.data
    if dtypes.is_complex(a.dtype) or known is None or np.any(known.imag):
        return [w, *others]
    return [mx.real_part(v) for v in (w, *others)]


@covers(np.linalg.eig)
def eig(a: Any) -> Any:
    """numpy.linalg.eig: complex, but for a real matrix whose eigenvalues are known to be real."""
    v = check_matrix("eig", a, square=True)
    return _EIG(*[wrap(x) for x in as_found(v, *sp.eig(v))])


@covers(np.linalg.eigvals)
def eigvals(a: Any) -> Array:
    """numpy.linalg.eigvals: complex, but for a real matrix whose eigenvalues are known to be real."""
    v = check_matrix("eigvals", a, square=True)
    return wrap(as_found(v, sp.eig(v)[0])[0])


@covers(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """numpy.linalg.svd."""
    v = check_matrix("svd", a, square=hermitian)
    if hermitian:
        return hermitian_svd(v, compute_uv)
    if not compute_uv:
        return wrap(sp.svdvals(v))
    square = v.shape[-1] == v.shape[-2]
    return _SVD(*[wrap(x) for x in sp.svd(v, full_matrices=full_matrices or square)])


def hermitian_svd(v: Value, compute_uv: bool) -> Any:
    """Singular values and vectors of a Hermitian matrix by its eigenvalues."""
    pairs: Any = [wrap(x) for x in sp.eigh(v, lower=True)]
    w, u = pairs
    values, indices = [wrap(x)[..., ::-1] for x in sort(abs(w).value, axis=w.ndim - 1)]
    if not compute_uv:
        return values
    sign = np.take_along_axis(np.sign(w), indices, -1)
    u = np.take_along_axis(u, np.broadcast_to(indices[..., None, :], u.shape), -1)
    vh = np.conjugate(np.swapaxes(u * sign[..., None, :], -1, -2))
    return _SVD(u, values, vh)


@covers(np.linalg.svdvals)
def svdvals(x: Any, /) -> Array:
    """numpy.linalg.svdvals."""
    return wrap(sp.svdvals(check_matrix("svdvals", x)))


def cutoff(name: str, rcond: Any) -> float:
    """A relative size below which singular values count as zero; it is part of the program."""
    if isinstance(rcond, Array) or np.ndim(rcond):
        raise UnsupportedError(f"{name}: the cut-off is one plain number for traced arrays")
    return float(rcond)


@covers(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = _NO_VALUE) -> Array:
    """numpy.linalg.pinv; its derivative is the one at constant rank."""
    v = check_matrix("pinv", a, square=hermitian)
    if rcond is None:
        rcond = 1e-15 if rtol is _NO_VALUE else rtol
        if rcond is None:
            rcond = max(v.shape[-2:]) * np.finfo(v.dtype).eps
    elif rtol is not _NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    v = mx.hermitian(v, lower=True) if hermitian else v
    if is_traced(rcond) or np.ndim(rcond) == 0:
        return wrap(la.pinv(v, rcond=cutoff("pinv", rcond)))
    return _pinv_of_each(wrap(v), np.broadcast_to(rcond, v.shape[:-2]))


def _pinv_of_each(x: Array, cutoffs: Any) -> Array:
    """The inverses of a stack, each with a cut-off of its own; those of one cut-off at once."""
    rows, flat, made = x.reshape((-1, *x.shape[-2:])), cutoffs.reshape(-1), []
    order = np.argsort(flat, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(flat[order])) + 1) if order.size else []:
        made.append(wrap(la.pinv(rows[places].value, rcond=float(flat[places[0]]))))
    whole = lift(np.concatenate(made))[np.argsort(order)] if made else lift(np.swapaxes(rows, -1, -2))
    return whole.reshape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


@covers(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """numpy.linalg.lstsq; where the rank is not known, the residuals are given as if it were full."""
    x, y = common_inexact("lstsq", a, b)
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(f"lstsq: takes a matrix and as many rows of b: {x.type} and {y.type}")
    m, n = x.shape
    eps = float(np.finfo(x.dtype).eps)
    limit = eps * max(m, n) if rcond is None else eps if rcond == -1 else cutoff("lstsq", rcond)
    s: Any = wrap(sp.svdvals(x))
    rank: Any = np.sum(s > limit * s[:1], dtype=np.int32) if min(m, n) else np.sum(s, dtype=np.int32)
    found = wrap(la.pinv(x, rcond=limit)) @ wrap(y)
    known = rank.value.data
    if m <= n or (known is not None and int(known) < n):
        return found, np.empty(0, s.dtype), rank, s
    off = wrap(y) - wrap(x) @ found
    square = off.real**2 + off.imag**2 if dtypes.is_complex(off.dtype) else off * off
    return found, np.sum(square.reshape(m, -1), axis=0), rank, s


@covers(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """numpy.linalg.matrix_rank, an integer."""
    x = lift(A)
    if tol is not None and rtol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    if x.ndim < 2:
        return np.any(x != 0).astype(np.int64)
    s = svd(x, compute_uv=False, hermitian=hermitian)
    if tol is None:
        eps = max(x.shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else lift(rtol)[..., None]
        tol = largest(s, -1, keepdims=True) * eps
    else:
        tol = lift(tol)[..., None]
    return np.sum(s > tol, axis=-1)
