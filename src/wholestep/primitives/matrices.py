"""Matrices: the families of linear algebra primitives, the vocabulary of their rules, and the checks of their types."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import least
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Shape, Type
from wholestep.primitives.arithmetic import add, real
from wholestep.primitives.contraction import LETTERS, contract
from wholestep.primitives.creation import cast, full, iota
from wholestep.primitives.family import Backward, LeadingBatch, Maybe, Sample, conj, transposed_jvp, zeros
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast, pad, permute, slice_
from wholestep.primitives.reduction import sum_

_TAKES = ("f64", "f32", "c128", "c64")
_INTEGER = np.dtype(np.int64)
LARGE_TRIANGLE, TRIANGLE_BLOCKS = 512, 4
"""The least size of triangles that are multiplied by blocks, and the blocks along an axis: each is compiled anew."""


# Samples.


def sample_matrices(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, *middle: float, noise: float = 0.4
) -> NDArray:
    """Matrices with these numbers, repeated at need, on the diagonal, and noise everywhere."""
    out = rng.uniform(-noise, noise, shape).astype(np.complex128)
    if dtype[0] == "c":
        out += 1j * rng.uniform(-noise, noise, shape)
    at = np.arange(min(shape[-2:]))
    if at.size:
        out[..., at, at] += np.resize(middle, at.size)
    return np.asarray(out if dtype[0] == "c" else out.real, dtypes.from_short(dtype))


STACKS = (
    ((3, 3), "f64"),
    ((2, 2, 2), "f64"),
    ((1, 1), "f64"),
    ((0, 0), "f64"),
    ((0, 2, 2), "f64"),
    ((3, 3), "f32"),
    ((3, 3), "c128"),
    ((2, 2), "c64"),
)
"""Shapes and dtypes of square samples."""

OBLONGS = (((4, 2), "f64"), ((2, 4), "f64"), ((2, 3, 2), "f64"), ((3, 0), "f64"), ((4, 3), "c128"), ((2, 3), "c128"))
"""Shapes and dtypes of oblong samples."""


def general_samples(rng: np.random.Generator) -> Iterator[Sample]:
    """Square matrices without symmetry: real ones, those of a complex pair of eigenvalues, and one with equal ones."""
    for shape, dtype in STACKS:
        yield Sample((sample_matrices(rng, shape, dtype, 1.0, 3.0, -2.0, noise=0.3),), exact=False)
    yield Sample((np.array([[1.0, -4.0, 0.3], [1.0, 1.2, 0.1], [0.2, -0.1, 3.0]]),), exact=False)
    yield Sample((np.eye(2),), exact=False, smooth=False)


class MatrixFunction(LeadingBatch):
    """A function of stacks of matrices `[..., m, n]`: a batch is one more leading axis."""

    kind = "linalg"
    work = 1.0
    """Floating-point operations in units of m * n * min(m, n)."""
    middle: tuple[float, ...] = (1.0, -1.5)
    """The diagonal of the matrices that samples are."""

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, dtype in STACKS:
            yield Sample((sample_matrices(rng, shape, dtype, *self.middle),), exact=False)

    def flops(self, node: Node) -> Any:
        shape = node.inputs[0].shape
        top, bottom = importlib.import_module("fractions").Fraction(self.work).limit_denominator(9).as_integer_ratio()
        return top * math.prod(shape) * reduce(least, shape[-2:]) // bottom


class SquareFunction(MatrixFunction):
    """A function of stacks of square matrices whose values are such matrices."""

    def type(self, a: Type) -> Type:
        square(self.name, a)
        return a


class LinearSolve(MatrixFunction):
    """f(*matrices, y), linear in y: the tangent holds f itself applied to a tangent, and `adjoint` transposes that."""

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        return ((len(node.inputs) - 1,),)

    def adjoint(self, gy: Value, *known: Value, **params: Any) -> Value:
        """The cotangent of y: by default f of the conjugate transposed matrices."""
        return self(*map(mh, known), gy, **params)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        if any(wrt[:-1]):
            return transposed_jvp(self, node, gys, wrt, backward)
        assert gys[0] is not None
        return (*[None] * (len(wrt) - 1), self.adjoint(gys[0], *node.inputs[:-1], **node.params))


# The vocabulary of rules.


def mm(x: Value, y: Value) -> Value:
    """The matrix product of two stacks."""
    lead = LETTERS[: x.ndim - 2]
    return contract(x, y, spec=f"{lead}XY,{lead}YZ->{lead}XZ")


def lower_product(x: Value, y: Value) -> Value:
    """The matrix product of two stacks of lower triangular matrices with zeros above their diagonals.

    Large ones are cut into four by four blocks, and those above the diagonal are left out: the sum over k of
    x[k:, k] y[k, :k + 1] has 5/16 of the products of all. In the derivative in y each term has rows of its own.
    """
    n = y.shape[-1]
    if not isinstance(n, int) or n < LARGE_TRIANGLE:
        return mm(x, y)
    edges = [n * i // TRIANGLE_BLOCKS for i in range(TRIANGLE_BLOCKS + 1)]
    nothing = (0,) * (y.ndim - 2)
    terms = []
    for i, j in pairwise(edges):
        part = mm(block(x, (i, n), (i, j)), block(y, (i, j), (0, j)))
        terms.append(pad(part, before=(*nothing, i, 0), after=(*nothing, 0, n - j), interior=(0,) * y.ndim))
    return reduce(add, terms)


def trace_mm(x: Value, y: Value) -> Value:
    """The trace of the matrix product of two stacks."""
    lead = LETTERS[: x.ndim - 2]
    return contract(x, y, spec=f"{lead}XY,{lead}YX->{lead}")


def mt(x: Value) -> Value:
    """The transposed matrices."""
    k = x.ndim
    return permute(x, axes=(*range(k - 2), k - 1, k - 2))


def mh(x: Value) -> Value:
    """The conjugate transposed matrices."""
    return conj(mt(x))


def row(shape: Shape) -> Value:
    """The row number of each element of a stack of matrices."""
    return iota(shape=shape, axis=len(shape) - 2, dtype=_INTEGER)


def column(shape: Shape) -> Value:
    """The column number of each element of a stack of matrices."""
    return iota(shape=shape, axis=len(shape) - 1, dtype=_INTEGER)


def keep_where(x: Value, where: Value) -> Value:
    """x where the condition holds, and zero elsewhere."""
    return select(where, x, zeros(x.type))


def triangle(x: Value, lower: bool, strict: bool = False) -> Value:
    """One triangle of each matrix, without the diagonal where it is strict."""
    i, j = (row(x.shape), column(x.shape)) if lower else (column(x.shape), row(x.shape))
    return keep_where(x, i > j if strict else i >= j)


def on_diagonal(shape: Shape) -> Value:
    """A mask of the elements on the diagonal."""
    return row(shape).equals(column(shape))


def diagonal(x: Value) -> Value:
    """The diagonals of square matrices."""
    return sum_(keep_where(x, on_diagonal(x.shape)), axes=(x.ndim - 1,))


def eye(type: Type) -> Value:
    """Ones on the diagonals of a stack of matrices of this type."""
    return keep_where(full(value=1, shape=type.shape, dtype=type.dtype), on_diagonal(type.shape))


def along_rows(w: Value, shape: Shape) -> Value:
    """The matrices whose every row is w."""
    k = len(shape)
    return broadcast(w, shape=shape, axes=(*range(k - 2), k - 1))


def along_columns(w: Value, shape: Shape) -> Value:
    """The matrices whose every column is w."""
    return broadcast(w, shape=shape, axes=tuple(range(len(shape) - 1)))


def scaled_identity(s: Value, type: Type) -> Value:
    """s on the diagonals of a stack of matrices of this type, one number for each matrix."""
    return keep_where(broadcast(s, shape=type.shape, axes=tuple(range(type.ndim - 2))), on_diagonal(type.shape))


def real_part(x: Value) -> Value:
    """The real part; a real value is its own."""
    return real(x) if dtypes.is_complex(x.dtype) else x


def as_dtype(x: Value, dtype: Any) -> Value:
    """A real value in this dtype, which may be complex."""
    return x if x.dtype == dtype else cast(x, dtype=dtype)


def hermitian(da: Value, lower: bool) -> Value:
    """The part of a tangent that a function sees which reads one triangle of a Hermitian matrix."""
    off = triangle(da, lower, strict=True)
    middle = keep_where(as_dtype(real_part(da), da.dtype), on_diagonal(da.shape))
    return off + mh(off) + middle


def corner(x: Value, rows: Any, columns: Any) -> Value:
    """The first rows and columns, zeros coming in where x has fewer."""
    lead, (m, n) = x.shape[:-2], x.shape[-2:]
    nothing = (0,) * len(lead)
    stop = (*lead, min(m, rows), min(n, columns))
    if stop != x.shape:
        x = slice_(x, start=(0,) * x.ndim, stop=stop, step=(1,) * x.ndim)
    more = (rows - stop[-2], columns - stop[-1])
    if more != (0, 0):
        x = pad(x, before=(0,) * x.ndim, after=(*nothing, *more), interior=(0,) * x.ndim)
    return x


def block(x: Value, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Value:
    """Rows and columns of each matrix, from the first to before the last."""
    lead = x.shape[:-2]
    nothing = (0,) * len(lead)
    start, stop = zip(rows, columns, strict=True)
    return slice_(x, start=(*nothing, *start), stop=(*lead, *stop), step=(1,) * x.ndim)


# Type checks.


def matrix(name: str, a: Type) -> None:
    """Check a stack of matrices of single or double precision: raises DtypeError or ShapeError."""
    if dtypes.short(a.dtype) not in _TAKES:
        raise DtypeError(f"{name}: does not take {dtypes.short(a.dtype)}", hint="cast to float32 or float64 first")
    if a.ndim < 2:
        raise ShapeError(f"{name}: takes matrices [..., m, n]: {a}")


def square(name: str, a: Type) -> None:
    """Check a stack of square matrices: raises DtypeError or ShapeError."""
    matrix(name, a)
    if a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"{name}: the matrix is not square: {a}")


def agree(name: str, a: Type, b: Type) -> None:
    """Refuse stacks that differ in dtype or in their leading axes."""
    matrix(name, b)
    if a.dtype != b.dtype:
        raise DtypeError(f"{name}: operands differ in dtype: {a}, {b}")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"{name}: operands differ in their leading axes: {a}, {b}")


def fits(name: str, a: Type, b: Type) -> None:
    """Refuse a right-hand side that does not fit the matrix."""
    square(name, a)
    agree(name, a, b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"{name}: sizes differ: {a}, {b}")


def each(function: Callable[..., Any], shape: Shape, *stacks: NDArray) -> NDArray:
    """A function of matrices applied along stacks; nothing to do where the result is empty."""
    out = np.empty(shape, stacks[0].dtype)
    if out.size:
        for at in np.ndindex(*shape[:-2]):
            out[at] = function(*[x[at] for x in stacks])
    return out
