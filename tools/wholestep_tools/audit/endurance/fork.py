"""`wholestep audit fork`: a process is forked at any instant; the child works or is refused, and the parent goes on."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.errors import CommandError, ForkedError
from wholestep.train.step.step import Step
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "A forked child works or gets a ForkedError, never hangs, and never changes what its parent has"
ROWS, BATCH, WIDTH = 256, 32, 64
PATIENCE = 60.0
"""Seconds after which a child is said to hang: a machine may be busy with other things."""
WORKED, REFUSED, WRONG, RAISED, HANGS = range(5)
"""The ends of a child."""
KINDS = ("plain", "symbolic", "streamed", "spilled", "attached")
MOMENTS = ("idle", "in a call", "in run", "compiling")
"""The actions of another thread on the step, or beside it, while the process forks."""


class Case(NamedTuple):
    """A step, another one that does the same and never forks, and a function attached to the first."""

    step: Step
    control: Step
    total: Callable[[Any], Any]


class Ended(Exception):
    """A run has been told to end."""


def layers(params: Any, x: Any) -> Any:
    """A loss of a few layers."""
    for w in params["w"]:
        x = np.tanh(x @ w)
    return np.mean(x**2)


def ordered(params: Any, x: Any) -> Any:
    """One whose values are large enough to lie in a file, and cannot be made again for less."""
    for w in params["w"]:
        x = np.sort(x @ w, axis=-1)
    return np.mean(x**2)


def total(params: Any, x: Any) -> Any:
    """A function that is attached to a step."""
    return np.sum(params["w"][0]) + np.sum(x)


def cases(folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Case]]:
    """Every kind of step, with its control."""
    size: dict[str, Any] = {name: BATCH for name in KINDS} | {"symbolic": ws.Dim("B"), "spilled": ROWS}
    more: dict[str, dict[str, Any]] = {name: {} for name in KINDS}
    more["streamed"] = {"stream": "w*", "folder": folder}
    more["spilled"] = {"memory_budget": "60%", "folder": folder}
    start = {"w": [rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(4)]}
    for name in KINDS:
        batch = ws.ShapeDtype((size[name], WIDTH), "float32")
        step, control = (
            ws.compile(
                ordered if name == "spilled" else layers, start, optimizer=ws.optim.adam(1e-3), batch=batch, **extra
            )
            for extra in (more[name], {})
        )
        yield name, Case(step, control, step.attach(total))


def trial(name: str, case: Case, moment: str, data: Any, batch: Any, rng: np.random.Generator) -> tuple[int, float]:
    """The end of a child that was forked at this moment, and the seconds that it took."""
    with beside(name, case.step, moment, data, batch):
        time.sleep(float(rng.uniform(0, 0.01)))
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(lived(name, case, batch, moment == "compiling"))
        return waited(child), time.perf_counter() - begun


@contextmanager
def beside(name: str, step: Step, moment: str, data: Any, batch: Any) -> Iterator[None]:
    """A thread that does something else meanwhile."""
    ends = threading.Event()

    def checked(*_: Any) -> None:
        if ends.is_set():
            raise Ended

    def run() -> None:
        try:
            step.run(data, epochs=10**9, batch_size=len(batch), progress=checked)
        except Ended:
            return

    def call() -> None:
        while not ends.is_set():
            step(batch)

    def compiling() -> None:
        while not ends.is_set():
            fresh(time.perf_counter())

    work = {"in a call": call, "in run": run, "compiling": compiling, "idle": lambda: None}[moment]
    thread = threading.Thread(target=work, name=name)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def fresh(x: float) -> bool:
    """Test whether a program that nobody has compiled before is right."""
    return bool(ws.jit(lambda y: y * x + 1.0)(np.full(3, 2.0))[0] == 2 * x + 1.0)


def lived(name: str, case: Case, batch: Any, compiling: bool) -> int:
    """The work of a child process, in its only thread, compared with the control."""
    try:
        if not (fresh(time.perf_counter()) if compiling else double(np.ones(3))[0] == 2.0):
            return WRONG
        try:
            if name == "attached":
                found, wanted = case.total(batch), total(case.step.params, batch)
                return WORKED if np.isclose(found, wanted) else WRONG
            if case.step.steps != case.control.steps:
                case.control.load_state(case.step.state)
            losses = [[step(batch).loss for _ in range(20)] for step in (case.step, case.control)]
            return WORKED if losses[0] == losses[1] else WRONG
        except ForkedError:
            return REFUSED
    except BaseException:
        return RAISED


double = ws.jit(lambda x: x * 2.0)


def follow(case: Case, moment: str, data: Any, batch: Any) -> bool:
    """Test whether the step is where its control comes that takes as many steps."""
    step, control = case.step, case.control
    ahead = step.steps - control.steps
    if moment == "in run" and ahead:
        control.run(data, epochs=ahead // (len(data) // len(batch)), batch_size=len(batch))
    while control.steps < step.steps:
        control(batch)
    return sha256(step.state) == sha256(control.state)


def waited(child: int) -> int:
    """The end of a child; one that does not end is killed."""
    before = time.perf_counter()
    while time.perf_counter() - before < PATIENCE:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HANGS


def judged(name: str, moment: str, ended: int) -> str:
    """The fault in how a child ended; empty where there is none."""
    said = {WRONG: "had other bits", RAISED: "raised another error", HANGS: "hung"}
    if ended not in (WORKED, REFUSED):
        return said.get(ended, f"ended with {ended}")
    if name == "streamed":
        return "" if ended == REFUSED else "used its parent's files"
    return "was refused" if ended == REFUSED and moment in ("idle", "compiling") else ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many forks, the kinds and moments in turn; the record of it. Raises CommandError where nothing can fork."""
    if not hasattr(os, "fork"):
        raise CommandError("audit fork forks processes", hint="run it on a system that can")
    rng, failures, seen, longest = np.random.default_rng(seed), [], Counter[str](), 0.0
    data = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        known = dict(cases(Path(folder), rng))
        for number in range(count):
            name, moment = KINDS[number % len(KINDS)], MOMENTS[number // len(KINDS) % len(MOMENTS)]
            if name == "streamed" and moment == "in run":
                moment = "in a call"  # an epoch may fail in the middle, and state in files is not put back
            case = known[name]
            batch = data if name == "spilled" else data[:BATCH]
            ended, seconds = trial(name, case, moment, data, batch, rng)
            longest = max(longest, seconds)
            seen[("worked", "refused")[ended] if ended in (WORKED, REFUSED) else "failed"] += 1
            wrong = judged(name, moment, ended)
            if not follow(case, moment, data, batch):
                wrong = f"{wrong} changed its parent's state".strip()
                case.control.load_state(case.step.state)
            if wrong:
                failures.append(f"fork {number}, {name}, {moment}: the child {wrong}")
    checks = {"forks": count, "children that worked": seen["worked"], "children that were refused": seen["refused"]}
    return record("fork", CLAIM, checks, failures, seed=seed, figures={"seconds of the longest child": longest})


AUDIT = Audit(
    "fork",
    audit,
    1000,
    "fork at any instant, and see what children do, and what that does to their parent",
    """\
A process is forked while another thread does nothing, is in a call of a step, in `run`, or compiles, at an instant
drawn at random. The step is a plain one, one of symbolic size, one with its state in files, one with scratch in a
file, or one with an attached function. The child runs and compiles other programs, and then uses the step: its
losses must be those of a step that was never shared, or it is refused by a ForkedError; a child that hangs is a
failure. The state of the parent is compared, after each child, with that of a step which took as many steps
without any fork.""",
)
