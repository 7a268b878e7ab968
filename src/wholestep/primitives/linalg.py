"""Linear algebra by elimination: solves, Cholesky, LU, determinants, the pseudo-inverse; over any leading batch axes.

Derivatives: Giles, "An extended collection of matrix derivative results" (2008); Golub and Pereyra (1973).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.arithmetic import imag, make_complex, real
from wholestep.primitives.family import Maybe, Sample, Several, conj, sum_values, zeros
from wholestep.primitives.indexing import take_along
from wholestep.primitives.matrices import (
    OBLONGS,
    STACKS,
    LinearSolve,
    MatrixFunction,
    SquareFunction,
    along_columns,
    corner,
    each,
    eye,
    fits,
    hermitian,
    keep_where,
    lower_product,
    matrix,
    mh,
    mm,
    mt,
    on_diagonal,
    row,
    sample_matrices,
    scaled_identity,
    square,
    trace_mm,
    triangle,
)

_INTEGER = np.dtype(np.int64)


class Cholesky(SquareFunction):
    """a = L L^H with L lower triangular: reads the lower triangle, where the gradient lands too."""

    work = 1 / 3
    middle = (2.0, 3.0, 2.5)

    def ref(self, a: NDArray) -> Any:
        return np.linalg.cholesky(a)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (y,), (da,) = node.outputs, dxs
        assert da is not None
        half = mh(triangular_solve(y, hermitian(da, lower=True), lower=True, unit=False, trans=0))
        middle = triangular_solve(y, half, lower=True, unit=False, trans=0)
        return (lower_product(y, triangle(middle, lower=True) - keep_where(middle * 0.5, on_diagonal(y.shape))),)


class TriangularSolve(LinearSolve):
    """x with op(a) x = b, op by `trans`: 0 a, 1 a^T, 2 a^H. Reads one triangle of a, where the gradient lands too.

    With `unit` the diagonal of a counts as ones and is not read either.
    """

    work = 1.0

    def type(self, a: Type, b: Type, *, lower: bool, unit: bool, trans: int) -> Type:
        fits(self.name, a, b)
        return b

    def ref(self, a: NDArray, b: NDArray, *, lower: bool, unit: bool, trans: int) -> NDArray:
        import scipy.linalg

        def one(a: NDArray, b: NDArray) -> Any:
            return scipy.linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit, check_finite=False)

        return each(one, b.shape, a, b)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a, _), (x,), (da, db) = node.inputs, node.outputs, dxs
        params = node.params
        if da is not None:
            seen = triangle(da, params["lower"], strict=params["unit"])
            moved = -mm((seen, mt(seen), mh(seen))[params["trans"]] if params["trans"] else seen, x)
            db = sum_values([db, moved])
        return (self(a, db, **params),)  # type: ignore[arg-type]

    def adjoint(self, gy: Value, *known: Value, **params: Any) -> Value:
        if params["trans"] == 1:
            return conj(self(*known, conj(gy), **{**params, "trans": 0}))
        return self(*known, gy, **{**params, "trans": 2 - params["trans"]})

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in STACKS:
            for trans in (0, 1, 2) if dtype == "c128" else (len(shape) % 2,):
                b = sample_matrices(rng, (*shape[:-1], 2), dtype)
                params = {"lower": trans != 1, "unit": False, "trans": trans}
                yield Sample((sample_matrices(rng, shape, dtype, 2.0, 3.0), b), params, exact=False)
        a, b = sample_matrices(rng, (3, 3), "f64", 0.0), sample_matrices(rng, (3, 1), "f64")
        a[[0, 0, 1], [1, 2, 2]] = np.nan
        yield Sample((a.T, b), {"lower": False, "unit": True, "trans": 0}, exact=False, smooth=False)
        yield Sample((sample_matrices(rng, (3, 3), "f64"), b), {"lower": True, "unit": True, "trans": 1}, exact=False)
        yield Sample((a, np.zeros((3, 0))), {"lower": True, "unit": False, "trans": 0}, exact=False, smooth=False)


class Solve(LinearSolve):
    """x with a x = b."""

    work = 8 / 3

    def type(self, a: Type, b: Type) -> Type:
        fits(self.name, a, b)
        return b

    def ref(self, a: NDArray, b: NDArray) -> NDArray:
        return np.linalg.solve(a, b)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a, _), (x,), (da, db) = node.inputs, node.outputs, dxs
        return (self(a, sum_values([db, None if da is None else -mm(da, x)])),)  # type: ignore[arg-type]

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in STACKS:
            b = sample_matrices(rng, (*shape[:-1], 2), dtype)
            yield Sample((sample_matrices(rng, shape, dtype, 2.0, -3.0), b), exact=False)
        yield Sample((sample_matrices(rng, (2, 2), "f64", 2.0), np.zeros((2, 0))), exact=False)


def inverse(a: Value) -> Value:
    """The inverse matrices."""
    return solve(a, eye(a.type))


class Det(MatrixFunction):
    """The determinant; its first and second derivatives are right at singular matrices too."""

    work = 2 / 3

    def type(self, a: Type) -> Type:
        square(self.name, a)
        return array_type(a.shape[:-2], a.dtype)

    def ref(self, a: NDArray) -> Any:
        return np.linalg.det(a)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        assert dxs[0] is not None
        return (trace_mm(adjugate(node.inputs[0]), dxs[0]),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.arange(9.0).reshape(3, 3),), exact=False)
        yield Sample((np.ones((3, 3)),), exact=False)
        yield Sample((np.zeros((2, 2)),), exact=False)


def others(s: NDArray) -> NDArray:
    """For each element the product of all others along the last axis, without a division."""
    left, right = np.ones_like(s), np.ones_like(s)
    left[..., 1:] = np.cumprod(s[..., :-1], axis=-1)
    right[..., :-1] = np.cumprod(s[..., :0:-1], axis=-1)[..., ::-1]
    return np.asarray(left * right)


def rotations(a: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """u, s and v of a = u diag(s) v^H, and the determinant of u v^H for each matrix."""
    u, s, vh = np.linalg.svd(a)
    return u, s, np.conj(np.swapaxes(vh, -1, -2)), np.asarray(np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


class Adjugate(SquareFunction):
    """The transposed cofactors: the adjugate, det(a) a^-1 where a is regular, and just as exact where it is not.

    Its first derivative is right at singular matrices too, and so are all of them up to size 3; for the second and
    higher ones of larger matrices `a` must be regular.
    """

    work = 20.0

    def ref(self, a: NDArray) -> NDArray:
        u, s, v, turn = rotations(a)
        scaled = v * (others(s)[..., None, :] * turn)
        return np.asarray(scaled @ np.conj(np.swapaxes(u, -1, -2)), a.dtype)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        assert dxs[0] is not None
        return (adjugate_tangent(node.inputs[0], dxs[0]),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.ones((3, 3)),), exact=False, smooth=False)


class MatrixTangent(LinearSolve):
    """The derivative of a function of matrices at a in the direction e."""

    def type(self, a: Type, e: Type) -> Type:
        fits(self.name, a, e)
        square(self.name, e)
        return e

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in STACKS:
            a, e = sample_matrices(rng, shape, dtype, *self.middle), sample_matrices(rng, shape, dtype)
            yield Sample((a, e), exact=False)


class AdjugateTangent(MatrixTangent):
    """The derivative of the adjugate at a in the direction e; the singular values need not be distinct or positive."""

    work = 25.0

    def ref(self, a: NDArray, e: NDArray) -> NDArray:
        u, s, v, turn = rotations(a)
        uh = np.conj(np.swapaxes(u, -1, -2))
        middle = np.eye(a.shape[-1], dtype=bool)
        rest = np.where(middle, 0, others(np.where(middle, np.ones((), s.dtype), s[..., None, :])))
        turned = uh @ e @ v
        ends = np.diagonal(turned, axis1=-2, axis2=-1)
        inside = np.where(middle, (rest @ ends[..., None]), -turned * rest)
        return np.asarray(turn * (v @ inside @ uh), a.dtype)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a, e), (y,), (da, de) = node.inputs, node.outputs, dxs
        moved, size = None, a.shape[-1]
        # The adjugate is linear up to size 2, and quadratic at size 3: its second derivative is one for all a.
        if da is not None and size == 3:
            moved = self(e, da)
        elif da is not None and size not in (0, 1, 2):
            inv, adj, dadj = inverse(a), adjugate(a), self(a, da)
            dinv = -mm(inv, mm(da, inv))
            ratio, dratio = trace_mm(inv, e), trace_mm(dinv, e)
            moved = mm(scaled_identity(dratio, y.type) - mm(dinv, e), adj)
            moved = moved + mm(scaled_identity(ratio, y.type) - mm(inv, e), dadj)
        return (sum_values([moved, None if de is None else self(a, de)]),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.eye(3), sample_matrices(rng, (3, 3), "f64")), exact=False)


class Slogdet(Several, MatrixFunction):
    """The sign of the determinant and the logarithm of its absolute value; a real sign has no tangent."""

    work = 2 / 3

    def type(self, a: Type) -> tuple[Type, Type]:
        square(self.name, a)
        return array_type(a.shape[:-2], a.dtype), array_type(a.shape[:-2], dtypes.real_of(a.dtype))

    def ref(self, a: NDArray) -> tuple[Any, Any]:
        sign, logabsdet = np.linalg.slogdet(a)
        return np.asarray(sign), np.asarray(logabsdet)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (sign, _) = node.inputs, node.outputs
        assert dxs[0] is not None
        change = trace_mm(inverse(a), dxs[0])
        if not dtypes.is_complex(a.dtype):
            return None, change
        turn = imag(change)
        return sign * make_complex(zeros(turn.type), turn), real(change)


class LU(Several, MatrixFunction):
    """Elimination with partial pivoting: L and U in one matrix, the row exchanges, and the order of rows they make.

    `a[permutation] = L U`, with the ones on L's diagonal left out. The order is constant near a generic matrix.
    """

    work = 2 / 3

    def type(self, a: Type) -> tuple[Type, Type, Type]:
        matrix(self.name, a)
        lead, (m, n) = a.shape[:-2], a.shape[-2:]
        return a, array_type((*lead, min(m, n)), np.dtype(np.int32)), array_type((*lead, m), _INTEGER)

    def ref(self, a: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        import scipy.linalg

        lead, (m, n) = a.shape[:-2], a.shape[-2:]
        packed = np.array(a)
        pivots = np.zeros((*lead, min(m, n)), np.int32)
        order = np.broadcast_to(np.arange(m), (*lead, m)).copy()
        (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (a,))
        for at in np.ndindex(*lead) if packed.size else ():
            packed[at], pivots[at], _ = getrf(a[at])  # an exactly zero pivot is a result, not an error
            for i, j in enumerate(pivots[at]):
                order[at][[i, j]] = order[at][[j, i]]
        return packed, pivots, order

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (y, _, order), (da,) = node.outputs, dxs
        assert da is not None
        m, n = y.shape[-2:]
        index = along_columns(order, da.shape)
        moved = take_along(da, index, da.ndim - 2)
        left = triangle(corner(y, m, m), lower=True, strict=True)
        left = left + eye(left.type)
        right = triangle(corner(y, n, n), lower=False)
        if m < n:  # the rows of U that are not there
            right = right + keep_where(eye(right.type), row(right.shape) >= m)
        half = triangular_solve(left, moved, lower=True, unit=True, trans=0)
        middle = mt(triangular_solve(right, mt(half), lower=False, unit=False, trans=1))
        dleft = mm(left, triangle(middle, lower=True, strict=True))
        return dleft + mm(triangle(middle, lower=False), right), None, None

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in (*STACKS, *OBLONGS):
            a = sample_matrices(rng, shape, dtype, 2.0, -3.0)
            yield Sample((rng.permutation(a, axis=-2),), exact=False)
        yield Sample((np.array([[1.0, 2.0], [1.0, 3.0]]),), exact=False, smooth=False)


class Pinv(MatrixFunction):
    """The Moore-Penrose inverse, singular values below `rcond` times the largest counting as zero.

    The derivative is the one at constant rank.
    """

    work = 20.0

    def type(self, a: Type, *, rcond: float) -> Type:
        matrix(self.name, a)
        return array_type((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)

    def ref(self, a: NDArray, *, rcond: float) -> Any:
        return np.linalg.pinv(a, rcond)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (p,), (da,) = node.inputs, node.outputs, dxs
        assert da is not None
        back, ph = mh(da), mh(p)
        rows = mm(p, mm(ph, back - mm(mm(back, a), p)))
        columns = mm(mm(back, ph), p)
        return (rows + columns - mm(p, mm(a, columns)) - mm(p, mm(da, p)),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in (*STACKS, *OBLONGS):
            yield Sample((sample_matrices(rng, shape, dtype, 1.0, -1.5),), {"rcond": 1e-6}, exact=False)
        yield Sample((np.ones((2, 3)),), {"rcond": 1e-6}, exact=False, smooth=False)


cholesky = Cholesky()
triangular_solve = TriangularSolve("triangular_solve")
solve = Solve()
det = Det()
adjugate = Adjugate()
adjugate_tangent = AdjugateTangent("adjugate_tangent")
slogdet = Slogdet()
lu = LU()
pinv = Pinv()
