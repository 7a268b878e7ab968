"""Native programs: calls, resident state, errors, interruption, threads, floating-point state."""

import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.runtime import programs

from wholestep.backends.cpu.llvm_jit import CodeError
from wholestep.errors import BoundsError, DtypeError, ShapeError, here
from wholestep.runtime.cpu import ndarray_reader, thread_pool
from wholestep.runtime.cpu.artifact import Artifact
from wholestep.runtime.error_sites import ErrorSite
from wholestep.train.program.interruptible import run_in_thread

N = 1000


@pytest.fixture(scope="module")
def multiply():
    return programs.multiply(N)


def sample(n=N):
    return np.arange(n, dtype=np.float32) / 7, np.float32(0.1) + np.zeros((), np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_every_share_is_done_once_by_any_number_of_threads(n, threads):
    x, w = sample(n)
    with thread_pool.threads(threads):
        (y,) = programs.multiply(n)([x, w])
    assert (y == x * w).all()


def test_a_plain_call_returns_fresh_arrays(multiply):
    x, w = sample()
    (first,), (second,) = multiply([x, w]), multiply([x + 1, w])
    assert (first == x * w).all() and (second == (x + 1) * w).all()


def test_an_instance_writes_its_state_and_reuses_its_results(multiply):
    x, w = sample()
    program = programs.multiply(N, resident=((0, 0),))
    assert (program([x, w])[0] == x * w).all() and (x == sample()[0]).all()
    state = x.copy()
    instance = program.instance([state])
    assert instance((w,)) == () and (state == x * w).all()
    assert instance([w]) == () and (state == x * w * w).all()
    assert multiply.instance([])((x, w)) is not multiply.instance([])((x, w))
    fresh = multiply.instance([])
    assert fresh((x, w)) is fresh((x + 1, w))


@pytest.mark.parametrize("brief", [True, False], ids=["brief", "long"])
@pytest.mark.parametrize("reader", [True, False], ids=["native", "python"])
@pytest.mark.parametrize(
    "turn",
    [
        lambda x: x,
        lambda x: x[::-1],
        lambda x: np.asfortranarray(np.tile(x, (2, 1)).T)[:, 0],
        lambda x: x.view(np.matrix).A1,
        lambda x: x.view(type("Mine", (np.ndarray,), {})),
        lambda x: np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float32),
        lambda x: np.frombuffer(x.tobytes(), np.float32),
    ],
    ids=["plain", "reversed", "strided", "matrix", "subclass", "unaligned", "read-only"],
)
def test_arrays_of_every_kind_are_read_right(turn, reader, brief, monkeypatch):
    x, w = sample()
    if not reader:
        monkeypatch.setattr(ndarray_reader, "array_object_layout", lambda: None)
    program = programs.multiply(N, parallel=False, microseconds=1.0 if brief else 1e6)
    instance = program.instance([])
    given = turn(x)
    for scalar in (w, w[()]):
        (y,) = instance((given, scalar))
        assert (y == np.asarray(given) * w).all()
        assert (program([given, scalar])[0] == y).all()


def test_the_native_reader_is_used_where_it_can_be():
    known = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
    assert (ndarray_reader.array_object_layout() is not None) == known


def test_an_interpreter_that_is_laid_out_differently_is_found_out(monkeypatch):
    ndarray_reader.array_object_layout.cache_clear()
    monkeypatch.setattr(ndarray_reader, "C_ORDER_AND_ALIGNED", 0x102)
    assert ndarray_reader.array_object_layout() is None
    ndarray_reader.array_object_layout.cache_clear()


def test_an_instance_may_be_given_its_own_results(multiply):
    x, w = sample()
    instance = multiply.instance([])
    (y,) = instance((x, w))
    (z,) = instance((y, y[1]))
    assert z is y and (z == (x * w) * (x * w)[1]).all()


@pytest.mark.parametrize("brief", [True, False], ids=["brief", "long"])
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros(N), DtypeError, r"call: x must be f32\[1000\], not f64\[1000\]"),
        (np.zeros(N, ">f4"), DtypeError, "call: x must be"),
        (np.zeros(N - 1, "f4"), ShapeError, r"call: x must be f32\[1000\], not f32\[999\]"),
        (np.zeros((1, N), "f4"), ShapeError, r"not f32\[1, 1000\]"),
        (np.zeros((), "f4"), ShapeError, "not f32"),
        ([0.0] * N, DtypeError, "not list"),
        (None, DtypeError, "not NoneType"),
    ],
    ids=["dtype", "byte order", "size", "rank", "scalar", "list", "none"],
)
def test_a_wrong_array_is_refused(x, error, message, brief):
    program = programs.multiply(N, parallel=False, microseconds=1.0 if brief else 1e6)
    with pytest.raises(error, match=message):
        program.instance([])((x, sample()[1]))
    with pytest.raises(error, match=message):
        program([x, sample()[1]])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_arrays_is_refused(multiply, count):
    arrays = [sample()[0]] * count
    for call in (multiply, multiply.instance([])):
        with pytest.raises(ShapeError, match=f"takes 2 arrays, not {count}"):
            call(arrays)


