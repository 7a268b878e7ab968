"""Callbacks see the events of a run and end it when they should; loggers write down all of its values."""

import errno
import importlib.util
import io
import json
import os
import pathlib
import struct
import sys

import numpy as np
import pytest
from tests.train.test_fit import Model, Stop, data, equal, fit, loader, made, pressed, raised

import wholestep as ws
from wholestep.errors import (
    CheckpointError,
    DtypeError,
    LogWarning,
    MissingExtraError,
    ParameterError,
    ShapeError,
    WholestepWarning,
)
from wholestep.train.loop.callbacks import Best, BestCheckpoint, Checkpoint, EarlyStopping, LossLog
from wholestep.train.loop.loggers import ConsoleLogger, JsonLogger, TensorBoardLogger
from wholestep.train.loop.run import Callback

HOOKS = ("on_start", "on_step", "on_evaluation", "on_epoch", "on_end")


class Measured(Callback):
    """An evaluation whose values are known beforehand."""

    def __init__(self, values, name="val_loss"):
        self.values, self.name = iter(values), name

    def on_epoch(self, run):
        run.evaluated({self.name: next(self.values)})


def spoken(log):
    made = type("Spoken", (Callback,), {hook: lambda self, run, hook=hook: log.append(hook) for hook in HOOKS})
    return made()


class Told:
    """A logger that keeps its calls."""

    def __init__(self):
        self.lines = []

    def start(self, config):
        self.lines.append(("start", dict(config)))

    def log(self, step, values):
        self.lines.append(("log", step, values))

    def note(self, step, text):
        self.lines.append(("note", step, text))

    def finish(self, status):
        self.lines.append(("finish", status))


def test_hooks_come_in_order():
    log = []
    fit(made(), loader(), epochs=2, validation=data(), callbacks=[spoken(log)], progress=None)
    epoch = ["on_step"] * 5 + ["on_evaluation", "on_epoch"]
    assert log == ["on_start", *epoch, *epoch, "on_end"]


def test_a_run_that_fails_is_ended_all_the_same():
    log, told = [], Told()

    def fail(run):
        run.note("about to fail")
        raise LookupError

    with pytest.raises(LookupError):
        fit(made(), loader(), callbacks=[spoken(log), Stop(2, fail)], logger=told, progress=None)
    assert log == ["on_start", "on_step", "on_step", "on_end"]
    assert told.lines[-2:] == [("note", 2, "about to fail"), ("finish", "failed")]


def test_a_logger_that_cannot_start_is_not_finished():
    class Broken(Told):
        def start(self, config):
            raise OSError("no disk")

    first, broken = Told(), Broken()
    with pytest.raises(OSError, match="no disk"):
        fit(made(), loader(), logger=[first, broken], progress=None)
    assert first.lines[-1] == ("finish", "failed") and not broken.lines


FULL = pathlib.Path("/dev/full")
full = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full there")


class Filling(Callback):
    """A callback that makes the disk of a logger full after the first step."""

    def __init__(self, logger):
        self.logger = logger

    def on_step(self, run):
        if run.steps > 1:
            return
        if isinstance(self.logger, JsonLogger):
            self.logger.file.close()
            self.logger.file = FULL.open("w")
        elif isinstance(self.logger, TensorBoardLogger):
            self.logger.writer.close()
            self.logger.writer = type(self.logger.writer)(str(FULL))
        else:
            self.logger.stream = NoRoom()


class NoRoom(io.StringIO):
    """A stream that has no room."""

    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@full
@pytest.mark.parametrize("kind", ["json", "tensorboard", "stream"])
def test_a_full_disk_under_a_log_does_not_end_the_run(tmp_path, kind):
    if kind == "tensorboard":
        pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    makers = {"json": JsonLogger, "tensorboard": TensorBoardLogger, "stream": lambda _: ConsoleLogger(io.StringIO())}
    logger, told = makers[kind](tmp_path / "run"), Told()
    named = "" if kind == "stream" else f".*{tmp_path / 'run'}"
    options = {"callbacks": [Filling(logger)], "logger": [logger, told], "log_every": 2, "progress": None}
    with pytest.warns(LogWarning, match=rf"{type(logger).__name__} writes no more: \[Errno 28\]{named}") as seen:
        history = fit(made(), loader(), epochs=2, **options)
    assert len(seen) == 1 and len(history) == 2 and told.lines[-1] == ("finish", "completed")
    assert kind != "json" or logger.file.closed


