"""`wholestep audit shapes`: programs that are compiled and dropped free their resources."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.endurance.calls import held, more
from wholestep_tools.audit.record import record

CLAIM = "Programs that were compiled and dropped leave no code, mapping, thread or descriptor behind"
WARM = 120
BYTES = 1024
"""The growth for each program that is allowed: descriptions of types are kept, one of each."""


def tried(number: int, seed: int) -> bool:
    """Test whether a new program is right: a step or a function, of a shape and a constant that no other has."""
    rng = np.random.default_rng([seed, number])
    n, m = int(rng.integers(1, 40)), 1 + number % 50
    x, scale = rng.normal(size=(n, m)), float(rng.normal())
    if number % 2:
        found = ws.jit(lambda x: np.tanh(x) * scale + number)(x)
        return bool(np.allclose(found, np.tanh(x) * scale + number))
    step = ws.compile(lambda w, x: np.mean((x @ w - scale) ** 2), np.zeros(m), optimizer=ws.optim.sgd(0.01), batch=x)
    return bool(np.isclose(step(x).loss, scale**2))


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many programs; the record of it."""
    seen, warm = Seen(), max(WARM, count)
    for number in range(warm):
        tried(number, seed)
    before = held()
    for number in range(warm, warm + count):
        seen.right(tried(number, seed), f"program {number} of seed {seed} is wrong")
    after = held()
    seen.failures += more(before, after, 2048 + count * BYTES // 1024, mappings=8, objects=200 + 2 * count)
    checks = {"programs": count, "kilobytes more": max(0, after.kilobytes - before.kilobytes)}
    checks |= {"mappings more": max(0, after.mappings - before.mappings)}
    checks |= {"objects more": max(0, after.objects - before.objects)}
    return record("shapes", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "shapes",
    audit,
    5000,
    "compile programs that differ, and drop them",
    """\
Steps and functions, each with a shape and a constant of its own, are compiled, called once, compared with NumPy,
and dropped. After as many others, 120 at least, the process may take a kilobyte for each and two megabytes for all
more in memory, eight mappings, and two objects for each, since the description of a type is kept; and no
descriptor or thread.""",
)
