"""Orders in graph words: complex numbers by their real, then their imaginary parts, and extrema by others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.ir.graph import OPS, Value
from wholestep.lower.legalize.sort import boolean_extreme, complex_argument_extreme, complex_product
from wholestep.primitives.arithmetic import imag, make_complex, neg, real
from wholestep.primitives.indexing import take_along
from wholestep.primitives.logic import bitwise_not, equal, less, rint
from wholestep.primitives.order import sort


def complex_comparison(name: str) -> Rule:
    """A comparison of complex numbers: by their real parts, and where those are the same by the imaginary ones."""

    def rule(x: Value, y: Value) -> Value | None:
        if not is_complex_value(x):
            return None
        first: Value = less(real(x), real(y))
        same = equal(real(x), real(y))
        return first | (same & OPS[name](imag(x), imag(y)))

    return rule


def complex_rint(x: Value) -> Value | None:
    """Both parts rounded."""
    if not is_complex_value(x):
        return None
    found: Value = make_complex(rint(real(x)), rint(imag(x)))
    return found


def complex_sort(x: Value, *, axis: int) -> Sequence[Value] | None:
    """Sorted by imaginary, then, as equal ones stay in order, by real parts; for numbers none of which is NaN."""
    if not is_complex_value(x):
        return None
    _, order = sort(imag(x), axis=axis)
    _, then = sort(take_along(real(x), order, axis), axis=axis)
    order = take_along(order, then, axis)
    return take_along(x, order, axis), order


def smallest_place(x: Value, *, axis: int) -> Value:
    """The place of the largest of the negatives, or of the complements of integers."""
    turned = bitwise_not(x) if x.dtype.kind in "biu" else neg(x)
    found: Value = OPS["argmax"](turned, axis=axis)
    return found


def first_of(first: Callable[..., Sequence[Value] | None], other: Rule) -> Rule:
    """The first rule, and another one where that does not hold."""

    def rule(*xs: Value, **params: int) -> Value | Sequence[Value] | None:
        found = first(*xs, **params)
        return other(*xs, **params) if found is None else found

    return rule


ORDER_RULES: dict[str, Rule] = {
    "less": complex_comparison("less"),
    "less_equal": complex_comparison("less_equal"),
    "rint": complex_rint,
    "sort": complex_sort,
    "argmin": first_of(complex_argument_extreme("argmin", "min", float("inf")), smallest_place),
    "argmax": complex_argument_extreme("argmax", "max", -float("inf")),
    "max": boolean_extreme("any"),
    "min": boolean_extreme("all"),
    "prod": complex_product,
}
"""Rules of orders and extrema."""
