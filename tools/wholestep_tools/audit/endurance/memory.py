"""`wholestep audit memory`: a program keeps to the memory that was planned for it, and uses it to the last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from wholestep_tools.audit.campaign import Audit, Shares
from wholestep_tools.audit.endurance.peaks import CAN, CASES
from wholestep_tools.audit.endurance.watched import MODELS
from wholestep_tools.audit.record import record

CLAIM = (
    "A program needs the arena that was predicted, to the byte, and neither reads nor writes anything else, within a "
    "budget as without one, which changes no bit of the training; its process takes what is reported, to 3% and 16 MB"
)
THREADS = (1, 2)
BATCH = 50
"""Programs in one process."""
SHARE, MEGABYTES = 0.03, 16.0
"""The tolerance between the memory of a process and the report."""


def answers(orders: Sequence[dict[str, Any]], threads: int) -> list[dict[str, Any]]:
    """The answers of processes to orders; one that dies answers with that, and another one goes on."""
    found: list[dict[str, Any]] = []
    while len(found) < len(orders):
        part = orders[len(found) : len(found) + BATCH]
        done = subprocess.run(
            [sys.executable, "-m", "wholestep_tools.audit.endurance.watched"],
            input="".join([json.dumps(order) + "\n" for order in part]),
            capture_output=True,
            text=True,
            env={**os.environ, "WHOLESTEP_THREADS": str(threads), "WHOLESTEP_CHECK": "1"},
        )
        said = [json.loads(line) for line in done.stdout.splitlines()]
        found += said
        if len(said) < len(part):
            found.append({"problems": [f"the process ended with {done.returncode}"], "arena": 0, "exact": False})
    return found


def peaks(cases: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Megabytes of processes that compile or load compiled code from the cache, and the cases whose reports are too far
    off.

    The caller's arrays, which are the initial parameters and the batch, are not counted: they exist before.
    """
    found, wrong = dict[str, int](), list[str]()
    for name in cases if CAN else ():
        with tempfile.TemporaryDirectory() as cache:
            for how, place in (("compiled", "off"), ("kept", cache), ("found", cache)):
                seen = process(name, place)
                if how == "kept":
                    continue
                found[f"MB taken by the process of the {name}, {how}"] = round(seen["taken"])
                found[f"MB reported for the {name}, {how}"] = round(seen["reported"])
                if off(seen):
                    wrong.append(f"{name}, {how}: took {seen['taken']:.1f} MB, {seen['reported']:.1f} were reported")
    return found, wrong


def off(seen: dict[str, float]) -> bool:
    """Test whether the memory of a process is too far from the reported memory.

    >>> off({"taken": 210.0, "reported": 200.0}), off({"taken": 170.0, "reported": 200.0})
    (False, True)
    """
    return abs(seen["taken"] - seen["reported"]) > SHARE * seen["reported"] + MEGABYTES


def process(name: str, cache: str) -> dict[str, float]:
    """The report of a fresh process on one training."""
    done = subprocess.run(
        [sys.executable, "-m", "wholestep_tools.audit.endurance.peaks", name],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "WHOLESTEP_CACHE": cache},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def counted(seen: Sequence[dict[str, Any]]) -> dict[str, int]:
    """The amounts that were seen."""
    squeezed = [answer for answer in seen if "refused" in answer]
    return {
        "programs run in guarded memory": len(seen) + len(squeezed),
        "of them models": len(seen) - len(squeezed),
        "of them within a budget": len(squeezed),
        "budgets that were refused, with one that works": sum(answer["refused"] for answer in squeezed),
        "programs without a budget that touch the last 64 bytes of their arena": sum(a["exact"] for a in seen),
        "bytes of the largest arena": max(answer["arena"] for answer in seen),
    }


class Answer(NamedTuple):
    """The answer of a process with so many threads to an order of this name."""

    name: str
    threads: int
    found: dict[str, Any]


def trainings(numbers: range, count: int, seed: int) -> list[Answer]:
    """Random trainings in guarded memory, every fifth with each number of threads."""
    made: list[Answer] = []
    for k, threads in enumerate(THREADS):
        own = [i for i in numbers if i % 5 == 0 or i % len(THREADS) == k]
        found = answers([{"seed": [seed, i]} for i in own], threads)
        made += [Answer(f"the training of seed {(seed, i)}", threads, x) for i, x in zip(own, found, strict=True)]
    return made


def told(
    models: Sequence[str], cases: Sequence[str], parts: Sequence[Sequence[Answer]], count: int, seed: int
) -> dict[str, Any]:
    """The record of trainings, after models in guarded memory, and large ones in processes of their own."""
    found = answers([{"model": name} for name in models], THREADS[-1])
    seen = [Answer(name, THREADS[-1], x) for name, x in zip(models, found, strict=True)]
    seen += sorted([answer for part in parts for answer in part], key=lambda answer: answer.threads)
    failures: list[str] = []
    ends: dict[str, str] = {}
    for name, threads, answer in seen:
        failures += [f"{name}, {threads} threads: {problem}" for problem in answer["problems"]]
        if "sha256" in answer and ends.setdefault(name, answer["sha256"]) != answer["sha256"]:
            failures.append(f"{name} has other bits with {threads} threads")
    taken, wrong = peaks(cases)
    checks = {**counted([answer.found for answer in seen]), **taken}
    return record("memory", CLAIM, checks, failures + wrong, seed=seed, models=list(models))


def audit(models: Sequence[str] = tuple(MODELS), cases: Sequence[str] = tuple(CASES)) -> Shares:
    """The campaign with these models and cases."""
    return Shares(trainings, partial(told, models, cases))


AUDIT = Audit(
    "memory",
    audit(),
    500,
    "run models and random trainings in memory that is watched",
    """\
Models and random trainings run in memory whose pages are guarded: their arena has the size that was predicted, to
the byte, and whatever is read or written outside of it ends the process. Programs that keep to a random budget, or
to the one that a refusal names, must come to the same bits; and the last 64 bytes of each arena without a budget
must be touched. Processes that train large models must take the memory that was reported, to 3% and 16 MB.""",
    shared=True,
)
