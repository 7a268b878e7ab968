"""Entered arguments: those of a call that is differentiated, as traced arrays, and their names in errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from wholestep import tree
from wholestep.boundary.counts import is_integer
from wholestep.boundary.foreign import OWN_CALL
from wholestep.errors import DerivativeError
from wholestep.frontend.array import Array
from wholestep.frontend.tracing import (
    check_function,
    constants_read,
    differentiable,
    enter,
    guarded,
    parameter_names,
)


class Entered:
    """The arguments of one call, those to differentiate replaced by traced arrays."""

    def __init__(self, f: Any, argnums: int | Sequence[int], args: Sequence[Any], what: str) -> None:
        self.single = is_integer(argnums)
        self.numbers = argument_numbers(argnums, len(args), what)
        self.leaves: list[Any] = []
        self.arrays: list[Array] = []
        self.structures = []
        given = list(args)
        for i, arg in enumerate(args):
            given[i] = tree.map(guarded, arg) if i not in self.numbers else arg
        for n in self.numbers:
            leaves, structure = tree.flatten(args[n])
            leaves = constants_read(leaves)
            differentiable(leaves, functools.partial(leaf_paths, f, args, n), what)
            arrays = [enter(leaf) for leaf in leaves]
            given[n] = tree.unflatten(structure, arrays)
            self.structures.append((structure, len(leaves)))
            self.leaves += leaves
            self.arrays += arrays
        self.values = [a.value for a in self.arrays]
        self.args = given
        self.f = f

    def regroup(self, items: Sequence[Any]) -> Any:
        """One item for each differentiated leaf, in the shape of the arguments."""
        out, at = [], 0
        for structure, n in self.structures:
            out.append(tree.unflatten(structure, items[at : at + n]))
            at += n
        return out[0] if self.single else tuple(out)

    def path(self, i: int) -> str:
        """The user's spelling of a leaf."""
        return [p for n in self.numbers for p in leaf_paths(self.f, self.args, n)][i]


def argument_numbers(argnums: Any, count: int, what: str) -> list[int]:
    """The places of the arguments that `argnums` names; raises DerivativeError outside, and for twins."""
    numbers = [argnums] if is_integer(argnums) else list(argnums)
    if not all(-count <= n < count for n in numbers):
        raise DerivativeError(
            f"{what}: argnums={argnums} is outside the {count} positional arguments of this call",
            hint="differentiated arguments are passed by position",
        )
    found = [int(n) % count for n in numbers]
    if len(set(found)) < len(found):
        raise DerivativeError(f"{what}: argnums={argnums} names an argument twice")
    return found


def leaf_paths(f: Any, args: Sequence[Any], n: int) -> list[str]:
    """The user's spelling of the leaves of one argument."""
    return tree.paths(args[n], parameter_names(f, len(args))[n])


def check_differentiated(f: Any, argnums: Any, what: str) -> None:
    """Raise DerivativeError where f is no function, or `argnums` is not made of integers."""
    check_function(f, what)
    given = argnums if isinstance(argnums, tuple | list) else (argnums,)
    if not all(map(is_integer, given)):
        raise DerivativeError(
            f"{what}: argnums is {argnums!r:.60}, and numbers the arguments from 0",
            hint=OWN_CALL.format(what),
        )
