"""What an attack on a running process once broke: each case as a user would write it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.test_forks import START, script

import wholestep as ws
from wholestep.errors import CheckpointError, ParameterError

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def loss(p: Any, x: Any) -> Any:
    return np.mean((x @ p["w"]) ** 2)


def test_indices_of_uint64_reach_nothing_outside() -> None:
    def write(x: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = 7.0
        return y

    program = ws.jit(write)
    for k in range(200):
        with pytest.raises(IndexError):
            program(np.zeros(4), np.array([2**64 - 8 - k], np.uint64))
    assert program(np.zeros(4), np.array([2**64 - 1], np.uint64)).tolist() == [0, 0, 0, 7]


@forks
def test_a_child_leaves_streamed_state_alone(tmp_path: Path) -> None:
    script(
        START
        + """
x = np.ones((4, 3))
step = ws.compile(lambda p, x: np.mean((x @ p["w"]) ** 2), {"w": np.ones((3, 3))}, optimizer=ws.optim.adam(1e-2),
                  batch=x, stream="w", folder=sys.argv[1])
step(x)
before = np.array(step.params["w"])
assert child(lambda: [step(x) for _ in range(5)]) == 3
assert np.array_equal(before, step.params["w"]) and step.steps == 1
""",
        tmp_path,
    )


@forks
def test_parent_and_child_have_scratch_files_of_their_own(tmp_path: Path) -> None:
    script(
        START
        + """
def ordered(layers, x):
    for w in layers:
        x = np.sort(x @ w, axis=-1)
    return np.mean(x**2)

rng = np.random.default_rng(0)
layers = [rng.normal(size=(64, 64)).astype(np.float32) / 8 for _ in range(4)]
x = rng.normal(size=(512, 64)).astype(np.float32)
made = dict(batch=x, optimizer=ws.optim.sgd(1e-3))
plain = ws.compile(ordered, layers, **made)
spilled = ws.compile(ordered, layers, memory_budget="60%", folder=sys.argv[1], **made)
assert spilled.memory.file
wanted = [plain(x).loss for _ in range(30)]
pid = os.fork()
good = [spilled(x).loss for _ in range(30)] == wanted
if pid == 0:
    os._exit(0 if good else 1)
assert good and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""",
        tmp_path,
    )


def test_a_handler_that_calls_the_step_hangs_nobody() -> None:
    if sys.platform == "win32":
        pytest.skip("the system has no interval timers")
    script(
        """
import signal
import numpy as np, wholestep as ws
from wholestep.errors import ReentrancyError
x = np.ones((4, 3))
step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=x)
refused = []
def handler(*_):
    try:
        step(x)
    except ReentrancyError as error:
        refused.append(error)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
while len(refused) < 3:
    step(x)
signal.setitimer(signal.ITIMER_REAL, 0)
assert "called inside a call of itself" in str(refused[0])
"""
    )


def test_the_end_of_the_process_is_no_abort() -> None:
    script(
        """
import threading, time
import numpy as np, wholestep as ws
x = np.ones((4, 3))
def work():
    for i in range(10**6):
        ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=ws.optim.sgd(i + 1.0), batch=x)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""
    )


def test_a_step_counter_does_not_wrap_in_silence(tmp_path: Path) -> None:
    step = ws.compile(loss, {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=np.ones((2, 3)))
    state = step.state
    with pytest.raises(ParameterError, match="wraps at"):
        step.load_state({**state, "counters": {**state["counters"], "step": np.array(2**63 - 1)}})


# Files, which are read and refused elsewhere too.


def test_a_manifest_with_an_infinite_number_is_a_checkpoint_error(tmp_path: Path) -> None:
    step = ws.compile(loss, {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=np.ones((2, 3)))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"facts":1e999,"parts":{},"weight_map":{}}')
    with pytest.raises(CheckpointError):
        step.load(folder)
