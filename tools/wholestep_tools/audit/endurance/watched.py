"""A process that compiles the trainings of its orders, runs them in guarded memory, and reports the results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli.text import Writer
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Switch, WhileLoop, walk_steps
from wholestep.testing import guarded
from wholestep.train.step.step import Step
from wholestep_tools.answering import replies, serve
from wholestep_tools.audit.trainings.jobs import sha256
from wholestep_tools.audit.trainings.programs import Training, training, within
from wholestep_tools.bench.peers import wholestep as bench
from wholestep_tools.bench.spec import WORKLOADS

CALLS = 5
LINE = 64
"""The bytes that an arena's size is a multiple of."""


class Residual(nn.Module):
    """Three pairs of convolutions with a way around each: scores of images [n, 3, 16, 16]."""

    def __init__(self, width: int = 16) -> None:
        self.first = nn.Conv2d(3, width, 3, padding=1, key=0)
        self.convolutions = [nn.Conv2d(width, width, 3, padding=1, key=k) for k in range(1, 7)]
        self.norms = [nn.BatchNorm(width) for _ in range(6)]
        self.last = nn.Linear(width, 10, key=7)

    def __call__(self, x: Any) -> Any:
        x = nn.relu(self.first(x))
        for k in range(0, 6, 2):
            h = nn.relu(self.norms[k](self.convolutions[k](x)))
            x = nn.relu(x + self.norms[k + 1](self.convolutions[k + 1](h)))
        return self.last(np.mean(x, axis=(2, 3)))


def score(model: Any, batch: Any) -> Any:
    """The mean cross-entropy."""
    return nn.cross_entropy(model(batch["x"]), batch["y"])


def workload(name: str) -> tuple[Step, Any]:
    """A workload of `wholestep bench`."""
    job = bench.trained(name, *WORKLOADS[name].data(), 1)
    return job.step, job.batch


def residual() -> tuple[Step, Any]:
    """A small ResNet with Adam."""
    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(8, 3, 16, 16)).astype(np.float32), "y": rng.integers(0, 10, 8)}
    return ws.compile(score, Residual(), optimizer=ws.optim.adam(1e-3), batch=batch), batch


def deep(layers: int = 12, width: int = 64) -> tuple[Step, Any]:
    """A GPT with Adam."""
    signs = np.random.default_rng(0).integers(0, 32, (2, 2, 33))
    batch = {"x": signs[0, :, :-1], "y": signs[0, :, 1:]}
    model = Writer(32, width, layers, key=ws.random.key(0))
    return ws.compile(score, model, optimizer=ws.optim.adam(1e-3), batch=batch), batch


MODELS: Mapping[str, Callable[[], tuple[Step, Any]]] = {
    **{name: partial(workload, name) for name in ("W1", "W2", "W3", "W4", "digits", "text")},
    "ResNet": residual,
    "GPT of 12 layers": deep,
}


def seen(step: Step, batch: Any) -> dict[str, Any]:
    """The visible facts of a step."""
    found = guarded.guarded_report(*guarded.of_step(step, batch), closed=True)
    problems = [*found.problems, *of_plan(step.plan)]
    if found.arena != step.memory.arena:
        problems.append(f"the arena has {found.arena:,} bytes, and step.memory says {step.memory.arena:,}")
    sure = not any(isinstance(s, Switch | WhileLoop) for s in walk_steps(step.plan.steps))
    if sure and found.arena - found.touched >= LINE:
        problems.append(f"the last {found.arena - found.touched:,} bytes of the arena were not used")
    return {"problems": problems, "arena": found.arena, "exact": found.arena - found.touched < LINE}


def of_plan(plan: LoweredProgram) -> list[str]:
    """Values that a plan holds at one time in one place, or beyond the arena."""
    found = [f"{h} reaches beyond the arena" for h in plan.live_ranges if h.offset + h.nbytes > plan.arena]
    for a, b in combinations(plan.live_ranges, 2):
        if a.start <= b.end and b.start <= a.end and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes:
            found.append(f"{a} lies over {b}")
    return found


def squeezed(made: Training, free: Step, share: float) -> dict[str, Any]:
    """The report of a training under a budget: a share of its arena, or a budget that works in its place."""
    asked = f"{share:.2f}%"
    step, limit = within(made.step, asked)
    found = guarded.guarded_report(*guarded.of_step(step, made.batch), closed=True)
    problems = [*found.problems, *of_plan(step.plan)]
    if found.arena > float(str(limit).rstrip("%")) / 100 * free.memory.arena:
        problems.append(f"the arena has {found.arena:,} bytes")
    if found.arena != made.estimate(memory_budget=limit).arena:
        problems.append("the estimate has another arena")
    if trained(step, made.batch) != trained(free, made.batch):
        problems.append("the training has other bits than without a budget")
    saved = free.memory.arena - found.arena
    return {"problems": [f"within {limit}: {x}" for x in problems], "refused": limit != asked, "saved": saved}


def trained(step: Step, batch: Any) -> str:
    """The hash of the losses and of the state after some calls from the beginning."""
    step.reset()
    losses = [step(batch).losses for _ in range(CALLS)]
    return sha256({"losses": np.concatenate(losses), "state": step.state})


def obeyed(line: str) -> dict[str, Any]:
    """The answer to an order: a model by its name, or a random training by its seed."""
    order: Mapping[str, Any] = json.loads(line)
    if "model" in order:
        return seen(*MODELS[order["model"]]())
    made = training(*order["seed"])
    step = made.step()
    answer = seen(step, made.batch)
    if str(made.estimate()) != str(step.memory._replace(code=0)):
        answer["problems"].append("the estimate is not what step.memory says")
    found = squeezed(made, step, float(np.random.default_rng([*order["seed"], 3]).uniform(20, 95)))
    problems = answer["problems"] + found.pop("problems")
    return {**answer, **found, "problems": problems, "sha256": trained(step, made.batch)}


if __name__ == "__main__":
    serve(obeyed, sys.stdin, replies(), lambda said: {"problems": [said], "arena": 0, "exact": False})
