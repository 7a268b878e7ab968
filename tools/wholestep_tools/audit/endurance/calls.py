"""`wholestep audit calls`: a step that is called takes no memory, descriptors, threads or objects that stay."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.errors import CommandError
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "A step that is called any number of times holds what it held after the first thousand"
PROCESS = Path("/proc/self")
WARM = 1000
KILOBYTES = 512
"""The growth of the process that is allowed: allocators keep pages of their own."""


class Held(NamedTuple):
    """The kilobytes in memory, descriptors, threads, mappings and collected objects of this process."""

    kilobytes: int
    descriptors: int
    threads: int
    mappings: int
    objects: int


def held() -> Held:
    """The resources that this process holds now. Raises CommandError where the system does not tell."""
    if not (PROCESS / "status").exists():
        raise CommandError("this audit reads /proc/self", hint="run it on Linux")
    gc.collect()
    objects = len(gc.get_objects())  # before memory is read: the list of all objects takes some
    status = dict(line.split(":", 1) for line in (PROCESS / "status").read_text().splitlines() if ":" in line)
    mappings = (PROCESS / "maps").read_text().count("\n")
    descriptors = len(list((PROCESS / "fd").iterdir()))
    return Held(int(status["VmRSS"].split()[0]), descriptors, int(status["Threads"]), mappings, objects)


def more(before: Held, after: Held, kilobytes: int, mappings: int = 1, objects: int = 20) -> list[str]:
    """The resources held now beyond those before and beyond the allowance."""
    allowed = Held(kilobytes, 0, 0, mappings, objects)
    grown = [b - a for a, b in zip(before, after, strict=True)]
    names = [(name, n, most) for name, n, most in zip(Held._fields, grown, allowed, strict=True) if n > most]
    return [f"{n:,} {name} more, {most} are allowed" for name, n, most in names]


def tiny(params: dict[str, Any], batch: dict[str, Any]) -> Any:
    """A small perceptron."""
    hidden = np.tanh(batch["x"] @ params["w1"] + params["b1"])
    return np.mean((hidden @ params["w2"] - batch["y"]) ** 2)


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many calls; the record of it."""
    rng, seen = np.random.default_rng(seed), Seen()
    shapes = {"w1": (2, 16), "b1": (16,), "w2": (16, 1)}
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    batch = {"x": rng.normal(size=(16, 2)).astype(np.float32), "y": rng.normal(size=(16, 1)).astype(np.float32)}
    step = ws.compile(tiny, params, optimizer=ws.optim.adam(1e-3), batch=batch)
    for _ in range(WARM):
        first = step(batch)
    held()  # the allocator keeps the room of the list of all objects from the first reading on
    before = held()
    for _ in range(count):
        last = step(batch)
    after = held()
    seen.failures += more(before, after, KILOBYTES)
    seen.right(step.traces == 1, f"it was traced {step.traces} times")
    seen.right(step.steps == count + WARM, f"it counted {step.steps} steps")
    seen.right(last.loss < first.loss, "it has learned nothing")
    checks = {"calls": count, "kilobytes more": max(0, after.kilobytes - before.kilobytes)}
    checks |= {f"{name} more": max(0, getattr(after, name) - getattr(before, name)) for name in Held._fields[1:]}
    return record("calls", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "calls",
    audit,
    1_000_000,
    "call one step very often, and see what the process holds",
    """\
A perceptron is trained by calls of one step. Resident memory, open descriptors, threads, mappings and objects that
the garbage collector knows are counted after a thousand calls and at the end: memory may have grown by 512
kilobytes, which is what allocators keep, mappings by one, objects by twenty, and nothing else at all. The step
must have been traced once.""",
)
