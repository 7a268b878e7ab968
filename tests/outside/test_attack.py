"""Faults that an attack on a running process has found: each case as a user would write it."""

from __future__ import annotations

import errno
import io
import os
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.test_forks import START, script

import wholestep as ws
from wholestep.errors import CheckpointError, DtypeError, LogWarning, ParameterError, ShapeError, TreeError
from wholestep.optim import sgd
from wholestep.runtime.cache import code_cache
from wholestep.train.loop.callbacks import Callback
from wholestep.train.loop.loggers import JsonLogger

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


# Files, whose refusals have tests elsewhere too.


def test_a_manifest_with_an_infinite_number_is_a_checkpoint_error(tmp_path: Path) -> None:
    step = ws.compile(loss, {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=np.ones((2, 3)))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"facts":1e999,"parts":{},"weight_map":{}}')
    with pytest.raises(CheckpointError):
        step.load(folder)


HOSTILE = "a\x1b[31m\u202e"
"""A name with control characters, which clear, color or reverse a terminal's text."""


@forks
def test_a_child_of_a_process_that_is_in_a_call_is_refused_at_once() -> None:
    script(
        START
        + """
def slow(w, x):
    c = ws.while_loop(lambda c: np.all(c > -2.0), np.cos, ws.stop_gradient(x))
    return np.sum(c) * np.sum(w)

x = np.ones(100_000)
step = ws.compile(slow, np.ones(2), batch=x, optimizer=ws.optim.sgd(0.1))
threading.Thread(target=step, args=(x,), daemon=True).start()
while not step._busy:
    time.sleep(0.001)
time.sleep(0.05)
for use in (lambda: step(x), lambda: step.params, lambda: step.run(x, batch_size=2)):
    assert child(use) == 3
os._exit(0)  # the thread never ends
"""
    )


def headed(text: str) -> bytes:
    """A .npy file whose header is this text."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(data: bytes) -> bytes:
    """A compressed archive of one file."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("x.npy", data)
        return file.getvalue()


def damaged() -> bytes:
    with io.BytesIO() as file:
        np.savez_compressed(file, x=np.arange(1000.0))
        data = bytearray(file.getvalue())
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


