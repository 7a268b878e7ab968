"""Linear algebra by iteration: QR, eigenvalues, singular values; over any leading batch axes.

A factorisation is only as unique as its gauge: signs and phases of vectors may be chosen freely. The derivatives
follow LAPACK's choice, which is smooth near a generic matrix: see `Eigh`, `Eig`, `SVD` and `QR`.

Derivatives: Giles, "An extended collection of matrix derivative results" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DerivativeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.arithmetic import imag, make_complex, real
from wholestep.primitives.family import Maybe, Sample, Several, conj, ones, zeros
from wholestep.primitives.linalg import solve, triangular_solve
from wholestep.primitives.logic import select
from wholestep.primitives.marks import stop_gradient
from wholestep.primitives.matrices import (
    OBLONGS,
    STACKS,
    MatrixFunction,
    along_columns,
    along_rows,
    as_dtype,
    block,
    diagonal,
    general_samples,
    hermitian,
    keep_where,
    matrix,
    mh,
    mm,
    mt,
    on_diagonal,
    real_part,
    row,
    sample_matrices,
    square,
    triangle,
)
from wholestep.primitives.movement import concat
from wholestep.primitives.reduction import argmax, sum_


def reciprocal(x: Value) -> Value:
    """1 / x, and 0 where x is exactly 0: the part of a tangent along which a degenerate problem has no derivative."""
    nothing = x.equals(0)
    return select(nothing, zeros(x.type), 1 / select(nothing, ones(x.type), x))


def gaps(w: Value, shape: tuple[Any, ...], sign: int = -1) -> Value:
    """1 / (w[j] - w[i]), or with sign 1 of the sums; 0 where that would be a division by 0."""
    first, second = along_rows(w, shape), along_columns(w, shape)
    return reciprocal(first - second if sign < 0 else first + second)


def times_imaginary(x: Value, d: Value) -> Value:
    """x times i d, with d real."""
    turned: Value = x * make_complex(zeros(d.type), d)
    return turned


def phase_correction(v: Value, dv: Value, at: int) -> Value:
    """The correction of the columns' tangents, in units of i times a column, so that row `at` of v stays real.

    Where that row holds almost nothing its phase is left alone: the quotient would be noise.
    """
    n = v.shape[-1]
    here, change = (block(x, (at, at + 1), (0, n)) for x in (v, dv))
    size = real(here)
    clear = size * size > float(np.finfo(size.dtype).eps) ** 0.5
    safe = select(clear, size, ones(size.type))
    return sum_(keep_where(-imag(change) / safe, clear), axes=(v.ndim - 2,))


def empty(a: Value) -> bool:
    """Test whether the matrices have no elements, and so no tangents."""
    return any(isinstance(n, int) and n == 0 for n in a.shape[-2:])


class QR(Several, MatrixFunction):
    """a = q r, r upper triangular with a real diagonal (of either sign: LAPACK's gauge).

    `mode` is "reduced" or "complete". The leading square block of r must be regular for a derivative.
    """

    work = 4.0

    def type(self, a: Type, *, mode: str) -> tuple[Type, Type]:
        matrix(self.name, a)
        lead, (m, n) = a.shape[:-2], a.shape[-2:]
        if mode not in ("reduced", "complete"):
            raise ShapeError(f"qr: mode is {mode!r}, not 'reduced' or 'complete'")
        k = m if mode == "complete" else min(m, n)
        return array_type((*lead, m, k), a.dtype), array_type((*lead, k, n), a.dtype)

    def ref(self, a: NDArray, *, mode: str) -> Any:
        return tuple(np.linalg.qr(a, "complete" if mode == "complete" else "reduced"))

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (q, r), (da,) = node.inputs, node.outputs, dxs
        m, n = a.shape[-2:]
        if node.params["mode"] == "complete" and m > n:
            raise DerivativeError(
                f"qr: mode='complete' has no derivative for {a.type}: the extra columns of q are not determined",
                where=node.where,
                hint="use mode='reduced', which is 'economic' in SciPy, or mode='r'",
            )
        if empty(a):
            return None, None
        assert da is not None
        k = min(m, n)
        wide = k < n
        first = block(r, (0, k), (0, k)) if wide else r
        dfirst = block(da, (0, m), (0, k)) if wide else da
        x = mt(triangular_solve(first, mt(dfirst), lower=False, unit=False, trans=1))
        s = mm(mh(q), x)
        low = triangle(s, lower=True, strict=True)
        upper = triangle(s, lower=False, strict=True) + mh(low)
        upper = upper + keep_where(as_dtype(real_part(s), s.dtype), on_diagonal(s.shape))
        dr = mm(upper, first)
        if wide:
            rest, drest = block(r, (0, k), (k, n)), block(da, (0, m), (k, n))
            dr = concat(dr, mm(mh(q), drest) - mm(s - upper, rest), axis=dr.ndim - 1)
        return x - mm(q, upper), dr

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in (*STACKS, *OBLONGS):
            mode = "complete" if shape[-2] <= shape[-1] and dtype == "f64" else "reduced"
            yield Sample((sample_matrices(rng, shape, dtype, 2.0, -3.0),), {"mode": mode}, exact=False)
        yield Sample((sample_matrices(rng, (4, 2), "f64", 2.0),), {"mode": "complete"}, exact=False, smooth=False)


class Eigh(Several, MatrixFunction):
    """Eigenvalues in ascending order and orthonormal eigenvectors of a Hermitian matrix.

    Reads the triangle that `lower` names, where the gradient lands too. Eigenvalues that are exactly equal pass
    nothing between their vectors. The gauge is LAPACK's: signs that are constant nearly everywhere, and complex
    vectors real in the first component (the last one for the upper triangle), which the derivative keeps so wherever
    that component is not almost zero.
    """

    work = 9.0

    def type(self, a: Type, *, lower: bool) -> tuple[Type, Type]:
        square(self.name, a)
        return array_type(a.shape[:-1], dtypes.real_of(a.dtype)), a

    def ref(self, a: NDArray, *, lower: bool) -> Any:
        return tuple(np.linalg.eigh(a, "L" if lower else "U"))

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (w, v), (da,) = node.inputs, node.outputs, dxs
        if empty(a):
            return None, None
        assert da is not None
        lower = node.params["lower"]
        m = mm(mh(v), mm(hermitian(da, lower), v))
        dv = mm(v, m * as_dtype(gaps(w, a.shape), a.dtype))
        if dtypes.is_complex(a.dtype):
            at = 0 if lower else a.shape[-1] - 1
            dv = dv + times_imaginary(v, along_rows(phase_correction(v, dv, at), a.shape))
        return real_part(diagonal(m)), dv

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        # Far from where LAPACK's iteration takes another branch, and a vector another sign.
        for shape, dtype in STACKS:
            below = np.tri(shape[-1], k=-1) * (1 + 0.5j if dtype[0] == "c" else 1)
            a = sample_matrices(rng, shape, dtype, 4.0, 1.0, -2.0, noise=0.2)
            a = np.asarray(a + below, a.dtype)
            yield Sample((a,), {"lower": True}, exact=False)
            yield Sample((np.conj(np.swapaxes(a, -1, -2)),), {"lower": False}, exact=False)
        yield Sample((np.diag([1.0, 2.0, 1.0]),), {"lower": True}, exact=False, smooth=False)


def mixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, noise: float) -> NDArray:
    """Matrices with singular values near 1, 2.5, 4, … and vectors without small components."""
    m, n = shape[-2:]
    left, right = (
        np.exp(-2j * np.pi * np.outer(np.arange(i), np.arange(i)) / max(i, 1)) / np.sqrt(max(i, 1)) for i in (m, n)
    )
    if dtype[0] == "f":  # the real and imaginary parts of a Fourier matrix make Hartley's, which is orthogonal
        left, right = left.real - left.imag, right.real - right.imag
    k = min(m, n)
    middle = (left[:, :k] * (1.0 + 1.5 * np.arange(k))) @ right[:, :k].conj().T
    return np.asarray(middle + sample_matrices(rng, shape, dtype, 0.0, noise=noise), dtypes.from_short(dtype))


class Eig(Several, MatrixFunction):
    """Eigenvalues and eigenvectors of any square matrix, complex always.

    Eigenvalues that are exactly equal pass nothing between their vectors. The gauge is LAPACK's: each vector has
    norm 1 and its component of largest absolute value is real.
    """

    work = 25.0

    def type(self, a: Type) -> tuple[Type, Type]:
        square(self.name, a)
        dtype = dtypes.complex_of(a.dtype)
        return array_type(a.shape[:-1], dtype), array_type(a.shape, dtype)

    def ref(self, a: NDArray) -> tuple[NDArray, NDArray]:
        w, v = np.linalg.eig(a)
        dtype = dtypes.complex_of(a.dtype)
        return w.astype(dtype), v.astype(dtype)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (w, v), (da,) = node.inputs, node.outputs, dxs
        if empty(a):
            return None, None
        assert da is not None
        m = solve(v, mm(as_dtype(da, v.dtype), v))
        dv = mm(v, m * gaps(w, a.shape))
        rows = v.ndim - 2
        size = stop_gradient(real(v * conj(v)))
        largest = row(v.shape).equals(along_rows(argmax(size, axis=rows), v.shape))
        length = sum_(real(conj(v) * dv), axes=(rows,))
        turn = imag(sum_(keep_where(dv, largest), axes=(rows,))) / real(sum_(keep_where(v, largest), axes=(rows,)))
        return diagonal(m), dv - v * along_rows(make_complex(length, turn), v.shape)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return general_samples(rng)


class SVD(Several, MatrixFunction):
    """u, s, vh with a = u diag(s) vh, s descending.

    Terms of the derivative that divide by 0, at singular values exactly equal or zero, are left out. The gauge of
    complex vectors is LAPACK's: the first column of vh is real (the first row of u for a wide matrix), and its
    derivative keeps it so wherever that component is not almost zero.
    """

    work = 20.0

    def type(self, a: Type, *, full_matrices: bool) -> tuple[Type, Type, Type]:
        matrix(self.name, a)
        lead, (m, n) = a.shape[:-2], a.shape[-2:]
        k = min(m, n)
        s = array_type((*lead, k), dtypes.real_of(a.dtype))
        u = array_type((*lead, m, m if full_matrices else k), a.dtype)
        return u, s, array_type((*lead, n if full_matrices else k, n), a.dtype)

    def ref(self, a: NDArray, *, full_matrices: bool) -> Any:
        return tuple(np.linalg.svd(a, full_matrices))

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (u, s, vh), (da,) = node.inputs, node.outputs, dxs
        m, n = a.shape[-2:]
        if node.params["full_matrices"] and m != n:
            raise DerivativeError(
                f"svd: full_matrices=True has no derivative for {a.type}: the extra vectors are not determined",
                where=node.where,
                hint="use full_matrices=False",
            )
        if empty(a):
            return None, None, None
        assert da is not None
        v, back = mh(vh), mh(da)
        right, left = mm(da, v), mm(back, u)
        p = mm(mh(u), right)
        swapped = mh(p)
        even = (p + swapped) * 0.5 * as_dtype(gaps(s, p.shape), a.dtype)
        odd = (p - swapped) * 0.5 * as_dtype(gaps(s, p.shape, sign=1), a.dtype)
        du, dv = mm(u, even + odd), mm(v, even - odd)
        share = as_dtype(reciprocal(s), a.dtype)
        if m > n:
            du = du + (right - mm(u, p)) * along_rows(share, u.shape)
        if n > m:
            dv = dv + (left - mm(v, swapped)) * along_rows(share, v.shape)
        if dtypes.is_complex(a.dtype):
            turn = phase_correction(v, dv, 0) if m >= n else phase_correction(u, du, 0)
            du = du + times_imaginary(u, along_rows(turn, u.shape))
            dv = dv + times_imaginary(v, along_rows(turn, v.shape))
        return du, real_part(diagonal(p)), mh(dv)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in (*STACKS, *OBLONGS):
            yield Sample((mixed(rng, shape, dtype, 0.2),), {"full_matrices": shape[-2] == shape[-1]}, exact=False)
        yield Sample((mixed(rng, (4, 2), "f64", 0.2),), {"full_matrices": True}, exact=False, smooth=False)
        yield Sample((np.eye(3)[:, :2],), {"full_matrices": False}, exact=False, smooth=False)
        yield Sample((np.diag([2.0, 0.0, 0.0])[:2],), {"full_matrices": False}, exact=False, smooth=False)


class SingularValues(MatrixFunction):
    """The singular values alone, descending: their tangent divides by nothing."""

    work = 8 / 3

    def type(self, a: Type) -> Type:
        matrix(self.name, a)
        return array_type((*a.shape[:-2], min(a.shape[-2:])), dtypes.real_of(a.dtype))

    def ref(self, a: NDArray) -> Any:
        return np.linalg.svd(a, compute_uv=False)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        assert dxs[0] is not None
        u, _, vh = svd(node.inputs[0], full_matrices=False)
        return (real_part(diagonal(mm(mh(u), mm(dxs[0], mh(vh))))),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in (*STACKS, *OBLONGS):
            yield Sample((mixed(rng, shape, dtype, 0.2),), exact=False)
        yield Sample((np.ones((2, 3)),), exact=False, smooth=False)


qr = QR()
eigh = Eigh()
eig = Eig()
svd = SVD()
svdvals = SingularValues("svdvals")
