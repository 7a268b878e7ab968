"""Ctrl-C ends a loop of steps between two of them, and the handle then holds the state after whole steps."""

import signal
import threading

import numpy as np
import pytest
from tests.hang import HANG
from tests.train.by_hand import rows
from tests.train.models import perceptron
from tests.train.pressing import Pressing, press

import wholestep as ws
from wholestep import tree
from wholestep.train.program.interruptible import run_in_thread
from wholestep.train.program.resident_epochs import ResidentData


def compiled(device, **options):
    model = perceptron()
    settings = {"batch": rows(model.data, slice(0, 6)), **options}
    return model, ws.compile(model.loss, model.params, optimizer=ws.optim.adam(0.01), device=device, **settings)


def test_a_run_ends_after_a_whole_step(device):
    data = tree.map(lambda x: np.resize(x, (600_000, *x.shape[1:])), perceptron().data)
    _, step = compiled(device)
    _, other = compiled(device)
    for bound in ResidentData(step._engine, data, 6, False, False).programs():
        bound.instance = Pressing(bound.instance)
    result = step.run(data, 5, 6, shuffle=False)
    taken = len(result)
    assert (result.status, result.interrupted) == ("interrupted", True)
    assert taken < 100_000
    assert step.state["counters"]["step"] == taken
    losses = [other(rows(data, slice(6 * i, 6 * i + 6))).loss for i in range(taken)]
    assert result.losses.tolist() == losses
    for a, b in zip(tree.leaves(step.state), tree.leaves(other.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_call_of_many_steps_ends_early(device):
    count = 100_000
    batch = tree.map(lambda x: np.resize(x, (count, 6, *x.shape[1:])), perceptron().data)
    _, step = compiled(device, batch=batch, steps_per_call=count)
    step._engine.main.instance = Pressing(step._engine.main.instance)
    result = step(batch)
    assert result.status == "interrupted" and result.steps < count
    assert step.state["counters"]["step"] == result.steps
    _thread_is_not_left_over()


def _thread_is_not_left_over():
    assert not [t for t in threading.enumerate() if t.name == "wholestep"]


def test_ctrl_c_between_epochs_ends_the_run(device):
    model, step = compiled(device)

    def progress(done, result):
        if done == 2:
            raise KeyboardInterrupt

    result = step.run(model.data, 5, 6, progress=progress)
    assert (result.status, len(result)) == ("interrupted", 8)


class Long:
    """An instance that receives Ctrl-C, and runs until it is stopped."""

    def __init__(self):
        self.stopped = threading.Event()

    def __call__(self, arrays, strict=False):
        press()
        assert self.stopped.wait(HANG)
        return arrays

    def stop(self):
        self.stopped.set()


def test_a_handler_of_the_users_own_is_heard():
    def handler(*_):
        raise LookupError

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(LookupError):
            run_in_thread(Long(), [1])
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    assert run_in_thread(Long(), [1]) == ([1], True)
    assert signal.getsignal(signal.SIGINT) is before
    _thread_is_not_left_over()


def test_an_error_in_the_thread_is_the_callers():
    class Failing(Long):
        def __call__(self, arrays, strict=False):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_thread(Failing(), [])


def test_a_stop_that_comes_when_nothing_runs_changes_nothing(device):
    model, step = compiled(device)
    step.run(model.data, 1, 6)
    for bound in step._engine.programs.values():
        bound.instance.stop()
    assert step.run(model.data, 1, 6).status == "completed"
