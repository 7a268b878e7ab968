"""`wholestep audit openclsteps` and `webgpusteps`: random training steps on a card, against float64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from wholestep.compiler.devices import compile_for_device
from wholestep.errors import UnsupportedError
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.law import unexplained
from wholestep_tools.drawn.training import Training, training

CLAIM = "A training step on a card is as close to float64 as NumPy is in the same dtypes, to a small factor"
DOUBLE = {"opencl": True, "webgpu": False, "cuda": True}
"""True for a device that steps with values of float64 are drawn for."""


def card_step(seed: int, i: int, device: str) -> Training:
    """A step of a seed for a device: 3 to 15 operations before its gradient is taken."""
    return training((seed, i), int(np.random.default_rng([seed, i]).integers(3, 16)), DOUBLE[device])


def check_step(seed: int, i: int, device: str) -> bool:
    """Run a step on a device and compare; False where the device does not have an operation of it.

    Raises AssertionError with the step where a number of it is wrong.
    """
    made = card_step(seed, i, device)
    try:
        found = compile_for_device(made.graph, made.resident, device)(list(made.args))
    except UnsupportedError:  # computed by libraries of the host
        return False
    wrong = unexplained(made.graph, made.args, found)
    assert not wrong, f"step {i} of seed {seed} on {device}, {made.what}: {'; '.join(wrong)}\n{made.graph}"
    return True


def see(device: str, numbers: range, count: int, seed: int) -> Seen:
    """Some steps on a device."""
    seen = Seen()
    for i in numbers:
        try:
            seen.count("training steps" if check_step(seed, i, device) else "refused: a library of the host")
        except AssertionError as error:
            seen.count("training steps")
            seen.failures.append(str(error)[:2000])
    return seen


def told(device: str, parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of steps on a device."""
    seen = joined_parts(parts)
    return record(f"{device}steps", CLAIM, dict(sorted(seen.checks.items())), seen.failures, seed=seed)


def audit(device: str) -> Shares:
    """The campaign on a device."""
    return Shares(partial(see, device), partial(told, device))


HOW = """\
A step is a random forward program of 3 to 15 operations and what the drawing of loops and solvers adds to them, its
gradient, and an update by one of three optimizers, once or in a loop of 3 or 8 batches. It is compiled for the
device with its state resident, and run once. Each output may be off from float64 by 4 times what NumPy is off in
the same dtypes, and 8 units in the last place of the largest element."""

AUDIT = Audit(
    "openclsteps",
    audit("opencl"),
    2_000,
    "run random training steps on an OpenCL device, against float64",
    f"{HOW} The device is PoCL where there is no card.",
    shared=True,
)
