"""A signal handler or a finalizer that calls the step which its own thread is in: an error, and the same state."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import ReentrancyError

X = np.linspace(0.0, 1.0, 24).reshape(8, 3)
Step = Any


def made() -> Step:
    return ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=ws.optim.adam(0.01), batch=X[:4])


def same(a: Step, b: Step) -> None:
    for x, y in zip(tree.leaves(a.state), tree.leaves(b.state), strict=True):
        np.testing.assert_array_equal(x, y)


@contextmanager
def within(step: Step, what: Any) -> Iterator[list[Any]]:
    """Call a function inside every native run, as a signal handler that Python runs then would."""
    instance = step._engine.main.instance
    found: list[Any] = []
    enter = instance._enter

    def entered(record: Any, arrays: Any) -> int:
        try:
            found.append(what())
        except ReentrancyError as error:
            found.append(error)
        return int(enter(record, arrays))

    instance._enter = entered
    try:
        yield found
    finally:
        instance._enter = enter


CALLS = {
    "call": lambda step: step(X[4:]),
    "a batch of another size": lambda step: step(X[:2]),
    "run": lambda step: step.run(X),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_inside_a_call_is_refused_and_changes_nothing(call: str) -> None:
    step, control = made(), made()
    with within(step, lambda: CALLS[call](step)) as found:
        results = [step(X[:4]).loss for _ in range(3)]
    assert [type(x) for x in found] == [ReentrancyError] * 3
    assert "called inside a call of itself" in str(found[0])
    assert results == [control(X[:4]).loss for _ in range(3)]
    same(step, control)
    assert step(X[4:]).loss == control(X[4:]).loss  # and no lock is left taken


def test_reading_the_state_and_compiling_go_on_inside_a_call(tmp_path: Any) -> None:
    step, control = made(), made()
    total = step.attach(lambda p, x: np.sum(p) + np.sum(x), batch=X)

    def nested() -> Any:
        step.save(tmp_path / "inside.safetensors")
        step.set(lr=0.01)
        return step.params, total(X), ws.jit(lambda x: x + 1.0)(np.ones(2)), step.steps

    with within(step, nested) as found:
        step(X[:4])
    control(X[:4])
    np.testing.assert_array_equal(found[0][0], np.ones(3))
    assert found[0][3] == 0
    same(step, control)


def test_an_epoch_counts_no_step_of_a_handler() -> None:
    """The counts of a run for an interrupted epoch are those of its own batches."""
    step, control = made(), made()
    found: list[Any] = []

    def checked(epoch: int, result: Any) -> None:
        found.append(step.steps)
        step(X[:4])  # between two epochs no call is active

    step.run(X, epochs=2, progress=checked, shuffle=False)
    for _ in range(2):
        control.run(X, shuffle=False)
        control(X[:4])
    assert found == [2, 5]
    same(step, control)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_signals_at_any_instant_leave_no_lock_taken() -> None:
    step, control = made(), made()
    refused, done = [0], [0]

    def handler(*_: Any) -> None:
        try:
            step(X[:4])
            done[0] += 1
        except ReentrancyError:
            refused[0] += 1

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        calls = 0
        while refused[0] < 20 and calls < 1_000_000:
            step(X[:4])
            calls += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert refused[0] >= 20 and step.steps == calls + done[0]
    while control.steps < step.steps:
        control(X[:4])
    same(step, control)


def test_a_finalizer_that_calls_the_step() -> None:
    step, control = made(), made()
    found: list[Any] = []

    class Last:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            try:
                found.append(step(X[:4]))
            except ReentrancyError as error:
                found.append(error)

    def collected() -> None:
        Last()
        gc.collect()

    gc.collect()
    with within(step, collected):
        step(X[:4])
    assert [type(x) for x in found] == [ReentrancyError]
    control(X[:4])
    same(step, control)


def test_other_threads_wait_and_are_not_refused() -> None:
    step, control = made(), made()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=lambda: [step(X[:4]) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for _ in range(800):
        control(X[:4])
    same(step, control)
