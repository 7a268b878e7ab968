"""The pool of threads: sleeping, dead and forked workers, the end of the process."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.hang import HANG
from tests.runtime import programs

from wholestep import config, errors
from wholestep.errors import WholestepError
from wholestep.runtime.cpu import core_count, thread_pool

N = 1000
X, W = np.arange(N, dtype=np.float32), np.full((), 3, np.float32)


@pytest.fixture(scope="module")
def multiply():
    return programs.multiply(N)


def right(program):
    return (program([X, W])[0] == X * W).all()


def asleep(found):
    return all(worker.asleep.value for worker in found._workers)


def wait_for(question):
    """Wait until a condition holds; one that never does is left to the time limit of the test run."""
    while not question():
        time.sleep(0.001)


def test_workers_fall_asleep_and_are_woken(multiply):
    with thread_pool.threads(3):
        for _ in range(3):
            assert right(multiply)
            wait_for(lambda: asleep(thread_pool.current_pool()))


def test_a_program_wakes_workers_that_fell_asleep_while_it_ran():
    """Two threads must run the shares, since the first share waits for the second."""
    with thread_pool.threads(2):
        meet = programs.meet()
        for _ in range(3):
            wait_for(lambda: asleep(thread_pool.current_pool()))
            assert meet([np.array(5)])[0] == 2 * 5


def test_shares_of_workers_that_never_come_are_done_by_the_caller(multiply, monkeypatch):
    class Absent(thread_pool.PoolWorker):
        def __init__(self, *_):
            pass

    monkeypatch.setattr(thread_pool, "PoolWorker", Absent)
    monkeypatch.setattr(thread_pool, "_pool", thread_pool.ThreadPool(4))
    assert thread_pool.current_pool().threads == 4
    for _ in range(3):
        assert right(multiply)


def test_a_pool_that_was_stopped_leaves_programs_working(multiply):
    found = thread_pool.ThreadPool(3)
    found.stop()
    assert not any(worker.thread.is_alive() for worker in found._workers)
    assert found.threads == 1
    found.resize(3)
    assert len(found._workers) == 2


def test_while_one_program_has_the_threads_another_runs_alone(multiply):
    state = np.zeros((), np.int64)
    instance = programs.count(parallel=True).instance([state])
    with thread_pool.threads(4):
        run = threading.Thread(target=instance, args=((np.array(2**60),),))
        run.start()
        wait_for(lambda: instance.trips)
        assert right(multiply) and run.is_alive()
        instance.stop()
        run.join()


def test_a_system_without_more_threads_gets_fewer(multiply, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_pool.PoolWorker, "__init__", refuse)
    found = thread_pool.ThreadPool(4)
    assert found.threads == 1
    monkeypatch.setattr(thread_pool, "_pool", found)
    assert right(multiply)


def test_the_number_of_threads_can_be_set_and_comes_back():
    before = thread_pool.thread_count()
    with thread_pool.threads(3):
        assert thread_pool.thread_count() == 3 == thread_pool.current_pool().threads
        with thread_pool.threads(1):
            assert thread_pool.current_pool().threads == 1
        assert thread_pool.current_pool().threads == 3
    assert thread_pool.thread_count() == before == thread_pool.current_pool().threads


@pytest.mark.parametrize("count", [0, -1, 257])
def test_a_useless_number_of_threads_is_refused(count):
    with pytest.raises(ValueError, match=f"threads: {count} is not a number from 1 to 256"):
        thread_pool.set_threads(count)


@pytest.mark.parametrize("value", ["0", "many", "-2", "1.5", "257", "²"])
def test_the_environment_is_checked(monkeypatch, value):
    monkeypatch.setenv("WHOLESTEP_THREADS", value)
    config.reread()
    with pytest.raises(ValueError, match="WHOLESTEP_THREADS is"):
        config.threads()
    config.reread()


def test_the_environment_decides(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_THREADS", " 5 ")
    config.reread()
    assert core_count.default_thread_count() == (5, "WHOLESTEP_THREADS")
    config.reread()


def test_threads_of_one_core_count_once(tmp_path):
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        place = tmp_path / f"cpu{cpu}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(siblings + "\n")
    assert [core_count.physical_cores(mask, tmp_path) for mask in ({0, 1, 2, 3}, {0, 2}, {3}, {0, 1}, {8, 9})] == [
        2,
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize("name", core_count.LOCAL_SIZES)
def test_processes_of_one_launcher_share_the_cores(name, monkeypatch):
    for other in core_count.LOCAL_SIZES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr(core_count, "physical_cores", lambda mask: len(mask))
    monkeypatch.setattr(core_count, "cgroup_cpu_quota", lambda: None)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(core_count, "cpu_affinity", lambda: set(range(8)))
    assert core_count.available_cores()[0] == 8
    for size, threads in (("1", 8), ("2", 4), ("3", 2), ("16", 1), ("many", 8)):
        monkeypatch.setenv(name, size)
        assert core_count.available_cores()[0] == threads
    monkeypatch.setenv(name, "4")
    monkeypatch.setattr(core_count, "cpu_affinity", lambda: {2, 3})
    assert core_count.available_cores()[0] == 2, "bound to cores by the launcher"


@pytest.mark.parametrize(
    ("text", "limit"), [("max 100000", None), ("150000 100000", 2), ("50000 100000", 1), ("", None)]
)
def test_the_quota_of_a_container_is_a_limit(tmp_path, text, limit):
    (tmp_path / "cpu.max").write_text(text)
    assert core_count.cgroup_cpu_quota(tmp_path / "cpu.max") == limit
    assert core_count.cgroup_cpu_quota(tmp_path / "missing") is None


FORKS = """
import os, sys, threading, time
import numpy as np
from tests.runtime import programs
from tests.runtime.test_pool import N, X, W, asleep, right, wait_for
from wholestep.runtime.cpu import thread_pool
from wholestep.errors import ForkedError

