"""Terms of a symbolic size as data, and the text that they print as: `2*B + 1`, `(B + 3)//4`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias


class Quotient(NamedTuple):
    """A floor division that does not simplify: with the names, the letters of which polynomials are made."""

    numerator: Any
    denominator: Any


class Least(NamedTuple):
    """The lesser of two sizes, where that depends on the names: a letter too."""

    one: Any
    other: Any


Atom: TypeAlias = str | Quotient | Least
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]  # atoms with their powers, in the order of their spelling
Terms: TypeAlias = dict[Monomial, int]  # each monomial with its coefficient, never 0


def terms_of(size: Any) -> Terms:
    """The terms of a size; a plain number is one term without names, and 0 has none."""
    found: Terms | None = getattr(size, "terms", None)
    return found if found is not None else {(): size} if size else {}


def sum_text(terms: Terms) -> str:
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
    return divided, -sum(power for _, power in monomial), [atom_text(atom) for atom, _ in monomial]


def _term_text(monomial: Monomial, factor: int, constant: int, rounded: bool) -> tuple[str, int]:
    """Spell a term, and return the constant that is left: (B + 1)//2 + 1 reads as (B + 3)//2."""
    [(atom, power), *more] = monomial
    if rounded and isinstance(atom, Quotient) and power == 1 and not more:
        numerator, denominator = atom
        if isinstance(denominator, int) and () in terms_of(numerator):
            return _quotient_text(numerator + constant * denominator, denominator), 0
        return atom_text(atom), constant
    factors = [str(factor)] if factor != 1 else []
    for atom, power in monomial:
        letter = f"({atom_text(atom)})" if isinstance(atom, Quotient) else atom_text(atom)
        factors.append(letter if power == 1 else f"{letter}**{power}")
    return "*".join(factors), constant


def atom_text(atom: Atom) -> str:
    if isinstance(atom, Least):
        return f"min({atom.one}, {atom.other})"
    return atom if isinstance(atom, str) else _quotient_text(*atom)


def _quotient_text(numerator: Any, denominator: Any) -> str:
    return f"{_operand_text(numerator)}//{_operand_text(denominator)}"


def _operand_text(size: Any) -> str:
    text = repr(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"
