"""`wholestep audit alarms`: trainings without a fault, infinities of masks among them, are never said to have one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record

CLAIM = "A training in which all is finite but the infinities that its masks mean is never skipped or blamed"
STEPS = 5


def masked(params: Any, batch: Any) -> Any:
    """Attention, with -inf where it may not look."""
    q, k = batch["x"] @ params["w"], batch["x"] @ params["v"]
    scores = np.where(batch["mask"], q @ k.T, -np.inf)
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return np.mean((weights / np.sum(weights, axis=-1, keepdims=True) @ batch["x"]) ** 2)


def softmaxed(params: Any, batch: Any) -> Any:
    """The library's softmax of such scores."""
    scores = np.where(batch["mask"], batch["x"] @ params["w"] @ batch["x"].T, -np.inf)
    return np.mean((nn.softmax(scores) @ (batch["x"] @ params["v"])) ** 2)


def largest(params: Any, batch: Any) -> Any:
    """A loss of the largest unmasked scores."""
    scores = np.where(batch["mask"], batch["x"] @ params["w"] @ batch["x"].T, -np.inf)
    return np.mean(np.max(scores, axis=-1) ** 2) + np.sum(params["v"] ** 2)


def padded(params: Any, batch: Any) -> Any:
    """Nan and infinity in rows that count for nothing."""
    rows = np.where(batch["mask"][:, :1], batch["wild"], 0.0)
    return np.mean(np.tanh(rows @ params["w"] @ params["v"]) ** 2)


def unused(params: Any, batch: Any) -> Any:
    """The smallest of numbers some of which are infinite."""
    near = np.minimum(np.where(batch["mask"], np.inf, 1.0), np.abs(batch["x"] @ params["w"] @ batch["x"].T) + 0.1)
    return np.mean(near) + np.mean((batch["x"] @ params["v"]) ** 2)


LOSSES = {f.__name__: f for f in (masked, softmaxed, largest, padded, unused)}


def problem(seed: int, i: int) -> str:
    """The alarm that a training without a fault raises."""
    rng = np.random.default_rng([seed, i])
    n, m = int(rng.integers(2, 9)), int(rng.integers(2, 9))
    mask = np.tril(np.ones((n, n), bool)) if rng.random() < 0.5 else (rng.random((n, n)) < 0.6) | np.eye(n, dtype=bool)
    params = {name: (rng.normal(size=(m, m)) / m).astype(np.float32) for name in "wv"}
    x = rng.normal(size=(n, m)).astype(np.float32)
    wild = np.where(mask[:, :1], x, rng.choice([np.nan, np.inf, -np.inf], (n, m))).astype(np.float32)
    batch = {"x": x, "mask": mask, "wild": wild}
    loss = LOSSES[list(LOSSES)[i % len(LOSSES)]]
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch, allow_unused=True)
    for number in range(STEPS):
        result = step(batch)
        if result.status != "completed" or step.skipped:
            return f"{loss.__name__}: step {number} is {result.status}"
    found = step.diagnose(batch)
    return "" if found.operation is None else f"{loss.__name__}: {found.operation} is blamed in the {found.phase} pass"


def see(numbers: range, count: int, seed: int) -> Seen:
    """Some trainings."""
    seen = Seen()
    for i in numbers:
        wrong = problem(seed, i)
        seen.count(f"trainings: {list(LOSSES)[i % len(LOSSES)]}")
        seen.right(not wrong, f"training {i} of seed {seed}: {wrong}")
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many trainings."""
    seen = joined_parts(parts)
    checks = {"trainings": count, "steps": count * STEPS, **seen.checks}
    return record("alarms", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "alarms",
    audit,
    1000,
    "train with the infinities of masks, and see whether anything is blamed",
    """\
Attention with -inf in its scores, softmax and maximum of such scores, rows of nan that a mask leaves out, and the
smallest of numbers some of which are infinite, train with random masks, causal ones among them. No step may be
skipped, and the diagnosis must say that all is finite.""",
    shared=True,
)
