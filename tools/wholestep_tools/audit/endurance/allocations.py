"""`wholestep audit allocations`: each allocation of the runtime fails in turn, and the state stays as it was."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import wholestep as ws
from wholestep.compiler import dynamic_shapes
from wholestep.errors import WholestepError
from wholestep.runtime.cpu import artifact, executable
from wholestep.runtime.memory import aligned, buffer, result_pool
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "An allocation that fails is a MemoryError, the state is the one before or after, and the next call works"
USERS = (aligned, artifact, buffer, dynamic_shapes, executable, result_pool)
"""The modules that allocate."""
ROWS, WIDTH = 64, 1024


class Failing:
    """The allocation of the runtime, which fails at the call of a number."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.calls += 1
        if self.calls - 1 == self.at:
            raise MemoryError
        return ALLOCATE(shape, dtype)


ALLOCATE = aligned.aligned_empty


def loss(params: Any, x: Any) -> Any:
    """A loss with values of a quarter of a megabyte."""
    return np.mean(np.tanh(x @ params["w"]) ** 2)


def made(**options: Any) -> Any:
    """A step from the same beginning."""
    params = {"w": np.linspace(-1, 1, 8 * WIDTH, dtype=np.float32).reshape(8, WIDTH)}
    batch = options.pop("batch", ws.ShapeDtype((ROWS, 8), "float32"))
    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch, **options)


X = np.linspace(0, 1, ROWS * 8, dtype=np.float32).reshape(ROWS, 8)
ACTIONS: Mapping[str, Callable[[Any, Path], Any]] = {
    "compile": lambda step, folder: made()(X),
    "call": lambda step, folder: step(X),
    "run": lambda step, folder: step.run(X, 2, 8),
    "state": lambda step, folder: step.state,
    "save": lambda step, folder: step.save(folder / "a.safetensors"),
    "load": lambda step, folder: step.load(folder / "kept.safetensors"),
    "reset": lambda step, folder: step.reset(),
    "set": lambda step, folder: step.set(params={"w": np.zeros((8, WIDTH), np.float32)}),
    "symbolic": lambda step, folder: made(batch=ws.ShapeDtype((ws.Dim("B"), 8), "float32"))(X),
    "function": lambda step, folder: ws.jit(lambda x: np.repeat(x, 5000, axis=0) * 2)(X),
    "attached": lambda step, folder: step.attach(lambda params, x: x @ params["w"])(X),
}


def ended(name: str, at: int, step: Any, folder: Path) -> tuple[int, bool, str]:
    """The number of allocations of an action, True if it failed for lack of memory, and the error in its behavior."""
    failing = Failing(at)
    patches = [
        mock.patch.object(module, "aligned_empty", failing) for module in USERS if hasattr(module, "aligned_empty")
    ]
    for patch in patches:
        patch.start()
    try:
        ACTIONS[name](step, folder)
        return failing.calls, False, ""
    except MemoryError:
        return failing.calls, True, ""
    except WholestepError as error:
        return failing.calls, True, "" if isinstance(error.__cause__, MemoryError) else f"{error}"
    except BaseException as error:
        return failing.calls, True, f"{type(error).__name__}: {error}"
    finally:
        for patch in patches:
            patch.stop()


def tries(name: str, folder: Path, seen: Seen) -> None:
    """An action whose allocations fail one after the other, until it makes fewer."""
    step = made()
    step(X)
    before, whole = sha256(step.state), step.state
    step.save(folder / "kept.safetensors")
    ACTIONS[name](step, folder)
    after = sha256(step.state)
    at = 0
    while True:
        step.load_state(whole)
        calls, failed, wrong = ended(name, at, step, folder)
        seen.right(not wrong, f"{name}, allocation {at}: {wrong}")
        if calls <= at:
            return
        seen.count(f"allocations that failed: {name}")
        seen.right(failed, f"{name}, allocation {at}: nobody noticed")
        seen.right(sha256(step.state) in (before, after), f"{name}, allocation {at}: the state is another one")
        step.load_state(whole)
        ACTIONS[name](step, folder)
        seen.right(sha256(step.state) == after, f"{name}, allocation {at}: the next call comes to something else")
        at += 1


def audit(count: int, seed: int) -> dict[str, Any]:
    """Every allocation of every action, so often; the record of it."""
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            for name in ACTIONS:
                tries(name, Path(folder), seen)
    checks = {"allocations that failed": sum(seen.checks.values()), **seen.checks}
    return record("allocations", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "allocations",
    audit,
    1,
    "let each allocation of the runtime fail in turn",
    """\
Compiling, calls, runs, reading and setting the state, saving, loading, resetting, symbolic sizes, functions and
attached functions are tried with the first allocation of the runtime failing, then with the second, until there
are no more. Each must end in a MemoryError; the state must have the bits that it had before or those that it has
after; and the same call, made again, must come to what it always comes to. Allocations of NumPy and of the
interpreter are not among them.""",
)
