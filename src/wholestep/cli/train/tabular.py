"""`wholestep train tabular`: small tables by networks, beside gradient boosting and a linear model, cross-validated."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.cli.options import integer_at_least
from wholestep.cli.train.shared import INTERRUPTED, JobFiles, add_checkpoint, add_job, files_of_job
from wholestep.errors import CommandError
from wholestep.ir.graph import NDArray
from wholestep.train.data.datasets import need
from wholestep.train.loop.loss_chart import blank_figure, finish_figure

ABOUT = "Train networks on three tables of scikit-learn by its own interface, and compare them with gradient boosting "
ABOUT += "and a linear model on the same folds: R2 for regression, accuracy for classification. Networks are ahead "
ABOUT += "where the target is a smooth function of many inputs; on the third table, nearly linear, nothing is gained."

SEEDS = 2**32
"""The number of seeds that scikit-learn knows."""

Result = tuple[float, float]
"""The score on the held-out rows, and the seconds that fitting took."""


class Table(NamedTuple):
    """One data set: its loader or generator in scikit-learn, the options of that call, and True for classification."""

    source: str
    options: dict[str, Any]
    classes: bool

    def data(self) -> tuple[NDArray, NDArray]:
        """Inputs f64[n, features] and targets."""
        from sklearn import datasets

        x, y = getattr(datasets, self.source)(**self.options)
        return x, y


TABLES = {
    "friedman": Table("make_friedman1", {"n_samples": 600, "noise": 0.5, "random_state": 0}, classes=False),
    "digits": Table("load_digits", {"return_X_y": True}, classes=True),
    "breast cancer": Table("load_breast_cancer", {"return_X_y": True}, classes=True),
}
"""Friedman's first function of five of ten inputs (1991), images of 8 x 8 as 64 numbers, and cells."""


