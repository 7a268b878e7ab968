"""`step.profile` on a card: every launch is timed and counted as often as it ran, and the step stays as it was."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.cards import device_for_tests

import wholestep as ws
from wholestep import tree
from wholestep.errors import BoundsError, UnsupportedError
from wholestep.lower.program.steps import Launch, RoutineCall, walk_steps
from wholestep.runtime.gpu import profiler

INNER = 24
RNG = np.random.default_rng(3)
PARAMS = {"w": RNG.normal(size=(9, 40)).astype("f"), "u": RNG.normal(size=(INNER, INNER)).astype("f")}
BATCH = {"x": RNG.normal(size=(16, 9)).astype("f"), "rows": np.arange(8), "most": np.float32(0.4)}


@pytest.fixture(params=["opencl", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with device_for_tests(request.param) as name:
        yield name


def loss(params: Any, batch: Any) -> Any:
    h = np.tanh(batch["x"] @ params["w"])[:, :INNER]
    h = ws.scan(lambda h, _: (np.tanh(h @ params["u"]), None), h, None, 5)[0]
    h = ws.while_loop(lambda h: np.sum(h * h) > batch["most"], lambda h: h * 0.5, ws.stop_gradient(h)) + h
    return np.mean(h[batch["rows"]] ** 2)  # this line


def made(device: str, **options: Any) -> Any:
    return ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, device=device, **options)


def same(a: Any, b: Any) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True))


def test_a_profile_leaves_the_step_as_it_was(device: str) -> None:
    one, other = made(device), made(device)
    for _ in range(3):
        one(BATCH), other(BATCH)
    before = one.state
    one.profile(BATCH, calls=2)
    assert same(one.state, before)
    for _ in range(3):
        assert one(BATCH).loss == other(BATCH).loss
    assert same(one.state, other.state)


def test_times_events_and_runs_agree(device: str, tmp_path: Path) -> None:
    step = made(device)
    found = step.profile(BATCH, calls=2)
    record = found.record
    assert 0 < found.inside <= found.microseconds and record.missing == 0
    sums, runs = [0.0] * len(record.runs), [0] * len(record.runs)
    for event in record.events:
        sums[event.step] += event.end - event.begin
        runs[event.step] += 1
    assert sums == pytest.approx(record.nanoseconds) and tuple(runs) == record.runs
    for a, b in itertools.pairwise(record.events):
        assert a.end <= b.begin
    assert max(runs) >= 5, "the launches of the loop"
    assert sum(line.microseconds for line in found.lines) == pytest.approx(found.inside)
    assert any("# this line" in line.line or "this line" in line.line for line in found.lines)
    found.save(tmp_path / "trace.json")
    slices = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == len(record.events) and "more" in str(found)


def test_every_launch_is_of_steps_of_the_plan(device: str) -> None:
    step = made(device)
    program = step._engine.main.program
    timed = program.profiler(step._engine.main.instance.state).timed
    known = [id(s) for s in walk_steps(program.plan.steps) if isinstance(s, Launch | RoutineCall)]
    of_launches = [id(s) for group in timed for s in group]
    assert all(timed) and set(of_launches) <= set(known) and len(of_launches) == len(set(of_launches))
    assert len(timed) < len(known), "some are joined"
    if device == "cuda":  # the host computes nothing in its place
        assert set(of_launches) == set(known)


def test_a_long_run_is_read_in_parts_and_says_what_it_leaves_out(device: str, monkeypatch: Any) -> None:
    step = made(device)
    expected = step.profile(BATCH, calls=1).record
    monkeypatch.setattr(profiler, "READ_EVERY", 3)
    monkeypatch.setattr(profiler, "MAX_EVENTS", 5)
    found = step.profile(BATCH, calls=1).record
    assert found.runs == expected.runs and len(found.events) == 5
    assert found.missing == len(expected.events) - 5


def test_several_steps_a_call(device: str) -> None:
    stacked = {name: np.stack([x] * 3) for name, x in BATCH.items()}
    step = ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=stacked, device=device, steps_per_call=3)
    assert max(step.profile(stacked, calls=1).record.runs) >= 15


def test_an_index_out_of_bounds_is_raised_and_changes_nothing(device: str) -> None:
    step = made(device)
    before = step.state
    with pytest.raises(BoundsError, match="out of bounds"):
        step.profile(BATCH | {"rows": np.full(8, 99)})
    assert same(step.state, before)
    assert step.profile(BATCH, calls=1).inside > 0


def test_a_device_without_a_clock_says_so() -> None:
    with device_for_tests("webgpu") as device:
        with pytest.raises(UnsupportedError, match="without the length of a tick"):
            made(device).profile(BATCH)
