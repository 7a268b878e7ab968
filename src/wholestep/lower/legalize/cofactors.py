"""Adjugates of matrices of up to 3 x 3 elements, by products of two elements and without a factorization."""

from __future__ import annotations

import functools

from wholestep.ir.graph import OPS, Value
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.matrices import mt, on_diagonal

LARGEST = 3
"""The size of the largest matrices that have a formula here."""


def small_adjugate(a: Value) -> Value:
    """The adjugate of each matrix."""
    if a.shape[-1] == 1:
        return ones(a.type)
    return adjugate_of_two(a) if a.shape[-1] == 2 else mt(cyclic_minors(a, a))


def small_adjugate_tangent(a: Value, e: Value) -> Value:
    """The derivative of the adjugate at a in the direction e."""
    if a.shape[-1] == 1:
        return zeros(e.type)
    return adjugate_of_two(e) if a.shape[-1] == 2 else mt(cyclic_minors(a, e) + cyclic_minors(e, a))


def adjugate_of_two(a: Value) -> Value:
    """The adjugate of 2 x 2 matrices: the diagonal exchanged, the other elements with the other sign."""
    return OPS["select"](on_diagonal(a.shape), OPS["flip"](a, axes=(a.ndim - 2, a.ndim - 1)), -a)


def cyclic_minors(a: Value, b: Value) -> Value:
    """a[i+1, j+1] b[i+2, j+2] - a[i+1, j+2] b[i+2, j+1], indices modulo 3: with b = a the cofactors.

    The modulus stands for the signs.
    """
    return cyclic_shift(a, 1, 1) * cyclic_shift(b, 2, 2) - cyclic_shift(a, 1, 2) * cyclic_shift(b, 2, 1)


def cyclic_shift(a: Value, rows: int, columns: int) -> Value:
    """x[i, j] = a[i + rows, j + columns], indices modulo the size."""
    return functools.reduce(lambda x, along: started_from(x, *along), [(a.ndim - 2, rows), (a.ndim - 1, columns)], a)


def started_from(a: Value, axis: int, count: int) -> Value:
    """The elements from `count` on along an axis, then those before."""
    low, high = [0] * a.ndim, list(a.shape)
    low[axis] = high[axis] = count
    one = (1,) * a.ndim
    later = OPS["slice"](a, start=tuple(low), stop=a.shape, step=one)
    earlier = OPS["slice"](a, start=(0,) * a.ndim, stop=tuple(high), step=one)
    return OPS["concat"](later, earlier, axis=axis)
