"""`wholestep bench decode`: its table and record, and that tokens other than the whole forward pass gives are told."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wholestep import nn
from wholestep.cli import main
from wholestep_tools.bench import decode

FEW = ["bench", "decode", "--peers", "", "--count", "3", "--rounds", "1", "--threads", "1", "--only", "highest score"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(decode, "WIDTH", 16)
    monkeypatch.setattr(decode, "LAYERS", 1)
    monkeypatch.setattr(decode, "floor", lambda model: 1e-5)


def test_the_table_and_the_record(capsys, tmp_path):
    file = tmp_path / "found.json"
    assert main([*FEW, "--json", str(file)]) == 0
    *_, header, line = capsys.readouterr().out.splitlines()
    assert header.split() == "tokens a second wholestep ratio asked weights read".split()
    assert line.split()[:2] == ["highest", "score"] and line.split()[-1] == "100000"
    record = json.loads(file.read_text())
    assert record["threads"] == 1 and record["rows"][0]["seconds"]["wholestep"] > 0
    assert decode.page_table(file)[2].startswith("| tokens a second | wholestep | ratio |")


def test_the_ratio_is_of_the_best_other_library():
    times = {"wholestep": 1e-4, "torch": 8e-4, "torch.compile": 4e-4}
    row = decode.Row("highest score", times, times, 5e-5)
    assert decode.line(row, list(times)) == ["highest score", "10000", "1250", "2500", "4.00", "5.0", "20000"]


def test_other_tokens_are_told(monkeypatch, capsys):
    generate = nn.generate
    monkeypatch.setattr(nn, "generate", lambda *args, **options: np.roll(generate(*args, **options), 1, axis=-1))
    assert main(FEW) == 1
    assert "tokens are not those of the whole forward pass" in capsys.readouterr().err


def test_names_that_there_are_not(capsys):
    assert main([*FEW[:-1], "lowest*"]) == 1 and "nothing is called 'lowest*'" in capsys.readouterr().err
    assert main([*FEW, "--peers", "jax"]) == 1 and "there is no peer 'jax'" in capsys.readouterr().err
