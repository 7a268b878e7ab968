"""Stores into a copy that is kept nowhere, as in `step.params["w"] = x`: errors, since nothing would read them."""

from __future__ import annotations

import dis
import functools
from itertools import pairwise
from types import CodeType

from wholestep.errors import UnsupportedError, here

STORES = ("STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE", "DELETE_SUBSCR", "DELETE_ATTR")
CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")
METHODS = ("LOAD_METHOD", "LOAD_ATTR")
CHANGES = "fill sort partition put resize update clear append extend insert remove reverse".split()
"""Methods of arrays and containers that change them and return nothing."""
DROPS = ("POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1")
"""Instructions behind a call that is a whole statement; a REPL prints its result."""


def refuse_lost_store(read: str, way: str) -> None:
    """Raise UnsupportedError where the user's running statement stores into what it reads here, and keeps no name of.

    `read` is what it reads, such as "step.params", and `way` the way out.
    """
    where = here(2)
    if where is not None and is_stored_into(*where):
        raise UnsupportedError(
            f"{read}: it is a copy, into which this line stores, and which the step does not read",
            where=where,
            hint=way,
        )


@functools.lru_cache(maxsize=1024)
def is_stored_into(code: CodeType, place: int) -> bool:
    """Test whether some code stores into the very object that an instruction of it reads, or calls what changes it.

    The target of a store begins where the expression that it stores into begins, and ends behind it. Another call
    between the two makes another object.
    """
    instructions = list(dis.get_instructions(code))
    at = next((n for n, one in enumerate(instructions) if one.offset == place), None)
    start = None if at is None else beginning(instructions[at])
    if at is None or start is None:
        return False
    changes = False
    for one, after in pairwise(instructions[at + 1 :]):
        if beginning(one) == start and one.opname in (*STORES, *CALLS):
            return one.opname in STORES or (changes and after.opname in DROPS)
        changes = one.argval in CHANGES if one.opname in METHODS and beginning(one) == start else changes
    return False


def beginning(instruction: dis.Instruction) -> tuple[int, int] | None:
    """The line and the column at which the expression of an instruction begins."""
    place = instruction.positions
    if place is None or place.lineno is None or place.col_offset is None:
        return None
    return place.lineno, place.col_offset
