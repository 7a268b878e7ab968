"""Functions of matrices: the exponential, the square root, Sylvester's equation; over any leading batch axes.

Derivatives: Al-Mohy and Higham (2009); Higham, "Functions of matrices" (2008).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import Maybe, Sample, sum_values, zeros
from wholestep.primitives.linalg import MatrixTangent
from wholestep.primitives.matrices import (
    STACKS,
    LinearSolve,
    SquareFunction,
    agree,
    block,
    each,
    mm,
    sample_matrices,
    square,
)
from wholestep.primitives.movement import concat


class Expm(SquareFunction):
    """The matrix exponential."""

    work = 30.0
    middle = (0.5, -1.0)

    def ref(self, a: NDArray) -> NDArray:
        import scipy.linalg

        return each(scipy.linalg.expm, a.shape, a)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        assert dxs[0] is not None
        return (expm_tangent(node.inputs[0], dxs[0]),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.zeros((2, 2)),), exact=False)


class ExpmTangent(MatrixTangent):
    """The derivative of the matrix exponential at a in the direction e."""

    work = 90.0
    middle = (0.5, -1.0)

    def ref(self, a: NDArray, e: NDArray) -> NDArray:
        import scipy.linalg

        def one(a: NDArray, e: NDArray) -> Any:
            return scipy.linalg.expm_frechet(a, e, compute_expm=False, check_finite=False)

        return each(one, a.shape, a, e)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a, e), (da, de) = node.inputs, dxs
        moved = None
        if da is not None:  # the corner of exp([[a, e], [0, a]]) is this function of a; so differentiate that
            n = a.shape[-1]
            moved = block(self(jordan_blocks(a, e), jordan_blocks(da, zeros(e.type))), (0, n), (n, 2 * n))
        return (sum_values([moved, None if de is None else self(a, de)]),)


def jordan_blocks(a: Value, e: Value) -> Value:
    """The matrices [[a, e], [0, a]]."""
    k = a.ndim
    left = concat(a, zeros(a.type), axis=k - 2)
    return concat(left, concat(e, a, axis=k - 2), axis=k - 1)


class Sqrtm(SquareFunction):
    """The principal square root of a matrix, real for a real one: where that has none, an error."""

    work = 30.0
    middle = (2.0, 3.0)

    def ref(self, a: NDArray) -> NDArray:
        import scipy.linalg

        def one(a: NDArray) -> Any:
            root = scipy.linalg.sqrtm(a)
            if a.dtype.kind == "c" or root.dtype.kind != "c":
                return root
            if np.abs(root.imag).max() > 100 * np.finfo(a.dtype).eps * np.abs(root).max():
                raise DtypeError(
                    f"sqrtm: the root of a real matrix is complex: {array_type(a.shape, a.dtype)}",
                    hint="cast the matrix to complex first",
                )
            return root.real

        return each(one, a.shape, a)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (y,) = node.outputs
        assert dxs[0] is not None
        return (solve_sylvester(y, y, dxs[0]),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([[1.0, -4.0], [1.0, 1.0]]),), exact=False)


class SolveSylvester(LinearSolve):
    """x with a x + x b = q; singular where an eigenvalue of a is minus one of b."""

    work = 60.0

    def type(self, a: Type, b: Type, q: Type) -> Type:
        square(self.name, a)
        square(self.name, b)
        agree(self.name, a, b)
        agree(self.name, a, q)
        if (a.shape[-1], b.shape[-1]) != q.shape[-2:]:
            raise ShapeError(f"{self.name}: sizes differ: {a}, {b}, {q}")
        return q

    def ref(self, a: NDArray, b: NDArray, q: NDArray) -> NDArray:
        import scipy.linalg

        def one(a: NDArray, b: NDArray, q: NDArray) -> Any:
            form = "complex" if a.dtype.kind == "c" else "real"
            r, u = scipy.linalg.schur(a, form, check_finite=False)
            s, v = scipy.linalg.schur(b.conj().T, form, check_finite=False)
            (trsyl,) = scipy.linalg.get_lapack_funcs(("trsyl",), (r, s))
            turned = u.conj().T @ q @ v
            y, scale, info = trsyl(r, s, turned, tranb="T" if form == "real" else "C")
            if info:
                raise np.linalg.LinAlgError("Singular Sylvester equation")
            return u @ (y / scale) @ v.conj().T

        return each(one, q.shape, a, b, q)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a, b, _), (x,), (da, db, dq) = node.inputs, node.outputs, dxs
        moved = [dq, None if da is None else -mm(da, x), None if db is None else -mm(x, db)]
        return (self(a, b, sum_values(moved)),)  # type: ignore[arg-type]

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in STACKS:
            n = shape[-1]
            b = sample_matrices(rng, (*shape[:-2], min(n, 2), min(n, 2)), dtype, 1.0)
            q = sample_matrices(rng, (*shape[:-1], min(n, 2)), dtype)
            yield Sample((sample_matrices(rng, shape, dtype, 2.0, 3.0), b, q), exact=False)


expm = Expm()
expm_tangent = ExpmTangent("expm_tangent")
sqrtm = Sqrtm()
solve_sylvester = SolveSylvester("solve_sylvester")