def models(classes: bool, seed: int) -> dict[str, Callable[[], Any]]:
    """The compared models with their default settings, none of which is tuned to a table."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if classes:
        return {
            "wholestep": lambda: ws.WholestepClassifier(random_state=seed),
            "boosting": lambda: GradientBoostingClassifier(random_state=seed),
            "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        }
    return {
        "wholestep": lambda: ws.WholestepRegressor(random_state=seed),
        "boosting": lambda: GradientBoostingRegressor(random_state=seed),
        "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }


def folds(table: Table, y: NDArray, count: int, repeats: int, seed: int) -> Iterator[tuple[NDArray, NDArray]]:
    """Rows to train and to test on: every row is tested on once in each repetition."""
    from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

    kind = RepeatedStratifiedKFold if table.classes else RepeatedKFold
    found: Iterator[tuple[NDArray, NDArray]] = kind(n_splits=count, n_repeats=repeats, random_state=seed).split(y, y)
    return found


def check_folds_and_seed(options: argparse.Namespace) -> None:
    """Raise CommandError for a seed that scikit-learn does not take, and for more folds than rows."""
    if options.seed >= SEEDS:
        raise CommandError(f"--seed {options.seed} is too large for scikit-learn", hint=f"give less than {SEEDS}")
    most = min(map(rows_to_part, TABLES.values()))
    if options.folds > most:
        raise CommandError(f"--folds {options.folds} is more than the {most} rows of the smallest class of a table")


def rows_to_part(table: Table) -> int:
    """The number of rows of a table, or of its smallest class."""
    _, y = table.data()
    return int(np.min(np.unique(y, return_counts=True)[1])) if table.classes else len(y)


class Notes:
    """The results so far, kept in a file, so that a stopped run can be resumed."""

    def __init__(self, where: JobFiles, settings: dict[str, int]) -> None:
        self.file, self.settings = where.checkpoint, settings
        self.results: dict[str, Result] = read_results(self.file, settings) if where.resume else {}

    def note(self, name: str, result: Result) -> None:
        """Keep a result; the file is replaced in one instant."""
        self.results[name] = result
        beside = self.file.with_name(self.file.name + ".new")
        beside.write_text(json.dumps({"settings": self.settings, "results": self.results}, indent=1), encoding="utf-8")
        os.replace(beside, self.file)


def read_results(file: Path, settings: dict[str, int]) -> dict[str, Result]:
    """The results in a file; raises CommandError for one that is damaged, or of a run with other settings."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        theirs, results = found["settings"], found["results"]
        kept = {str(name): (float(score), float(seconds)) for name, (score, seconds) in results.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{file} holds no results of this job: {error}") from None
    if theirs != settings:
        raise CommandError(f"{file} is of a run with {theirs}, and this one has {settings}")
    return kept


def compared(name: str, notes: Notes, last: dict[str, Any]) -> None:
    """Fit and score every model on every fold of a table without a result; `last` gets the last networks."""
    table = TABLES[name]
    x, y = table.data()
    options = notes.settings
    makers = models(table.classes, options["seed"])
    for i, (train, test) in enumerate(folds(table, y, options["folds"], options["repeats"], options["seed"])):
        for model, make in makers.items():
            place = f"{name}/{model}/{i}"
            if place not in notes.results:
                before = time.perf_counter()
                fitted = make().fit(x[train], y[train])
                seconds = time.perf_counter() - before
                notes.note(place, (float(fitted.score(x[test], y[test])), seconds))
                if model == "wholestep":
                    last[name] = fitted


def add(jobs: Any) -> None:
    """Add the job to the command line."""
    job = add_job(jobs, "tabular", "compare with boosting and linear models on tables", ABOUT, "wholestep-tabular")
    job.add_argument("--folds", type=integer_at_least(2), default=5, metavar="N", help="parts that a table is cut into")
    job.add_argument("--repeats", type=integer_at_least(1), default=2, metavar="N", help="how often, each time anew")
    add_checkpoint(job, "results.json")
    job.set_defaults(run=train_tabular)


def train_tabular(options: argparse.Namespace) -> int:
    """Compare and report; returns 0, or 130 where the user stopped it, with the results so far kept."""
    need("sklearn", "matplotlib", extra="train")
    check_folds_and_seed(options)
    where = files_of_job(options, "results.json")
    notes = Notes(where, {"seed": options.seed, "folds": options.folds, "repeats": options.repeats})
    last: dict[str, Any] = {}
    try:
        for name in TABLES:
            compared(name, notes, last)
            print(f"\n{score_lines(name, notes)}", flush=True)
    except KeyboardInterrupt:
        print(f"\nstopped after {len(notes.results)} fits; {where.checkpoint} is there to go on from with --resume")
        return INTERRUPTED
    if last:
        image = where.folder / "report.png"
        save_loss_curve(image, last)
        print(f"\nresults        {where.checkpoint}\nreport         {image}")
    return 0


def score_lines(name: str, notes: Notes) -> str:
    """A table's results in lines: mean, deviation among the folds, and the time of one fit."""
    x, y = TABLES[name].data()
    what = "accuracy" if TABLES[name].classes else "R2"
    lines = [f"{name}: {what} on held-out rows, {len(y)} rows of {x.shape[1]} numbers"]
    for model in models(TABLES[name].classes, 0):
        found = np.array([result for at, result in notes.results.items() if at.startswith(f"{name}/{model}/")])
        mean, spread, seconds = found[:, 0].mean(), found[:, 0].std(), np.median(found[:, 1])
        lines.append(f"  {model:<10} {mean:.3f} +- {spread:.3f}   {seconds * 1e3:7.0f} ms to fit")
    return "\n".join(lines)


def save_loss_curve(image: Path, fitted: dict[str, Any]) -> None:
    """Save a PNG: the training loss of the network that saw a table's last fold."""
    figure = blank_figure(3.2 * len(fitted), 3.2)
    for axes, (name, model) in zip(np.atleast_1d(figure.subplots(1, len(fitted))), fitted.items(), strict=True):
        axes.plot(np.arange(1, len(model.loss_curve_) + 1), model.loss_curve_)
        axes.set(title=name, xlabel="epoch", ylabel="training loss", yscale="log")
    finish_figure(figure, image)
