"""Services of others get the values of a run: through their packages if installed, else through fakes of them."""

import importlib
import io
import math
import struct
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import MissingExtraError
from wholestep.train.loop.run import Callback
from wholestep.train.loop.services import MLflowLogger, OptunaPruning, TqdmProgress, WandbLogger

X = np.arange(12.0).reshape(6, 2)


def run(**options):
    step = ws.compile(
        lambda w, x: np.mean((x @ w - 1) ** 2),
        np.zeros(2),
        optimizer=ws.optim.sgd(1e-3),
        batch=X[:2],
        device="reference",
    )
    loader = ws.Loader(X, batch_size=2, key=0)
    return ws.fit(step, loader, epochs=2, **{"progress": False, **options})


def test_wandb_gets_losses_and_the_end(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", wandb := MagicMock())
    run(logger=WandbLogger(project="p", mode="offline", config={"mine": 1}))
    said = wandb.init.call_args.kwargs
    assert (said["project"], said["mode"], said["config"]["mine"]) == ("p", "offline", 1) and len(said["config"]) > 1
    logged = wandb.init.return_value.log.call_args_list
    assert logged and logged[-1].kwargs == {"step": 6} and any("epoch_loss" in call.args[0] for call in logged)
    wandb.init.return_value.finish.assert_called_once_with(exit_code=0)


def test_mlflow_gets_losses_and_the_end(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", mlflow := MagicMock())
    run(logger=MLflowLogger(run_name="r"))
    mlflow.start_run.assert_called_once_with(run_name="r")
    assert mlflow.log_params.call_args.args[0]
    assert mlflow.log_metrics.call_args_list[-1].kwargs == {"step": 6}
    mlflow.end_run.assert_called_once_with("FINISHED")


class Failing(Callback):
    def on_epoch(self, run):
        raise ValueError("mine")


@pytest.mark.parametrize(("package", "make"), [("wandb", WandbLogger), ("mlflow", MLflowLogger)])
def test_a_run_that_fails_is_said_to_have_failed(package, make, monkeypatch):
    monkeypatch.setitem(sys.modules, package, fake := MagicMock())
    logger = make()
    with pytest.raises(ValueError, match="mine"):
        run(logger=logger, callbacks=[Failing()])
    if package == "wandb":
        fake.init.return_value.finish.assert_called_once_with(exit_code=1)
    else:
        fake.end_run.assert_called_once_with("FAILED")


def records(folder, protocol):
    """The records of the one run that W&B has kept in a folder, each part behind a header of seven bytes."""
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    raw, at, found, held = path.read_bytes(), 7, [], b""
    while at < len(raw):
        _, length, kind = struct.unpack_from("<IHB", raw, at)
        held, at = held + raw[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last part
            found.append(protocol.Record.FromString(held))
            held = b""
    return found


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.parametrize("fails", [False, True])
def test_wandb_itself_keeps_a_run_offline(fails, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is optional; not installed")
    protocol = importlib.import_module("wandb.proto.wandb_internal_pb2")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandbLogger(project="p", mode="offline", dir=tmp_path, config={"mine": 1})
    with pytest.raises(ValueError, match="mine") if fails else nullcontext():
        history = run(logger=logger, callbacks=[Failing()] if fails else [])
    wandb.teardown()
    found = records(tmp_path, protocol)
    kept = [{(i.key or i.nested_key[0]): i.value_json for i in r.history.item} for r in found if r.HasField("history")]
    settings = [{i.key: i.value_json for i in r.run.config.update} for r in found if r.HasField("run")]
    assert [r.exit.exit_code for r in found if r.HasField("exit")] == [int(fails)]
    assert settings[0]["mine"] == "1" and "hyper" in settings[0]
    if not fails:
        assert [int(row["_step"]) for row in kept] == [3, 6]
        assert [float(row["epoch_loss"]) for row in kept] == history["loss"].tolist()


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.parametrize("fails", [False, True])
def test_mlflow_itself_keeps_a_run_in_a_file(fails, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is optional; not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'runs.db'}")
    with pytest.raises(ValueError, match="mine") if fails else nullcontext():
        history = run(logger=MLflowLogger(run_name="r"), callbacks=[Failing()] if fails else [])
    client = mlflow.MlflowClient()
    (kept,) = client.search_runs([client.get_experiment_by_name("Default").experiment_id])
    assert (kept.info.run_name, kept.info.status) == ("r", "FAILED" if fails else "FINISHED")
    assert kept.data.params["hyper"] == "{'lr': 0.001}"
    if not fails:
        told = client.get_metric_history(kept.info.run_id, "epoch_loss")
        assert [(row.step, row.value) for row in told] == list(zip([3, 6], history["loss"].tolist(), strict=True))


class Pruned(Exception):
    """As optuna.TrialPruned."""


def test_a_trial_is_pruned_where_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", SimpleNamespace(TrialPruned=Pruned))
    trial = MagicMock()
    trial.should_prune.side_effect = [False, True]
    with pytest.raises(Pruned, match=r"val_loss is .* after 6 steps"):
        run(validation=X, callbacks=[OptunaPruning(trial)])
    assert [call.args[1] for call in trial.report.call_args_list] == [3, 6]
    assert all(math.isfinite(call.args[0]) for call in trial.report.call_args_list)


def test_optuna_itself_prunes():
    optuna = pytest.importorskip("optuna", reason="optuna is optional; not installed")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=-1.0))
    study.optimize(lambda trial: run(validation=X, callbacks=[OptunaPruning(trial)])["val_loss"][-1], n_trials=1)
    assert study.trials[0].state.name == "PRUNED" and list(study.trials[0].intermediate_values) == [3]


def test_a_bar_of_tqdm_counts_the_steps():
    pytest.importorskip("tqdm", reason="tqdm is optional; not installed")
    told = io.StringIO()
    run(callbacks=[TqdmProgress(file=told)])
    assert "6step" in told.getvalue() and "loss=" in told.getvalue()


@pytest.mark.parametrize("make", [WandbLogger, MLflowLogger, TqdmProgress, lambda: OptunaPruning(None)])
def test_a_service_that_is_not_installed_says_how_to_install_it(make, monkeypatch):
    for name in ("wandb", "mlflow", "optuna", "tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match="pip install"):
        make()
