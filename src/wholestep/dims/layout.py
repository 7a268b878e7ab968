"""Shapes of symbolic sizes as memory sees them: numbers of elements, blocks of rows, sizes to try."""

from __future__ import annotations

import math
from collections.abc import Iterable

from wholestep.dims.size import Dim, Size, names, substitute
from wholestep.dims.spelling import Least, Monomial, Quotient, terms_of
from wholestep.dims.symbolic_error import SymbolicError


def dim_product(shape: Iterable[Size]) -> Size:
    """Return the number of elements of a shape.

    >>> dim_product((2, Dim("B"), 3)), dim_product(())
    (6*B, 1)
    """
    return math.prod(shape)


BLOCK = 64
"""The multiple to which a named size is rounded up in memory, so that the next buffers stay aligned."""


def blocks(name: str) -> Size:
    """Return in how many blocks a named size is laid out.

    >>> blocks("B")
    (B + 63)//64
    """
    found: Size = (Dim(name) + BLOCK - 1) // BLOCK
    return found


def per_block(size: Size, name: str) -> int:
    """Return an upper bound of a size per block of its name.

    Raises SymbolicError for a size that grows faster than the name, and for other names.

    >>> per_block(12*Dim("B") + 8, "B"), per_block(256*blocks("B"), "B")
    (776, 256)
    """
    return sum(_per_block(size, monomial, factor, name) for monomial, factor in terms_of(size).items() if factor > 0)


def _per_block(size: Size, monomial: Monomial, factor: int, name: str) -> int:
    if not monomial:
        return factor
    atom, power = monomial[0]
    if len(monomial) > 1 or power > 1:
        raise SymbolicError(f"the size {size} grows faster than {name}")
    if isinstance(atom, Least):
        raise SymbolicError(f"the size {size} has no simple bound")
    if isinstance(atom, Quotient):
        if Dim(name) + BLOCK - 1 == atom.numerator and atom.denominator == BLOCK:
            return factor
        if not isinstance(atom.denominator, int):
            raise SymbolicError(f"the size {size} has no simple bound")
        return factor * -(-per_block(atom.numerator, name) // atom.denominator)
    if atom != name:
        raise SymbolicError(f"the size {size} depends on {atom} and not on {name} alone")
    return factor * BLOCK


ASSUMED_SIZE = 128
"""The number that a symbolic size is taken for where code can be better for one number than for another."""
SAMPLE = 10_007
"""A large prime that stands for any size: few properties hold for it by coincidence."""


def sampled(shape: Iterable[Size]) -> tuple[int, ...]:
    """Return a shape with numbers for its names, for questions that do not depend on them, such as sharing of memory.

    >>> sampled((2, Dim("B"), Dim("B") + 1))
    (2, 10007, 10008)
    """
    sizes = tuple(shape)
    for size in sizes:
        if type(size) is not int:
            found = [substitute(size, dict.fromkeys(names(size), SAMPLE)) for size in sizes]
            return tuple([size for size in found if isinstance(size, int)])
    return sizes  # type: ignore[return-value]  # all of them are int
