"""Index arithmetic: how coordinates of a result become coordinates of an operand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep.dims import Dim, Size, surely_above
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import Axis, Index, Var

At = tuple[Index, ...]
"""One coordinate for each axis of a value."""


def span(index: Index) -> tuple[Size, Size] | None:
    """The least and greatest value of an affine expression; None where a value that is not known is in it."""
    low: Size = index.const
    high: Size = index.const
    for key, c in index.terms.items():
        if not isinstance(key, Axis):
            return None
        reach = c * (key.size - 1)
        low, high = (low + reach, high) if c < 0 else (low, high + reach)
    return low, high


def inside(index: Index, low: Size, high: Size) -> bool:
    """Whether an expression is known to lie in [low, high), whatever the symbolic sizes are."""
    found = span(index)
    if found is None:
        return False
    if isinstance(low, int) and isinstance(high, int) and isinstance(found[0], int) and isinstance(found[1], int):
        return low <= found[0] and found[1] < high
    return surely_above(found[0] + 1, low) and surely_above(high, found[1])


def along(builder: Builder, size: Size) -> Index:
    """A size as part of an index."""
    return Index(size) if isinstance(size, int) else Index(0, {builder.size(size): 1})


def divide(builder: Builder, index: Index, n: int) -> tuple[Index, Index]:
    """The quotient and rest of a non-negative expression by n; affine where the terms allow it."""
    if n == 1:
        return index, Index()
    whole = {k: c // n for k, c in index.terms.items() if c % n == 0}
    rest = Index(index.const % n, {k: c for k, c in index.terms.items() if c % n})
    if inside(rest, 0, n):
        return Index(index.const // n, whole), rest
    value = builder.index(index)
    quotient = builder.op("quotient", value, n)
    return Index(0, {quotient: 1}), Index(0, {builder.op("sub", value, builder.op("mul", quotient, n)): 1})


def strides_of(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Steps in elements, in row-major order."""
    return tuple([math.prod(shape[i + 1 :]) for i in range(len(shape))])


def memory_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Steps in elements of what a program stores for itself: in row-major order, but for one symbolic axis, which
    comes first, so that every step is a number."""
    found = [a for a, n in enumerate(shape) if isinstance(n, Dim)]
    if len(found) != 1:
        return strides_of(shape)
    (first,) = found
    rest = [1 if a == first else n for a, n in enumerate(shape)]
    return tuple([math.prod(rest) if a == first else n for a, n in enumerate(strides_of(rest))])


def flat(at: At, strides: Sequence[Size], offset: int = 0) -> Index:
    """The place in memory of coordinates."""
    terms: dict[Axis | Var, int] = {}
    const = offset
    for index, stride in zip(at, strides, strict=True):
        const += index.const * stride
        for k, c in index.terms.items():
            terms[k] = terms.get(k, 0) + c * stride
    return Index(const, terms)


def reshaped(builder: Builder, at: At, shape: Sequence[int], source: Sequence[int]) -> At:
    """Coordinates in an array of shape `source` of what is at `at` after it was reshaped to `shape`.

    Groups of axes with equal products are taken together, so that an axis that the reshape leaves alone stays as it is.
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
        # Along an axis of size 1 there is one place, whatever an index says that is not looked at.
        here = [Index() if n == 1 else index for index, n in zip(at[first:i], shape[first:i], strict=True)]
        line = flat(tuple(here), strides_of(shape[first:i]))
        out += split(builder, line, source[second:j])
    return tuple(out)


def split(builder: Builder, line: Index, sizes: Sequence[int]) -> list[Index]:
    """Coordinates in an array of these sizes from a place in it."""
    found: list[Index] = []
    wide = [n for n in sizes if n != 1]
    for n in reversed(wide[1:]):
        line, rest = divide(builder, line, n)
        found.append(rest)
    if wide:
        found.append(line)
    return [Index() if n == 1 else found.pop() for n in sizes]
