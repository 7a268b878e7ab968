"""The audits of checkpoints find nothing in correct code, and find each planted fault."""

import json
import re
import sys

import numpy as np
import pytest

from wholestep.cli import main
from wholestep.train.checkpoint import filesystem, read, write
from wholestep.train.data.text_corpus import corpus
from wholestep_tools.audit import page
from wholestep_tools.audit.endurance import stream
from wholestep_tools.audit.hostile import files
from wholestep_tools.audit.numerics import precisions
from wholestep_tools.audit.resumption import faults, kill, resume
from wholestep_tools.audit.trainings import jobs, stacks


def clean(found, **least):
    assert found["failures"] == 0, found["examples"]
    for what, n in least.items():
        assert found["checks"][what.replace("_", " ")] >= n
    json.dumps(found)


def test_training_resumes_to_the_bit():
    clean(
        resume.audit(20, 1, ["perceptron"], [(1, 2)]),
        interruptions=20,
        of_them_within_an_epoch=15,
        of_them_by_SIGTERM=5,
    )


def test_a_killed_process_loses_nothing(monkeypatch):
    monkeypatch.setattr(kill, "faults", lambda: faults.faults((1,)))
    clean(
        kill.audit(30, 2),
        kills=30,
        kills_that_left_something_half_written=3,
        **{"saves_with:_crash": 50, "saves_with:_interrupted": 50, "saves_with:_signal": 50},
    )


def test_any_file_is_read_or_refused(tmp_path, capsys):
    assert main(["audit", "files", "--count", "4000", "--seed", "3", "--record", str(tmp_path / "a.json")]) == 0
    assert "    4,000  files\n" in capsys.readouterr().out
    clean(json.loads((tmp_path / "a.json").read_text()), files=4_000, of_them_refused=3_000)


def test_half_precision_comes_to_the_same_loss():
    whole = corpus()
    small = whole._replace(test=whole.test[:3000])
    found = precisions.audit(60, 1, small, 16, 1)
    clean(found, steps_in_each_precision=60)
    assert list(found["measured"]) == ["float32", "bfloat16", "float16"]
    assert "| bfloat16 | " in "\n".join(page.section(found))


def losses(first, last, held_out):
    return {"first tenth": first, "last tenth": last, "held out": held_out, "steps left out": 0}


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"float32": losses(4.0, 3.5, 2.0)}, "float32: the loss went from 4.000 to 3.500"),
        ({"bfloat16": losses(4.0, 2.05, 2.0)}, r"bfloat16: last tenth 2.050, \+2.5% beside float32"),
        ({"float16": losses(4.0, 2.0, 1.9)}, "float16: held out 1.900, -5.0% beside float32"),
        ({"float16": losses(4.0, 2.0, np.nan)}, "float16: held out nan"),
    ],
)
def test_a_precision_that_is_off_is_found(measured, words):
    right = {name: losses(4.0, 2.0, 2.0) for name in ("float32", "bfloat16", "float16")}
    assert precisions.wrong(right) == []
    found = precisions.wrong({**right, **measured})
    assert any(re.search(words, line) for line in found)


@pytest.mark.skipif(sys.platform != "linux", reason="it uses what Linux says of a process")
def test_stacks_in_files_come_to_the_same_bits_under_a_limit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = stream.audit(2, 4, times=1.2, measure=False)
    clean(found, stacks_compared=2)
    assert (
        found["checks"]["megabytes of state of the large one"] > found["checks"]["megabytes that its process may have"]
    )


def test_a_stack_with_other_bits_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks.Stack, "batch", lambda self, seed: BATCHES.pop())
    drawn = stacks.Stack("plain", 2, 100, 1, "momentum", True, 1, 1)
    monkeypatch.setattr(stream, "drawn", lambda rng: drawn)
    BATCHES[:] = [np.full((1, 100), 0.1 * i, np.float32) for i in range(2 * stream.STEPS)]
    assert len(stream.compared(1, 0, tmp_path)) == 1


BATCHES = []


