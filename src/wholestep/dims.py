"""Sizes that are not known yet: integer polynomials of named sizes, each of them at least 1.

    B = Dim("B");  (2*B)//2 == B;  (B + 1)*2 == 2*B + 2;  B - B == 0

An expression that turns out constant is a plain int at once, so equal sizes compare equal as they stand.
The remainder needs no form of its own: `n % d` is `n - d*(n//d)`.
"""

from __future__ import annotations

import ast
import math
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any, NamedTuple, TypeAlias


class SymbolicError(TypeError, ValueError):
    """A number was asked of a size that has none yet."""


class Quotient(NamedTuple):
    """A floor division that does not simplify: with the names, the letters of which polynomials are made."""

    numerator: Size
    denominator: Size


class Least(NamedTuple):
    """The lesser of two sizes, where that depends on the names: a letter too."""

    one: Size
    other: Size


Atom: TypeAlias = str | Quotient | Least
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]  # atoms with their powers, in the order of their spelling
Terms: TypeAlias = dict[Monomial, int]  # what each monomial is multiplied by, never 0


def _operators(operation: Callable[[Any, Any], Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The methods of an operator for the operand on its left and for the one on its right."""
    return lambda x, y: _arithmetic(operation, x, y), lambda x, y: _arithmetic(operation, y, x)


def _comparison(sign: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: _compared(x, sign, y)


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

    __add__, __radd__ = _operators(lambda x, y: _add(x, y))
    __sub__, __rsub__ = _operators(lambda x, y: _subtract(x, y))
    __mul__, __rmul__ = _operators(lambda x, y: _multiply(x, y))
    __floordiv__, __rfloordiv__ = _operators(lambda x, y: _floor_divide(x, y))
    __mod__, __rmod__ = _operators(lambda x, y: _modulo(x, y))
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")

    def __truediv__(self, other: Any) -> Any:
        raise SymbolicError(f"{self} / {other}: a symbolic size has no fractions; divide an array by it, or use //")

    def __rtruediv__(self, other: Any) -> Any:
        raise SymbolicError(f"{other} / {self}: a symbolic size has no fractions; divide an array by it, or use //")

    def __pow__(self, exponent: int) -> Any:
        return math.prod([self] * exponent) if exponent >= 0 else NotImplemented

    def __neg__(self) -> Dim:
        return _dim({monomial: -factor for monomial, factor in self.terms.items()})

    def __pos__(self) -> Dim:
        return self

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, Dim) else False

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        if _is_positive(self) or _is_positive(-self):
            return True
        if _supposed.values:
            return most(self) != 0
        raise SymbolicError(f"cannot decide whether {self} is 0: sizes are symbolic")

    def __index__(self) -> int:
        raise SymbolicError(f"the size {self} is symbolic: it has no value here")

    __int__ = __float__ = __index__

    def at(self, **sizes: int) -> Any:
        """The number that it is where its names are these; names that are left out stay.

        Raises ValueError for a size below 1.

        >>> (784 * Dim("B") + 10).at(B=32)
        25098
        """
        return substitute(self, sizes)

    def __repr__(self) -> str:
        return _sum_text(self.terms)


Size: TypeAlias = int | Dim


def names(size: Size) -> frozenset[str]:
    """Return the names that a size depends on.

    >>> sorted(names(Dim("B")*Dim("C")//2 + 1))
    ['B', 'C']
    """
    found: set[str] = set()
    for atom in _atoms(size):
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
        total = _add(total, term)
    return total


class _Supposed(threading.local):
    def __init__(self) -> None:
        self.values: Mapping[str, int] = {}


_supposed = _Supposed()


@contextmanager
def supposing(values: Mapping[str, int]) -> Iterator[None]:
    """Answer comparisons that depend on the sizes as they are for these ones: for choices, not for what is right.

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
    found = substitute(size, _supposed.values)
    if isinstance(found, Dim):
        raise SymbolicError(f"the size {size} is symbolic: no number is supposed for it")
    return found


def surely_above(size: Size, limit: Size) -> bool:
    """Test whether a size is greater than another one whatever the names are; nothing is supposed.

    >>> surely_above(2*Dim("B"), Dim("B")), surely_above(Dim("B"), 1)
    (True, False)
    """
    if isinstance(size, int) and isinstance(limit, int):
        return size > limit
    return _is_positive(_subtract(size, limit))


def least(one: Size, other: Size) -> Size:
    """Return the lesser of two sizes whatever the names are; nothing is supposed.

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
    """Return the greater of two sizes whatever the names are.

    >>> greatest(2*Dim("B"), 3*Dim("B"))
    3*B
    """
    return _subtract(_add(one, other), least(one, other))


BLOCK = 64
"""Memory of symbolic size is laid out for this many at once, so that what lies behind it stays aligned."""


def blocks(name: str) -> Size:
    """Return in how many blocks a named size is laid out.

    >>> blocks("B")
    (B + 63)//64
    """
    return _floor_divide(_add(Dim(name), BLOCK - 1), BLOCK)


def per_block(size: Size, name: str) -> int:
    """Return a number that a size never exceeds for each block of its name.

    Raises SymbolicError for what grows faster than the name, and for other names.

    >>> per_block(12*Dim("B") + 8, "B"), per_block(256*blocks("B"), "B")
    (776, 256)
    """
    return sum(_per_block(size, monomial, factor, name) for monomial, factor in _terms(size).items() if factor > 0)


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


SAMPLE = 10_007
"""A size like any other, and a prime: what holds for it by chance holds for hardly any."""


def sampled(shape: Iterable[Size]) -> tuple[int, ...]:
    """Return a shape with numbers for its names, to ask what does not depend on them, such as what shares memory.

    >>> sampled((2, Dim("B"), Dim("B") + 1))
    (2, 10007, 10008)
    """
    sizes = tuple(shape)
    for size in sizes:
        if type(size) is not int:
            found = [substitute(size, dict.fromkeys(names(size), SAMPLE)) for size in sizes]
            return tuple([size for size in found if isinstance(size, int)])
    return sizes  # type: ignore[return-value]  # each of which is an int


def spelled(text: str) -> Size:
    """Return the size that a text says, as sizes print; raises ValueError where it says none.

    >>> spelled("(2*B + 3)//4") == (2*Dim("B") + 3)//4
    True
    """
    try:
        return parse_dim(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{text!r} is not a size") from None


def parse_dim(tree: ast.expr) -> Size:
    """Return the size that an expression says; raises ValueError where it says none."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return Dim(tree.id)
    if isinstance(tree, ast.BinOp) and type(tree.op) in OPERATIONS:
        made: Size = OPERATIONS[type(tree.op)](parse_dim(tree.left), parse_dim(tree.right))
        return made
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "min" and len(tree.args) == 2:
        return least(parse_dim(tree.args[0]), parse_dim(tree.args[1]))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -parse_dim(tree.operand)
    raise ValueError(f"{ast.unparse(tree)!r} is not a size")


OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
"""The operators of sizes in a text."""


def spelled_out(size: Size) -> str:
    """Return a number with its thousands apart, or the expression that it is.

    >>> spelled_out(65536), spelled_out(4*Dim("B"))
    ('65,536', '4*B')
    """
    return f"{size:,}" if isinstance(size, int) else str(size)


def dim_product(shape: Iterable[Size]) -> Size:
    """Return the number of elements of a shape.

    >>> dim_product((2, Dim("B"), 3)), dim_product(())
    (6*B, 1)
    """
    return math.prod(shape)


def bind(pattern: Sequence[Size], shape: Sequence[Size], bindings: MutableMapping[str, Size]) -> None:
    """Find the sizes of the names in a pattern from a shape that it describes, and add them to `bindings`.

    A name is found from an axis in which it is the only unknown and has the power 1; the others are then checked.
    Raises ValueError, with `bindings` as they were, when the two disagree or the shape does not say what a name is.

    >>> found = {}
    >>> bind((Dim("B"), 2*Dim("C") + 1, Dim("B")*Dim("C")), (3, 9, 12), found)
    >>> found
    {'B': 3, 'C': 4}
    """
    if len(pattern) != len(shape):
        raise ValueError(f"{_shape_text(pattern)} has {len(pattern)} axes, but {_shape_text(shape)} has {len(shape)}")
    found = dict(bindings)
    waiting = list(range(len(pattern)))
    while waiting:
        later = [axis for axis in waiting if not _settled(axis, pattern[axis], shape[axis], found)]
        if len(later) == len(waiting):
            unknown = sorted(frozenset().union(*(names(pattern[axis]) for axis in later)) - found.keys())
            raise ValueError(
                f"{_shape_text(shape)} does not say what {', '.join(unknown)} is in {_shape_text(pattern)}"
            )
        waiting = later
    bindings.update(found)


# ----- arithmetic -----


def _dim(terms: Terms) -> Dim:
    found = object.__new__(Dim)
    found.terms = terms
    return found


def _size(terms: Terms) -> Size:
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    return _dim(terms) if any(terms) else terms.get((), 0)


def _terms(size: Size) -> Terms:
    return size.terms if isinstance(size, Dim) else {(): size} if size else {}


def _atoms(size: Size) -> set[Atom]:
    return {atom for monomial in _terms(size) for atom, _ in monomial}


def _arithmetic(operation: Any, left: Any, right: Any) -> Any:
    if isinstance(left, float) or isinstance(right, float):
        raise SymbolicError(f"{left} and {right}: a symbolic size is put together with whole numbers; arrays take both")
    try:
        left = left if isinstance(left, Dim) else operator.index(left)
        right = right if isinstance(right, Dim) else operator.index(right)
    except TypeError:
        return NotImplemented
    return operation(left, right)


def _add(left: Size, right: Size) -> Size:
    total = dict(_terms(left))
    for monomial, factor in _terms(right).items():
        total[monomial] = total.get(monomial, 0) + factor
    return _size(total)


def _subtract(left: Size, right: Size) -> Size:
    return _add(left, -right)


def _multiply(left: Size, right: Size) -> Size:
    total: Terms = {}
    for x, a in _terms(left).items():
        for y, b in _terms(right).items():
            monomial = _monomial_product(x, y)
            total[monomial] = total.get(monomial, 0) + a * b
    return _size(total)


def _monomial_product(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _atom_text(item[0])))


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


# ----- floor division -----


def _floor_divide(left: Size, right: Size) -> Size:
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    if right == 1:
        return left
    if right == 0:
        raise ZeroDivisionError("a symbolic size is divided by 0")
    if _terms(right)[_leading(right, _order(right))] < 0:
        left, right = -left, -right
    whole, rest = _divide(left, right)
    if rest == 0 or _is_within(rest, right):
        return whole
    if _is_within(-rest - 1, right):
        return _add(whole, -1)
    return _add(whole, _proper_quotient(rest, right))


def _is_within(size: Size, limit: Size) -> bool:
    return _is_positive(_add(size, 1)) and _is_positive(_subtract(limit, size))


def _divide(left: Size, right: Size) -> tuple[Size, Size]:
    """Divide polynomials, so that left == whole*right + rest and no term of the rest can give more to the whole."""
    order = _order(left, right)
    lead = _leading(right, order)
    whole: Size = 0
    for monomial in _descending(left, right, order):
        share = _monomial_quotient(monomial, lead)
        factor = _terms(left).get(monomial, 0) // _terms(right)[lead]
        if share is not None and factor:
            part = _size({share: factor})
            whole, left = _add(whole, part), _subtract(left, _multiply(part, right))
    return whole, left


def _descending(left: Size, right: Size, order: Any) -> Iterable[Monomial]:
    """Yield the monomials a division meets, greatest first: those of the left side and what subtracting brings up."""
    lead = _leading(right, order)
    met = set(_terms(left))
    while met:
        greatest = max(met, key=order)
        met.remove(greatest)
        share = _monomial_quotient(greatest, lead)
        if share is not None:
            met |= {_monomial_product(share, monomial) for monomial in _terms(right) if monomial != lead}
        yield greatest


def _order(*sizes: Size) -> Any:
    """Give the key that sorts monomials by degree and then by their atoms: products keep this order."""
    atoms = sorted(set().union(*(_atoms(size) for size in sizes)), key=_atom_text)

    def key(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
        powers = dict(monomial)
        return sum(powers.values()), tuple(powers.get(atom, 0) for atom in atoms)

    return key


def _leading(size: Size, order: Any) -> Monomial:
    return max(_terms(size), key=order)


def _monomial_quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for atom, power in divisor:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((atom, power) for atom, power in powers.items() if power)


def _proper_quotient(rest: Size, divisor: Size) -> Size:
    """Name a floor division that has nothing whole left in it, in its lowest terms."""
    if isinstance(divisor, int):
        common = math.gcd(divisor, *(factor for monomial, factor in _terms(rest).items() if monomial))
        nested = _nested(rest)
        if common == 1 and nested is not None:
            # (m//e + r)//d == (m + e*r)//(e*d) for whole e, d > 0
            inner = nested.denominator
            others = _subtract(rest, _size({((nested, 1),): 1}))
            return _floor_divide(_add(nested.numerator, _multiply(inner, others)), _multiply(inner, divisor))
    else:
        common = math.gcd(*_terms(rest).values(), *_terms(divisor).values())
    if common > 1:
        # A constant that the common factor does not divide is rounded down with the rest.
        rest, divisor = (_size({m: f // common for m, f in _terms(size).items()}) for size in (rest, divisor))
        return _floor_divide(rest, divisor)
    return _size({((Quotient(rest, divisor), 1),): 1})


def _nested(size: Size) -> Quotient | None:
    """Return the only quotient in a size, if it stands alone in its term and has a constant divisor."""
    quotients = [atom for atom in _atoms(size) if isinstance(atom, Quotient)]
    if len(quotients) != 1 or not isinstance(quotients[0].denominator, int):
        return None
    holding = [monomial for monomial in _terms(size) if quotients[0] in dict(monomial)]
    alone = holding == [((quotients[0], 1),)] and _terms(size)[holding[0]] == 1
    return quotients[0] if alone else None


# ----- bounds -----


def _compared(left: Dim, sign: str, right: Any) -> Any:
    greater = _arithmetic(_subtract, left, right)
    if greater is NotImplemented:
        return NotImplemented
    difference = greater if sign[0] == ">" else -greater
    margin = 1 if "=" in sign else 0
    if _is_positive(_add(difference, margin)):
        return True
    if _is_positive(_subtract(1 - margin, difference)):
        return False
    if _supposed.values:
        return most(difference) > 0 if margin == 0 else most(difference) >= 0
    raise SymbolicError(f"cannot decide whether {left} {sign} {right}: sizes are symbolic")


def _is_positive(size: Size) -> bool:
    low = _lower(size)
    return low is not None and low >= 1


def _upper(size: Size) -> int | None:
    low = _lower(-size)
    return None if low is None else -low


def _lower(size: Size) -> int | None:
    """Return a number that a size is never below, or None when none is known."""
    if isinstance(size, int):
        return size
    known = [low for low in (_lower_by_terms(size), _lower_by_quotient(size)) if low is not None]
    return max(known, default=None)


def _lower_by_terms(size: Dim) -> int | None:
    """Measure each atom from the least it can be; then every term is at least 0 or as small as the atoms are large."""
    shifted: Size = 0
    rooms: dict[Atom, int | None] = {}
    for monomial, factor in size.terms.items():
        term: Size = factor
        for atom, power in monomial:
            low, high = _range(atom)
            if low is None:
                return None
            rooms[atom] = None if high is None else high - low
            for _ in range(power):
                term = _multiply(term, _add(_size({((atom, 1),): 1}), low))
        shifted = _add(shifted, term)
    total = 0
    for monomial, factor in _terms(shifted).items():
        if monomial and factor > 0:
            continue
        for atom, power in monomial:
            room = rooms[atom]
            if room is None:
                return None
            factor *= room**power
        total += factor
    return total


def _range(atom: Atom) -> tuple[int | None, int | None]:
    if isinstance(atom, str):
        return 1, None
    if isinstance(atom, Least):
        lows, highs = [_lower(size) for size in atom], [high for size in atom if (high := _upper(size)) is not None]
        return None if None in lows else min(low for low in lows if low is not None), min(highs, default=None)
    low, high = _lower(atom.numerator), _upper(atom.numerator)
    if isinstance(atom.denominator, int):
        by = atom.denominator
        return None if low is None else low // by, None if high is None else high // by
    if low is not None and low >= 0 and _is_positive(atom.denominator):
        return 0, high
    return None, None


def _lower_by_quotient(size: Dim) -> int | None:
    """Use that d*(n//d) lies between n - d + 1 and n, which a term by itself does not show."""
    for monomial, factor in size.terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], Quotient):
            continue
        numerator, divisor = monomial[0][0]
        if not isinstance(divisor, int):
            continue
        others = _subtract(size, _size({monomial: factor}))
        least = numerator if factor < 0 else _subtract(numerator, divisor - 1)
        scaled = _lower(_add(_multiply(divisor, others), _multiply(factor, least)))
        return None if scaled is None else -(-scaled // divisor)
    return None


# ----- binding -----


def _settled(axis: int, pattern: Size, size: Size, found: dict[str, Size]) -> bool:
    known = substitute(pattern, found)
    if names(pattern) - found.keys():
        return _solved(axis, pattern, known, size, found)
    if known != size:
        because = ", ".join(f"{name} is {found[name]}" for name in sorted(names(pattern) & found.keys()))
        raise ValueError(f"axis {axis} has size {size}, not {pattern}" + (f", where {because}" if because else ""))
    return True


def _solved(axis: int, pattern: Size, known: Size, size: Size, found: dict[str, Size]) -> bool:
    """Solve a*name + b == size, if that is what the pattern says."""
    terms = dict(_terms(known))
    constant = terms.pop((), 0)
    if len(terms) != 1:
        return False
    [(monomial, factor)] = terms.items()
    if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], str):
        return False
    name = monomial[0][0]
    value = _floor_divide(_subtract(size, constant), factor)
    if _add(_multiply(factor, value), constant) != size or (isinstance(value, int) and value < 1):
        raise ValueError(f"axis {axis} has size {size}, which {pattern} is for no {name} of at least 1")
    found[name] = value
    return True


# ----- spelling -----


def _sum_text(terms: Terms) -> str:
    terms = dict(terms)
    constant = terms.pop((), 0)
    order = sorted(terms, key=_place)
    text = ""
    for monomial in order:
        factor = terms[monomial]
        spelled, constant = _term_text(monomial, abs(factor), constant, rounded=len(order) == 1 and factor == 1)
        text += (" - " if factor < 0 else " + ") + spelled
    if constant:
        text += f" {'-' if constant < 0 else '+'} {abs(constant)}"
    return text.removeprefix(" + ") if text.startswith(" + ") else "-" + text.removeprefix(" - ")


def _place(monomial: Monomial) -> tuple[bool, int, list[str]]:
    """Order terms as one writes them: names before quotients, high powers before low ones, then by the alphabet."""
    divided = any(not isinstance(atom, str) for atom, _ in monomial)
    return divided, -sum(power for _, power in monomial), [_atom_text(atom) for atom, _ in monomial]


def _term_text(monomial: Monomial, factor: int, constant: int, rounded: bool) -> tuple[str, int]:
    """Spell a term, and return the constant that is left: (B + 1)//2 + 1 reads as (B + 3)//2."""
    [(atom, power), *more] = monomial
    if rounded and isinstance(atom, Quotient) and power == 1 and not more:
        numerator, denominator = atom
        if isinstance(denominator, int) and () in _terms(numerator):
            return _quotient_text(_add(numerator, constant * denominator), denominator), 0
        return _atom_text(atom), constant
    factors = [str(factor)] if factor != 1 else []
    for atom, power in monomial:
        letter = f"({_atom_text(atom)})" if isinstance(atom, Quotient) else _atom_text(atom)
        factors.append(letter if power == 1 else f"{letter}**{power}")
    return "*".join(factors), constant


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, Least):
        return f"min({atom.one}, {atom.other})"
    return atom if isinstance(atom, str) else _quotient_text(*atom)


def _quotient_text(numerator: Size, denominator: Size) -> str:
    return f"{_operand_text(numerator)}//{_operand_text(denominator)}"


def _operand_text(size: Size) -> str:
    text = repr(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _shape_text(shape: Sequence[Size]) -> str:
    return f"[{', '.join(map(repr, shape))}]"
