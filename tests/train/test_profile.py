"""Costs and times of a step: its state is left alone, loops and branches count as they ran, the trace is whole."""

from __future__ import annotations

import doctest
import itertools
import json

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import object_code
from wholestep.backends.cpu.profiled_entry import notes_text
from wholestep.errors import BoundsError, ParameterError, ShapeError, UnsupportedError
from wholestep.lower.program.steps import ForLoop, Launch, RoutineCall, walk_steps
from wholestep.runtime.cpu import machine_rates, profiler
from wholestep.train import calibrate
from wholestep.train.inspect import inspection, profile
from wholestep.train.step import estimate

ROWS, INNER, WIDE = 64, 24, 1100
"""WIDE * ROWS is large enough to be shared among threads."""


def loss(params, batch):
    h = np.tanh(batch["x"] @ params["w"])
    h = ws.scan(lambda h, _: (np.tanh(h @ params["u"]), None), h[:, :INNER], None, 5)[0]
    h = ws.while_loop(lambda h: np.sum(h * h) > batch["most"], lambda h: h * 0.5, ws.stop_gradient(h)) + h
    h = ws.cond(batch["most"] > 0, lambda h: h + 1.0, lambda h: np.sin(np.cos(h)), h)
    return np.mean(h[batch["rows"]] ** 2) + np.mean((batch["x"] @ params["w"]) ** 2)


def given(most=0.4):
    rng = np.random.default_rng(3)
    params = {"w": rng.normal(size=(9, WIDE)).astype("f"), "u": rng.normal(size=(INNER, INNER)).astype("f")}
    rows = rng.integers(0, ROWS, 20)
    return params, {"x": rng.normal(size=(ROWS, 9)).astype("f"), "rows": rows, "most": np.float32(most)}


@pytest.fixture(scope="module")
def step():
    params, batch = given()
    made = ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch)
    made(batch)
    return made


@pytest.fixture(scope="module")
def profiled(step):
    return step.profile(given()[1], calls=4)


def same(a, b):
    return all(x.tobytes() == y.tobytes() for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True))


def test_a_profile_leaves_the_step_as_it_was():
    params, batch = given()
    one, other = (ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch) for _ in range(2))
    one(batch), other(batch)
    before, traces = one.state, one.traces
    kept = {name: np.copy(x) for name, x in batch.items()}
    one.profile(batch, calls=3)
    assert same(one.state, before) and one.traces == traces and same(batch, kept)
    assert one(batch).loss == other(batch).loss and same(one.state, other.state)


def test_the_layers_of_a_rerolled_step_are_profiled():
    params = {"w": [np.eye(6) * 0.5 for _ in range(8)], "b": [np.zeros(6) for _ in range(8)]}

    def deep(params, x):
        for w, b in zip(params["w"], params["b"], strict=True):
            x = np.tanh(x @ w + b)
        return np.mean(x**2)

    made = ws.compile(deep, params, optimizer=ws.optim.adam(1e-2), batch=np.ones((4, 6)), roll=True)
    assert "rolled" in made.reasons[0]
    before = made.state
    assert max(t.predicted.times for t in made.profile(np.ones((4, 6)), calls=2).steps) >= 7
    assert same(made.state, before)


def test_a_program_with_clocks_computes_the_same(step):
    program, batch = step._engine.main.program, given()[1]
    arrays = step._engine.head + step._engine.signature.arrays(batch)
    recorder = program.profiler(step._engine.state.arrays)
    plain = program.instance([x.copy() for x in step._engine.state.arrays])
    for _ in range(3):
        recorder(arrays)
        assert same(recorder.instance.state, plain.state) is False
        outs = plain(arrays)
        assert same(recorder.instance.state, plain.state)
        assert same(recorder.instance._results, outs)
    assert any(isinstance(s, Launch) and s.parallel for (s,) in recorder.timed)


def test_every_step_is_counted_as_often_as_it_ran(step, profiled):
    steps = [s for s in walk_steps(step.plan.steps) if isinstance(s, Launch | RoutineCall)]
    runs = {id(s): n for s, n in zip(steps, profiled.record.runs, strict=True)}
    loops = [s for s in step.plan.steps if isinstance(s, ForLoop)]
    assert len(loops) == 2
    for loop in loops:
        inside = [s for s in walk_steps(loop.body) if isinstance(s, Launch | RoutineCall)]
        assert inside and {runs[id(s)] for s in inside} == {5}
    outside = {runs[id(s)] for s in step.plan.steps if isinstance(s, Launch | RoutineCall)}
    assert outside == {1}


