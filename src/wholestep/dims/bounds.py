"""Lower and upper bounds of symbolic sizes, which hold for all values of their names."""

from __future__ import annotations

from wholestep.dims.polynomials import add_terms, multiply_terms
from wholestep.dims.spelling import Atom, Least, Monomial, Quotient, Terms, terms_of


def is_positive(terms: Terms) -> bool:
    """Test whether a size is known to be at least 1."""
    low = lower_bound(terms)
    return low is not None and low >= 1


def upper_bound(terms: Terms) -> int | None:
    """A number that a size is never above, or None when none is known."""
    low = lower_bound({monomial: -factor for monomial, factor in terms.items()})
    return None if low is None else -low


def lower_bound(terms: Terms) -> int | None:
    """A number that a size is never below, or None when none is known."""
    if not any(terms):
        return terms.get((), 0)
    known = [low for low in (_lower_by_terms(terms), _lower_by_quotient(terms)) if low is not None]
    return max(known, default=None)


def _lower_by_terms(terms: Terms) -> int | None:
    """Measure each atom from the least it can be; then every term is at least 0 or as small as the atoms are large."""
    shifted: Terms = {}
    rooms: dict[Atom, int | None] = {}
    for monomial, factor in terms.items():
        term: Terms = {(): factor}
        for atom, power in monomial:
            low, high = _range(atom)
            if low is None:
                return None
            rooms[atom] = None if high is None else high - low
            for _ in range(power):
                term = multiply_terms(term, add_terms({((atom, 1),): 1}, {(): low}))
        shifted = add_terms(shifted, term)
    total = 0
    for monomial, factor in shifted.items():
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
        lows = [lower_bound(terms_of(size)) for size in atom]
        highs = [high for size in atom if (high := upper_bound(terms_of(size))) is not None]
        return None if None in lows else min(low for low in lows if low is not None), min(highs, default=None)
    numerator = terms_of(atom.numerator)
    low, high = lower_bound(numerator), upper_bound(numerator)
    if isinstance(atom.denominator, int):
        by = atom.denominator
        return None if low is None else low // by, None if high is None else high // by
    if low is not None and low >= 0 and is_positive(terms_of(atom.denominator)):
        return 0, high
    return None, None


def _lower_by_quotient(terms: Terms) -> int | None:
    """Use that d*(n//d) lies between n - d + 1 and n, which a term by itself does not show, for one term with a
    quotient by a number: the first by its spelling, so that equal sizes have equal bounds."""
    found = {monomial: atom for monomial in terms if (atom := _quotient_by_number(monomial)) is not None}
    if not found:
        return None
    monomial = min(found, key=repr)
    (numerator, divisor), factor = found[monomial], terms[monomial]
    others = {other: of for other, of in terms.items() if other != monomial}
    least = terms_of(numerator if factor < 0 else numerator - (divisor - 1))
    scaled = lower_bound(add_terms(multiply_terms({(): divisor}, others), multiply_terms({(): factor}, least)))
    return None if scaled is None else -(-scaled // divisor)


def _quotient_by_number(monomial: Monomial) -> Quotient | None:
    """The quotient by a number that a monomial is, or None where it is another one."""
    atom, power = monomial[0] if len(monomial) == 1 else ("", 0)
    return atom if power == 1 and isinstance(atom, Quotient) and isinstance(atom.denominator, int) else None
