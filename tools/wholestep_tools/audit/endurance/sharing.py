"""`wholestep audit threads`: threads that share steps and programs get the bits that one thread gets."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "Threads that call one step, steps of their own, one function, and compile, get the bits of a single thread"
THREADS = 16
PATIENCE = 1200.0
"""Seconds after which a thread is said to hang."""


def loss(params: Any, x: Any) -> Any:
    """A small perceptron."""
    return np.mean(np.tanh(x @ params["w"]) ** 2)


def made(rows: int) -> Any:
    """A step, from the same beginning."""
    params = {"w": np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)}
    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=ws.ShapeDtype((rows, 8), "float32"))


def together(works: list[Callable[[], None]]) -> list[str]:
    """The failures where each of these is a thread, and all begin at once."""
    failures: list[str] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(f"{work.__name__}: {type(error).__name__}: {error}"[:300])

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return failures + [f"{thread.name} hangs" for thread in threads if thread.is_alive()]


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many calls of each of sixteen threads; the record of it."""
    seen, rng = Seen(), np.random.default_rng(seed)
    x = rng.normal(size=(32, 8)).astype(np.float32)
    shared, own, alone = made(32), [made(32) for _ in range(THREADS)], made(32)
    double = ws.jit(lambda x: np.sin(x) * 2 + np.sum(x, axis=1, keepdims=True))
    given = [x * (i + 1) for i in range(THREADS)]
    expected = [double(y).tobytes() for y in given]

    def same_step() -> None:
        for _ in range(count):
            shared(x)

    def calls(i: int) -> Callable[[], None]:
        def work() -> None:
            for k in range(count):
                own[i](x)
                if double(given[i]).tobytes() != expected[i]:
                    raise AssertionError(f"thread {i}, call {k}: the function has other bits")

        return work

    def compiling() -> None:
        for k in range(count // 100 + 1):
            if float(ws.jit(lambda y, k=k: y * k + 1.0)(2.0)) != 2.0 * k + 1.0:
                raise AssertionError("a new program is wrong")
            gc.collect()
            _ = shared.params, shared.state, repr(shared)

    seen.failures += together([*[same_step] * THREADS, *[calls(i) for i in range(THREADS)], compiling])
    for _ in range(count):
        alone(x)
    seen.right(all(sha256(step.state) == sha256(alone.state) for step in own), "a step of its own has other bits")
    for _ in range(count * (THREADS - 1)):
        alone(x)
    seen.right(sha256(shared.state) == sha256(alone.state), "the step that was shared has other bits")
    checks = {
        "threads on one step": THREADS,
        "calls of each": count,
        "calls of steps and functions in all": 3 * THREADS * count,
        "programs compiled meanwhile": count // 100 + 1,
    }
    return record("threads", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "threads",
    audit,
    10_000,
    "share steps and functions among threads, and compare every bit",
    """\
Sixteen threads call one step on the same batch; sixteen others call steps of their own and one function, each on
its own data; one more compiles programs, collects garbage, and reads the state of the shared step. All parameters,
moments and counters must then be those that as many calls in a single thread come to, and every result of the
function must have the bits that it had alone. There is no thread sanitizer in it: the compiled code and its pool
are machine code of LLVM's.""",
)
