"""A program at fixed places: each slot of its table a number of bytes into one block of memory that a caller gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.lower.program.program import LoweredProgram


@dataclass(frozen=True)
class PlacedProgram:
    """A lowered program, the name of the function that runs it, and where its slots and its arena lie.

    Its constants are not in the block: they belong to the code.
    """

    name: str
    plan: LoweredProgram
    offsets: tuple[int, ...]
    """The bytes from the beginning of the block to each slot of the plan, in their order."""
    arena: int
    """Those to the arena."""

    def constant_bytes(self) -> bytes:
        """The bytes of all constants, each at its offset in the program."""
        plan = self.plan
        ends = [at + a.nbytes for at, a in zip(plan.constant_offsets, plan.constants, strict=True)]
        blob: NDArray = np.zeros(max(ends, default=0), np.uint8)
        for at, a in zip(plan.constant_offsets, plan.constants, strict=True):
            blob[at : at + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
        return blob.tobytes()
