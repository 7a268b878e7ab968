"""`wholestep train tabular` as a user runs it: an honest table, results that are kept, and results that are refused."""

import json
import re

import numpy as np
import pytest

from wholestep.cli import main
from wholestep.cli.train import tabular as job

PNG = b"\x89PNG\r\n\x1a\n"


class Guess:
    """Stands for a model, at no cost: the mean, or the most frequent class."""

    fits = 0

    def fit(self, x, y):
        type(self).fits += 1
        values, counts = np.unique(y, return_counts=True)
        self.value, self.loss_curve_ = values[np.argmax(counts)] if len(values) < 4 else y.mean(), [2.0, 1.0]
        return self

    def score(self, x, y):
        return float(np.mean(y == self.value))


@pytest.fixture
def quick(monkeypatch):
    Guess.fits = 0
    monkeypatch.setattr(job, "models", lambda classes, seed: dict.fromkeys(("wholestep", "boosting", "linear"), Guess))


def run(tmp_path, *options):
    return main(["train", "tabular", "--out", str(tmp_path), *options])


def test_a_table_is_learnt_about_as_well_as_by_boosting(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(job, "TABLES", {name: job.TABLES[name] for name in ("friedman", "breast cancer")})
    assert run(tmp_path, "--folds", "2", "--repeats", "1") == 0
    said = capsys.readouterr().out
    found = {(name, float(mean)) for name, mean in re.findall(r"^  (\w+) +(-?[\d.]+) \+- ", said, re.M)}
    assert {name for name, _ in found} == {"wholestep", "boosting", "ridge", "logistic"}
    regression, classes = said.split("\n\n")[:2]
    for part in (regression, classes):
        ours, boosting, _ = [float(x) for x in re.findall(r" +(-?[\d.]+) \+- ", part)]
        assert ours > boosting - 0.05
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("option", [("--folds", "1000"), ("--seed", str(2**32))])
def test_numbers_that_are_too_large_are_said_before_anything_is_trained(tmp_path, capsys, option):
    assert run(tmp_path, *option) == 1
    assert capsys.readouterr().err.startswith(f"wholestep: {' '.join(option)} is ")


def test_every_row_is_held_out_once_in_each_repetition():
    for table in job.TABLES.values():
        _, y = table.data()
        parts = [(set(train), list(test)) for train, test in job.folds(table, y, 3, 2, 0)]
        assert len(parts) == 6
        assert all(train.isdisjoint(test) and len(train) + len(test) == len(y) for train, test in parts)
        assert sorted(row for _, test in parts[:3] for row in test) == list(range(len(y)))


@pytest.mark.usefixtures("quick")
def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path, capsys, monkeypatch):
    def stopping(self, name, result):
        keep(self, name, result)
        if len(self.results) == 7:
            raise KeyboardInterrupt

    keep = job.Notes.note
    with monkeypatch.context() as patch:
        patch.setattr(job.Notes, "note", stopping)
        assert run(tmp_path, "--repeats", "1") == 130
    assert "stopped after 7 fits" in capsys.readouterr().out
    first = json.loads((tmp_path / "results.json").read_text())["results"]
    assert run(tmp_path, "--repeats", "1", "--resume") == 0
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert Guess.fits == len(results) == 3 * 3 * 5
    assert {name: results[name] for name in first} == first


@pytest.mark.usefixtures("quick")
def test_results_of_another_run_and_damaged_ones_are_refused(tmp_path, capsys):
    assert run(tmp_path, "--resume") == 1
    assert "there is no checkpoint" in capsys.readouterr().err
    assert run(tmp_path, "--repeats", "1") == 0
    assert run(tmp_path, "--repeats", "1", "--seed", "3", "--resume") == 1
    assert "'seed': 0" in capsys.readouterr().err
    for damaged in ("", "[]", '{"settings": {}, "results": [1]}', '{"settings": {}, "results": {"a": ["b", 1]}}'):
        (tmp_path / "results.json").write_text(damaged)
        assert run(tmp_path, "--resume") == 1
        assert "holds no results of this job" in capsys.readouterr().err
    assert run(tmp_path, "--folds", "1") == 2