thread_pool.set_threads(3)
program = programs.multiply(N)
state = np.zeros((), np.int64)
endless = programs.count(parallel=True).instance([state])

def fork(check):
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = check()
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def refused():
    try:
        endless((np.array(1),))
    except ForkedError:
        return right(program)
    return False

for _ in range(int(sys.argv[1])):
    fork(lambda: right(program))           # spinning, or before there is a pool
    assert right(program)
    wait_for(lambda: asleep(thread_pool.current_pool()))
    fork(lambda: right(program) and right(program))
    run = threading.Thread(target=endless, args=((np.array(2**60),),))
    run.start()
    wait_for(lambda: endless.trips)
    fork(refused)                          # another thread is inside a program, and has the threads
    endless.stop()
    run.join()
    fork(lambda: [fork(lambda: right(program))] and endless((np.array(1),)) == ())
assert right(program)
"""

EXITS = {
    "spinning": "assert right(program)",
    "asleep": "assert right(program)\nwait_for(lambda: asleep(thread_pool.current_pool()))",
    "in a program": (
        "run = programs.count(parallel=True).instance([np.zeros((), np.int64)])\n"
        "threading.Thread(target=run, args=((np.array(2**60),),), daemon=True).start()\n"
        "wait_for(lambda: run.trips)"
    ),
    "at the very end": "import atexit\natexit.register(lambda: sys.exit(1) if not right(program) else None)",
    "with an error": "assert right(program)\nsys.exit(0 if right(program) else 1)",
}
"""The ways in which a process ends, each with its last statements."""

START = """
import sys, threading
import numpy as np
from tests.runtime import programs
from tests.runtime.test_pool import N, asleep, right, wait_for
from wholestep.runtime.cpu import thread_pool
thread_pool.set_threads(3)
program = programs.multiply(N)
"""


def run(script, *arguments):
    """Run a script in a fresh interpreter; it must end by itself, without a complaint."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], timeout=HANG, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_children_work_and_never_hang():
    run(FORKS, "4")


@pytest.mark.parametrize("case", EXITS)
def test_a_process_ends_cleanly(case):
    run(START + EXITS[case])


def test_state_torn_by_a_fork_is_refused():
    instance = programs.count().instance([np.zeros((), np.int64)])
    held, told = threading.Event(), threading.Event()

    def another():
        with instance._lock:
            held.set()
            told.wait()

    thread = threading.Thread(target=another)
    thread.start()
    held.wait()
    instance._forked()
    told.set()
    thread.join()
    with pytest.raises(errors.ForkedError, match="forked while another thread"):
        instance((np.array(1),))
    assert issubclass(errors.ForkedError, WholestepError)