def test_a_loop_that_asks_and_a_branch_are_counted_as_they_ran():
    def f(w, batch):
        h = ws.while_loop(lambda h: np.sum(h) > batch["most"], lambda h: h * 0.5, batch["x"])
        return np.mean(w * ws.cond(batch["most"] > 1, lambda h: h + 1.0, lambda h: np.sin(h), h))

    batch = {"x": np.ones(8), "most": np.float64(1.5)}
    step = ws.compile(f, np.ones(8), batch=batch)
    found = step.profile(batch, calls=1)
    runs = [t.predicted.times for t in found.steps]
    # The sum falls 8, 4, 2, 1: three trips and four tests of the condition; one of the two branches is not taken.
    assert {0, 1, 3, 4} == set(runs) and len(found.kernels) < len(found.steps)


def test_times_and_events_agree(profiled):
    record = profiled.record
    assert record.missing == 0
    whole = [0.0] * len(record.runs)
    for event in record.events:
        assert 0 <= event.end - event.begin
        if not event.share:
            whole[event.step] += event.end - event.begin
    # Both come from the same two readings of the clock.
    assert whole == pytest.approx(record.nanoseconds)
    for a, b in itertools.pairwise([e for e in record.events if not e.share]):
        assert a.end <= b.begin
    starts, ends = [e.begin for e in record.events], [e.end for e in record.events]
    assert max(ends) - min(starts) <= 1e9 * record.seconds
    assert sum(record.nanoseconds) <= max(ends) - min(starts)


def test_shares_are_those_of_their_kernel(profiled):
    events = profiled.record.events
    shares = [e for e in events if e.share]
    assert shares
    for share in shares:
        around = [e for e in events if not e.share and e.step == share.step and e.begin <= share.begin <= e.end]
        assert len(around) == 1 and share.end <= around[0].end


def test_the_parts_make_up_the_whole():
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(300, 300)).astype("f")}
    x = rng.normal(size=(400, 300)).astype("f")
    step = ws.compile(lambda p, x: np.mean(np.tanh(x @ p["w"]) ** 2), params, optimizer=ws.optim.sgd(0.1), batch=x)
    found = step.profile(x, calls=20)
    assert 0.5 * found.microseconds < found.inside <= found.microseconds
    assert all(t.least <= t.microseconds for t in found.steps)
    assert found.kernels[0].predicted.name.startswith("contract")
    assert sum(line.microseconds for line in found.lines) == pytest.approx(found.inside)
    assert sum(line.predicted for line in found.lines) == pytest.approx(found.predicted)


def test_several_steps_a_call_and_long_programs():
    params = {f"p{i}": np.full((3,), i, "f") for i in range(80)}
    x = np.ones((4, 3), "f")

    def f(params, x):
        return sum(np.mean((p - x) ** 2 * i) for i, p in enumerate(tree.leaves(params)))

    step = ws.compile(f, params, optimizer=ws.optim.adam(1e-2), batch=x, steps_per_call=4)
    assert (
        len(step.plan.steps[-1].body if isinstance(step.plan.steps[-1], ForLoop) else list(walk_steps(step.plan.steps)))
        > 64
    )
    before = step.state
    found = step.profile(x, calls=2)
    assert same(step.state, before)
    assert max(found.record.runs) == 4 and found.record.missing == 0
    single = ws.compile(f, params, optimizer=ws.optim.adam(1e-2), batch=x[0])
    assert step.cost().flops > 3.5 * single.cost().flops


def test_more_events_than_there_is_room_for_are_said(step, monkeypatch):
    monkeypatch.setattr(profiler, "MAX_EVENTS", 6)
    found = step.profile(given()[1], calls=1)
    assert len(found.record.events) == 6 and found.record.missing > 0
    monkeypatch.undo()
    assert found.record.runs == step.profile(given()[1], calls=1).record.runs


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_clock_of_every_system_is_code(platform):
    assert object_code(notes_text(3, platform), host_target())


# The trace.


