"""Small audits of processes, bits, rounding, guards and the cache find nothing but planted faults."""

import json
import math
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from wholestep.runtime.cache import private_folder
from wholestep.runtime.memory import aligned
from wholestep.train.checkpoint import read
from wholestep.train.inspect import diagnose
from wholestep.train.state import loss_scaling
from wholestep_tools.audit import AUDITS
from wholestep_tools.audit.caching import entries, folders, keys
from wholestep_tools.audit.endurance import allocations, calls, sharing
from wholestep_tools.audit.guards import alarms, origins, scales
from wholestep_tools.audit.numerics import modes, sums
from wholestep_tools.audit.resumption import damage, twins

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads what Linux says of a process")
SMALL = [
    pytest.param("entries", 300),
    pytest.param("keys", 20),
    pytest.param("folders", 1),
    pytest.param("threads", 20),
    pytest.param("allocations", 1),
    pytest.param("origins", 32),
    pytest.param("scales", 2),
    pytest.param("alarms", 5),
    pytest.param("damage", 200),
    pytest.param("sums", 200),
    pytest.param("modes", 1, marks=LINUX),
]


@pytest.mark.parametrize(("name", "count"), SMALL)
def test_nothing_is_found(name, count):
    found = AUDITS[name].run(count, 1)
    assert found["failures"] == 0, found["examples"]
    json.dumps(found)


@LINUX
def test_a_process_of_its_own_keeps_no_programs():
    """A process of its own, since other tests change the memory of theirs."""
    command = [sys.executable, "-m", "wholestep", "audit", "shapes", "--count", "5", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_twins_end_alike(monkeypatch):
    monkeypatch.setattr(twins, "THREADS", (1, 2))
    found = twins.audit(1, 1, steps=32)
    assert found["failures"] == 0 and found["checks"]["ends compared"] == 10


def found(audit, count=1, **options):
    made = audit(count, 1, **options)
    assert made["failures"], "nothing was found"
    return made["examples"][0]


def test_an_entry_that_is_believed(monkeypatch):
    monkeypatch.setattr(private_folder, "decode_entry", lambda name, data: entries.ENTRY)
    assert "believed" in found(entries.audit, 20)


def test_a_key_without_the_program(monkeypatch):
    monkeypatch.setattr(keys, "graph_fingerprint", lambda graph: "the same")
    assert "key" in found(keys.audit, 2)


def test_a_trouble_that_nobody_hears_of(monkeypatch):
    monkeypatch.setattr(folders, "TROUBLES", {"none": (lambda folder: nullcontext(), "words")})
    assert "warnings" in found(folders.audit)


def test_a_thread_with_other_bits(monkeypatch):
    made = sharing.made
    monkeypatch.setattr(sharing, "made", lambda rows: other_start(made(rows)))
    assert "bits" in found(sharing.audit, 2)


def other_start(step):
    step.set(lr=float(np.random.default_rng().uniform(1e-3, 1e-2)))
    return step


@LINUX
def test_calls_that_keep_something(monkeypatch):
    kept, tiny = [], calls.ws.compile

    def compiled(*args, **options):
        step = tiny(*args, **options)
        call = type(step).__call__
        return Keeping(step, call, kept)

    monkeypatch.setattr(calls.ws, "compile", compiled)
    assert any("objects more" in failure for failure in calls.audit(100, 1)["examples"])


class Keeping:
    """A step that keeps a list for each call."""

    def __init__(self, step, call, kept):
        self.step, self.call, self.kept = step, call, kept

    def __call__(self, batch):
        self.kept.append([self.kept])
        return self.call(self.step, batch)

    def __getattr__(self, name):
        return getattr(self.step, name)


def test_an_allocation_that_nobody_notices(monkeypatch):
    monkeypatch.setattr(allocations, "ACTIONS", {"call": swallowing})
    assert "nobody noticed" in found(allocations.audit)


def swallowing(step, folder):
    try:
        allocations.executable.aligned_empty((3,), "f4")
    except MemoryError:
        return aligned.aligned_empty


def test_a_fault_that_another_operation_is_blamed_for(monkeypatch):
    monkeypatch.setattr(diagnose, "operation_name", lambda node: "another")
    assert "is blamed" in found(origins.audit)


def test_a_scale_that_goes_another_way(monkeypatch):
    monkeypatch.setattr(loss_scaling, "LEAST", 2.0**20)
    assert "the scale is" in found(scales.audit)


def test_an_alarm_without_a_fault(monkeypatch):
    monkeypatch.setattr(
        alarms, "LOSSES", {"bad": lambda params, batch: np.mean(np.log(batch["x"] * 0)) + params["w"].sum()}
    )
    with np.errstate(all="ignore"):
        assert "step 0 is skipped" in found(alarms.audit)


def test_a_damage_that_is_believed(monkeypatch):
    monkeypatch.setattr(read.TensorFile, "intact", lambda *_: True)
    assert "it was read" in found(damage.audit, 400)


def test_a_sum_that_is_off(monkeypatch):
    wrong = sums.REDUCTIONS["sum"]._replace(exact=lambda x, y: math.fsum(x) + 0.01 * math.fsum(abs(x)))
    monkeypatch.setattr(sums, "REDUCTIONS", {"sum": wrong})
    assert "units" in found(sums.audit, 5)


@LINUX
def test_a_mode_that_is_left_on(monkeypatch):
    training = modes.training
    monkeypatch.setattr(modes, "training", lambda *seed: Leaving(training(*seed)))
    assert "compiling leaves 0x9fc0" in found(modes.audit)
    modes.set_control(modes.library(), 0x1F80)


class Leaving:
    """A training that leaves flushing on."""

    def __init__(self, made):
        self.made, self.batches = made, made.batches

    def step(self):
        modes.set_control(modes.library(), 0x9FC0)
        return self.made.step()