@pytest.mark.parametrize(
    "state",
    [np.zeros(N + 1, "f4"), np.zeros(N), np.zeros(2 * N, "f4")[::2], np.frombuffer(bytes(4 * N), "f4")],
    ids=["shape", "dtype", "strided", "read-only"],
)
def test_state_that_cannot_be_written_in_place_is_refused(state):
    with pytest.raises(ShapeError, match="x must be"):
        programs.multiply(N, resident=((0, 0),)).instance([state])


def test_state_that_shares_memory_is_refused():
    program = programs.multiply(N, resident=((0, 0), (1, 1)), outputs=(3, 2))
    state = np.zeros(N, np.float32)
    program.instance([state, np.zeros((), np.float32)])
    with pytest.raises(ShapeError, match="two resident arrays share memory"):
        program.instance([state, state[N - 1 :].reshape(())])


def test_outputs_in_one_slot_are_refused():
    with pytest.raises(CodeError, match="two outputs have one slot"):
        programs.multiply(N, outputs=(3, 3))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_index_out_of_bounds_is_named_with_its_line(threads):
    keys = np.arange(1000) % 10
    keys[[900, 300, 301, 700]] = [50, 12, 13, -2]
    with thread_pool.threads(threads), pytest.raises(BoundsError) as caught:
        programs.pick(1000, 10, here())([keys])
    assert "indexing: index 12 is out of bounds for axis 0 with size 10" in str(caught.value)
    assert f"{Path(__file__).name}" in str(caught.value)


def test_the_message_is_that_of_the_reference():
    with pytest.raises(IndexError) as numpys:
        np.zeros(10)[np.array([12])]
    assert str(ErrorSite("bounds", None).error(12, 0, 10)).startswith(f"indexing: {numpys.value}")
    assert type(ErrorSite("linalg", None, "Singular matrix").error(0, 0, 0)) is np.linalg.LinAlgError


def test_a_failed_run_is_forgotten_by_the_next():
    program = programs.pick(3, 10)
    instance = program.instance([])
    good, bad = np.array([1, 2, 3]), np.array([1, 10, 3])
    for _ in range(3):
        with pytest.raises(BoundsError):
            instance((bad,))
        assert (instance((good,))[0] == good).all()


def test_stop_ends_the_loop_with_whole_trips():
    state = np.zeros((), np.int64)
    instance = programs.count().instance([state])
    run = threading.Thread(target=instance, args=([np.array(2**60)],))
    run.start()
    while not instance.trips:
        pass
    instance.stop()
    run.join()
    assert instance.trips == state > 0
    instance((np.array(5),))
    assert instance.trips == 5


def test_ctrl_c_ends_a_long_run_and_raises_nothing():
    state = np.zeros((), np.int64)
    instance = programs.count().instance([state])

    def press():
        while not instance.trips:
            pass
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    assert run_in_thread(instance, (np.array(2**60),)) == ((), True)
    finger.join()
    assert instance.trips == state > 0


def test_callers_in_many_threads_get_their_own_results(multiply):
    x, w = sample()
    wrong = []

    def call(k):
        for i in range(200):
            if not (multiply([x + k, w])[0] == (x + k) * w).all():
                wrong.append((k, i))

    callers = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    with thread_pool.threads(3):
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert not wrong


def test_calls_of_one_instance_are_serialised():
    state = np.zeros((), np.int64)
    instance = programs.count().instance([state])
    callers = [threading.Thread(target=lambda: [instance((np.array(1000),)) for _ in range(50)]) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert state == 8 * 50 * 1000


@pytest.mark.parametrize("threads", [1, 4])
def test_denormals_are_flushed_inside_and_nowhere_else(multiply, threads):
    x, w = np.full(N, 1e-30, np.float32), np.full((), 1e-10, np.float32)
    before = x * w
    assert (before > 0).all()
    with thread_pool.threads(threads):
        for _ in range(20):
            assert (multiply([x, w])[0] == 0).all()
            assert (multiply([before, np.full((), 2**20, np.float32)])[0] == 0).all()
    assert (x * w == before).all()


def test_a_program_that_is_dropped_is_unloaded():
    program = programs.multiply(10)
    unload = program._code._unload
    program(sample(10))
    instance = program.instance([])
    del program
    assert unload.alive and len(instance(sample(10))) == 1
    del instance
    assert not unload.alive


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_programs_and_calls_leave_nothing_behind():
    x, w = sample(10)

    def cycles(n):
        for _ in range(n):
            instance = programs.multiply(10, resident=((0, 0),)).instance([x.copy()])
            for _ in range(1000):
                instance((w,))
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    # The allocator takes a MiB or two from the system at once, in any program; a leak grows in every round.
    rounds = [cycles(20)]
    while len(rounds) < 5:
        rounds.append(cycles(60))
        if rounds[-1] - rounds[-2] < 2**20:
            return
    raise AssertionError(f"the process grows in every round: {rounds}")


def test_constants_lie_where_the_code_expects_them():
    values = np.arange(12, dtype=np.float32)[::2], np.array(2.5, np.float32), np.zeros((0, 3))
    slots = (programs.slot("constant", "u1", 128), programs.slot("input", "f4", 6))
    blob = Artifact((), "", slots, (1,), (), values, (0, 64, 128)).pool_of_constants(0)
    assert blob[:24].tobytes() == values[0].tobytes() and blob[64:68].tobytes() == values[1].tobytes()
    assert blob.ctypes.data % 64 == 0 and not blob.flags.writeable
