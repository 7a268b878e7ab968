"""`wholestep audit mutants`: faults are planted in copies of the source, and the tests must notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from wholestep.errors import CommandError
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record

CLAIM = "The tests notice at least 95% of the faults that are planted in the library"
RUNNER = Path("tests/mutants.py")
LEAST = 0.95


def audit(count: int, seed: int, jobs: int | None = None) -> dict[str, Any]:
    """Plant so many faults, drawn at random, some at a time; the record of it.

    Raises CommandError outside of a checkout.
    """
    if not RUNNER.exists():
        raise CommandError("audit mutants plants faults in a checkout", hint="run it in the folder of the checkout")
    command = [sys.executable, str(RUNNER), "--count", str(count), "--seed", str(seed), "--json"]
    command += [] if jobs is None else ["--jobs", str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"audit mutants: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return judged(json.loads(done.stdout.splitlines()[-1]), seed)


def judged(found: dict[str, Any], seed: int) -> dict[str, Any]:
    """The record of which faults there are, which were planted, and which of those nobody noticed."""
    planted, alive = found["planted"], found["survived"]
    checks = {
        "faults planted": planted,
        "of them noticed": planted - len(alive),
        "faults that there are": found["known"],
    }
    few = planted - len(alive) < LEAST * planted
    failures = [f"only {planted - len(alive)} of {planted} faults were noticed"] if few else []
    return record("mutants", CLAIM, checks, failures, seed=seed, survivors=alive)


AUDIT = Audit(
    "mutants",
    audit,
    500,
    "plant faults in the library, and see whether the tests notice",
    """\
A fault breaks one rule in a copy of the source: a derivative, a rewrite, an index, a lock, a check, a message. The
tests that are meant to notice then run on the copy; one that fails without the fault, too, has noticed nothing. Those
that nobody notices are listed.""",
    shared=True,
)
