"""`wholestep audit stream`: stacks in files train to the same bits as in memory, and under a tenth of their state."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import CommandError
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.stacks import bits, drawn

CLAIM = "A stack in files trains to the same bits as in memory, and one ten times the memory it may have trains"
STEPS = 3
WIDTH = 1024
LAYER_BYTES = 3 * (WIDTH + 1) * WIDTH * 4
"""Parameters and both moments of a layer."""
ROOM = 64 << 20
"""Bytes beyond those after the import of the library: for compiler, program and two rows of every array."""
TIMES = 10.0


def ordered(folder: str, streamed: bool, times: float, measure: bool, room: int = ROOM) -> dict[str, Any]:
    """The report of a process that trains a stack of `times` its limit."""
    order = {"folder": folder, "streamed": streamed, "times": times, "measure": measure, "room": room}
    order |= {"width": WIDTH, "layer_bytes": LAYER_BYTES, "steps": STEPS}
    done = subprocess.run(
        [sys.executable, "-m", "wholestep_tools.audit.endurance.streamer"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"died": f"the process ended with {done.returncode}: {done.stderr.strip()[-300:]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(count: int, seed: int, folder: Path) -> list[str]:
    """Random stacks in memory and in files; those that come to other bits."""
    rng, failures = np.random.default_rng(seed), []
    for number in range(count):
        stack = drawn(rng)
        with thread_pool.threads(stack.threads):
            steps = [stack.step(place) for place in (None, folder)]
            losses = [[step(stack.batch(i)).losses.tolist() for i in range(STEPS)] for step in steps]
        if losses[0] != losses[1] or bits(steps[0]) != bits(steps[1]):
            failures.append(f"stack {number}, {stack}: other bits in files than in memory")
    return failures


def audit(count: int, seed: int, times: float = TIMES, measure: bool = True) -> dict[str, Any]:
    """Compare bits, then train a state that is larger than memory; the record of both.

    Raises CommandError on systems other than Linux, whose limits and counters it uses.
    """
    if sys.platform != "linux":
        raise CommandError("audit stream measures with what Linux says of a process", hint="run it on Linux")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        failures = compared(count, seed, Path(place))
        large = ordered(place, True, times, measure)
        control = ordered(place, False, times, False)
    failures += judged(large, control)
    checks = {
        "stacks compared": count,
        "megabytes of state of the large one": large.get("state", 0) >> 20,
        "megabytes that its process may have": large.get("limit", 0) >> 20,
        "megabytes that it ever had, pages of files among them": large.get("hwm", 0) >> 20,
    }
    return record("stream", CLAIM, checks, failures, seed=seed, figures=measured(large))


def judged(large: dict[str, Any], control: dict[str, Any]) -> list[str]:
    """The faults of the stack that memory has no room for, and of its like that is all in memory."""
    failures = [found["died"] for found in (large, control) if "died" in found]
    if large.get("refused"):
        failures.append("the stack in files had too little memory")
    if not control.get("refused", True):
        failures.append("the stack in memory had enough of it, so that the limit says nothing")
    if not failures and large["hwm"] > large["limit"]:
        failures.append(f"{large['hwm']:,} bytes were resident, more than the limit of {large['limit']:,}")
    return failures


def measured(large: dict[str, Any]) -> dict[str, float]:
    """Figures of the machine it ran on."""
    if "cold_seconds" not in large:
        return {}
    share = 100 * large["disk_seconds"] / large["cold_seconds"]
    return {
        "MB of anonymous memory at the most": large["RssAnon"] / 1e6,
        "MB of pages of files at the most": large["RssFile"] / 1e6,
        "seconds of a step that finds its pages cached": large["warm_seconds"],
        "seconds of a step from and to the disk": large["cold_seconds"],
        "MB that it reads": large["read"] / 1e6,
        "MB that it writes": large["written"] / 1e6,
        "MB/s that the disk reads": large["read_bandwidth"] / 1e6,
        "MB/s that the disk writes": large["write_bandwidth"] / 1e6,
        "percent of the speed that the disk allows": share,
    }


AUDIT = Audit(
    "stream",
    audit,
    60,
    "train stacks that lie in files, one of them larger than memory may be",
    """\
Random stacks of layers, of two kinds, with five optimizers, up to three threads and up to three steps a call,
train in memory and with their state in mapped files; losses, parameters and moments must have the same bits. Then
a process whose data may take so much (RLIMIT_DATA) trains a stack whose parameters and moments take ten times
that, and must never have had more than the limit resident; one that has its like in memory must fail.""",
)
