"""fit trains as the plain loop does, measures, shows, stops and goes on; however it ends, the state is whole."""

import contextlib
import doctest
import importlib
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.hang import HANG
from tests.train.pressing import Pressing, press

import wholestep as ws
from wholestep import tree
from wholestep.errors import (
    DtypeError,
    MissingExtraError,
    ParameterError,
    RecompilationWarning,
    ShapeError,
    SkippedStepWarning,
)
from wholestep.train.data.loader import Loader
from wholestep.train.loop import fit as fitting, progress, run
from wholestep.train.loop.callbacks import Checkpoint
from wholestep.train.loop.evaluation import Evaluate
from wholestep.train.loop.fit import fit
from wholestep.train.loop.progress import Plain, Status
from wholestep.train.loop.run import Callback
from wholestep.train.program import batch_shapes
from wholestep.train.step.step import Step

ROWS = 22
X3, Y3 = np.arange(9.0).reshape(3, 3), np.ones(3)


def data(rows=ROWS):
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return {"x": x, "y": np.sin(x.sum(1))}


def predict(params, x):
    return np.tanh(x @ params["w"]) @ params["v"]


def loss(params, batch):
    return np.mean((predict(params, batch["x"]) - batch["y"]) ** 2)


def start():
    rng = np.random.default_rng(1)
    return {"w": rng.normal(size=(3, 4)), "v": rng.normal(size=4)}


def made(count=1, f=loss, size=5, **options):
    shape = (size,) if count == 1 else (count, size)
    batch = {"x": np.zeros((*shape, 3)), "y": np.zeros(shape)}
    return ws.compile(f, start(), optimizer=ws.optim.adam(0.05), batch=batch, steps_per_call=count, **options)


def loader(count=1, size=5, **options):
    return Loader(data(), size, key=3, steps_per_call=count, **options)


def equal(a, b):
    for x, y in zip(tree.leaves(a.state), tree.leaves(b.state), strict=True):
        np.testing.assert_array_equal(x, y)


class Stop(Callback):
    """A callback that performs an action from a given number of steps on."""

    def __init__(self, steps, action):
        self.steps, self.action = steps, action

    def on_step(self, run):
        if run.steps >= self.steps:
            self.action(run)


def pressed(run):
    press()


def raised(run):
    raise KeyboardInterrupt


def test_it_trains_as_the_plain_loop_does():
    step, other, batches = made(), made(), loader()
    history = fit(step, loader(), epochs=3, progress=None)
    losses = [[other(batch).loss for batch in batches] for _ in range(3)]
    equal(step, other)
    assert history.losses.tolist() == np.ravel(losses).tolist()
    assert history["loss"].tolist() == pytest.approx(np.mean(losses, 1).tolist(), abs=1e-15)
    assert history["epoch"].tolist() == [1, 2, 3] and history["steps"].tolist() == [5, 10, 15]
    assert (history.status, len(history), step.steps, step.traces) == ("completed", 3, 15, 2)


def test_any_number_of_steps_a_call_gives_the_same_bits():
    single = made()
    fit(single, loader(), epochs=3, progress=None)
    for count in (2, 3, 7):
        step = made(count)
        history = fit(step, loader(count), epochs=3, progress=None)
        equal(step, single)
        assert len(history.losses) == 15


def test_a_stack_of_a_single_batch_is_one_step_of_a_loss_that_takes_rows_alone():
    def of_rows(params, batch):
        assert batch["x"].ndim == 2 and batch["y"].ndim == 1
        return loss(params, batch)

    single, stacked = made(f=of_rows), made(3, of_rows)
    for rows in (5, 2):
        batch = {name: x[:rows] for name, x in data().items()}
        result = stacked({name: x[None] for name, x in batch.items()})
        assert result.losses.tolist() == [single(batch).loss]
    equal(stacked, single)


def test_data_alone_is_cut_up_as_the_step_was_compiled_and_drawn_by_its_key():
    runs = [made(key=key) for key in (0, 0, 1)]
    histories = [fit(step, data(), epochs=1, progress=None) for step in runs]
    equal(runs[0], runs[1])
    assert histories[0].losses.tolist() != histories[2].losses.tolist()
    stacked = made(2, key=0)
    fit(stacked, data(), epochs=1, progress=None)
    equal(stacked, runs[0])


