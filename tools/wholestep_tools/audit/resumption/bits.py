"""`wholestep audit bits`: in every mode, with any steps a call and any threads, training ends in the same bits."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.ir.graph import NDArray
from wholestep.runtime.cpu import thread_pool
from wholestep.train.step.step import Step
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256
from wholestep_tools.audit.trainings.programs import training, within
from wholestep_tools.audit.trainings.stacks import OPTIMIZERS

CLAIM = (
    "Losses, parameters and moments after fifty steps have the same bits with and without a budget, in every mode of a "
    "stack, in memory and in files, for every number of steps a call and of threads"
)
STEPS = 50
CALLS = (1, 10)
"""Steps in a call; each divides all steps."""
THREADS = (1, 2, 4)
ROWS = 16
"""The number of copies of a training's rows in a wide one."""
STACKS = 4
"""One in so many trainings is that of a stack."""
WIDTH = 16
KEEPS: tuple[Any, ...] = ("all", "inputs", "sqrt", 2, 3, "contractions")

Make = Callable[[int], Step]
"""A step with so many steps a call."""


class Case(NamedTuple):
    """One training in all its modes, and the batches of its calls: by the first step's number and their count."""

    modes: Mapping[str, Make]
    batch: Callable[[int, int], Any]


def modes(make: Callable[..., Step], rng: np.random.Generator, folder: Path) -> dict[str, Make]:
    """A step as it is, within a percentage of its arena, and within a smaller one where values may go to a file."""
    wide, narrow = [f"{rng.uniform(*ends):.0f}%" for ends in ((20, 95), (5, 40))]
    return {
        "free": make,
        f"within {wide}": lambda calls: within(partial(make, calls), wide)[0],
        f"within {narrow}, and a file": lambda calls: within(partial(make, calls, folder=folder), narrow)[0],
    }


def drawn(folder: Path, *seed: int) -> Case:
    """A random training of the audit of memory; every other one has so many rows that its values may go to a file."""
    rng, made = np.random.default_rng([*seed, 4]), training(*seed)
    if rng.integers(2):
        made = made._replace(rows={name: np.tile(x, (ROWS, *[1] * (x.ndim - 1))) for name, x in made.rows.items()})

    def make(calls: int, **options: Any) -> Step:
        return made._replace(steps=calls).step(**options)

    return Case(modes(make, rng, folder), lambda first, calls: made._replace(steps=calls).batches(first))


class Residual(nn.Module):
    """A perceptron with a norm before it and a way around it."""

    def __init__(self, width: int, *, key: Any) -> None:
        first, last = ws.random.split(key)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width, key=first)
        self.down = nn.Linear(2 * width, width, key=last)

    def __call__(self, x: Any) -> Any:
        return x + self.down(nn.gelu(self.up(self.norm(x))))


def block(width: int, *, key: Any) -> Any:
    """A layer of a GPT."""
    return nn.TransformerBlock(width, 2, key=key, causal=True)


class Deep(nn.Module):
    """A stack, and a linear layer on its result."""

    def __init__(self, blocks: Any, width: int) -> None:
        self.blocks = blocks
        self.last = nn.Linear(width, 3, key=1)

    def __call__(self, x: Any) -> Any:
        return self.last(self.blocks(x))


def loss(model: Any, x: Any) -> Any:
    """The mean of squares."""
    return np.mean(model(x) ** 2)