PROMISE = "{'descr': '<f8', 'fortran_order': False, 'shape': (400000000000,), }\n"
REFUSED = {
    "header.npy": headed("{{{{"),
    "truth.npy": headed("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 4), }\n") + bytes(32),
    "promise.npy": headed(PROMISE),
    "promise.npz": archive(headed(PROMISE)),
    "damaged.npz": damaged(),
    "field.csv": b"a\n" + b"1" * 200_000,
    "half.csv": "a,b\n1,2\n".encode("utf-16")[:-1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_data_file_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(REFUSED[name])
    with pytest.raises(DtypeError, match=name):
        ws.Loader(tmp_path / name, 1)


def test_a_table_in_utf16_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b\n1,2.5\n".encode("utf-16"))
    (batch,) = ws.Loader(tmp_path / "t.csv", 1)
    assert {name: x.tolist() for name, x in batch.items()} == {"a": [1], "b": [2.5]}


CACHED = """
import os, sys, warnings
import numpy as np, wholestep as ws
from wholestep.runtime.cache.code_cache import CacheWarning
if sys.argv[1] == "gone":
    os.mkdir(sys.argv[2])
    os.chdir(sys.argv[2])
    os.rmdir(sys.argv[2])
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always", CacheWarning)
    assert ws.jit(lambda x: x + 1)(1.0) == 2.0 and ws.jit(lambda x: x + 2)(1.0) == 3.0
assert [w.category for w in seen] == [CacheWarning], seen
assert not seen[0].filename.startswith(os.path.dirname(ws.__file__)), seen
"""


@pytest.mark.parametrize(("kind", "place"), [("home", "~nobody-of-this-name/x"), ("gone", "cache")])
@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="the system has no cache")
def test_a_place_of_the_cache_that_is_nowhere_is_one_warning(
    kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHOLESTEP_CACHE", place)
    script(CACHED, kind, tmp_path / "gone")


class Full(io.StringIO):
    """A file on a disk that has no room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Filling(Callback):
    """Fills the disk under a log after the first step."""

    def __init__(self, logger: JsonLogger) -> None:
        self.logger = logger

    def on_step(self, run: Any) -> None:
        if not isinstance(self.logger.file, Full):
            self.logger.file.close()
            self.logger.file = Full()


def test_a_full_disk_under_a_log_does_not_end_the_run(tmp_path: Path) -> None:
    x = np.ones((8, 3))
    step = ws.compile(loss, {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=x[:2])
    logger = JsonLogger(tmp_path / "log.json")
    with pytest.warns(LogWarning, match=r"Errno 28.*log\.json"):
        ws.fit(step, ws.Loader(x, 2), epochs=2, logger=logger, callbacks=[Filling(logger)], log_every=1, progress=None)
    assert step.steps == 8 and logger.file.closed


def test_names_cannot_speak_to_the_terminal() -> None:
    x = np.ones((2, 3))
    step = ws.compile(lambda p, x: np.mean((x @ p[HOSTILE]) ** 2), {HOSTILE: np.ones(3)}, optimizer=sgd(0.1), batch=x)

    class Net(ws.nn.Module):
        def __init__(self) -> None:
            self.parts = {HOSTILE: ws.nn.Linear(3, 2, key=0)}

        def __call__(self, x: Any) -> Any:
            return self.parts[HOSTILE](x)

    with pytest.raises(TreeError) as error:
        step.load_state({**step.state, "params": {HOSTILE + "b": np.ones(3)}})
    said = [repr(step), str(step.explain()), repr(Net()), str(ws.nn.summary(Net(), x)), str(error.value)]
    for text in said:
        assert "\x1b" not in text and "\u202e" not in text
    assert "31m" in said[-1]


@forks
def test_the_next_save_removes_what_killed_ones_left(tmp_path: Path) -> None:
    step = ws.compile(loss, {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=np.ones((2, 3)))
    script(
        """
import os, signal, sys
import numpy as np, wholestep as ws
from wholestep.train.checkpoint.filesystem import Disk
Disk.sync = lambda self, file: os.kill(os.getpid(), signal.SIGKILL)
x = np.ones((2, 3))
step = ws.compile(lambda p, x: np.mean((x @ p["w"]) ** 2), {"w": np.ones(3)}, optimizer=ws.optim.sgd(0.1), batch=x)
step.save(sys.argv[1])
""",
        tmp_path / "model",
        code=-9,
    )
    assert [file.suffix for file in tmp_path.iterdir()] == [".tmp"]
    step.save(tmp_path / "model")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_large_constant_is_in_memory_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "cache_folder", lambda: None)
    c = np.random.default_rng(0).random(2 << 20)
    tracemalloc.start()
    try:
        ws.jit(lambda x: np.sum(c * x))(2.0)
        peak = tracemalloc.get_traced_memory()[1] / c.nbytes
    finally:
        tracemalloc.stop()
    assert peak < 2.5


ONE = np.ones((1, 2, 4), np.float32)
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a device that is no text": (lambda: ws.jit(np.sin, device=0)(1.0), ParameterError, "no device is called 0"),
    "no predicate": (lambda: ws.cond(None, abs, abs, 1), DtypeError, "dtype object is not supported"),
    "a model that is a number": (lambda: ws.update_batch_norm(3, [ONE]), DtypeError, "an int is no nn.Module"),
    "no structure": (lambda: ws.tree.unflatten(3, [1]), TreeError, "an int is no structure"),
    "a kernel of one axis": (lambda: ws.nn.streaming_conv1d_init(2, np.ones(3)), ShapeError, "must have 3 axes"),
    "weights of no elements": (lambda: ws.nn.init.xavier_uniform(0, (0, 0)), ShapeError, "has no elements"),
    "queries of no axes": (lambda: ws.nn.multi_head_attention(1.0, ONE, ONE, 2), ShapeError, "q is f64; it must be"),
    "groups of nothing": (lambda: ws.optim.groups(3, None), DtypeError, "no dictionary of patterns"),
    "a state of one array": (
        lambda: ws.nn.LSTMCell(4, 3, key=0)(ONE[0], np.ones((2, 3))),
        TreeError,
        r"must be \(h, c\)",
    ),
    "a cache that is a number": (
        lambda: ws.nn.MultiHeadAttention(4, 2, key=0)(ONE, cache=3),
        TreeError,
        "the cache is 3, not one of init_cache",
    ),
    "entries of no axes": (
        lambda: ws.nn.MultiHeadAttention(4, 2, key=0)(ONE, cache={"k": 1.0, "v": 1.0}),
        ShapeError,
        "the cache is f64",
    ),
    "a depth below 0": (lambda: ws.nn.models.GPT2(depth=-1, key=0), ParameterError, "depth is -1"),
    "patches of no size": (lambda: ws.nn.models.ViT(patch=0, key=0), ParameterError, "patch is 0"),
    "stages of no blocks": (lambda: ws.nn.models.ResNet((-1, 1), key=0), ParameterError, r"blocks\[0\] is -1"),
    "stages of fewer": (lambda: ws.nn.models.ConvNeXt((-3, 1), key=0), ParameterError, r"blocks\[0\] is -3"),
}
"""Calls that raised an exception of the library's internals, each with its present error and message."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_told_in_words(name: str) -> None:
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()


def test_an_integer_beyond_int64_is_one_of_uint64() -> None:
    following = ws.jit(lambda x: x + 1)
    assert [following(x) for x in (5, 2**63, 7)] == [6, np.uint64(2**63) + 1, 8]
    assert following(2**63).dtype == np.uint64 and following(5).dtype == np.int64
