"""The Schur form of a matrix: a triangle that an orthogonal or unitary change of axes makes of it, over batch axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type
from wholestep.primitives.arithmetic import abs as absolute, imag, make_complex, real
from wholestep.primitives.family import Maybe, Sample, Several, conj, zeros
from wholestep.primitives.linalg import solve
from wholestep.primitives.marks import stop_gradient
from wholestep.primitives.matrices import (
    MatrixFunction,
    along_columns,
    along_rows,
    as_dtype,
    column,
    diagonal,
    general_samples,
    keep_where,
    mh,
    mm,
    mt,
    row,
    square,
)
from wholestep.primitives.reduction import argmax, sum_
from wholestep.primitives.spectral import eig, empty, gaps, reciprocal


class Schur(Several, MatrixFunction):
    """t, z with a = z t z^H and z unitary: of a complex matrix t is an upper triangle.

    Of a real matrix both are real, and a pair of conjugate eigenvalues is a block of two rows on the diagonal of t, in
    LAPACK's standard form: equal numbers on the diagonal. The gauge of real columns is LAPACK's, signs that are
    constant nearly everywhere; the largest component of each complex column is real and positive. Eigenvalues that
    are exactly equal pass nothing between their columns, and a block that is a multiple of a rotation nothing within.
    """

    work = 25.0

    def type(self, a: Type) -> tuple[Type, Type]:
        square(self.name, a)
        return a, a

    def ref(self, a: NDArray) -> tuple[NDArray, NDArray]:
        import scipy.linalg

        t, z = np.empty_like(a), np.empty_like(a)
        for at in np.ndindex(*a.shape[:-2]) if a.size else ():
            t[at], z[at] = scipy.linalg.schur(a[at], "complex" if a.dtype.kind == "c" else "real")
        if a.dtype.kind == "c" and a.size:
            top = np.take_along_axis(z, np.argmax(np.abs(z), axis=-2)[..., None, :], -2)
            phase = np.conj(top) / np.abs(top)
            t, z = np.swapaxes(np.conj(phase), -1, -2) * t * phase, z * phase
        return t, z

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (a,), (t, z), (da,) = node.inputs, node.outputs, dxs
        if empty(a):
            return None, None
        assert da is not None
        moved = mm(mh(z), mm(da, z))
        low = turn_below(t, moved)
        x = low - mh(low)
        if dtypes.is_complex(a.dtype):
            x = x + imaginary_diagonal(phase_turns(z, mm(z, x)), x)
        else:
            inside = turn_inside(t, moved + mm(t, x) - mm(x, t))
            x = x + inside - mt(inside)
        return keep_where(moved + mm(t, x) - mm(x, t), ~below_blocks(t)), mm(z, x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return general_samples(rng)


def in_pairs(t: Value) -> Value:
    """A mask of the elements just below the diagonal that belong to a block of two rows."""
    return row(t.shape).equals(column(t.shape) + 1) & ~t.equals(0)


def below_blocks(t: Value) -> Value:
    """A mask of the elements below the diagonal and its blocks."""
    found: Value = (row(t.shape) > column(t.shape)) & ~in_pairs(t)
    return found


def turn_below(t: Value, moved: Value) -> Value:
    """The part below the blocks of the skew x for which moved + t x - x t has nothing there.

    With t = r diag(w) r^-1, where r has the blocks of t, the elements of r^-1 x r are quotients by differences of
    eigenvalues. LAPACK keeps the order of the eigenvalues of a triangular matrix, so that r is triangular, too.
    """
    w, r = eig(t)
    inside = solve(r, mm(as_dtype(moved, r.dtype), r))
    y = keep_where(inside * gaps(w, t.shape), below_blocks(t))
    found = mt(solve(mt(r), mt(mm(r, y))))
    return keep_where(found if dtypes.is_complex(t.dtype) else real(found), below_blocks(t))


def turn_inside(t: Value, moved: Value) -> Value:
    """The rotations of pairs that keep both numbers on the diagonal of each block equal, below the diagonal."""
    sums, middle = t + mt(t), diagonal(moved)
    clear = absolute(sums) > (absolute(t) + absolute(mt(t))) * float(np.finfo(t.dtype).eps) ** 0.5
    angle = (along_columns(middle, t.shape) - along_rows(middle, t.shape)) * reciprocal(sums + sums)
    return keep_where(angle, in_pairs(t) & clear)


def phase_turns(z: Value, dz: Value) -> Value:
    """The rates at which columns turn so that the largest component of each stays real."""
    rows = z.ndim - 2
    size = stop_gradient(real(z * conj(z)))
    top = row(z.shape).equals(along_rows(argmax(size, axis=rows), z.shape))
    change, here = (sum_(keep_where(v, top), axes=(rows,)) for v in (dz, z))
    return -imag(change) / real(here)


def imaginary_diagonal(d: Value, like: Value) -> Value:
    """i times these numbers on the diagonals."""
    wide = make_complex(zeros(d.type), d)
    return keep_where(along_rows(wide, like.shape), row(like.shape).equals(column(like.shape)))


schur = Schur()
