"""Bindings of names to sizes, found from a shape that a symbolic one describes."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from wholestep.dims.size import Size, names, substitute
from wholestep.dims.spelling import terms_of


def bind(pattern: Sequence[Size], shape: Sequence[Size], bindings: MutableMapping[str, Size]) -> None:
    """Find the values of the names in a pattern from a shape that it describes, and add them to `bindings`.

    A name is found from an axis in which it is the only unknown and has the power 1; the others are then checked.
    Raises ValueError, with `bindings` as they were, when the two disagree or the shape does not determine a name.

    >>> from wholestep.dims import Dim
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


def _settled(axis: int, pattern: Size, size: Size, found: dict[str, Size]) -> bool:
    known = substitute(pattern, found)
    if names(pattern) - found.keys():
        return _solved(axis, pattern, known, size, found)
    if known != size:
        because = ", ".join(f"{name} is {found[name]}" for name in sorted(names(pattern) & found.keys()))
        raise ValueError(f"axis {axis} has size {size}, not {pattern}" + (f", where {because}" if because else ""))
    return True


def _solved(axis: int, pattern: Size, known: Size, size: Size, found: dict[str, Size]) -> bool:
    """Solve a*name + b == size for the name, if the pattern has that form."""
    terms = dict(terms_of(known))
    constant = terms.pop((), 0)
    if len(terms) != 1:
        return False
    [(monomial, factor)] = terms.items()
    if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], str):
        return False
    name = monomial[0][0]
    value = (size - constant) // factor
    if factor * value + constant != size or (isinstance(value, int) and value < 1):
        raise ValueError(f"axis {axis} has size {size}, which {pattern} is for no {name} of at least 1")
    found[name] = value
    return True


def _shape_text(shape: Sequence[Size]) -> str:
    return f"[{', '.join(map(repr, shape))}]"
