"""Shorter forms of statements in kernels: folds in the variable of a carried value, and arrays filled at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wholestep.kernel.lang import Index, Loop, Statement, Store, Var


def continued_values(loop: Loop, uses: Mapping[Var, int]) -> set[Var]:
    """The carried values that only an inner fold reads, whose result is the next value: the variable of such a value is
    also the fold's accumulator."""
    folds = {f.init: f.result for s in loop.body if isinstance(s, Loop) for f in s.folds}
    return {c.inside for c in loop.carries if uses[c.inside] == 1 and folds.get(c.inside) is c.next}


def filling_stores(statements: Sequence[Statement]) -> list[Store]:
    """The stores at the beginning of statements that write a whole private array, one by one; none elsewhere."""
    first = statements[0]
    if not isinstance(first, Store) or first.buffer.space != "private":
        return []
    found = [s for s in statements[: int(first.buffer.size)] if isinstance(s, Store) and s.buffer is first.buffer]
    whole = [s.guard is None and s.index == Index(i) for i, s in enumerate(found)]
    return found if all(whole) and len(whole) == first.buffer.size else []
