"""Python's operators on traced arrays: each is a ufunc."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep.frontend.dispatch import HOOKS

Binary = Callable[[Any, Any], Any]


def unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    """The method of an operator with one operand."""

    def operator(self: Any) -> Any:
        return HOOKS.ufunc(ufunc, self)

    return operator


def left(ufunc: np.ufunc) -> Binary:
    """The method of an operator for the operand on its left."""

    def operator(self: Any, other: Any) -> Any:
        return HOOKS.ufunc(ufunc, self, other)

    return operator


def arithmetic(ufunc: np.ufunc) -> tuple[Binary, Binary, Binary]:
    """The methods of an operator for the operand on its left, the one on its right, and in place."""

    def on_left(self: Any, other: Any) -> Any:
        made = HOOKS.ufunc(ufunc, self, other)
        if made is NotImplemented and type(other).__module__ in sys.stdlib_module_names:
            return HOOKS.ufunc(ufunc, self, other, method="__call__")  # an error: Python's own types know no arrays
        return made

    def on_right(self: Any, other: Any) -> Any:
        made = HOOKS.ufunc(ufunc, other, self)
        # The operand on the left has refused by now: it is an array after all, or the error says what it is.
        return HOOKS.ufunc(ufunc, other, self, method="__call__") if made is NotImplemented else made

    def in_place(self: Any, other: Any) -> Any:
        if self._scalar:  # it has no memory to write, so Python binds the name to the result
            return HOOKS.ufunc(ufunc, self, other)
        return HOOKS.ufunc(ufunc, self, other, out=(self,))

    return on_left, on_right, in_place


def multiplication() -> tuple[Binary, Binary, Binary]:
    """The methods of `*`, which repeats a list or tuple by an integer scalar, as Python and NumPy do."""
    plain, reflected, in_place = arithmetic(np.multiply)

    def times(self: Any, other: Any) -> Any:
        return other * operator.index(self) if repeats(self, other) else plain(self, other)

    def times_on_right(self: Any, other: Any) -> Any:
        return other * operator.index(self) if repeats(self, other) else reflected(self, other)

    return times, times_on_right, in_place


def repeats(x: Any, other: Any) -> bool:
    """Test whether a traced array is an integer scalar beside a list or tuple."""
    return isinstance(other, list | tuple) and x._scalar and x.dtype.kind in "iu"
