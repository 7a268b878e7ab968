"""Adjugates of matrices of up to 4 x 4 elements, by products of elements and without a factorization."""

from __future__ import annotations

import functools

import numpy as np

from wholestep.ir.graph import OPS, Value
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.creation import constant
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.matrices import along_columns, along_rows, mt, on_diagonal

LARGEST = 4
"""The size of the largest matrices that have a formula here."""


def small_adjugate(a: Value) -> Value:
    """The adjugate of each matrix."""
    if a.shape[-1] == 1:
        return ones(a.type)
    if a.shape[-1] == 4:
        return adjugate_of_four(a, minors_of_pairs(a, a))
    return adjugate_of_two(a) if a.shape[-1] == 2 else mt(cyclic_minors(a, a))


def small_adjugate_tangent(a: Value, e: Value) -> Value:
    """The derivative of the adjugate at a in the direction e."""
    if a.shape[-1] == 1:
        return zeros(e.type)
    if a.shape[-1] == 4:
        changes = minors_of_pairs(a, e) + minors_of_pairs(e, a)
        return adjugate_of_four(e, minors_of_pairs(a, a)) + adjugate_of_four(a, changes)
    return adjugate_of_two(e) if a.shape[-1] == 2 else mt(cyclic_minors(a, e) + cyclic_minors(e, a))


def adjugate_of_two(a: Value) -> Value:
    """The adjugate of 2 x 2 matrices: the diagonal exchanged, the other elements with the other sign."""
    return OPS["select"](on_diagonal(a.shape), OPS["flip"](a, axes=(a.ndim - 2, a.ndim - 1)), -a)


def cyclic_minors(a: Value, b: Value) -> Value:
    """a[i+1, j+1] b[i+2, j+2] - a[i+1, j+2] b[i+2, j+1], indices modulo 3: with b = a the cofactors.

    The modulus stands for the signs.
    """
    return cyclic_shift(a, 1, 1) * cyclic_shift(b, 2, 2) - cyclic_shift(a, 1, 2) * cyclic_shift(b, 2, 1)


PAIR_SIGNS = np.array([[0, 1, -1, -1], [1, 0, -1, 1], [-1, -1, 0, 1], [-1, 1, 1, 0]])
"""The signs of `minors_of_pairs`, where indices modulo 4 leave out some of them."""
NEIGHBOURS = np.add.outer(np.arange(4), np.arange(4)) % 2 == 1
"""The pairs of columns modulo 4 whose others are the next but one; those of the rest are the next ones."""


def row_pairs(a: Value) -> Value:
    """4 x 4 matrices as two pairs of rows: [..., pair, row, column]."""
    return OPS["reshape"](a, shape=(*a.shape[:-2], 2, 2, 4))


def minors_of_pairs(a: Value, b: Value) -> Value:
    """[..., pair, i, j]: a determinant with the signs of a Laplace expansion, of the columns other than i and j.

    Its first row is the first row of a's other pair, its second row the second one of b's.
    """
    first, second = (row_of_pairs(OPS["flip"](row_pairs(x), axes=(x.ndim - 2,)), i) for i, x in enumerate((a, b)))
    near, far = (wedge(*[started_from(x, x.ndim - 1, count) for x in (first, second)]) for count in (2, 1))
    axes = (near.ndim - 2, near.ndim - 1)
    neighbours, signs = (
        OPS["broadcast"](constant(value=table), shape=near.shape, axes=axes)
        for table in (NEIGHBOURS, PAIR_SIGNS.astype(a.dtype))
    )
    return OPS["select"](neighbours, near, far) * signs


def wedge(x: Value, y: Value) -> Value:
    """x[i] y[j] - x[j] y[i]."""
    shape = (*x.shape, x.shape[-1])
    return along_columns(x, shape) * along_rows(y, shape) - along_rows(x, shape) * along_columns(y, shape)


def row_of_pairs(pairs: Value, i: int) -> Value:
    """One row of each pair: [..., pair, column]."""
    lead = pairs.shape[:-2]
    nothing = (0,) * len(lead)
    part = OPS["slice"](pairs, start=(*nothing, i, 0), stop=(*lead, i + 1, 4), step=(1,) * pairs.ndim)
    return OPS["reshape"](part, shape=(*lead, 4))


def adjugate_of_four(a: Value, minors: Value) -> Value:
    """The adjugate of 4 x 4 matrices by Laplace's expansion: products of a's elements and the minors of pairs.

    The minors are antisymmetric in their columns, so that the sign is exchanged rather than the columns.
    """
    lead = LETTERS[: a.ndim - 2]
    signs = constant(value=np.array([-1, 1]).astype(a.dtype))
    others = OPS["flip"](row_pairs(a), axes=(a.ndim - 1,))
    signed = others * OPS["broadcast"](signs, shape=others.shape, axes=(others.ndim - 2,))
    cofactors = OPS["contract"](signed, minors, spec=f"{lead}PRX,{lead}PXY->{lead}PRY")
    return mt(OPS["reshape"](cofactors, shape=a.shape))


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