def test_so_many_steps():
    step = made()
    history = fit(step, loader(), steps=12, progress=None)
    assert (step.steps, len(history.losses), len(history)) == (12, 12, 2)
    history = fit(step, loader(), steps=10, progress=None)
    assert (step.steps, len(history)) == (22, 2)


def test_runs_with_the_same_metrics_measure_by_one_function():
    step, traced, scale = made(), [], 1.0

    def scaled(params, batch):
        traced.append(None)
        return scale * loss(params, batch)

    def run(**metrics):
        return fit(step, loader(), epochs=1, validation=data(), metrics=metrics, progress=None).epochs[-1]

    assert [run(scaled=scaled)["val_scaled"] > 0 for _ in range(3)] == [True] * 3
    once = len(traced)
    scale = 0.0
    assert run(scaled=scaled)["val_scaled"] == 0.0 and len(traced) == 2 * once
    assert "val_other" in run(other=scaled) and len(traced) == 3 * once
    step.replace(lambda params, batch: 0.0 * loss(params, batch))
    assert run(other=scaled)["val_loss"] == 0.0


def test_validation_is_the_mean_over_rows():
    held = data(13)

    def error(params, batch):
        return np.abs(predict(params, batch["x"]) - batch["y"])

    metrics = {
        "mae": lambda params, batch: np.mean(error(params, batch)),
        "large": lambda params, batch: (np.sum(error(params, batch) ** 3), np.sum(batch["x"][:, 0] > 0)),
    }
    step = made()
    history = fit(step, loader(), epochs=2, validation=held, metrics=metrics, progress=None)
    params = step.params
    assert history["val_loss"][-1] == pytest.approx(float(loss(params, held)), rel=1e-12)
    assert history["val_mae"][-1] == pytest.approx(float(np.mean(error(params, held))), rel=1e-12)
    counted = np.sum(error(params, held) ** 3) / np.sum(held["x"][:, 0] > 0)
    assert history["val_large"][-1] == pytest.approx(float(counted), rel=1e-12)
    assert [row["steps"] for row in history.evaluations] == [5, 10]
    assert history.columns == ["epoch", "steps", "loss", "seconds", "val_loss", "val_mae", "val_large"]


def test_a_loss_with_buffers_and_a_key_is_measured_too():
    def noisy(params, buffers, batch, *, key):
        return loss(params, batch) + 0 * ws.random.normal(key), {"n": buffers["n"] + 1}

    def drawn(params, buffers, batch, *, key):
        return loss(params, batch) + 0 * ws.random.normal(key)

    step = made(f=noisy, buffers={"n": np.zeros(())})
    history = fit(step, loader(), epochs=1, validation=data(), metrics={"drawn": drawn}, progress=None)
    assert history["val_loss"][-1] == pytest.approx(float(loss(step.params, data())), rel=1e-12)
    assert history["val_drawn"] == history["val_loss"]
    assert step.buffers["n"] == 5


class Model(ws.nn.Module):
    def __init__(self):
        self.w, self.v, self.seen = start()["w"], start()["v"], ws.nn.buffer(np.zeros(()))

    def __call__(self, x):
        if self.training:
            self.seen = self.seen + 1
            x = x * 0.5
        return np.tanh(x @ self.w) @ self.v


def test_a_module_is_measured_in_evaluation_mode():
    def objective(model, batch):
        return np.mean((model(batch["x"]) - batch["y"]) ** 2)

    batch = {name: rows[:5] for name, rows in data().items()}
    step = ws.compile(objective, Model(), optimizer=ws.optim.sgd(0.1), batch=batch)
    history = fit(step, loader(), epochs=2, validation=data(), progress=None)
    assert history["val_loss"][-1] == pytest.approx(float(objective(step.model.eval(), data())), rel=1e-12)
    assert step.model.seen == 10


def test_an_evaluation_every_so_many_steps_and_at_the_end():
    step = made()
    history = fit(step, loader(), steps=12, callbacks=[Evaluate(data(), every=5, prefix="held_")], progress=None)
    assert [row["steps"] for row in history.evaluations] == [5, 10, 12]
    assert history["held_loss"].tolist() == [row["held_loss"] for row in history.evaluations[:2]]


