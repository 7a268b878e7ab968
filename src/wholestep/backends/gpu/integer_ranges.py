"""The ranges of the integers of a kernel: bounds of each that hold for all contents of the buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wholestep.kernel.lang import Axis, DType, Index, Kernel, Var, walk


class IntegerRange(NamedTuple):
    """The least and the greatest number of a value, both included."""

    low: int
    high: int

    def within(self, dtype: DType) -> bool:
        """Test whether a dtype of integers holds all of it."""
        limits = np.iinfo(dtype)
        return int(limits.min) <= self.low and self.high <= int(limits.max)

    def times(self, factor: int) -> IntegerRange:
        """The range of the multiples of its numbers."""
        return around(self.low * factor, self.high * factor)

    def plus(self, other: IntegerRange) -> IntegerRange:
        """The range of the sums with another's numbers."""
        return IntegerRange(self.low + other.low, self.high + other.high)


def around(*numbers: int) -> IntegerRange:
    """The range of some numbers and of all between them."""
    return IntegerRange(min(numbers), max(numbers))


def range_of_dtype(dtype: DType) -> IntegerRange:
    """The range of all values of a dtype of integers, or of bool."""
    if dtype.kind == "b":
        return IntegerRange(0, 1)
    limits = np.iinfo(dtype)
    return IntegerRange(int(limits.min), int(limits.max))


class IntegerRanges:
    """The ranges of the integers of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.known: dict[Var, IntegerRange] = {}
        for s in walk(kernel.body):
            if isinstance(s, Var) and s.dtype.kind in "iu":
                found = self.computed(s)
                self.known[s] = found if found.within(s.dtype) else range_of_dtype(s.dtype)

    def of(self, value: Var) -> IntegerRange:
        """The range of an integer, or of a bool; that of its dtype where nothing else is known."""
        return self.known.get(value) or range_of_dtype(value.dtype)

    def of_index(self, index: Index) -> IntegerRange:
        """The range of an index."""
        found = IntegerRange(index.const, index.const)
        for key, factor in index.terms.items():
            found = found.plus((steps_of(key) if isinstance(key, Axis) else self.of(key)).times(factor))
        return found

    def computed(self, v: Var) -> IntegerRange:
        """The range of a computed value, before it wraps; that of the dtype for an operation without a rule."""
        if v.op == "const":
            return around(int(v.attr))
        if v.op == "index":
            return self.of_index(v.attr)
        chosen = v.args[1:] if v.op == "select" else v.args
        if v.op in RULES and all(x.dtype.kind in "biu" for x in chosen):
            return RULES[v.op]([self.of(x) for x in chosen]) or range_of_dtype(v.dtype)
        return range_of_dtype(v.dtype)


def steps_of(axis: Axis) -> IntegerRange:
    """The range of the steps of an axis."""
    return IntegerRange(0, max(axis.extent - 1, 0))


def range_of_products(of: Sequence[IntegerRange]) -> IntegerRange:
    """The range of products."""
    x, y = of
    return around(*[a * b for a in x for b in y])


def range_of_quotients(of: Sequence[IntegerRange]) -> IntegerRange | None:
    """The range of quotients by a positive number, which are rounded toward zero."""
    x, by = of
    return None if by.low != by.high or by.low <= 0 else around(*[abs(a) // by.low * (1 if a > 0 else -1) for a in x])


def range_of_masked_bits(of: Sequence[IntegerRange]) -> IntegerRange | None:
    """The range of the bits that a mask leaves."""
    masks = [x.high for x in of if x.low == x.high >= 0]
    return IntegerRange(0, min(masks)) if masks else None


RULES: dict[str, Callable[[Sequence[IntegerRange]], IntegerRange | None]] = {
    "add": lambda of: of[0].plus(of[1]),
    "sub": lambda of: of[0].plus(of[1].times(-1)),
    "mul": range_of_products,
    "neg": lambda of: of[0].times(-1),
    "abs": lambda of: IntegerRange(max(of[0].low, -of[0].high, 0), max(abs(of[0].low), abs(of[0].high))),
    "quotient": range_of_quotients,
    "min": lambda of: IntegerRange(min(of[0].low, of[1].low), min(of[0].high, of[1].high)),
    "max": lambda of: IntegerRange(max(of[0].low, of[1].low), max(of[0].high, of[1].high)),
    "and": range_of_masked_bits,
    "select": lambda of: around(*of[0], *of[1]),
    "convert": lambda of: of[0],
}
"""The rules of interval arithmetic: the range of an operation's result, given the ranges of its operands; None where no
bound follows from them."""
