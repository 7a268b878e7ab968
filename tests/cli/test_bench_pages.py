"""`wholestep bench pages`: its table and record, losses that differ, missing tools, and models in both libraries."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wholestep.cli import main
from wholestep.errors import CommandError
from wholestep_tools.bench import pages
from wholestep_tools.bench.page_models import MODELS
from wholestep_tools.bench.pages import PageRow

ROW = PageRow(
    {"wholestep": [0.01, 0.02, 0.01], "tensorgrad": [0.06, 0.06, 0.08]},
    {"wholestep": 7, "tensorgrad": 84},
    {"wholestep": [2.0, 1.0], "tensorgrad": [2.0, 1.0001]},
    5.0,
)


class Browser:
    """A browser that opens nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, method: str) -> dict[str, str]:
        return {"product": "Chrome/1"}

    def close(self) -> None:
        """End it."""


@contextmanager
def tab(*given: Any) -> Any:
    yield None


@pytest.fixture
def measured(monkeypatch: Any) -> list[PageRow]:
    """A list of rows, the last one of which takes the place of a measurement by a browser."""
    rows = [ROW]
    for name, value in {"CHROMIUM": "there", "Chromium": Browser, "opened": tab, "npm": lambda *given: Path()}.items():
        monkeypatch.setattr(pages, name, value)
    monkeypatch.setattr(pages, "version", lambda script: pages.PACKAGE)
    monkeypatch.setattr(pages, "measured", lambda tab, rounds, asked: rows[-1])
    return rows


def test_the_table_and_its_record(measured: Any, capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "pages.json"
    assert main(["bench", "pages", "--models", "cnn", "--json", str(file)]) == 0
    assert main(["bench", "pages", "--models", "mlp", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["cnn", "10.0", "ms", "60.0", "ms", "7", "84", "6.00", "5"]
    assert list(json.loads(file.read_text())["models"]) == ["mlp", "cnn"], "other models stay"
    page = pages.page_table(file)
    assert page[0].endswith("Chrome/1, tensorgrad@0.4.6: the median of turns.")
    assert page[-1] == "| cnn | 10.0 ms | 60.0 ms | 7 | 84 | 6.00 | 5 |"
    assert pages.page_table(tmp_path / "none.json") == []


def test_other_losses_are_told(measured: Any, capsys: Any) -> None:
    measured.append(ROW._replace(losses={"wholestep": [2.0], "tensorgrad": [2.1]}))
    assert main(["bench", "pages", "--models", "mlp"]) == 1
    assert "mlp: the losses of tensorgrad are others by 4.8e-02" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--models", "vit"], "there is no model 'vit'"), (["--json", "no such folder/file"], "there is no folder")],
)
def test_wrong_options_are_told(capsys: Any, options: list[str], says: str) -> None:
    assert main(["bench", "pages", *options]) == 1
    assert says in capsys.readouterr().err


def test_what_is_missing_is_told(measured: Any, monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "CHROMIUM", None)
    assert main(["bench", "pages"]) == 1
    assert "there is no Chromium" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(pages.shutil, "which", lambda name: None)
    with pytest.raises(CommandError, match="there is no npm"):
        pages.npm(pages.PACKAGE, tmp_path)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains(name: str) -> None:
    """Parameters have the names by which the other library gives and takes them."""
    model = MODELS[name]()
    step = model.step()
    losses = [step(dict(model.batch)).loss for _ in range(6)]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert all(x.dtype == np.float32 for x in model.params.values())