def test_what_is_not_finite_is_counted_and_left_out_of_the_mean():
    rows = data()
    rows["y"][:5] = np.nan
    step = made()
    with pytest.warns(SkippedStepWarning):
        history = fit(step, Loader(rows, 5, shuffle=False), epochs=1, progress=None)
    assert history.skipped == step.skipped == 1
    assert history["loss"][0] == pytest.approx(history.losses[1:].mean())


@pytest.mark.parametrize("action", [pressed, raised])
@pytest.mark.parametrize("count", [1, 3])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, count, action):
    whole, file = made(count), tmp_path / "run.safetensors"
    complete = fit(whole, loader(count), epochs=3, progress=None)
    for steps in (1, 4, 5, 8, 14):
        step = made(count)
        history = fit(step, loader(count), epochs=3, callbacks=[Stop(steps, action)], checkpoint=file, progress=None)
        assert history.interrupted and history.status == "interrupted"
        assert len(history.losses) == step.steps < 15
        again = made(count)
        rest = fit(again, loader(count), epochs=3, checkpoint=file, resume=True, progress=None)
        equal(again, whole)
        assert [*history.losses, *rest.losses] == complete.losses.tolist()
        assert [row["loss"] for row in rest.epochs] == [row["loss"] for row in complete.epochs]
        assert not rest.interrupted
        for path in tmp_path.iterdir():
            path.unlink()


def test_a_long_call_is_cut_short_and_gone_on_with():
    count = 400_000
    options = {"prefetch": 0, "steps_per_call": count}
    rows = {name: np.resize(x, (2 * count, *x.shape[1:])) for name, x in data().items()}
    step, whole = made(count, size=1), made(count, size=1)
    fit(whole, Loader(rows, 1, **options), epochs=1, progress=None)
    batches, instance = Loader(rows, 1, **options), step._engine.main.instance
    step._engine.main.instance = Pressing(instance)
    history = fit(step, batches, epochs=1, progress=None)
    assert history.interrupted
    assert 0 < len(history.losses) == step.steps == batches.position < count
    step._engine.main.instance = instance
    fit(step, batches, epochs=1, progress=None)
    equal(step, whole)


def test_in_one_process_it_goes_on_where_it_was():
    step, whole, batches = made(), made(), loader()
    fit(whole, loader(), epochs=2, progress=None)
    fit(step, batches, epochs=1, callbacks=[Stop(2, pressed)], progress=None)
    assert (batches.epoch, batches.position) == (0, 2)
    fit(step, batches, epochs=2, progress=None)
    equal(step, whole)


def test_the_second_press_does_not_wait():
    class Twice(Callback):
        def on_step(self, run):
            press()
            press()
            time.sleep(0)
            raise AssertionError("it was waited for")

    step, batches = made(), loader()
    before = signal.getsignal(signal.SIGINT)
    history = fit(step, batches, epochs=1, callbacks=[Twice()], progress=None)
    assert history.interrupted and step.steps == batches.position == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_batch_that_was_handed_out_and_not_trained_on_comes_again(monkeypatch):
    step, batches = made(), loader()
    call = Step.__call__

    def interrupted(step, batch):
        if step.steps == 3:
            raise KeyboardInterrupt
        return call(step, batch)

    monkeypatch.setattr(Step, "__call__", interrupted)
    assert fit(step, batches, epochs=1, progress=None).interrupted
    assert (step.steps, batches.position) == (3, 3)


SCRIPT = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[2])
from tests.train.test_fit import Callback, fit, loader, made

class Slow(Callback):
    def on_step(self, run):
        print(run.steps, flush=True)
        time.sleep(0.05)

