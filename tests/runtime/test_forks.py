"""A forked child never changes its parent's state, never shares its scratch files and never waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
ROOT = Path(__file__).parents[2]


def script(text: str, *arguments: object, code: int = 0) -> str:
    """The output of a script in a process of its own, which must end by itself."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, *map(str, arguments)],
        cwd=ROOT,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    return done.stdout


def test_a_few_forks_of_every_kind_at_random_instants() -> None:
    script(
        "import sys; from wholestep_tools.audit.endurance import fork; from wholestep_tools.audit.record import told;"
        "sys.exit(told(fork.audit(20, 0), None, sys.stdout))"
    )


START = """
import os, sys, tempfile, threading, time
import numpy as np, wholestep as ws
from wholestep.errors import ForkedError

def child(work):
    if (pid := os.fork()) == 0:
        try:
            os._exit(work())
        except ForkedError:
            os._exit(3)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def test_reading_or_attaching_while_another_thread_is_in_a_call_is_refused_at_once() -> None:
    """The thread is inside a native call during the whole test, so that the time of the fork does not matter."""
    script(
        START
        + """
def slow(w, x):
    c = ws.while_loop(lambda c: np.all(c > -2.0), np.cos, ws.stop_gradient(x))
    return np.sum(c) * np.sum(w)

many = np.ones(100_000)
step = ws.compile(slow, np.ones(2), batch=many, optimizer=ws.optim.sgd(0.1))
total = step.attach(lambda p, x: np.sum(p * x), batch=np.ones(2))
double = ws.jit(lambda x: x * 2)
double(np.ones(2))
whole = step.state
thread = threading.Thread(target=step, args=(many,), daemon=True)
thread.start()
while not step._busy:
    time.sleep(0.001)
time.sleep(0.05)
for use in (
    lambda: step(many), lambda: step.params, lambda: step.state, lambda: step.save("x"), lambda: step.reset(),
    lambda: total(np.ones(2)), lambda: step.run(many, batch_size=2), lambda: step.set(lr=1.0),
    lambda: step.attach(lambda p, x: x, batch=np.ones(2)), lambda: step.load_state(whole), lambda: step.skipped,
):
    assert child(use) == 3
assert child(lambda: int(double(np.ones(2)).sum() != 4)) == 0
assert child(lambda: int(ws.jit(lambda x: x * 3)(np.ones(2)).sum() != 6)) == 0
os._exit(0)  # the thread never ends
"""
    )


def test_a_child_forked_inside_a_call_of_its_own_thread_goes_on() -> None:
    """A signal handler may fork; the interrupted thread exists in both processes."""
    script(
        START
        + """
import signal
step = ws.compile(lambda w, x: np.sum(w * x), np.ones(2), batch=np.ones(2), optimizer=ws.optim.sgd(0.1))
pids = []
instance = step._engine.main.instance
enter = instance._enter
def forking(record, arrays):
    pids.append(os.fork())
    return enter(record, arrays)
instance._enter = forking
step(np.ones(2))
instance._enter = enter
step(np.ones(2))
good = step.params.tolist() == [0.8, 0.8]
if not pids[0]:
    os._exit(0 if good else 1)
assert good and os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
"""
    )


def test_a_child_writes_no_file_of_its_parent(tmp_path: Path) -> None:
    script(
        START
        + """
folder = sys.argv[1]
rng = np.random.default_rng(0)
x = rng.normal(size=(8, 16))
start = {"w": rng.normal(size=(6, 16, 16))}
step = ws.compile(lambda p, x: np.mean((x @ p["w"].sum(0)) ** 2), start,
                  optimizer=ws.optim.adam(1e-2), batch=x, stream="w", folder=folder)
step(x)
before = np.array(step.params["w"])
for use in (lambda: step(x), lambda: step.params, lambda: step.reset(), lambda: step.load("x")):
    assert child(use) == 3
    assert np.array_equal(before, step.params["w"])
step(x)
""",
        tmp_path,
    )