def test_a_limit_that_says_nothing_is_noticed():
    large = {"hwm": 5, "limit": 6, "refused": False}
    assert stream.judged(large, {"refused": True}) == []
    assert "in memory had enough" in stream.judged(large, {"refused": False})[0]
    assert "resident" in stream.judged({**large, "hwm": 7}, {"refused": True})[0]
    assert "too little" in stream.judged({"refused": True}, {"refused": True})[0]
    assert stream.judged({"died": "gone"}, {"refused": True}) == ["gone"]


def test_a_record_needs_a_place(tmp_path, capsys):
    assert main(["audit", "files", "--record", str(tmp_path / "none" / "a.json")]) == 1
    assert "no folder" in capsys.readouterr().err


def unsynced(to, path, pieces):
    """A file written without waiting for it."""
    file = to.create(path)
    for piece in pieces:
        to.write(file, memoryview(piece))
    to.close(file)


def in_place(to, path, pieces):
    """A file written over the one that is there."""
    if path.exists():
        path.unlink()
    filesystem.write_new(to, path, pieces)


def without_previous(to, path):
    """A file moved away before there is another one."""
    if path.exists():
        to.replace(path, filesystem.previous(path))


def named_too_soon(to, path, pieces):
    """A manifest that is there before its parts."""
    parts = [*path.parent.glob("part-*")]
    contents = [part.read_bytes() for part in parts]
    for part in parts:
        part.unlink()
    SWAP(to, path, pieces)
    for part, content in zip(parts, contents, strict=True):
        filesystem.write_new(to, part, [content])


SWAP = filesystem.swap
PLANTED = [
    ("write_new", unsynced, "power cut"),
    ("swap", in_place, "crash"),
    ("swap", named_too_soon, "crash"),
    ("keep_previous", without_previous, "crash"),
    ("remove_file", lambda to, path: None, "full"),
]


@pytest.mark.parametrize(("name", "planted", "fault"), PLANTED, ids=[p[1].__name__ for p in PLANTED])
def test_a_fault_of_the_writer_is_found(monkeypatch, name, planted, fault):
    monkeypatch.setattr(faults, "FAULTS", (fault,))
    monkeypatch.setattr(filesystem, name, planted)
    assert any(wrong for _, wrong in faults.tries((1,)))


def test_a_reader_that_believes_is_found(monkeypatch):
    monkeypatch.setattr(read.TensorFile, "intact", lambda *_: True)
    found = files.audit(300, 0)
    assert found["failures"]


@pytest.mark.parametrize("error", [MemoryError, AttributeError, AssertionError])
def test_another_error_is_found(monkeypatch, error):
    def failing(*_):
        raise error

    monkeypatch.setattr(read, "single", failing)
    found = files.audit(20, 0)
    assert found["failures"] and error.__name__ in found["examples"][2]


def test_other_bits_are_found(monkeypatch):
    def answered(orders, threads):
        return [{"within": True, "sha256": "ab"[i % 5 == 1 and "load" in order]} for i, order in enumerate(orders)]

    monkeypatch.setattr(resume, "answers", answered)
    found = resume.audit(10, 0, ["perceptron"])
    assert 0 < found["failures"] < 10 and "another state" in found["examples"][0]


def test_a_process_that_dies_is_a_failure(monkeypatch):
    monkeypatch.setattr(resume.sys, "executable", "/bin/false")
    found = resume.audit(4, 0, ["perceptron"], [(1, 1)])
    assert found["failures"] == 4 and "ended with" in found["examples"][0]


@pytest.mark.parametrize("name", list(jobs.JOBS))
def test_a_job_learns(name):
    job = jobs.JOBS[name]()
    losses = job.step(1).run(job.data, 2, job.size).losses
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_a_hash_sees_every_bit():
    state = {"a": np.zeros(2), "b": np.zeros(2)}
    seen = {
        jobs.sha256(state),
        jobs.sha256({**state, "a": -state["a"]}),
        jobs.sha256({"a": state["a"], "c": state["b"]}),
    }
    seen.add(jobs.sha256({**state, "a": np.zeros(2, np.int64)}))
    assert len(seen) == 4


def test_names_of_parts():
    assert write.is_part_name("part-0123456789abcdef-1-of-2.safetensors")
    assert not any(map(write.is_part_name, ["part-x.safetensors", "../part-0123456789abcdef-1-of-2.safetensors", 3]))
