"""numpy.linalg: powers, chains and tensor equations, and the array-API spellings of products and diagonals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from wholestep.errors import ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import binds, covers
from wholestep.frontend.promotion import lift
from wholestep.numpy import contractions
from wholestep.numpy.contractions import shapes_of
from wholestep.numpy.linalg.factors import checked_matrix, inv, solve
from wholestep.numpy.movement import axis_of, normalized_axes


@covers(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    """numpy.linalg.matrix_power, by repeated squaring; negative powers are those of the inverse."""
    x = lift(a)
    checked_matrix("matrix_power", x.value, square=True)
    exponent = operator.index(n)
    if exponent == 0:
        return np.broadcast_to(lift(np.eye(int(x.shape[-1]), dtype=x.dtype)), x.shape).copy()
    if exponent < 0:
        x, exponent = inv(x), -exponent
    made: Any = None
    while True:
        if exponent & 1:
            made = x if made is None else made @ x
        exponent >>= 1
        if not exponent:
            return made
        x = x @ x


@lru_cache(maxsize=256)
def split_points(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """The split of each stretch of a chain of matrices that makes the multiplications fewest."""
    n = len(sizes) - 1
    cost = dict.fromkeys(((i, i) for i in range(n)), 0)
    splits = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            work = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            splits[i, j] = min(work, key=lambda k: (work[k], k))
            cost[i, j] = work[splits[i, j]]
    return splits


@binds(np.linalg.multi_dot, casting="exact")
def multi_dot(arrays: Any) -> Any:
    """numpy.linalg.multi_dot: a chain of matrices in the cheapest order; vectors at either end."""
    chain = [lift(a) for a in arrays]
    if len(chain) < 2:
        raise ShapeError("multi_dot: takes two arrays or more")
    first, last = chain[0], chain[-1]
    inside = all(a.ndim == 2 for a in chain[1:-1])
    if not inside or first.ndim not in (1, 2) or last.ndim not in (1, 2):
        raise ShapeError(f"multi_dot: takes matrices, and vectors at the ends alone: {shapes_of(chain)}")
    if len(chain) == 2:
        return first @ last
    wide = [first.reshape((1, -1)) if first.ndim == 1 else first, *chain[1:-1]]
    wide.append(last.reshape((-1, 1)) if last.ndim == 1 else last)
    splits = split_points(tuple([int(a.shape[0]) for a in wide] + [int(wide[-1].shape[1])]))

    def product(i: int, j: int) -> Any:
        return wide[i] if i == j else product(i, splits[i, j]) @ product(splits[i, j] + 1, j)

    made = product(0, len(wide) - 1)
    if last.ndim == 1:
        made = made[:, 0]
    return made[0] if first.ndim == 1 else made


@covers(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Array:
    """numpy.linalg.tensorinv."""
    x = lift(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows = math.prod(x.shape[:ind])
    if not x.ndim or rows != math.prod(x.shape[ind:]):
        raise ShapeError(f"tensorinv: the first {ind} axes of {x.type} must have as many elements as the others")
    return inv(x.reshape((rows, -1))).reshape((*x.shape[ind:], *x.shape[:ind]))


@covers(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """numpy.linalg.tensorsolve."""
    x: Any = lift(a)
    y = lift(b)
    if axes is not None:
        moved = normalized_axes("tensorsolve", tuple(axes), x.ndim)
        x = np.transpose(x, [i for i in range(x.ndim) if i not in moved] + list(moved))
    shape = x.shape[-(x.ndim - y.ndim) :]
    n = math.prod(shape)
    if x.size != n * n:
        raise ShapeError(f"tensorsolve: sizes differ: {x.type} and {y.type}", hint="a.size equals b.size squared")
    return solve(x.reshape((n, n)), y.reshape(-1)).reshape(shape)


@covers(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """numpy.linalg.cross, of vectors of three components."""
    a, b = lift(x1), lift(x2)
    if a.shape[axis_of("cross", axis, a.ndim)] != 3 or b.shape[axis_of("cross", axis, b.ndim)] != 3:
        raise ShapeError(f"cross: takes vectors of 3 components: {shapes_of([a, b])}")
    x, y, z = chain_parts(a, axis)
    u, v, w = chain_parts(b, axis)
    components: Any = [y * w - z * v, z * u - x * w, x * v - y * u]
    return np.stack(components, axis=axis)


def chain_parts(a: Any, axis: int) -> list[Any]:
    """The components of vectors along an axis."""
    moved = np.moveaxis(a, axis, 0)
    return [moved[i] for i in range(3)]


@covers(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """numpy.linalg.outer, of vectors."""
    a, b = lift(x1), lift(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: takes vectors: {shapes_of([a, b])}")
    return contractions.outer(a, b)


def spelled(outside: Any, ours: Any) -> Callable[..., Any]:
    """A product under its array-API spelling."""

    def implementation(x1: Any, x2: Any, **options: Any) -> Any:
        return ours(x1, x2, **options)

    return binds(outside)(implementation)


tensordot = spelled(np.linalg.tensordot, contractions.tensordot)
matmul = spelled(np.linalg.matmul, contractions.matmul)
vecdot = spelled(np.linalg.vecdot, contractions.vecdot)


@covers(np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Array:
    """numpy.linalg.matrix_transpose: the last two axes exchanged."""
    return lift(x).mT


@covers(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """numpy.linalg.trace, of the last two axes."""
    a: Any = lift(x)
    return np.trace(a, offset, -2, -1, dtype)


@covers(np.linalg.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """numpy.linalg.diagonal, of the last two axes."""
    a: Any = lift(x)
    return np.diagonal(a, offset, -2, -1)