@full
def test_a_log_that_cannot_begin_is_an_error_that_names_the_file_and_closes_it():
    logger = JsonLogger(FULL)
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        fit(made(), loader(), logger=logger, progress=None)
    assert logger.file.closed


def test_a_full_disk_under_the_progress_does_not_end_the_run(monkeypatch):
    monkeypatch.setattr(sys, "stdout", NoRoom())
    with pytest.warns(LogWarning, match="the progress is shown no more") as seen:
        history = fit(made(), loader(), epochs=3, progress="plain")
    assert len(seen) == 1 and len(history) == 3


@pytest.mark.parametrize(
    ("values", "options", "epochs"),
    [
        ([3, 2, 1, 1, 1, 1], {"patience": 2}, 5),
        ([3, 2, 1.95, 1.9, 1.85], {"patience": 2, "min_delta": 0.2}, 4),
        ([1, 2, 3, 3, 2], {"patience": 1, "mode": "max"}, 4),
        ([np.nan, 1, np.nan, np.nan, 0], {"patience": 2}, 4),
        ([np.nan, np.nan, 0], {"patience": 2}, 2),
        ([1, 2, 0.5, 2, 0.4], {"patience": 2}, 5),
    ],
)
def test_it_stops_where_nothing_becomes_better(values, options, epochs):
    callbacks = [Measured(values), EarlyStopping(**options)]
    history = fit(made(), loader(), epochs=len(values), callbacks=callbacks, progress=None)
    assert len(history) == epochs
    says = "val_loss has not become better than" if epochs < len(values) else "completed"
    assert history.status.startswith(says)


@pytest.mark.parametrize("module", [False, True])
def test_the_best_is_put_back(module):
    def objective(model, batch):
        return np.mean((model(batch["x"]) - batch["y"]) ** 2)

    batch = {name: rows[:5] for name, rows in data().items()}
    step = ws.compile(objective, Model(), optimizer=ws.optim.sgd(0.1), batch=batch) if module else made()
    kept = []

    class Keep(Callback):
        def on_epoch(self, run):
            kept.append({name: np.array(x) for name, x in run.step.params.items()})

    stopping = EarlyStopping(patience=2, restore_best=True)
    fit(step, loader(), epochs=9, callbacks=[Measured([3, 1, 2, 2]), Keep(), stopping], progress=None)
    assert len(kept) == 4
    for name, x in step.params.items():
        np.testing.assert_array_equal(x, kept[1][name])
        assert not np.array_equal(x, kept[3][name])


def test_patience_outlives_an_interruption(tmp_path):
    file, values = tmp_path / "run.safetensors", [3, 1, 2, 2, 2, 2]
    options = {"epochs": 6, "checkpoint": file, "progress": None}
    fit(made(), loader(), callbacks=[Measured(values), EarlyStopping(patience=3), Stop(17, pressed)], **options)
    callbacks = [Measured(values[3:]), EarlyStopping(patience=3)]
    history = fit(made(), loader(), callbacks=callbacks, resume=True, **options)
    assert [row["steps"] for row in history.epochs] == [5, 10, 15, 20, 25]


def test_a_run_that_stopped_early_and_is_resumed_stops_at_once_and_has_the_best_parameters(tmp_path):
    file, values = tmp_path / "run.safetensors", [3, 1, 2, 2]

    def part(step, values, patience, **options):
        callbacks = [Measured(values), EarlyStopping(patience=patience, restore_best=True)]
        return fit(step, loader(), epochs=8, callbacks=callbacks, checkpoint=file, progress=None, **options)

    first, again, longer = made(), made(), made()
    assert part(first, values, 2).stopped is not None
    history = part(again, [], 2, resume=True)
    assert len(history.losses) == 0
    assert history.stopped is not None
    equal(again, first)
    assert len(part(longer, [2, 2, 2], 5, resume=True).losses) == 15
    np.testing.assert_array_equal(longer.params["w"], first.params["w"])


def test_best_parameters_of_before_an_interruption_are_missed_aloud(tmp_path):
    file, stopping = tmp_path / "run.safetensors", EarlyStopping(patience=3, restore_best=True)
    options = {"epochs": 4, "checkpoint": file, "progress": None}
    fit(made(), loader(), callbacks=[Measured([3, 1, 2]), stopping, Stop(12, pressed)], **options)
    with pytest.warns(WholestepWarning, match=r"best value, 1, before the run was resumed(.|\n)*BestCheckpoint"):
        fit(made(), loader(), callbacks=[Measured([2, 2]), stopping], resume=True, **options)


