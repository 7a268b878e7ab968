"""`wholestep audit jax`: random programs and their gradients as JAX computes them, primitive by primitive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep_tools.audit.campaign import Audit, Shares
from wholestep_tools.audit.record import record

CLAIM = "Values and gradients of random programs are those that JAX computes"
CHUNK = 50
"""Programs of one process: JAX compiles each, and keeps it."""


class Judged(NamedTuple):
    """The number of programs that agree, the number that JAX could not compile, and the errors of the others."""

    agreed: int
    aborted: int
    wrong: list[str]


def judged(seed: int, first: int, stop: int) -> Judged:
    """JAX's verdicts on the programs of these numbers, in processes of its own, since its compiler aborts on some."""
    agreed, aborted, wrong, at = 0, 0, list[str](), first
    while at < stop:
        command = [sys.executable, "-m", "wholestep_tools.drawn.jax_judge", str(seed), str(at), str(stop)]
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
        fine = done.stdout.count("agrees")
        agreed, at = agreed + fine, at + fine
        if done.returncode < 0:
            aborted += 1
        elif done.returncode:
            wrong.append(f"seed {seed}, program {at}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        at += 1
    return Judged(agreed, aborted, wrong)


def see(numbers: range, count: int, seed: int) -> list[Judged]:
    """Some programs."""
    first, stop = numbers.start, numbers.stop
    return [judged(seed, at, min(at + CHUNK, stop)) for at in range(first, stop, CHUNK)]


def told(shares: Sequence[Sequence[Judged]], count: int, seed: int) -> dict[str, Any]:
    """The record of so many programs."""
    parts = [part for share in shares for part in share]
    checks = {
        "programs": count,
        "of them agreed with JAX": sum(part.agreed for part in parts),
        "left out, since JAX's compiler ended its process": sum(part.aborted for part in parts),
    }
    return record("jax", CLAIM, checks, [line for part in parts for line in part.wrong], seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "jax",
    audit,
    2000,
    "compare random programs and their gradients with JAX",
    """\
Random programs of 5 to 28 steps over the primitives, away from kinks, a quarter of them in mixed precision. JAX is
given each primitive in terms of its own functions, written apart from this library's reference, and compiles value
and gradient in double precision. A gradient may be off by the rounding of the coarsest dtype, or by 4 times what
JAX itself is off from float64 where a program is steep.""",
    shared=True,
)
