"""Sizes with names: their arithmetic, their comparisons, and values for their names.

An expression that turns out constant is a plain int at once, so equal sizes compare equal as they stand.
The remainder needs no form of its own: `n % d` is `n - d*(n//d)`.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any, TypeAlias

import numpy as np

from wholestep.dims.bounds import is_positive
from wholestep.dims.polynomials import (
    add_terms,
    atoms_in,
    divide_terms,
    leading_factor,
    multiply_terms,
    nonzero_terms,
)
from wholestep.dims.spelling import Atom, Least, Quotient, Terms, sum_text, terms_of
from wholestep.dims.symbolic_error import CHOICE, NUMBER, PLAIN, SymbolicError
from wholestep.dims.traces import asked_by_user, traces

Operator: TypeAlias = Callable[[Any, Any], Any]


def _operators(name: str, operation: Operator) -> tuple[Operator, Operator]:
    """The methods of an operator for the operand on its left and for the one on its right."""

    apply = _unless_array(name, lambda left, right: _arithmetic(operation, left, right))
    return apply, lambda x, y: apply(y, x)


def _comparison(name: str, sign: str) -> Operator:
    return _unless_array(name, lambda left, right: _compared(left, sign, right))


def _unless_array(name: str, between_sizes: Operator) -> Operator:
    """An operation between sizes and numbers, that of the ufunc of a name where one operand is an array."""

    def method(left: Any, right: Any) -> Any:
        found = _with_array(name, left, right)
        return between_sizes(left, right) if found is NotImplemented else found

    return method


def _with_array(name: str, left: Any, right: Any) -> Any:
    """The result of a ufunc of which one operand is an array; NotImplemented for others, and where nothing is traced.

    A traced array has operators of its own, and one of NumPy leaves those with a size to the size.
    """
    if not (isinstance(left, np.ndarray) or isinstance(right, np.ndarray)) or not traces.running():
        return NotImplemented
    return traces.call(getattr(np, name), left, right)


class Dim:
    """A size with a name, or an expression of such sizes, used as an int would be.

    Shapes: no arrays; a size counts elements of an axis and is at least 1.
    Raises: ValueError for a name that is no identifier; SymbolicError, which is one, where a result hangs on sizes.

    >>> B = Dim("B")
    >>> (B + 3)//2, 2*B > B, (B*4)//4 == B
    ((B + 3)//2, True, True)
    """

    __slots__ = ("terms",)
    __array_ufunc__ = None  # so that NumPy's integers leave the arithmetic to us
    terms: Terms

    def __init__(self, name: str) -> None:
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(f"a size is named by an identifier, not {name!r}")
        self.terms = {((name, 1),): 1}

    __add__, __radd__ = _operators("add", lambda x, y: _plus(x, y))
    __sub__, __rsub__ = _operators("subtract", lambda x, y: _subtract(x, y))
    __mul__, __rmul__ = _operators("multiply", lambda x, y: _multiply(x, y))
    __floordiv__, __rfloordiv__ = _operators("floor_divide", lambda x, y: _floor_divide(x, y))
    __mod__, __rmod__ = _operators("remainder", lambda x, y: _modulo(x, y))
    __truediv__, __rtruediv__ = _operators("true_divide", lambda x, y: _divide(x, y))
    __lt__, __le__ = _comparison("less", "<"), _comparison("less_equal", "<=")
    __gt__, __ge__ = _comparison("greater", ">"), _comparison("greater_equal", ">=")

    def __pow__(self, exponent: int) -> Any:
        if not isinstance(exponent, int) or exponent < 0:
            raise SymbolicError(f"{self}**{exponent}: a symbolic size has powers by whole numbers", NUMBER)
        return math.prod([self] * exponent)

    def __neg__(self) -> Dim:
        return _dim({monomial: -factor for monomial, factor in self.terms.items()})

    def __pos__(self) -> Dim:
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            if self.terms == other.terms:
                return True
        elif not isinstance(other, int | np.integer):
            return False
        # Our own code compares sizes as expressions; a branch of the user's would be that of some sizes alone.
        if asked_by_user() and _may_be_equal(self, other):
            raise SymbolicError(f"cannot decide whether {self} == {other}: sizes are symbolic", CHOICE)
        return False

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        if is_positive(self.terms) or is_positive((-self).terms):
            return True
        if _supposed.values:
            return most(self) != 0
        raise SymbolicError(f"cannot decide whether {self} is 0: sizes are symbolic", CHOICE)

    def __index__(self) -> int:
        raise SymbolicError(f"the size {self} is symbolic: it has no value here", PLAIN)

    __int__ = __float__ = __index__

    def at(self, **sizes: int) -> Any:
        """The number that it is where its names are these; names that are left out stay.

        Raises ValueError for a size below 1.

        >>> (784 * Dim("B") + 10).at(B=32)
        25098
        """
        return substitute(self, sizes)

    def __repr__(self) -> str:
        return sum_text(self.terms)


Size: TypeAlias = int | Dim


def names(size: Size) -> frozenset[str]:
    """Return the names that a size depends on.

    >>> sorted(names(Dim("B")*Dim("C")//2 + 1))
    ['B', 'C']
    """
    found: set[str] = set()
    for atom in atoms_in(terms_of(size)):
        found |= {atom} if isinstance(atom, str) else names(atom[0]) | names(atom[1])
    return frozenset(found)


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """Put sizes in the place of names; names without a value stay.

    Raises ValueError when the value of a name in use is below 1, and ZeroDivisionError when a divisor becomes 0.

    >>> substitute(Dim("B")*Dim("C") + 1, {"B": 3})
    3*C + 1
    """
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, factor in size.terms.items():
        term: Size = factor
        for atom, power in monomial:
            for _ in range(power):
                term = _multiply(term, _atom_value(atom, values))
        total = _plus(total, term)
    return total


class _Supposed(threading.local):
    def __init__(self) -> None:
        self.values: Mapping[str, int] = {}


_supposed = _Supposed()


@contextmanager
def supposing(values: Mapping[str, int]) -> Iterator[None]:
    """Decide comparisons of symbolic sizes as for these values: for choices between correct alternatives only.

    >>> with supposing({"B": 100}):
    ...     Dim("B") < 200
    True
    """
    before, _supposed.values = _supposed.values, values
    try:
        yield
    finally:
        _supposed.values = before


def most(size: Size) -> int:
    """Return the number that a size has for the sizes supposed at present.

    Raises ValueError where one of its names has none.

    >>> with supposing({"B": 100}):
    ...     most(2*Dim("B")), most(7)
    (200, 7)
    """
    if isinstance(size, int):
        return size
    found = substitute(size, _supposed.values)
    if isinstance(found, Dim):
        raise SymbolicError(f"the size {size} is symbolic: no number is supposed for it")
    return found


def surely_above(size: Size, limit: Size) -> bool:
    """Test whether a size is greater than another one for all values of the names; suppositions do not count.

    >>> surely_above(2*Dim("B"), Dim("B")), surely_above(Dim("B"), 1)
    (True, False)
    """
    if isinstance(size, int) and isinstance(limit, int):
        return size > limit
    return is_positive(terms_of(_subtract(size, limit)))


def _may_be_equal(left: Size, right: Size | np.integer[Any]) -> bool:
    """Test whether two sizes may be equal for some values of the names."""
    difference = _subtract(left, right if isinstance(right, Dim) else operator.index(right))
    below = _subtract(0, difference)
    return not (is_positive(terms_of(difference)) or is_positive(terms_of(below)))


def least(one: Size, other: Size) -> Size:
    """Return the lesser of two sizes for all values of the names; suppositions do not count.

    >>> least(2*Dim("B"), 3*Dim("B")), least(3*Dim("B"), 100)
    (2*B, min(3*B, 100))
    """
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    for x, y in ((one, other), (other, one)):
        if surely_above(y, _subtract(x, 1)):
            return x
    first, second = sorted((one, other), key=lambda size: (isinstance(size, int), repr(size)))
    return _size({((Least(first, second), 1),): 1})


def greatest(one: Size, other: Size) -> Size:
    """Return the greater of two sizes for all values of the names.

    >>> greatest(2*Dim("B"), 3*Dim("B"))
    3*B
    """
    return _subtract(_plus(one, other), least(one, other))


# ----- arithmetic -----


def _dim(terms: Terms) -> Dim:
    found = object.__new__(Dim)
    found.terms = terms
    return found


def _size(terms: Terms) -> Size:
    return _dim(terms) if any(terms) else terms.get((), 0)


def _divide(left: Size, right: Size) -> Size:
    raise SymbolicError(f"{left} / {right}: a symbolic size has no fractions", NUMBER)


def _arithmetic(operation: Any, left: Any, right: Any) -> Any:
    if isinstance(left, float | np.floating) or isinstance(right, float | np.floating):
        raise SymbolicError(f"{left} and {right}: a symbolic size is put together with whole numbers", NUMBER)
    try:
        left = left if isinstance(left, Dim) else operator.index(left)
        right = right if isinstance(right, Dim) else operator.index(right)
    except TypeError:
        return NotImplemented
    return operation(left, right)


def _plus(left: Size, right: Size) -> Size:
    return _size(add_terms(terms_of(left), terms_of(right)))


def _subtract(left: Size, right: Size) -> Size:
    return _plus(left, -right)


def _multiply(left: Size, right: Size) -> Size:
    return _size(multiply_terms(terms_of(left), terms_of(right)))


def _modulo(left: Size, right: Size) -> Size:
    return _subtract(left, _multiply(right, _floor_divide(left, right)))


def _atom_value(atom: Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, Quotient):
        return _floor_divide(substitute(atom.numerator, values), substitute(atom.denominator, values))
    if isinstance(atom, Least):
        return least(substitute(atom.one, values), substitute(atom.other, values))
    if atom not in values:
        return Dim(atom)
    value = values[atom]
    value = value if isinstance(value, Dim) else operator.index(value)
    if isinstance(value, int) and value < 1:
        raise ValueError(f"{atom} cannot be {value}: a named size is at least 1")
    return value


def _compared(left: Dim, sign: str, right: Any) -> Any:
    greater = _arithmetic(_subtract, left, right)
    if greater is NotImplemented:
        return NotImplemented
    difference = greater if sign[0] == ">" else -greater
    margin = 1 if "=" in sign else 0
    if is_positive(terms_of(_plus(difference, margin))):
        return True
    if is_positive(terms_of(_subtract(1 - margin, difference))):
        return False
    if _supposed.values:
        return most(difference) > 0 if margin == 0 else most(difference) >= 0
    raise SymbolicError(f"cannot decide whether {left} {sign} {right}: sizes are symbolic", CHOICE)


# ----- floor division -----


def _floor_divide(left: Size, right: Size) -> Size:
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if right == 1:
        return left
    if right == 0:
        raise ZeroDivisionError("a symbolic size is divided by 0")
    if leading_factor(terms_of(right)) < 0:
        left, right = -left, -right
    whole, rest = map(_size, divide_terms(terms_of(left), terms_of(right)))
    if rest == 0 or _is_within(rest, right):
        return whole
    if _is_within(-rest - 1, right):
        return _plus(whole, -1)
    return _plus(whole, _proper_quotient(rest, right))


def _is_within(size: Size, limit: Size) -> bool:
    return is_positive(terms_of(_plus(size, 1))) and is_positive(terms_of(_subtract(limit, size)))


def _proper_quotient(rest: Size, divisor: Size) -> Size:
    """Name a floor division that has nothing whole left in it, in its lowest terms."""
    if isinstance(divisor, int):
        common = math.gcd(divisor, *(factor for monomial, factor in terms_of(rest).items() if monomial))
        nested = _nested(rest)
        if common == 1 and nested is not None:
            # (m//e + r)//d == (m + e*r)//(e*d) for whole e, d > 0
            inner = nested.denominator
            others = _subtract(rest, _size({((nested, 1),): 1}))
            return _floor_divide(_plus(nested.numerator, _multiply(inner, others)), _multiply(inner, divisor))
    else:
        common = math.gcd(*terms_of(rest).values(), *terms_of(divisor).values())
    if common > 1:
        # A constant that the common factor does not divide is rounded down with the rest.
        rest, divisor = (
            _size(nonzero_terms({m: f // common for m, f in terms_of(size).items()})) for size in (rest, divisor)
        )
        return _floor_divide(rest, divisor)
    return _size({((Quotient(rest, divisor), 1),): 1})


def _nested(size: Size) -> Quotient | None:
    """Return the only quotient in a size, if it stands alone in its term and has a constant divisor."""
    quotients = [atom for atom in atoms_in(terms_of(size)) if isinstance(atom, Quotient)]
    if len(quotients) != 1 or not isinstance(quotients[0].denominator, int):
        return None
    holding = [monomial for monomial in terms_of(size) if quotients[0] in dict(monomial)]
    alone = holding == [((quotients[0], 1),)] and terms_of(size)[holding[0]] == 1
    return quotients[0] if alone else None
