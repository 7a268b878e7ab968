"""`wholestep train digits` as a user runs it: its accuracy, the files that it saves, its output, and its errors."""

import ast
import doctest
import importlib.metadata
import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from tests.cli.interrupted import compiled_once, pressing, same_bits

import wholestep as ws
import wholestep.cli
from wholestep import nn
from wholestep.cli import digits, main
from wholestep.cli.train import digits as job
from wholestep.train.data import datasets
from wholestep.train.loop import loss_chart

__all__ = ["compiled_once"]
pytestmark = pytest.mark.usefixtures("compiled_once")

PNG = b"\x89PNG\r\n\x1a\n"
BRIEF = ("--epochs", "2", "--batch-size", "256")
STEPS = 12


@pytest.fixture
def untimed(monkeypatch):
    """The comparison with the interpreter, which takes its time, is left to the test of the whole run."""
    monkeypatch.setattr(job, "least_seconds", lambda call, times: 1.0)


def run(tmp_path, *options):
    return main(["train", "digits", "--out", str(tmp_path / "out"), *options])


def reads(params, x):
    """The digits (n,) that a saved model recognizes in images."""
    model = nn.join(digits.DigitReader(key=ws.random.key(0)), params).eval()
    return np.argmax(model(x), axis=1)


def test_the_whole_run_reads_985_of_1000(tmp_path, capsys):
    assert run(tmp_path) == 0
    text = capsys.readouterr().out
    accuracy = float(re.search(r"validation +([\d.]+)% read correctly", text)[1])
    assert accuracy >= 98.5
    model, split = load_file(tmp_path / "out" / "model.safetensors"), datasets.split_digits(0)
    found = reads(model, split.test_x)
    assert f"{(found == split.test_y).sum()} of {len(found)} images" in text
    assert all(array.dtype == np.float32 for array in model.values())
    each = re.search(r"each step +([\d.]+) ms compiled, (\d+) ms in the reference interpreter  \(900 steps\)", text)
    assert 0 < float(each[1]) < float(each[2])


@pytest.mark.usefixtures("untimed")
def test_the_report_names_its_files_and_draws_the_loss(tmp_path, capsys):
    assert run(tmp_path, *BRIEF) == 0
    text = capsys.readouterr().out
    out = tmp_path / "out"
    assert (out / "report.png").read_bytes().startswith(PNG)
    saved = ["checkpoint.previous.safetensors", "checkpoint.safetensors", "model.safetensors", "report.png"]
    assert sorted(p.name for p in out.iterdir()) == saved
    assert str(out / "model.safetensors") in text and str(out / "report.png") in text
    assert text.count("*") >= 2 and "+--" in text
    assert [line[:9] for line in text.splitlines() if line.startswith("epoch")] == ["epoch 1/2", "epoch 2/2"]
    with safe_open(out / "model.safetensors", "np") as file:
        assert file.metadata()["steps"] == str(STEPS)


def test_another_seed_is_another_model():
    first, again, other = [digits.DigitReader(key=ws.random.key(seed)) for seed in (5, 5, 6)]
    for path, x in nn.named_parameters(first).items():
        assert np.array_equal(x, nn.named_parameters(again)[path])
    assert not np.array_equal(first.first.weight, other.first.weight)


@pytest.mark.usefixtures("untimed")
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(tmp_path, capsys, monkeypatch):
    at = 5
    assert run(tmp_path / "whole", *BRIEF) == 0
    with monkeypatch.context() as patch:
        patch.setattr(job, "fit", pressing(job.fit, at))
        assert run(tmp_path / "parts", *BRIEF) == 130
    text = capsys.readouterr().out
    assert re.search(rf"stopped after {at} steps; .*--resume\nkeeping and measuring what there is; Ctrl-C again", text)
    assert "validation  " in text
    out = tmp_path / "parts" / "out"
    assert (out / "report.png").read_bytes().startswith(PNG)
    with safe_open(out / "model.safetensors", "np") as file:
        assert file.metadata()["steps"] == str(at)
    assert run(tmp_path / "parts", *BRIEF, "--resume") == 0
    assert same_bits(*[tmp_path / name / "out" / "checkpoint.safetensors" for name in ("whole", "parts")])


@pytest.mark.usefixtures("untimed")
def test_a_checkpoint_of_another_run_is_refused(tmp_path, capsys):
    assert run(tmp_path, "--resume") == 1
    assert "there is no checkpoint" in capsys.readouterr().err
    assert run(tmp_path, "--epochs", "1", "--batch-size", "256") == 0
    said = []
    for changed in (["--seed", "1"], ["--epochs", "2"], ["--batch-size", "128", "--epochs", "1"]):
        assert run(tmp_path, "--epochs", "1", "--batch-size", "256", *changed, "--resume") == 1
        said.append(capsys.readouterr().err)
    assert "is of a run with another --seed than 1" in said[0]
    assert "give the --epochs of that run" in said[1]
    assert "batches of 256" in said[2]
    assert all("of that run, or leave --resume out to begin anew" in said[i] for i in (0, 2))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--epochs", "0"], "--epochs: must be 1 or more, not 0"),
        (["--epochs", "many"], "--epochs: 'many' is not an integer"),
        (["--batch-size", "-3"], "--batch-size: must be 1 or more"),
        (["--seed", "1.5"], "--seed: '1.5' is not an integer"),
        (["--speed", "2"], "--speed"),
    ],
)
def test_bad_values_are_refused_before_anything_is_made(tmp_path, capsys, options, says):
    assert run(tmp_path, *options) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [[], ["train"], ["train", "cats"], ["fly"]])
