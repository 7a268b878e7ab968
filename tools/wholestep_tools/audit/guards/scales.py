"""`wholestep audit scales`: a step that overflows changes nothing but its counters and scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.train.state.loss_scaling import LEAST, MOST, Scaling
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "Where a scaled step overflows, parameters and moments stay, and the scale goes as the rule says, to the bit"
STEPS = 24
OPTIMIZERS = (
    lambda: ws.optim.sgd(0.05, momentum=0.9),
    lambda: ws.optim.adam(1e-2),
    lambda: ws.optim.chain(ws.optim.clip_by_global_norm(0.5), ws.optim.adamw(1e-2)),
    lambda: ws.optim.lion(1e-3),
    lambda: ws.optim.rmsprop(1e-2),
)


def loss(params: Any, x: Any, *, key: Any) -> Any:
    """A perceptron with noise of the step's key."""
    noisy = x + 0.01 * ws.random.normal(key, x.shape, np.float32)
    return np.mean(np.tanh(noisy @ params["w"] + params["b"]) ** 2)


def expected(scale: float, streak: int, interval: int, finite: bool) -> tuple[float, int]:
    """The scale after a step, and the finite steps since it changed, written out."""
    if not finite:
        return max(scale / 2, LEAST), 0
    if streak + 1 == interval:
        return min(scale * 2, MOST), 0
    return scale, streak + 1


def problem(seed: int, i: int) -> tuple[int, str]:
    """The number of steps of a training that overflow, and the error in their handling."""
    rng = np.random.default_rng([seed, i])
    interval, scale = int(rng.integers(1, 6)), float(2.0 ** rng.integers(-4, 17))
    params = {"w": rng.normal(size=(4, 3)).astype(np.float32), "b": np.zeros(3, np.float32)}
    batch = ws.ShapeDtype((5, 4), "float32")
    options: dict[str, Any] = {"batch": batch, "key": i}
    make = OPTIMIZERS[int(rng.integers(len(OPTIMIZERS)))]
    step = ws.compile(loss, params, optimizer=make(), loss_scale=Scaling(scale, interval), **options)
    plain = ws.compile(loss, params, optimizer=make(), loss_scale=None, **options)
    streak = overflows = 0
    for number in range(STEPS):
        x = rng.normal(size=(5, 4)).astype(np.float32)
        bad = rng.random() < 0.3
        if bad:
            x[int(rng.integers(5)), int(rng.integers(4))] = rng.choice([np.inf, -np.inf, np.nan])
        overflows += bad
        with np.errstate(all="ignore"):
            seen, alone = step(x), plain(x)
        scale, streak = expected(scale, streak, interval, not bad)
        if seen.status != ("skipped" if bad else "completed"):
            return overflows, f"step {number} is {seen.status}"
        if step.loss_scale != scale:
            return overflows, f"after step {number} the scale is {step.loss_scale}, not {scale}"
        if (step.skipped, step.steps) != (overflows, number + 1):
            return overflows, f"after step {number} it counts {step.skipped} of {step.steps}"
        if not bad and seen.loss != alone.loss:
            return overflows, f"the loss of step {number} is {seen.loss}, without a scale {alone.loss}"
        if any(sha256(step.state[part]) != sha256(plain.state[part]) for part in step.state if part != "counters"):
            return overflows, f"after step {number} the state is another one than without a scale"
    return overflows, ""


def see(numbers: range, count: int, seed: int) -> Seen:
    """Some trainings."""
    seen = Seen()
    for i in numbers:
        overflows, wrong = problem(seed, i)
        seen.count("steps that overflowed", overflows)
        seen.right(not wrong, f"training {i} of seed {seed}: {wrong}")
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many trainings."""
    seen = joined_parts(parts)
    checks = {"trainings": count, "steps": count * STEPS, **seen.checks}
    return record("scales", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "scales",
    audit,
    1000,
    "let scaled steps overflow at random, and compare with steps without a scale",
    """\
A small network with noise, one of five optimizers, a random scale between 1/16 and 65,536 and a random interval
train for 24 steps, of which three in ten have nan or infinity in their batch. After each step the scale must be
what the rule, written out, says; the counters must be right; and losses, parameters and moments must have the bits
of a step without any scale that met the same batches, since powers of two change no digit.""",
    shared=True,
)
