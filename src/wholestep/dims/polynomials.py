"""Polynomials as the terms of sizes: sums, products, and division with a rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from wholestep.dims.spelling import Atom, Monomial, Terms, atom_text

Order: TypeAlias = Callable[[Monomial], tuple[int, tuple[int, ...]]]


def atoms_in(terms: Terms) -> set[Atom]:
    """The letters of which a polynomial is made."""
    return {atom for monomial in terms for atom, _ in monomial}


def nonzero_terms(terms: Terms) -> Terms:
    """The terms whose coefficients are not 0."""
    return {monomial: factor for monomial, factor in terms.items() if factor}


def add_terms(left: Terms, right: Terms) -> Terms:
    """The sum of two polynomials."""
    total = dict(left)
    for monomial, factor in right.items():
        total[monomial] = total.get(monomial, 0) + factor
    return nonzero_terms(total)


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """The product of two polynomials."""
    total: Terms = {}
    for x, a in left.items():
        for y, b in right.items():
            monomial = _monomial_product(x, y)
            total[monomial] = total.get(monomial, 0) + a * b
    return nonzero_terms(total)


def _monomial_product(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: atom_text(item[0])))


def divide_terms(left: Terms, right: Terms) -> tuple[Terms, Terms]:
    """Divide polynomials, so that left == whole*right + rest and no term of the rest can give more to the whole."""
    order = _order(left, right)
    lead = max(right, key=order)
    whole: Terms = {}
    for monomial in _descending(left, right, order):
        share = _monomial_quotient(monomial, lead)
        factor = left.get(monomial, 0) // right[lead]
        if share is not None and factor:
            whole = add_terms(whole, {share: factor})
            left = add_terms(left, multiply_terms({share: -factor}, right))
    return whole, left


def _descending(left: Terms, right: Terms, order: Order) -> Iterable[Monomial]:
    """Yield the monomials that a division meets, greatest first: the dividend's and those of subtracted products."""
    lead = max(right, key=order)
    met = set(left)
    while met:
        greatest = max(met, key=order)
        met.remove(greatest)
        share = _monomial_quotient(greatest, lead)
        if share is not None:
            met |= {_monomial_product(share, monomial) for monomial in right if monomial != lead}
        yield greatest


def _order(*polynomials: Terms) -> Order:
    """Give the key that sorts monomials by degree and then by their atoms: products keep this order."""
    atoms = sorted(set().union(*(atoms_in(terms) for terms in polynomials)), key=atom_text)

    def key(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
        powers = dict(monomial)
        return sum(powers.values()), tuple(powers.get(atom, 0) for atom in atoms)

    return key


def leading_factor(terms: Terms) -> int:
    """The factor of the term that comes first in a division."""
    return terms[max(terms, key=_order(terms))]


def _monomial_quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    powers = dict(monomial)
    for atom, power in divisor:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((atom, power) for atom, power in powers.items() if power)
