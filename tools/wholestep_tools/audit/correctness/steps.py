"""`wholestep audit steps`: random training steps, compiled with resident state, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.steps import explained, step_of

CLAIM = "A compiled training step is as close to float64 as NumPy is in the same dtypes, to a small factor"


def see(numbers: range, count: int, seed: int) -> Seen:
    """Draw, compile and compare some steps."""
    seen = Seen()
    for i in numbers:
        try:
            seen.count("unsure", not explained(seed, i))
        except AssertionError as error:
            seen.failures.append(str(error)[:2000])
        seen.count("operations", len(step_of(seed, i).graph.nodes))
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many steps."""
    seen = joined_parts(parts)
    checks = {
        "training steps": count,
        "operations in their graphs, those in loops counted once": seen.checks["operations"],
        "steps that are right only by NumPy's errors beside the point": seen.checks["unsure"],
    }
    return record("steps", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "steps",
    audit,
    10_000,
    "draw training steps, compile them, and compare every number with float64",
    """\
A step is a random forward program of 5 to 60 operations with views, broadcasts, assignments, casts, axes of size 0
and 1, loops and branches; its gradient; and an update by one of three optimizers, once or in a loop of 3 or 8
batches. Every third is a Python loop of 3 to 12 rounds over layers or linear algebra, or a chain of up to 1,000
operations, rolled in each way. It is compiled with its state resident. Each output may be off from float64 by 4
times what NumPy is off in the same dtypes, and 8 units in the last place of the largest element; where a kink is
near, by NumPy's error with roundings that go other ways. Plans are verified as they are made. A failure is kept as
the smallest program that fails in the same way.""",
    shared=True,
)