step = made()
history = fit(step, loader(), epochs=1000, callbacks=[Slow()], checkpoint=sys.argv[1], progress=None)
print(history.status, step.steps, len(history.losses), flush=True)
"""


def test_ctrl_c_in_a_process_of_its_own(tmp_path):
    file, root = tmp_path / "run.safetensors", Path(__file__).parent.parent.parent
    command = [sys.executable, "-c", SCRIPT, str(file), str(root)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "WHOLESTEP_CACHE": "off"})
    while child.stdout.readline().strip() != "7":
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    status, steps, losses = child.communicate(timeout=HANG)[0].split()[-3:]
    assert (status, child.returncode) == ("interrupted", 0)
    assert 7 <= int(steps) == int(losses) < 1000
    again = made()
    again.load(file)
    assert again.steps == int(steps)


def test_resume_without_a_file_begins_and_of_a_whole_run_does_nothing(tmp_path):
    file = tmp_path / "run.safetensors"
    first = fit(made(), loader(), epochs=2, checkpoint=file, resume=True, progress=None)
    step = made()
    again = fit(step, loader(), epochs=2, checkpoint=file, resume=True, progress=None)
    assert (len(first.losses), len(again.losses), step.steps) == (10, 0, 10)
    assert again.epochs == first.epochs
    more = fit(step, loader(), epochs=3, checkpoint=file, resume=True, progress=None)
    assert (len(more.losses), len(more)) == (5, 3)


def test_a_checkpoint_in_the_middle_is_as_good(tmp_path):
    whole, file = made(), tmp_path / "run.safetensors"
    fit(whole, loader(), epochs=3, progress=None)

    def fail(run):
        raise LookupError

    with pytest.raises(LookupError):
        saving = Checkpoint(file, every_epochs=None, every_steps=4)
        fit(made(), loader(), epochs=3, callbacks=[Stop(11, fail)], checkpoint=saving, progress=None)
    step = made()
    rest = fit(step, loader(), epochs=3, checkpoint=saving, resume=True, progress=None)
    assert len(rest.losses) == 7
    equal(step, whole)


def test_a_failing_callback_ends_the_run_with_the_state_whole_and_its_own_error(tmp_path):
    step, batches, file = made(), loader(), tmp_path / "run.safetensors"

    def fail(run):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        fit(step, batches, epochs=1, callbacks=[Stop(3, fail)], checkpoint=file, progress=None)
    assert (step.steps, batches.position) == (3, 3)
    assert not file.exists()
    fit(step, batches, epochs=1, progress=None)
    whole = made()
    fit(whole, loader(), epochs=1, progress=None)
    equal(step, whole)


def test_a_bad_batch_leaves_the_state_as_it_was():
    rows = Loader(data() | {"y": np.arange(ROWS)}, 5)
    step = made()
    with pytest.raises(DtypeError, match=r"batch\.y is i64"):
        fit(step, rows, epochs=1, progress=None)
    assert (step.steps, rows.position) == (0, 0)


def test_batches_of_other_sizes_have_programs_of_their_own_and_few_are_kept(monkeypatch):
    monkeypatch.setattr(batch_shapes, "MAX_SHAPES", 2)
    step = made(size=3)

    def batch(n):
        return {name: rows[:n] for name, rows in data().items()}

    for n in (3, 4, 5, 4, 5):
        step(batch(n))
    assert (step.traces, len(step._kinds.made)) == (3, 2)
    step(batch(6)), step(batch(5)), step(batch(4))
    assert step.traces == 5
    other = made(size=4)
    other.load_state(made(size=3).state)
    step.reset()
    assert step(batch(4)).loss == other(batch(4)).loss
    with pytest.raises(DtypeError, match=r"batch.y is f32\[7\], and it was compiled for f64\[3\]"):
        step(batch(7) | {"y": np.zeros(7, np.float32)})
    with pytest.raises(ShapeError, match=r"the number of axes may not"):
        step(batch(4) | {"y": np.zeros((4, 1))})
    with pytest.raises(ShapeError, match="the first axis counts steps"):
        made(2)({"x": np.zeros((3, 5, 3)), "y": np.zeros((1, 5))})
    with pytest.raises(ShapeError, match=r"axis 0 of batch\.x is 5 and that of batch\.y is 1"):
        step({"x": np.zeros((5, 3)), "y": np.zeros(1)})
    with pytest.raises(
        ShapeError, match=r"batch\.x is f64\[3, 4\], and it was compiled for f64\[3, 3\].*loss does not"
    ):
        step({"x": np.zeros((3, 4)), "y": np.zeros(3)})
    assert (step.batch_size, step.steps_per_call) == (3, 1)


def test_a_strict_step_refuses_other_sizes_until_it_is_not():
    def batch(n):
        return {name: rows[:n] for name, rows in data().items()}

    step = made(size=3)
    step.strict = True
    with pytest.raises(ShapeError, match=r"batch\.x is f64\[4, 3\], and it was compiled for f64\[3, 3\]\n.*\n.*strict"):
        step(batch(4))
    assert step.traces == 1
    step.strict = False
    step(batch(4))
    step.strict = True
    with pytest.raises(ShapeError):
        step(batch(4))
    step.replace(batch=batch(4))
    assert step.strict and step(batch(4)).status == "completed"


def test_nested_batches_of_other_sizes_are_known_again():
    step = ws.compile(lambda p, b: np.mean((b[0]["x"] @ p - b[1]) ** 2), np.zeros(3), batch=({"x": X3}, Y3))
    for n in (3, 2, 1, 2, 3, 1):
        step(({"x": X3[:n]}, Y3[:n]))
    assert step.traces == 3


def test_many_sizes_of_one_axis_are_said_once():
    rows = {"x": np.zeros((9, 3)), "y": np.zeros(9)}

    def batch(n):
        return {name: x[:n] for name, x in rows.items()}

    step = made(size=9)
    for n in range(2, 8):
        step(batch(n))
    with pytest.warns(RecompilationWarning, match=r"step: compiled for 8 sizes of axis 0 of batch\.x: 9, 2, 3"):
        step(batch(8))
    step(batch(1))
    f = ws.jit(lambda x: 2.0 * x)
    for n in range(7):
        f(np.ones(n)), f(np.ones((2, n)))
    with pytest.warns(RecompilationWarning, match=r"<lambda>: compiled for 8 sizes of axis 0 of x: 0, 2, 1"):
        f(np.ones(8))
    g = ws.jit(lambda x, y: x * y)
    for n in range(20):
        ws.grad(lambda w, n=n: np.sum(g(w, np.ones(n))))(2.0)  # calls inside another trace do not count


def test_an_epoch_of_nothing_finite_is_kept_in_a_checkpoint(tmp_path):
    rows, file = data() | {"y": np.full(ROWS, np.nan)}, tmp_path / "run.safetensors"
    for expected in (pytest.warns(SkippedStepWarning), contextlib.nullcontext()):
        with expected:
            history = fit(made(), Loader(rows, 5), epochs=1, checkpoint=file, resume=True, progress=None)
        assert np.isnan(history["loss"][0])


def test_a_step_without_rows_needs_a_loader():
    step = ws.compile(lambda p, batch: p * batch, 1.0, optimizer=ws.optim.sgd(0.1), batch=2.0)
    with pytest.raises(ShapeError, match="takes no batch of rows"):
        fit(step, np.ones(3), progress=None)
    batches = Loader([1.0, 2.0], None, shuffle=False)
    assert fit(step, batches, epochs=1, progress=None).losses.tolist() == pytest.approx([1.0, 1.8])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epochs": 1, "steps": 1}, "epochs and steps both say"),
        ({"epochs": 0}, "fit: epochs is 0"),
        ({"steps": 1.5}, "fit: steps is 1.5"),
        ({"metrics": {"a": loss}}, "measured on validation data"),
        ({"resume": True}, "give checkpoint="),
        ({"progress": "loud"}, "progress is 'loud'"),
        ({"validation": data(), "metrics": {"loss": loss}}, "metrics have names of their own"),
        ({"data": loader(2)}, "gives 2 batches at a time, and a call takes 1"),
        ({"validation": loader(2)}, "a batch at a time"),
        ({"epochs": 2, "data": iter([data()])}, "fit: data is an iterator, which can be read once"),
        ({"epochs": 2, "data": Loader(iter([data()]), None)}, "fit: data is an iterator, which can be read once"),
        ({"epochs": 2, "validation": iter([data()])}, "fit: validation is an iterator, which can be read once"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, says):
    step = made()
    with pytest.raises(ParameterError, match=says):
        fit(step, options.pop("data", data()), **{"progress": None, **options})
    assert step.steps == 0


@pytest.mark.parametrize("metric", [ws.nn.metrics.accuracy, ws.nn.metrics.Accuracy(), ws.nn.mse, 3])
def test_a_metric_of_predictions_is_wrapped_as_the_hint_says(metric):
    with pytest.raises(DtypeError, match=r"Evaluate: .*(.|\n)*hint: metrics=.*nn.metrics.accuracy") as refused:
        Evaluate(data(), {"a": metric})
    given = eval(str(refused.value).partition("hint: metrics=")[2], {"nn": ws.nn})

    def objective(model, batch):
        return ws.nn.cross_entropy(model(batch["x"]), batch["y"])

    rows = {"x": data()["x"], "y": (data()["y"] > 0).astype(int)}
    step = ws.compile(objective, ws.nn.Linear(3, 2, key=0, dtype=np.float64), optimizer=ws.optim.sgd(0.1), batch=rows)
    history = fit(step, rows, validation=rows, metrics=given, progress=None)
    wanted = np.mean(np.argmax(step.predict(rows["x"]), axis=1) == rows["y"])
    assert history["val_accuracy"] == pytest.approx([wanted])


def test_a_metric_is_one_number():
    with pytest.raises(DtypeError, match="metric a gave"):
        fit(made(), data(), validation=data(), metrics={"a": lambda params, batch: batch["y"]}, progress=None)
    with pytest.raises(DtypeError, match="metric a gave None"):
        fit(made(), data(), validation=data(), metrics={"a": lambda params, batch: None}, progress=None)


def test_a_history_is_a_table_and_a_picture(tmp_path):
    history = fit(made(), loader(), epochs=3, validation=data(), metrics={"mae": loss}, progress=None)
    lines = str(history).splitlines()
    assert len(lines) == 4 and lines[0].split() == history.columns
    with pytest.raises(KeyError):
        history["speed"]
    history.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    empty = fit(made(), loader(), steps=2, progress=None)
    assert str(empty) == "no epoch; 2 steps"
    empty.plot(tmp_path / "empty.png")


@pytest.fixture
def still(monkeypatch):
    """Fix the measured memory and speed."""
    monkeypatch.setattr(fitting, "resident", lambda: 312_456_789)
    monkeypatch.setattr(fitting.RunDisplay, "seconds", property(lambda self: 0.004))


def test_plain_progress(golden, capsys, still):
    step = made()
    fit(step, loader(), epochs=3, validation=data(), progress="plain")
    fit(step, loader(), steps=7, callbacks=[Stop(6, pressed)], progress="plain")
    text = re.sub(r"arena [\d.]+ \w+", "arena N", capsys.readouterr().out)
    # The losses are tested elsewhere; this test is about their positions.
    golden(re.sub(r"(loss) [\d.]+", r"\1 L", text))


def test_a_program_without_a_console_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    fit(made(1), loader(1), epochs=1, progress="auto")


@pytest.mark.parametrize("count", [1, 2])
def test_what_moves_is_the_mean_of_the_last_losses(count, monkeypatch):
    seen = []

    class Display(progress.Display):
        def move(self, status):
            seen.append(status.values["loss"])

        def line(self, status):
            seen.append(("epoch", status.values["loss"]))

    monkeypatch.setattr(fitting, "display_for", lambda mode: Display())
    monkeypatch.setattr(fitting, "PAUSE", 0)
    monkeypatch.setattr(run, "RECENT", 3)
    step = made(count)
    history = fit(step, loader(count), epochs=2)
    losses, calls = history.losses, [x for x in seen if not isinstance(x, tuple)]
    for i, shown in enumerate(calls[: 4 // count]):
        so_far = losses[: count * (i + 1)]
        np.testing.assert_allclose(shown, np.mean(so_far[-3:]), rtol=1e-12)
    assert [x[1] for x in seen if isinstance(x, tuple)] == history["loss"].tolist()


def test_many_epochs_are_not_many_lines():
    stream = io.StringIO()
    plain = Plain(stream)
    for epoch in range(1, 1001):
        plain.line(Status(epoch, 1000, epoch, 1000))
    assert stream.getvalue().count("\n") == 101


def test_a_long_epoch_is_heard_of(monkeypatch):
    stream = io.StringIO()
    plain = Plain(stream)
    plain.move(Status(1, 2, 3, 4))
    assert not stream.getvalue()
    monkeypatch.setattr(progress, "PERIOD", 0)
    plain.move(Status(1, 2, 3, 4))
    assert stream.getvalue() == "epoch 1/2  step 3/4\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_line_that_moves(monkeypatch, still):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(fitting, "PAUSE", 0)
    fit(made(), loader(), epochs=2, validation=data())
    text = stream.getvalue()
    assert "epoch 1/2  step  5/10" in text and "val_loss" in text and "\x1b[" in text


def test_a_notebook_gets_a_display_that_is_updated(monkeypatch, still):
    shown = []

    class Handle:
        def update(self, text):
            shown.append(text)

    def show(text, display_id):
        shown.append(text)
        return Handle()

    kernel = type("ZMQInteractiveShell", (), {})()
    module = type(sys)("IPython")
    module.get_ipython = lambda: kernel
    module.display = type(sys)("IPython.display")
    module.display.HTML, module.display.display = str, show
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    fit(made(), loader(), epochs=2, validation={**data()})
    assert shown[0] == "<pre></pre>"
    chart, lines = shown[-1].split("<pre>")
    assert lines.count("val_loss") == 2 and lines.endswith("\n</pre>")
    assert chart.count("<polyline ") == 2 and ">val_loss</text>" in chart and "nan" not in chart


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(MissingExtraError, match="progress='notebook': IPython"):
        fit(made(), loader(), progress="notebook")


def test_between_two_pictures_a_step_costs_one_look_at_the_clock(monkeypatch):
    """Losses are fetched and lines are drawn a few times a second by the clock, for any number of steps."""
    clock, drained, moved, looks = itertools.count(), [], [], []
    drain, look = run.TrainingRun.drain, fitting.RunDisplay.look

    class Display(progress.Display):
        def move(self, status):
            moved.append(status.steps)

    def counted(self):
        before, seen = next(clock), len(moved)
        look(self)
        looks.append((next(clock) - before, len(moved) > seen))

    monkeypatch.setattr(fitting, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(clock)))
    monkeypatch.setattr(fitting, "display_for", lambda mode: Display())
    monkeypatch.setattr(run.TrainingRun, "drain", lambda self: drained.append(0) or drain(self))
    monkeypatch.setattr(fitting.RunDisplay, "look", counted)
    fit(made(), loader(), epochs=200)
    assert len(looks) == 1000
    assert 2 <= len(moved) <= 1 + 0.01 * next(clock) / fitting.PAUSE
    assert {ticks for ticks, drawn in looks if not drawn} == {2}
    assert len(drained) <= len(moved) + 2 * 200


def test_numbers_as_people_read_them():
    assert [progress.show_bytes(n) for n in (0, 999, 1500, 312_456_789, 5 * 10**9)] == [
        "0 bytes",
        "999 bytes",
        "1.5 KB",
        "312 MB",
        "5 GB",
    ]
    assert [progress.clock(s) for s in (0.2, 9.6, 75, 3600, float("inf"))] == ["0:00", "0:10", "1:15", "1:00:00", "?"]


MODULES = (
    "data.loader data.sampling data.sources data.prefetch loop.fit loop.history loop.loggers "
    "loop.callbacks loop.progress loop.evaluation loop.run loop.loss_chart program.batch_shapes"
)


@pytest.mark.parametrize("name", MODULES.split())
def test_examples_run(name):
    module = importlib.import_module(f"wholestep.train.{name}")
    assert not doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed


def test_the_page_on_the_loop_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parent.parent.parent / "docs" / "loop.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for source in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(source, "loop.md", "exec"), names)
    assert len(names["history"].epochs) == 5
    assert json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])["event"] == "start"


def test_an_iterator_that_was_read_before_is_an_error():
    batches = iter([np.ones(2), np.ones(2)])
    step = ws.compile(lambda p, x: np.sum((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.1), batch=np.ones(2))
    assert len(ws.fit(step, batches, epochs=1, progress=None).losses) == 2
    with pytest.raises(ws.errors.ParameterError, match=r"the data gave no batch[\s\S]*read before"):
        ws.fit(step, batches, epochs=1, progress=None)
