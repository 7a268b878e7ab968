"""`wholestep audit verify`: verification finds planted faults and names their lines, and finds none where none are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn, tree
from wholestep.cli.train.tabular import TABLES
from wholestep.errors import CommandError
from wholestep.train.inspect.verification.findings import Verification
from wholestep.train.inspect.verification.verify import verified
from wholestep.train.program.first_calls import observing
from wholestep.train.step.step import Step
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness.named_faults import NAMED_FAULTS, NamedFault
from wholestep_tools.audit.correctness.planted import SOURCES, Mutant, copy_sources, faulty, read
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings import jobs
from wholestep_tools.audit.trainings.programs import training
from wholestep_tools.bench.models import chain, mlp
from wholestep_tools.bench.peers.wholestep import LOSSES, MODELS
from wholestep_tools.bench.spec import SMALL, WORKLOADS

CLAIM = (
    "step.verify finds a fault in a rule, a rewriting or a kernel and names the user's line, and raises no alarm where "
    "there is none"
)
ROOT = Path(__file__).parents[4]
PATIENCE = 600
"""Seconds after which the verification of a step with a fault is no longer waited for."""
EACH = 16
"""The rows of the workload whose gradients are those of each sample."""

Made = tuple[Step, Any]
"""A step, and a batch for it."""


def each_sample(params: Any, batch: Any) -> Any:
    """W6 as a loss: the mean square of the gradients of every sample."""
    found = ws.vmap(ws.grad(mlp), in_axes=(None, 0))(params, batch)
    return sum(np.mean(g**2) for g in tree.leaves(found))


def curvature(params: Any, batch: Any) -> Any:
    """W7 as a loss: the size of the Hessian times a direction."""
    along = {name: batch[f"v_{name}"] for name in params}
    found = ws.hvp(lambda p: mlp(p, batch), (params,), (along,))
    return sum(np.mean(g**2) for g in tree.leaves(found))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"W5": chain, "W6": each_sample, "W7": curvature}
MADE_LOSSES = {name: FUNCTIONS[name] if name in FUNCTIONS else LOSSES[name] for name in SMALL}
"""The workloads of `wholestep bench` as losses, those too that are functions there. Models of real size are left out:
each takes gigabytes and minutes beside float64."""


def workload(name: str) -> Made:
    """A workload of `wholestep bench`, to be trained by Adam."""
    params, batch = WORKLOADS[name].data()
    if name == "W6":
        batch = {key: x[:EACH] for key, x in batch.items()}
    start = nn.join(MODELS[name](), params) if name in MODELS else params
    return ws.compile(MADE_LOSSES[name], start, optimizer=ws.optim.adam(1e-3), batch=batch, allow_unused=True), batch


def small(name: str) -> Made:
    """A training of the audit of resumption: with random keys, tuples and schedules."""
    job = jobs.JOBS[name]()
    return job.step(1), tree.map(lambda x: x[: job.size], job.data)


CASES: dict[str, Callable[[], Made]] = {
    **{name: partial(workload, name) for name in MADE_LOSSES},
    **{f"small {name}": partial(small, name) for name in jobs.JOBS},
}


class Verifications:
    """An observer of steps that verifies their first calls."""

    def __init__(self) -> None:
        self.found: list[Verification] = []

    def made(self, engine: Any) -> None:
        """A step is verified when it is called."""

    def called(self, engine: Any, feed: Any, arrays: Any) -> None:
        """Verify the first program alone: the others are of other sizes."""
        if arrays is not None and not self.found:
            self.found.append(verified(engine, feed, arrays, 0))


def tabular() -> Iterator[tuple[str, Verification]]:
    """The networks of `wholestep train tabular`, verified as they begin to be fitted."""
    for name, table in TABLES.items():
        seen, kind = Verifications(), ws.WholestepClassifier if table.classes else ws.WholestepRegressor
        x, y = table.data()
        with observing(seen):
            kind(epochs=1, random_state=0).fit(x, y)
        yield from [(f"tabular, {name}", found) for found in seen.found]


def random_steps(count: int, seed: int) -> Iterator[tuple[str, Verification]]:
    """So many of the random trainings of the audits, verified before and after a step."""
    for i in range(count):
        made = training(seed, i)
        step = made.step()
        if i % 2:
            step(made.batches(0))
        yield f"the training of seed ({seed}, {i})", step.verify(made.batches(1), seed=i)


def planted(faults: Sequence[NamedFault]) -> dict[str, Mutant]:
    """The faults by name; raises CommandError outside of a checkout."""
    folder = ROOT / "tests" / "mutants"
    if not folder.is_dir():
        raise CommandError("audit verify plants faults in a checkout", hint="run it where tests/mutants is")
    known = {mutant.name: mutant for file in sorted(folder.glob("*.diff")) for mutant in read(file)}
    return {fault.name: known[fault.name] for fault in faults}


def outcome(fault: NamedFault, mutant: Mutant, seed: int, copy: Path) -> str:
    """The outcome of verifying a fault: "named", "found", "missed" or "refused", which is an error before it.

    The fault is planted in a copy of the sources, and taken out again.
    """
    path = os.pathsep.join([str(copy / source) for source in SOURCES])
    with faulty(copy, mutant):
        done = subprocess.run(
            [sys.executable, "-m", "wholestep_tools.audit.correctness.verified_jobs", fault.job, str(seed)],
            env={**os.environ, "PYTHONPATH": path, "WHOLESTEP_CACHE": "off"},
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    if done.returncode:
        return "refused"
    found = json.loads(done.stdout.splitlines()[-1])
    lines = [line for _, _, line in found]
    return "named" if named(fault, lines) else "found" if found else "missed"


def named(fault: NamedFault, lines: Sequence[str]) -> bool:
    """Test whether the first of the lines that are blamed is one of those of the fault.

    >>> named(NamedFault("a wrong sine", "job", ("np.sin",)), ["job.py:3:  y = np.sin(x)"])
    True
    """
    return any(text in line for line in lines[:1] for text in fault.lines)


def audit(
    count: int, seed: int, faults: Sequence[NamedFault] = NAMED_FAULTS, cases: Sequence[str] = tuple(CASES)
) -> dict[str, Any]:
    """Verify correct steps and planted faults; the record of both."""
    seen, failures = Counter[str](), []
    mutants = planted(faults)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = [random_steps(count, seed), named_cases(cases), *([tabular()] if len(cases) == len(CASES) else [])]
        for name, found in [pair for part in right for pair in part]:
            seen.update({"steps": 1, "operations": found.operations, "slopes": len(found.slopes)})
            seen.update({"plain": found.plain not in ("", "not run", "it differs")})
            failures += [] if found.ok else [f"{name}: a false alarm: {found.told()}"]
    with tempfile.TemporaryDirectory() as folder:
        copy_sources(ROOT, Path(folder))
        for fault in faults:
            how = outcome(fault, mutants[fault.name], seed, Path(folder))
            seen[how] += 1
            failures += [] if how == "named" else [f"{fault.name}, in {fault.job}: {how}"]
    checks = {
        "random steps, and workloads": seen["steps"],
        "planted faults": len(faults),
        "of them found": seen["named"] + seen["found"],
        "of them whose line was named first": seen["named"],
        "operations compared one by one": seen["operations"],
        "directions in which slopes were compared": seen["slopes"],
        "of the steps those whose loss NumPy computed itself": seen["plain"],
    }
    return record("verify", CLAIM, checks, failures, seed=seed)


def named_cases(names: Sequence[str]) -> Iterator[tuple[str, Verification]]:
    """The workloads of these names, verified."""
    for name in names:
        step, batch = CASES[name]()
        yield name, step.verify(batch)


AUDIT = Audit(
    "verify",
    audit,
    500,
    "verify random steps, workloads, and losses with planted faults",
    """\
`step.verify` looks at random trainings of the audits, at the workloads of `wholestep bench`, and at the networks of
`wholestep train`: it must find nothing. Then faults are planted, one at a time, in a copy of the source: in rules of
derivatives, in how they are put together, in rewritings, in kernels and in index formulas. A loss that meets the fault
has one operation a line; its step must be found to be off, and the first line that is named must be one on which the
fault acts.""",
)
