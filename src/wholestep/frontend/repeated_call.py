"""A call like the last one: its program runs without a look at each argument, which native code checks as it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import containers, tree
from wholestep.exits import UNBROKEN
from wholestep.frontend.argument_kinds import enters
from wholestep.frontend.closure_reads import Reading
from wholestep.frontend.plain_trees import Builder, Reader, builder, reader
from wholestep.frontend.printing import without_said
from wholestep.frontend.promotion import WEAK
from wholestep.frontend.traced_function import TracedFunction
from wholestep.runtime.executable import QuickCall

UNLIKE: Any = object()
"""The answer to a call that is not like the last one; nothing has run."""
NUMBERS = (*WEAK, np.generic)
"""Arguments that are arrays without axes to a program."""


class RepeatedCall:
    """The program of a call, for calls whose arguments have the same tree, types and plain values.

    `given` is the tree of (positional arguments, keywords), `orders` the orders of the keys in it, and `on` says which
    of its leaves are arrays to the program. No array is kept.
    """

    __slots__ = (
        "arrays",
        "assemble",
        "bare",
        "call",
        "changing",
        "fixed",
        "given",
        "numbers",
        "orders",
        "positional",
        "program",
        "read",
        "scalars",
    )

    def __init__(
        self,
        program: TracedFunction,
        call: QuickCall,
        given: tree.TreeDef,
        orders: tuple[Any, ...],
        leaves: Sequence[Any],
        on: Sequence[bool],
    ) -> None:
        self.program, self.call, self.given, self.orders = program, call, given, orders
        self.bare = len(leaves) if given == tree.structure(((0,) * len(leaves), {})) else -1
        """The number of arguments, where each is a leaf and given by position; else -1."""
        self.read = reader(given)
        self.positional = positional_readers(given)
        """The readers of the arguments, where all are given by position; else None."""
        self.fixed = [(k, leaf) for k, (leaf, o) in enumerate(zip(leaves, on, strict=True)) if not o]
        self.arrays = [k for k, o in enumerate(on) if o]
        self.numbers = [(n, type(leaves[k])) for n, k in enumerate(self.arrays) if isinstance(leaves[k], NUMBERS)]
        self.changing = bool(self.fixed or self.numbers)
        """True where some argument is no array, or a number."""
        self.scalars = [k for k, scalar in enumerate(program.scalars) if scalar]
        self.assemble = assembling(program.structure)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[Reading]) -> Any:
        """The results in fresh memory; UNLIKE for other arguments, or where a name or a captured array has changed."""
        for name in names:
            if not name.same():
                return UNLIKE
        if (self.program.constants or self.program.named) and self.program.changed():
            return UNLIKE
        leaves: Any = args
        if self.bare != len(args) or kwargs:
            if self.positional is None or kwargs:
                leaves = self.leaves_of((args, kwargs))
            elif len(self.positional) == len(args):
                leaves = []
                for read, argument in zip(self.positional, args):  # noqa: B905  # they are as many
                    if not read(argument, leaves):
                        return UNLIKE
            else:
                return UNLIKE
        if self.changing and leaves is not UNLIKE:
            leaves = self.converted(leaves)
        made = None if leaves is UNLIKE else self.call(leaves)
        if made is None:
            return UNLIKE
        for k in self.scalars:
            made[k] = made[k][()]
        return self.assemble(made)

    def leaves_of(self, given: Any) -> Any:
        """The leaves of the arguments; UNLIKE for another tree."""
        if self.read is not None:
            leaves: list[Any] = []
            return leaves if self.read(given, leaves) else UNLIKE
        with UNBROKEN:
            leaves, structure = tree.flatten(given)
            alike = structure == self.given and (not self.orders or containers.key_orders(given) == self.orders)
            return leaves if alike else UNLIKE

    def converted(self, leaves: Sequence[Any]) -> Any:
        """The arrays among the leaves, numbers as arrays; UNLIKE where a plain value or a type of number differs."""
        if not all([leaves[k] is value for k, value in self.fixed]):
            return UNLIKE
        found = [leaves[k] for k in self.arrays]
        for k, kind in self.numbers:
            if type(found[k]) is not kind:
                return UNLIKE
            found[k] = np.asarray(found[k])
        return found


def positional_readers(given: tree.TreeDef) -> list[Reader] | None:
    """The reader of each argument of a call without keywords; None where one has containers of another kind."""
    arguments, keywords = given.children()
    readers = [reader(argument) for argument in arguments.children()]
    found = [read for read in readers if read is not None]
    return None if keywords.num_children or len(found) < len(readers) else found


def repeated_call(
    program: TracedFunction, device: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> RepeatedCall | None:
    """The quick call of a program for arguments like these; None where each call has to inspect its arguments."""
    call = program.executable(device).quick_call()
    leaves, given = tree.flatten((args, kwargs))
    on = [enters(leaf) for leaf in leaves]
    plain = all([o or lasting(leaf) for leaf, o in zip(leaves, on, strict=True)])
    if call is None or not plain or sum(on) != len(program.graph.inputs):
        return None
    return RepeatedCall(program, call, given, containers.key_orders((args, kwargs)), leaves, on)


def lasting(leaf: Any) -> bool:
    """Test whether a plain argument is equal to itself for ever, so that a look at its identity is enough."""
    equal: Any = type(leaf).__eq__
    return isinstance(leaf, bool | str | bytes) or equal is object.__eq__


def assembling(results: tree.TreeDef) -> Builder:
    """The function that makes a call's result of its leaves."""
    return builder(results) or (lambda leaves: without_said(tree.unflatten(results, leaves)))