def stacked(folder: Path, *seed: int) -> Case:
    """A random stack, in each of its modes, within a budget, and with its state in files."""
    rng = np.random.default_rng([*seed, 5])
    layer = partial((Residual, block)[int(rng.integers(2))], WIDTH)
    stack = nn.Stack(lambda key: layer(key=key), int(rng.integers(1, 10)), key=int(rng.integers(100)))
    optimizer = OPTIMIZERS[str(rng.choice(list(OPTIMIZERS)))]
    rows = rng.normal(size=(int(rng.integers(1, 9)), int(rng.integers(2, 9)), WIDTH)).astype(np.float32)

    def batch(first: int, calls: int) -> NDArray:
        found = [np.roll(rows, first + k, 1) for k in range(calls)]
        return np.stack(found) if calls > 1 else found[0]

    def make(calls: int, keep: Any = "all", **options: Any) -> Step:
        model = Deep(stack.keeping(keep), WIDTH)
        return ws.compile(loss, model, optimizer=optimizer(), batch=batch(0, calls), steps_per_call=calls, **options)

    found = modes(make, rng, folder)
    found |= {f"keep={keep!r}": partial(make, keep=keep) for keep in KEEPS if keep != "all"}
    found["in files"] = partial(make, keep="inputs", stream="blocks.*", folder=folder)
    return Case(found, batch)


class Seen(NamedTuple):
    """The end of a training: the hash of all bits for each way, and the number of its programs that spilled values."""

    ends: Mapping[str, str]
    spilled: int


def seen(case: Case) -> Seen:
    """A training in each mode, for each number of steps a call and of threads."""
    ends, spilled = dict[str, str](), 0
    for (mode, make), calls in itertools.product(case.modes.items(), CALLS):
        step = make(calls)
        spilled += any(decision.kind == "spill" for decision in step.plan.decisions)
        for threads in THREADS:
            with thread_pool.threads(threads):
                ends[f"{mode}, {calls} steps a call, {threads} threads"] = ended(step, calls, case.batch)
    return Seen(ends, spilled)


def ended(step: Step, calls: int, batch: Callable[[int, int], Any]) -> str:
    """The hash of all losses and of the state after fifty steps from the beginning."""
    step.reset()
    losses = [step(batch(first, calls)).losses for first in range(0, STEPS, calls)]
    return sha256({"losses": np.concatenate(losses), "state": step.state})


def cases(count: int, seed: int, folder: Path) -> Iterator[tuple[str, Case]]:
    """So many trainings; every fourth is that of a stack."""
    for i in range(count):
        if i % STACKS == STACKS - 1:
            yield f"the stack of seed ({seed}, {i})", stacked(folder, seed, i)
        else:
            yield f"the training of seed ({seed}, {i})", drawn(folder, seed, i)


def audit(count: int, seed: int) -> dict[str, Any]:
    """Train each in every way, and compare; the record of it."""
    failures: list[str] = []
    ways = stacks = spilled = 0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for name, case in cases(count, seed, Path(folder)):
            found = seen(case)
            failures += [f"{name}: {different}" for different in others(found.ends)]
            ways, spilled = ways + len(found.ends), spilled + found.spilled
            stacks += "in files" in case.modes
    checks = {
        "random trainings of fifty steps": count,
        "ways to train them, each with the same bits": ways,
        "of the trainings those of a stack": stacks,
        "programs whose values went to a file": spilled,
    }
    return record("bits", CLAIM, checks, failures, seed=seed)


def others(found: Mapping[str, str]) -> Sequence[str]:
    """The ways that end in other bits than the first.

    >>> others({"free": "a", "tight": "b", "tighter": "a"})
    ['tight ends in other bits than free']
    """
    (first, expected), *rest = found.items()
    return [f"{name} ends in other bits than {first}" for name, end in rest if end != expected]


AUDIT = Audit(
    "bits",
    audit,
    200,
    "train in every mode, with any steps a call and any threads, and compare every bit",
    """\
Random losses of layers that are drawn one after another, loops and branches among them, with three optimizers, and
random stacks of perceptrons and of attention blocks with five, train for fifty steps: as they are; within a random
share of their arena, or the budget that a refusal names, making values again; and within a smaller one with a file
for some. Stacks also do so in every mode of `keep`, and with their state in mapped files. Each has one step and
ten steps a call, and one, two and four threads. The SHA-256 of all losses, parameters, moments and counters is
compared.""",
)