def test_a_trace_is_what_the_format_says(profiled, tmp_path):
    file = tmp_path / "trace.json"
    profiled.save(file)
    data = json.loads(file.read_text(encoding="utf-8"))
    names = {e["tid"]: e["args"]["name"] for e in data["traceEvents"] if e["name"] == "thread_name"}
    slices = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == len(profiled.record.events) and names[0] == "program"
    assert all(e["ts"] >= 0 and e["dur"] >= 0 and e["pid"] == 1 and e["tid"] in names for e in slices)
    kernels = [e for e in slices if e["cat"] == "kernel"]
    assert {e["tid"] for e in kernels} == {0}
    assert any("test_profile.py" in e["args"]["line"] for e in kernels)
    heavy = max(kernels, key=lambda e: e["args"]["flops"])
    assert heavy["args"]["bytes"] > 0 and heavy["args"]["predicted µs"] > 0
    # The slices of a thread nest: one lies in another one, or beside it. Times are written in microseconds.
    for tid in names:
        own = sorted([(e["ts"], -e["dur"]) for e in slices if e["tid"] == tid])
        for (start, less), (other, less_other) in itertools.combinations(own, 2):
            assert other >= start - less - 1e-6 or other - less_other <= start - less + 1e-6


def test_a_trace_says_what_it_leaves_out(step, tmp_path, monkeypatch):
    monkeypatch.setattr(profiler, "MAX_EVENTS", 6)
    found = step.profile(given()[1], calls=1)
    found.save(tmp_path / "trace.json")
    data = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert data["otherData"] == {"missing events": found.record.missing}


def test_a_profile_is_a_table(profiled):
    lines = str(profiled).splitlines()
    assert "fastest of 4 calls" in lines[0] and lines[2].split()[:2] == ["share", "µs"]
    assert "<table>" in profiled._repr_html_()
    shares = [float(row.split("%")[0]) for row in lines[3:10]]
    assert shares == sorted(shares, reverse=True)


# Refusals.


def test_an_index_out_of_bounds_is_raised_and_changes_nothing(step):
    batch, before = given()[1], step.state
    with pytest.raises(BoundsError, match="out of bounds"):
        step.profile(batch | {"rows": np.full(20, ROWS)})
    assert same(step.state, before)


def test_what_does_not_fit_is_refused(step):
    with pytest.raises(ParameterError, match="profile: calls is 0"):
        step.profile(given()[1], calls=0)
    with pytest.raises(ShapeError, match=r"batch\.x"):
        step.profile(given()[1] | {"x": np.ones((1, 9), "f")})


def test_the_interpreter_has_neither_costs_nor_clocks():
    step = ws.compile(lambda w, x: np.mean(w * x), np.ones(3), batch=np.ones(3), device="reference")
    with pytest.raises(UnsupportedError, match=r"step\.cost"):
        step.cost()
    with pytest.raises(UnsupportedError, match=r"step\.profile"):
        step.profile(np.ones(3))


# Costs before a run.


def test_an_estimate_costs_what_the_step_does():
    params, batch = given()
    options = {"optimizer": ws.optim.adam(1e-2), "batch": batch}
    asked = ws.estimate(loss, tree.map(lambda x: ws.ShapeDtype(x.shape, x.dtype), params), **options).cost()
    found = ws.compile(loss, params, **options).cost()
    assert [k._replace(where=None) for k in asked.kernels] == [k._replace(where=None) for k in found.kernels]
    assert asked.rates == found.rates


def test_a_model_too_large_to_run_has_a_cost():
    model = ws.eval_shape(lambda: ws.nn.MLP((1 << 14, 1 << 18, 1 << 14), key=0))
    batch = ws.ShapeDtype((64, 1 << 14), np.float32)
    found = ws.estimate(lambda m, x: np.mean(m(x) ** 2), model, optimizer=ws.optim.adam(1e-3), batch=batch).cost()
    assert found.contraction == 5 * 2 * 64 * 2**14 * 2**18
    assert found.microseconds > 1e6


@pytest.mark.parametrize("module", [calibrate, estimate, inspection, profile], ids=lambda m: m.__name__)
def test_examples(module, monkeypatch):
    monkeypatch.setattr(machine_rates, "_rates", {})
    found = doctest.testmod(module)
    assert not found.failed
