"""Loggers and callbacks for external services: Weights & Biases, MLflow, Optuna and tqdm."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from wholestep.errors import MissingExtraError
from wholestep.train.loop.callbacks import Best
from wholestep.train.loop.run import Callback, TrainingRun

ENDS = {"completed": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
"""MLflow's status for each end of a run; a run that a callback stopped is finished too."""


def service(name: str) -> Any:
    """Import a package; raises MissingExtraError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"{name} is not installed", hint=f"pip install {name}") from error


class WandbLogger:
    """A run of Weights & Biases; `options` go to `wandb.init`, such as `project=` and `mode="offline"`.

    Shapes: no arrays.
    Raises: MissingExtraError where wandb is not installed.

    >>> log = WandbLogger(project="digits", mode="offline")
    """

    def __init__(self, **options: Any) -> None:
        self.wandb, self.options = service("wandb"), options
        self.run: Any = None

    def start(self, config: Mapping[str, Any]) -> None:
        self.run = self.wandb.init(**{**self.options, "config": {**config, **self.options.get("config", {})}})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def note(self, step: int, text: str) -> None:
        self.run.log({"note": text}, step=step)

    def finish(self, status: str) -> None:
        self.run.finish(exit_code=int(status == "failed"))


class MLflowLogger:
    """A run of MLflow, with the metrics of each step; `options` go to `mlflow.start_run`, such as `run_name=`.

    MLflow's own settings say where it is kept: `mlflow.set_tracking_uri("sqlite:///runs.db")` is a file here.

    Shapes: no arrays.
    Raises: MissingExtraError where mlflow is not installed.

    >>> log = MLflowLogger(run_name="first")
    """

    def __init__(self, **options: Any) -> None:
        self.mlflow, self.options = service("mlflow"), options

    def start(self, config: Mapping[str, Any]) -> None:
        self.mlflow.start_run(**self.options)
        self.mlflow.log_params(dict(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.mlflow.log_metrics(dict(values), step=step)

    def note(self, step: int, text: str) -> None:
        self.mlflow.set_tag(f"note {step}", text)

    def finish(self, status: str) -> None:
        self.mlflow.end_run(ENDS.get(status, "FINISHED"))


class OptunaPruning(Best):
    """Report a metric to a trial of Optuna after each epoch, and raise TrialPruned where Optuna prunes the trial.

    `metric` is the name of an evaluation's value or of a column of the history, as for `EarlyStopping`.

    Shapes: no arrays; `trial` is one of Optuna's.
    Raises: MissingExtraError where optuna is not installed.

    >>> study.optimize(lambda trial: fitted(trial, callbacks=[OptunaPruning(trial)])["val_loss"][-1], n_trials=20)
    """

    def __init__(self, trial: Any, metric: str = "val_loss") -> None:
        super().__init__(metric)
        self.trial, self.pruned = trial, service("optuna").TrialPruned

    def seen(self, run: TrainingRun, value: float) -> None:
        self.trial.report(value, run.step.steps)
        if self.trial.should_prune():
            raise self.pruned(f"{self.metric} is {value:.4g} after {run.step.steps} steps")


class TqdmProgress(Callback):
    """A bar of tqdm with the mean of the last hundred losses, for `fit(progress=False)`.

    `options` go to `tqdm`, such as `file=`.

    Shapes: no arrays.
    Raises: MissingExtraError where tqdm is not installed.

    >>> history = fit(step, loader, progress=False, callbacks=[TqdmProgress()])
    """

    def __init__(self, **options: Any) -> None:
        self.tqdm, self.options = service("tqdm.auto").tqdm, options
        self.bar: Any = None

    def on_start(self, run: TrainingRun) -> None:
        self.bar = self.tqdm(**{"unit": "step", **self.options})

    def on_step(self, run: TrainingRun) -> None:
        # The bar does not wait for a loss that is still being computed.
        self.bar.set_postfix(loss=f"{run.recent_loss:.4g}", refresh=False)
        self.bar.update(run.steps - self.bar.n)

    def on_end(self, run: TrainingRun) -> None:
        self.bar.close()