def test_a_metric_of_training_needs_no_evaluation():
    history = fit(made(), loader(), epochs=3, callbacks=[EarlyStopping("loss", patience=1, min_delta=9)], progress=None)
    assert len(history) == 2


def test_a_metric_that_nobody_measures_is_named():
    with pytest.raises(ParameterError, match=r"EarlyStopping: nothing measures 'val_los'(.|\n)*there are .*val_loss"):
        fit(made(), loader(), validation=data(), callbacks=[EarlyStopping("val_los")], progress=None)


@pytest.mark.parametrize("kind", [EarlyStopping, lambda: BestCheckpoint("best.safetensors")])
def test_a_metric_that_nobody_measures_is_named_before_the_first_step(kind):
    step = made()
    with pytest.raises(ParameterError, match=r"nothing measures 'val_loss'(.|\n)*validation= measures val_loss"):
        fit(step, loader(), callbacks=[kind()], progress=None)
    assert step.steps == 0


@pytest.mark.parametrize("kind", [Checkpoint, lambda path: BestCheckpoint(path, "loss")])
def test_a_place_where_nothing_can_be_saved_is_an_error_before_the_first_step(tmp_path, kind):
    step = made()
    with pytest.raises(CheckpointError, match="is a folder"):
        fit(step, loader(), callbacks=[kind(tmp_path)], progress=None)
    assert step.steps == 0 and not list(tmp_path.iterdir())


def test_the_best_is_saved(tmp_path):
    file, step = tmp_path / "best.safetensors", made()
    states = []

    class Keep(Callback):
        def on_epoch(self, run):
            states.append(run.step.state)

    callbacks = [Measured([3, 1, 2]), Keep(), BestCheckpoint(file)]
    fit(step, loader(), epochs=3, callbacks=callbacks, progress=None)
    best, whole = made(), made()
    found = best.load(file)
    assert found.metadata == {"val_loss": 1, "steps": 10}
    whole.load_state(states[1])
    equal(best, whole)


def test_a_file_of_somebody_else_is_not_gone_on_from(tmp_path):
    file, step = tmp_path / "run.safetensors", made()
    step.save(file, loader=loader())
    with pytest.raises(CheckpointError, match="was not saved by fit"):
        fit(step, loader(), checkpoint=file, resume=True, progress=None)


def test_checkpoints_come_as_often_as_they_were_asked_for(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(
        Checkpoint, "save", lambda self, run: saved.append(run.steps) or setattr(self, "saved", run.steps)
    )
    for options, steps in (({}, [5, 10, 12]), ({"every_epochs": 2}, [10, 12]), ({"every_steps": 4}, [4, 5, 8, 10, 12])):
        fit(made(), loader(), steps=12, checkpoint=Checkpoint(tmp_path / "x", **options), progress=None)
        assert saved == steps
        saved.clear()


def test_loggers_are_told_of_everything():
    told, other = Told(), Told()
    step = made()
    history = fit(step, loader(), epochs=2, validation=data(), logger=[told, other], log_every=4, progress=None)
    assert told.lines == other.lines
    start, *lines, finish = told.lines
    assert start[1]["epochs"] == 2 and start[1]["hyper"]["lr"] == 0.05 and "22 rows" in start[1]["data"]
    assert finish == ("finish", "completed")
    assert [(line[1], *line[2]) for line in lines] == [
        (4, "loss"),
        (5, "val_loss"),
        (5, "epoch", "steps", "epoch_loss", "seconds"),
        (8, "loss"),
        (10, "val_loss"),
        (10, "epoch", "steps", "epoch_loss", "seconds"),
    ]
    assert lines[3][2]["loss"] == pytest.approx(history.losses[4:8].mean())


@pytest.mark.parametrize(("action", "status"), [(pressed, "interrupted"), (raised, "interrupted")])
def test_loggers_are_told_how_it_ended(action, status):
    told = Told()
    fit(made(), loader(), callbacks=[Stop(2, action)], logger=told, progress=None)
    assert told.lines[-1] == ("finish", status)


def test_lines_of_json(tmp_path):
    path = tmp_path / "logs" / "run.jsonl"
    rows = data()
    rows["y"][:] = np.inf
    step = made()
    fit(step, loader(), epochs=1, logger=JsonLogger(path), log_every=2, progress=None)
    with pytest.warns(ws.errors.SkippedStepWarning):
        fit(step, ws.Loader(rows, 5), epochs=1, logger=JsonLogger(path), log_every=5, progress=None)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        *["start", "log", "log", "log", "finish"],
        *["start", "log", "log", "finish"],
    ]
    assert (lines[1]["step"], lines[3]["epoch"], lines[4]["status"]) == (2, 1, "completed")
    assert lines[6]["loss"] == "nan" and np.isnan(float(lines[6]["loss"]))
    assert lines[0]["config"]["order"] == "shuffled; batches of 5, the last kept"
    assert all(line["seconds"] >= 0 for line in lines)