def test_an_unknown_command_shows_the_known_ones(capsys, command):
    assert main(command) == 2
    assert "usage: wholestep" in capsys.readouterr().err


def test_help_shows_defaults(capsys):
    assert main(["train", "digits", "--help"]) == 0
    text = capsys.readouterr().out
    assert "default: 20" in text and "wholestep-digits" in text and "--resume" in text


def test_a_batch_larger_than_the_data_is_refused(tmp_path, capsys):
    assert run(tmp_path, "--batch-size", "5000") == 1
    assert "more than the 1438 training images" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path, capsys):
    (tmp_path / "out").write_text("a file in the way")
    assert run(tmp_path) == 1
    error = capsys.readouterr().err
    assert "cannot write to" in error and "--out" in error and "\n" not in error.strip()


@pytest.mark.parametrize("package", ["sklearn", "matplotlib"])
def test_a_missing_extra_says_what_to_install(tmp_path, capsys, monkeypatch, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    assert run(tmp_path) == 1
    assert f'{package} is not installed; hint: install "wholestep[train]"' in capsys.readouterr().err


def test_an_interruption_before_the_first_step_is_no_traceback(tmp_path, capsys, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "load", stop)
    assert run(tmp_path) == 130
    assert capsys.readouterr().err == "wholestep: stopped\n"


@pytest.mark.usefixtures("untimed")
def test_a_second_interruption_leaves_at_once_and_says_what_is_kept(tmp_path, capsys, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "fit", pressing(job.fit, 5))
    monkeypatch.setattr(job.DigitsRun, "read", stop)
    assert run(tmp_path, *BRIEF) == 130
    said = capsys.readouterr()
    kept = tmp_path / "out" / "checkpoint.safetensors"
    assert "Ctrl-C again leaves at once" in said.out
    assert said.err.endswith(f"stopped before the report; the checkpoint of step 5 is {kept}\n") and kept.exists()


@pytest.mark.skipif(os.name == "nt", reason="no such modes there")
@pytest.mark.usefixtures("untimed")
def test_every_file_can_be_read_by_whom_the_mask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        assert run(tmp_path, *BRIEF) == 0
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "out").iterdir()} == {"0o644"}


def test_the_version_and_the_defaults_are_said(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"wholestep {importlib.metadata.version('wholestep')}\n"
    for command in (["train", "digits"], ["audit", "files"], ["bench"], ["depth"]):
        assert main([*command, "--help"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "default: False" not in said and "default: None" not in said
    assert main(["train", "digits", "--help"]) == 0
    assert "images in each step (default: 32)" in capsys.readouterr().out


def test_the_command_loads_nothing_heavy_until_it_needs_it():
    code = (
        "import sys, wholestep.cli; print([m for m in ('sklearn', 'matplotlib', 'rich', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_python_m_wholestep_is_the_command():
    found = subprocess.run([sys.executable, "-m", "wholestep", "--help"], capture_output=True, text=True, check=True)
    assert "train" in found.stdout


def test_the_model_and_its_step_can_be_copied():
    source = Path(digits.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) < 60
    modules = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert modules <= {"numpy", "wholestep", "typing"}


@pytest.mark.parametrize(
    "values", [[1.0], [1.0, 1.0], [math.nan, 2.0, 1.0], [0.0, 3.0], list(np.geomspace(5, 1e-6, 500))]
)
def test_a_chart_fits_its_width_and_is_ascii(values):
    text = loss_chart.chart(values)
    assert text.isascii() and "*" in text
    assert max(map(len, text.splitlines())) <= 11 + 60


def test_a_chart_of_nothing_says_so():
    assert "no finite loss" in loss_chart.chart([math.nan, math.inf])


def test_the_split_is_disjoint_and_covers_everything():
    split = datasets.split_digits(3)
    assert len(split.train_y) + len(split.test_y) == 1797
    assert split.train_x.dtype == np.float32 and split.train_x.max() == 1 and split.train_x.min() == 0
    assert np.array_equal(split.test_y, datasets.split_digits(3).test_y)
    assert not np.array_equal(split.test_y, datasets.split_digits(4).test_y)


@pytest.mark.parametrize("module", [datasets, loss_chart, wholestep.cli])
def test_examples_run(module, capsys):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
