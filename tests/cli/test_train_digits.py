"""`wholestep train digits` as a user runs it: what it reaches, what it saves, what it says, and how it fails."""

import ast
import doctest
import importlib.util
import io
import math
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import wholestep.cli
from wholestep.cli import digits, main
from wholestep.cli.train import train_digits
from wholestep.train import data, progress, report

PNG = b"\x89PNG\r\n\x1a\n"


def run(tmp_path, *options):
    return main(["train", "digits", "--out", str(tmp_path / "out"), *options])


def test_the_whole_run_reads_97_of_100_well_inside_a_minute(tmp_path, capsys):
    before = time.perf_counter()
    assert run(tmp_path) == 0
    assert time.perf_counter() - before < 60
    text = capsys.readouterr().out
    accuracy = float(re.search(r"test accuracy +([\d.]+)%", text)[1])
    assert accuracy >= 97
    model, split = load_file(tmp_path / "out" / "model.safetensors"), data.digits(0)
    read = digits.scores(model, split.test_x).argmax(1)
    assert f"{(read == split.test_y).sum()} of {len(read)} images" in text
    assert all(array.dtype == np.float32 for array in model.values())


def test_the_report_names_its_files_and_draws_the_loss(tmp_path, capsys):
    assert run(tmp_path, "--epochs", "3", "--batch-size", "128") == 0
    text = capsys.readouterr().out
    out = tmp_path / "out"
    assert (out / "report.png").read_bytes().startswith(PNG)
    assert sorted(p.name for p in out.iterdir()) == ["model.safetensors", "report.png"]
    assert str(out / "model.safetensors") in text and str(out / "report.png") in text
    assert text.count("*") >= 3 and "+---" in text
    assert [line[:9] for line in text.splitlines() if line.startswith("epoch")] == [
        "epoch 1/3",
        "epoch 2/3",
        "epoch 3/3",
    ]
    with safe_open(out / "model.safetensors", "np") as file:
        assert file.metadata()["steps"] == "36"


def test_ten_lines_of_progress_where_there_is_no_terminal(tmp_path):
    stream = io.StringIO()
    with progress.Progress(100, stream) as say:
        for i in range(100):
            say(i + 1, "loss 1")
    assert stream.getvalue().count("\n") == 11
    assert "\x1b" not in stream.getvalue()


def test_a_line_that_moves_where_there_is_one():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with progress.Progress(3, stream) as say:
        for i in range(3):
            say(i + 1, "loss 1")
    assert "3/3" in stream.getvalue() and "loss 1" in stream.getvalue()


def test_the_same_seed_gives_the_same_model(tmp_path):
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        assert run(tmp_path / name, "--epochs", "1", "--seed", seed) == 0
    a, b, c = [load_file(tmp_path / name / "out" / "model.safetensors") for name in "abc"]
    assert all(np.array_equal(a[k], b[k]) for k in a)
    assert not np.array_equal(a["w0"], c["w0"])


@pytest.mark.parametrize("steps", [0, 7, 30])
def test_an_interruption_keeps_what_there_is_and_says_so(tmp_path, capsys, monkeypatch, steps):
    calls, whole = [], digits.step

    def step(*args):
        if len(calls) == steps:
            raise KeyboardInterrupt
        calls.append(whole(*args))
        return calls[-1]

    monkeypatch.setattr(digits, "step", step)
    assert run(tmp_path) == 130
    text = capsys.readouterr().out
    assert f"stopped after {steps} steps; keeping what there is" in text
    assert "test accuracy" in text
    out = tmp_path / "out"
    assert len(load_file(out / "model.safetensors")) == 6
    assert (out / "report.png").read_bytes().startswith(PNG)


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
    assert "default: 40" in text and "wholestep-digits" in text


def test_a_batch_larger_than_the_data_is_refused(tmp_path, capsys):
    assert run(tmp_path, "--batch-size", "5000") == 1
    assert "more than the 1438 images" in capsys.readouterr().err


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


def test_an_interruption_before_the_first_step_is_no_traceback(capsys, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(wholestep.cli, "train_digits", stop)
    assert main(["train", "digits"]) == 130
    assert "before anything was saved" in capsys.readouterr().err


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
    assert len(source.splitlines()) < 40
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
    text = report.chart(values)
    assert text.isascii() and "*" in text
    assert max(map(len, text.splitlines())) <= 11 + 60


def test_a_chart_of_nothing_says_so():
    assert "no finite loss" in report.chart([math.nan, math.inf])


def test_the_split_is_disjoint_and_covers_everything():
    split = data.digits(3)
    assert len(split.train_y) + len(split.test_y) == 1797
    assert split.train_x.dtype == np.float32 and split.train_x.max() == 1 and split.train_x.min() == 0
    assert np.array_equal(split.test_y, data.digits(3).test_y)
    assert not np.array_equal(split.test_y, data.digits(4).test_y)


@pytest.mark.parametrize("module", [data, report, wholestep.cli])
def test_examples_run(module, capsys):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_the_job_can_be_called_directly(tmp_path):
    stream = io.StringIO()
    assert train_digits(1, 0, 512, tmp_path / "deep" / "er", stream) == 0
    assert "test accuracy" in stream.getvalue()
