"""Index arithmetic: affine index expressions, linearization and delinearization."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep.dims import Dim, Size, surely_above
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index, Var

Coordinates = tuple[Index, ...]
"""One index expression for each axis of a value."""


def index_bounds(index: Index) -> tuple[Size, Size] | None:
    """The least and greatest value of an affine expression; None if it depends on loaded values."""
    low: Size = index.const
    high: Size = index.const
    for key, c in index.terms.items():
        if not isinstance(key, Axis):
            return None
        reach = c * (key.size - 1)
        low, high = (low + reach, high) if c < 0 else (low, high + reach)
    return low, high


def index_in_range(index: Index, low: Size, high: Size) -> bool:
    """True if an expression provably lies in [low, high) for all values of symbolic sizes."""
    found = index_bounds(index)
    if found is None:
        return False
    if isinstance(low, int) and isinstance(high, int) and isinstance(found[0], int) and isinstance(found[1], int):
        return low <= found[0] and found[1] < high
    return surely_above(found[0] + 1, low) and surely_above(high, found[1])


def size_index(builder: KernelBuilder, size: Size) -> Index:
    """A size as an index expression."""
    return Index(size) if isinstance(size, int) else Index(0, {builder.size(size): 1})


def divide_index(builder: KernelBuilder, index: Index, n: int) -> tuple[Index, Index]:
    """Quotient and remainder of a non-negative expression by n; affine where its terms allow it."""
    if n == 1:
        return index, Index()
    whole = {k: c // n for k, c in index.terms.items() if c % n == 0}
    rest = Index(index.const % n, {k: c for k, c in index.terms.items() if c % n})
    if index_in_range(rest, 0, n):
        return Index(index.const // n, whole), rest
    value = builder.index(index)
    builder.divisions.append((index, n))
    quotient = builder.op("quotient", value, n)
    return Index(0, {quotient: 1}), Index(0, {builder.op("sub", value, builder.op("mul", quotient, n)): 1})


def row_major_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides in elements, in row-major order."""
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


def temporary_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides in elements of temporary values: row-major, but with a single symbolic axis moved to the front, so that
    every stride is a number."""
    found = [a for a, n in enumerate(shape) if isinstance(n, Dim)]
    if len(found) != 1:
        return row_major_strides(shape)
    (first,) = found
    rest = [1 if a == first else n for a, n in enumerate(shape)]
    return tuple([math.prod(rest) if a == first else n for a, n in enumerate(row_major_strides(rest))])


def linear_index(at: Coordinates, strides: Sequence[Size], offset: int = 0) -> Index:
    """The linear index of coordinates."""
    terms: dict[Axis | Var, int] = {}
    const = offset
    for index, stride in zip(at, strides, strict=True):
        const += index.const * stride
        for k, c in index.terms.items():
            terms[k] = terms.get(k, 0) + c * stride
    return rejoin_index(Index(const, terms))


def rejoin_index(index: Index) -> Index:
    """An equal expression with quotients and remainders of `divide_index` rejoined: n * (i / n) + i % n is i.

    Adjacent elements are then read as a vector where an axis was split in between, and not gathered one at a time.
    """
    for rest, c in index.terms.items():
        found = divided_index(rest)
        if found is not None and index.coefficient(found[1]) == c * found[2]:
            whole, quotient, _ = found
            others = {k: x for k, x in index.terms.items() if k not in (rest, quotient)}
            return rejoin_index(Index(index.const, others) + whole * c)
    return index


def divided_index(rest: Axis | Var) -> tuple[Index, Var, int] | None:
    """The expression, its quotient and the divisor whose remainder, made by `divide_index`, this value is."""
    if not isinstance(rest, Var) or rest.op != "sub":
        return None
    value, product = rest.args
    if value.op != "index" or product.op != "mul":
        return None
    quotient, n = product.args
    if quotient.op != "quotient" or quotient.args != (value, n) or n.op != "const":
        return None
    return value.attr, quotient, int(n.attr)


def reshape_coordinates(
    builder: KernelBuilder, at: Coordinates, shape: Sequence[int], source: Sequence[int]
) -> Coordinates:
    """Coordinates in an array of shape `source` of the element `at` of its reshape to `shape`.

    Axes are grouped by equal products, so that the coordinate of an axis that the reshape keeps is unchanged.
    """
    out: list[Index] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        first, second = i, j
        left = right = 1
        while True:
            if left == right and (i > first or j > second) and left != 1:
                break
            if left <= right and i < len(shape):
                left, i = left * shape[i], i + 1
            elif j < len(source):
                right, j = right * source[j], j + 1
            elif i < len(shape):
                left, i = left * shape[i], i + 1
            else:
                break
        # An axis of size 1 has one position, also for an unchecked index.
        here = [Index() if n == 1 else index for index, n in zip(at[first:i], shape[first:i], strict=True)]
        line = linear_index(tuple(here), row_major_strides(shape[first:i]))
        out += delinearize_index(builder, line, source[second:j])
    return tuple(out)


def delinearize_index(builder: KernelBuilder, line: Index, sizes: Sequence[int]) -> list[Index]:
    """The coordinates of a linear index in an array of these sizes."""
    found: list[Index] = []
    wide = [n for n in sizes if n != 1]
    for n in reversed(wide[1:]):
        line, rest = divide_index(builder, line, n)
        found.append(rest)
    if wide:
        found.append(line)
    return [Index() if n == 1 else found.pop() for n in sizes]
