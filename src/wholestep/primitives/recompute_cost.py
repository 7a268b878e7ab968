"""Recomputation: the values from which a few cheap operations compute another, so that it need not be stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from wholestep.primitives.family import RECOMPUTE_LIMIT

V = TypeVar("V")


def cheap_closure(
    value: V, cost: Callable[[V], int], operands: Callable[[V], Sequence[V]], available: Callable[[V], bool]
) -> set[V]:
    """The values to store, beside the available ones, from which the limit of cheap operations recomputes a value.

    The value itself is among them if it is not cheap.
    """
    total, base, waiting = 0, set[V](), [value]
    while waiting:
        v = waiting.pop()
        if available(v):
            continue
        own = cost(v)
        if own > RECOMPUTE_LIMIT - total:
            base.add(v)
            continue
        total += own
        waiting += reversed(operands(v))
    return base