def test_lines_on_a_stream():
    stream = io.StringIO()
    logger = ConsoleLogger(stream)
    logger.start({"epochs": 2})
    logger.log(5, {"loss": 0.123456, "epoch": 1})
    logger.note(5, "a note")
    logger.finish("completed")
    assert stream.getvalue() == "start  epochs=2\nstep 5  loss 0.1235  epoch 1\nstep 5  a note\ncompleted\n"


def records(path):
    """The payloads of a TFRecord file."""
    blob, at, found = path.read_bytes(), 0, []
    while at < len(blob):
        (size,) = struct.unpack_from("<Q", blob, at)
        found.append(blob[at + 12 : at + 12 + size])
        at += 16 + size
    return found


@pytest.mark.skipif(importlib.util.find_spec("tensorboardX") is None, reason="tensorboardX is not installed")
@pytest.mark.filterwarnings("ignore")
def test_what_tensorboard_shows(tmp_path):
    event = pytest.importorskip("tensorboardX.proto.event_pb2").Event
    history = fit(made(), loader(), epochs=2, logger=TensorBoardLogger(tmp_path), log_every=5, progress=None)
    (file,) = tmp_path.glob("events*")
    events = [event.FromString(record) for record in records(file)]
    scalars = {(v.tag, e.step): v.simple_value for e in events for v in e.summary.value if v.HasField("simple_value")}
    assert {step for tag, step in scalars if tag == "loss"} == {5, 10}
    assert scalars["epoch_loss", 10] == pytest.approx(history["loss"][1])


@pytest.mark.filterwarnings("ignore")
def test_tensorboards_own_reader_finds_distributions_pictures_and_settings(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is an outside oracle"
    )
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    logger = TensorBoardLogger(tmp_path)
    logger.start({"rate": 0.1, "epochs": 3})
    logger.histogram(1, "weights", np.array([0.0, 1.0, 4.0, np.nan]))
    logger.image(1, "gray", np.array([[0.0, 1.0, 0.0]]))
    logger.image(2, "colour", np.full((2, 4, 3), [255, 0, 7], np.uint8))
    for wrong, error in {(2, 2, 4): ShapeError, (3,): ShapeError}.items():
        with pytest.raises(error, match=r"\[height, width\]"):
            logger.image(1, "wrong", np.zeros(wrong))
    with pytest.raises(DtypeError, match="no finite number"):
        logger.histogram(1, "wrong", np.array([np.inf]))
    logger.finish("completed")
    found = reader.EventAccumulator(str(tmp_path)).Reload()
    (counted,) = found.Histograms("weights")
    assert (counted.step, counted.histogram_value.num, counted.histogram_value.sum) == (1, 3, 5)
    pictures = {tag: found.Images(tag)[0].encoded_image_string for tag in ("gray", "colour")}
    gray, colour = [np.asarray(images.open(io.BytesIO(data)).convert("RGB")) for data in pictures.values()]
    assert gray[0, :, 0].tolist() == [0, 255, 0] and colour[1, 3].tolist() == [255, 0, 7]
    assert found.SummaryMetadata("_hparams_/session_start_info").plugin_data.plugin_name == "hparams"


def test_a_missing_tensorboard_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboardX" else find(name))
    with pytest.raises(MissingExtraError, match="tensorboardX is not installed"):
        TensorBoardLogger(tmp_path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: EarlyStopping(patience=0), "EarlyStopping: patience is 0"),
        (lambda: Best(mode="most"), "mode is 'most'"),
        (lambda: BestCheckpoint("x", min_delta=-1), "min_delta is -1"),
        (lambda: Checkpoint("x", every_steps=0), "every_steps is 0"),
        (lambda: LossLog(0), "LossLog: every is 0"),
    ],
)
def test_bad_numbers_are_refused(make, says):
    with pytest.raises(ParameterError, match=says):
        make()
