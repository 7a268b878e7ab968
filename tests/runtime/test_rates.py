"""The rates of a machine: measured when asked for, kept, found again, and believed only where they fit."""

from __future__ import annotations

import io
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest

import wholestep as ws
from wholestep import config
from wholestep.cli import doctor
from wholestep.compiler.driver import compile_graph
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates, count_kernel, microseconds, vector_instructions
from wholestep.lower.program.steps import Launch
from wholestep.runtime.cache import private_folder
from wholestep.runtime.cpu import core_count, machine_rates, thread_pool
from wholestep.train import calibrate as measuring

FAST = DEFAULT_RATES._replace(contraction=3e11, cores=7)
needs_folders = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="the system has no such folders")


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A folder of its own, and nothing known."""
    monkeypatch.setenv("WHOLESTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine_rates, "_rates", {})
    config.reread()
    yield tmp_path / "cache"
    monkeypatch.undo()
    config.reread()


def another_process(monkeypatch):
    monkeypatch.setattr(machine_rates, "_rates", {})


def test_without_a_measurement_the_defaults_hold(place):
    assert machine_rates.current_rates() == DEFAULT_RATES and machine_rates.measured_rates() is None
    assert not place.exists()


@needs_folders
def test_what_was_measured_holds_here_and_in_later_processes(monkeypatch, place):
    assert machine_rates.store_rates(FAST)
    assert machine_rates.current_rates() == FAST
    another_process(monkeypatch)
    monkeypatch.setattr(
        measuring, "measured", lambda: pytest.fail("it is measured when that is asked for, and only then")
    )
    assert machine_rates.current_rates() == FAST
    assert [f.parent.name for f in place.rglob("*.code")] == [machine_rates.FOLDER_NAME]
    assert ws.estimate(lambda w, x: np.mean(w * x), np.ones(3), batch=np.ones(3)).cost().rates == FAST


def deep(w, x):
    for _ in range(6):
        x = np.tanh(np.sin(x) @ w)
    return np.mean(x * x)


def test_programs_planned_afterwards_are_planned_with_them():
    w, x = np.full((40, 40), 0.1, np.float32), np.ones((300, 40), np.float32)

    def made():
        return ws.compile(deep, w, optimizer=ws.optim.sgd(0.1), batch=x, memory_budget="75%")

    before, by_default = made(), made().plan.decisions
    slow = DEFAULT_RATES._replace(
        **{name: getattr(DEFAULT_RATES, name) / 1000 for name in ("contraction", "elementwise", "cache")}
    )
    machine_rates.store_rates(
        slow._replace(memory=DEFAULT_RATES.memory / 1000, memory_all=DEFAULT_RATES.memory_all / 1000, cached=1e9)
    )
    after = made().plan.decisions
    assert by_default and min(d.microseconds for d in after) > 20 * max(d.microseconds for d in by_default)
    # A step that was compiled before keeps its plan, even if that is asked for only now.
    assert before.plan.decisions == by_default


@needs_folders
@pytest.mark.parametrize(
    "facts",
    [
        {"measured": 1.0, "rates": {"contraction": 1e9}},
        {"measured": 1.0, "rates": FAST._asdict() | {"speed": 1.0}},
        {"measured": 1.0, "rates": FAST._asdict() | {"memory": 0.0}},
        {"measured": 1.0, "rates": FAST._asdict() | {"memory": math.nan}},
        {"measured": 1.0, "rates": FAST._asdict() | {"memory": "fast"}},
        {"measured": 1.0, "rates": FAST._asdict() | {"cores": True}},
        {"measured": 1.0, "rates": 7},
        {"rates": FAST._asdict()},
        {},
    ],
)
def test_rates_that_do_not_fit_are_not_believed(facts):
    machine_rates.rates_folder().put(machine_rates.machine_key(), private_folder.CacheEntry((), facts))
    assert machine_rates.current_rates() == DEFAULT_RATES


@needs_folders
def test_a_damaged_file_is_not_believed(monkeypatch, place):
    machine_rates.store_rates(FAST)
    (file,) = place.rglob("*.code")
    file.write_bytes(file.read_bytes().replace(b"300000000000.0", b"900000000000.0"))
    another_process(monkeypatch)
    assert machine_rates.current_rates() == DEFAULT_RATES


@needs_folders
def test_another_machine_has_rates_of_its_own(monkeypatch):
    machine_rates.store_rates(FAST)
    monkeypatch.setattr(core_count, "available_cores", lambda: (1234, "a test"))
    assert machine_rates.current_rates() == DEFAULT_RATES
    monkeypatch.undo()


@needs_folders
def test_a_folder_that_others_can_read_is_refused(place):
    place.mkdir(mode=0o700)
    (place / machine_rates.FOLDER_NAME).mkdir()
    (place / machine_rates.FOLDER_NAME).chmod(0o755)
    with pytest.raises(private_folder.FolderUnusable, match="open to other users"):
        machine_rates.store_rates(FAST)
    machine_rates._rates.clear()
    assert machine_rates.current_rates() == DEFAULT_RATES


def test_without_a_folder_they_hold_for_this_process(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    config.reread()
    assert not machine_rates.store_rates(FAST)
    assert machine_rates.current_rates() == FAST
    another_process(monkeypatch)
    assert machine_rates.current_rates() == DEFAULT_RATES


def told():
    out = io.StringIO()
    doctor.doctor(out)
    lines = out.getvalue().splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["calibration"])
    return " ".join(lines[at : at + 2])


def test_the_doctor_says_whether_it_was_done():
    assert "not done" in told()
    machine_rates.store_rates(FAST)
    assert "300 GFLOP/s" in told() and "7 cores" in told()


# Measuring.


def test_a_measurement_is_of_this_machine_and_kept(monkeypatch):
    monkeypatch.setattr(measuring, "ROUNDS", 1)
    monkeypatch.setattr(measuring, "LARGE", 1 << 20)
    monkeypatch.setattr(measuring, "SIZES", [1 << 16, 1 << 20])
    monkeypatch.setattr(measuring, "SPILLED", 1 << 20)
    threads = thread_pool.thread_count()
    found = ws.calibrate()
    assert found == machine_rates.current_rates() != DEFAULT_RATES
    assert all(math.isfinite(x) and x > 0 for x in found)
    assert found.cores == core_count.available_cores()[0] and found.vector in (16, 32, 64)
    assert found.memory <= found.memory_all and found.launch < 1e-4
    assert thread_pool.thread_count() == threads


def test_the_model_says_what_was_measured():
    """Rates fitted to made-up times predict these times."""
    x, square = np.ones(1 << 15, np.float32), np.ones((64, 64), np.float32)

    def kernel(f, *arrays):
        launches = [s for s in compile_graph(ws.jit(f).lower(*arrays)).plan.launches()]
        return max(launches, key=lambda s: count_kernel(s.kernel).flops)

    launches = {
        "product": kernel(lambda a, b: a @ b, square, square),
        "chain": kernel(lambda x: np.tanh(np.exp(-x)), x),
        "near": kernel(lambda x, y: x * 0.5 + y, x, x),
        "far": kernel(lambda x, y: x * 0.5 + y, np.ones(1 << 22, np.float32), np.ones(1 << 22, np.float32)),
    }
    times = {"product": 3e-5, "chain": 4e-4, "near": 2e-4, "far": 0.5}
    programs = {
        name: SimpleNamespace(kernel=launch.kernel, alone=times[name], shared=times[name] / 2)
        for name, launch in launches.items()
    }
    begun = SimpleNamespace(trip=1e-6, program=SimpleNamespace(plan=SimpleNamespace(steps=())))
    moved = SimpleNamespace(copy=1e9, write=1e8, read=1e8, cached=lambda: 1.0)
    found = measuring.rates_of(programs, begun, moved)
    assert isinstance(found, Rates) and found.launch == 1e-6
    alone = found._replace(cores=1, launch=0.0)
    near = alone._replace(cached=1e9)

    def predicted(name, by):
        return microseconds(Launch(launches[name].kernel, ()), by) / 1e6

    assert predicted("product", near._replace(elementwise=1e15, cache=1e15)) == pytest.approx(times["product"])
    assert predicted("chain", near) == pytest.approx(times["chain"])
    assert predicted("near", near._replace(elementwise=1e15)) == pytest.approx(times["near"])
    assert predicted("far", alone._replace(elementwise=1e15, cached=1e-9)) == pytest.approx(times["far"])
    assert found.memory_all == pytest.approx(2 * found.memory)
    assert vector_instructions(launches["product"].kernel, found.vector)[0] * found.vector / 4 == 64**3


def test_a_kernel_that_runs_for_several_blocks_is_timed_by_one():
    squares = [np.ones((side, side), np.float32) for side in (measuring.SIDE, 2 * measuring.SIDE, 4 * measuring.SIDE)]
    timings = [measuring.Timed(lambda a, b: a @ b, square, square) for square in squares]
    counts = [timed.recorder(timed.arrays).runs for timed in timings]
    several = [n for n, runs in enumerate(counts) if runs[timings[n].number] > 1]
    assert several, "a matrix of four times the side has blocks of columns that are alike, at every width of vectors"
    timed, runs = timings[several[0]], counts[several[0]]
    count = runs[timed.number]
    timed.recorder = lambda arrays: SimpleNamespace(runs=runs, nanoseconds=[3e3 * count] * len(runs))
    assert timed.seconds() == 3e-6


def test_the_size_of_the_caches_is_where_memory_begins():
    moved = SimpleNamespace(sums={1 << n: 1e11 if n < 20 else 1e10 for n in measuring_sizes()})
    assert measuring.Moved.cached(moved) == 12 * (1 << 19)


def measuring_sizes():
    return [int(math.log2(n)) for n in measuring.SIZES]
