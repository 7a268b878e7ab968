"""SIGTERM ends a run as Ctrl-C does, with the requested checkpoint, and then the process."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.train.by_hand import rows
from tests.train.models import perceptron

import wholestep as ws
from wholestep import tree
from wholestep.train.loop.run import Callback

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there SIGTERM ends a process at once")


def terminate():
    signal.raise_signal(signal.SIGTERM)


class At(Callback):
    """A callback that performs an action at a given step, and records that `on_end` was called."""

    def __init__(self, at, what=terminate):
        self.at, self.what, self.ended = at, what, False

    def on_step(self, run):
        if run.step.steps == self.at:
            self.what()

    def on_end(self, run):
        self.ended = True


def compiled():
    model = perceptron()
    batch = rows(model.data, slice(0, 6))
    return model, ws.compile(model.loss, model.params, optimizer=ws.optim.adam(0.01), batch=batch)


def same(a, b):
    for x, y in zip(tree.leaves(a.state), tree.leaves(b.state), strict=True):
        np.testing.assert_array_equal(x, y)


def loader_of(model):
    return ws.Loader(model.data, batch_size=6, key=3)


def test_fit_saves_and_exits_and_goes_on_to_the_same_bits(tmp_path):
    model, step = compiled()
    callback, path = At(5), tmp_path / "run.safetensors"
    with pytest.raises(SystemExit) as ended:
        ws.fit(step, loader_of(model), epochs=4, progress=None, callbacks=[callback], checkpoint=path)
    assert (ended.value.code, callback.ended, step.steps) == (143, True, 5)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    _, resumed = compiled()
    ws.fit(resumed, loader_of(model), epochs=4, progress=None, checkpoint=path, resume=True)
    _, whole = compiled()
    ws.fit(whole, loader_of(model), epochs=4, progress=None)
    same(resumed, whole)


def test_run_holds_whole_steps_and_exits():
    model, step = compiled()
    with pytest.raises(SystemExit) as ended:
        step.run(model.data, 5, 6, progress=lambda done, result: done == 2 and terminate())
    assert (ended.value.code, step.steps) == (143, 8)
    _, other = compiled()
    other.run(model.data, 2, 6)
    same(step, other)


def test_a_handler_of_the_user_is_left_in_place():
    model, step = compiled()
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(step.steps))
    try:
        history = ws.fit(step, loader_of(model), epochs=2, progress=None, callbacks=[At(3)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [3] and not history.interrupted and len(history.losses) == 8


def test_another_thread_than_the_main_one_has_no_handler():
    model, step = compiled()
    seen = []
    watching = At(2, lambda: seen.append(signal.getsignal(signal.SIGTERM)))
    thread = threading.Thread(target=lambda: ws.fit(step, loader_of(model), progress=None, callbacks=[watching]))
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_an_error_of_the_run_is_told_instead():
    model, step = compiled()

    def fail():
        terminate()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ws.fit(step, loader_of(model), progress=None, callbacks=[At(2, fail)])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


DEAF = """
import signal, numpy as np, wholestep as ws
from wholestep.train.loop.run import Callback
signal.signal(signal.SIGINT, signal.SIG_IGN)
class At(Callback):
    def on_step(self, run):
        if run.step.steps == 3:
            signal.raise_signal(signal.SIGTERM)
step = ws.compile(lambda w, x: np.mean((w - x) ** 2), np.zeros(2), optimizer=ws.optim.sgd(0.1), batch=np.ones((2, 2)))
try:
    ws.fit(step, np.ones((20, 2)), progress=None, callbacks=[At()], checkpoint="run.safetensors")
finally:
    print("ended", step.steps)
"""


@POSIX
def test_a_process_that_is_deaf_to_ctrl_c_ends_too(tmp_path):
    done = subprocess.run([sys.executable, "-c", DEAF], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (143, "ended 3\n"), done.stderr
    assert (tmp_path / "run.safetensors").exists()
