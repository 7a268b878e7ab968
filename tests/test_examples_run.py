"""The scripts in examples/ run as they are, briefly; they resume, and are short enough to be read at a glance."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from wholestep_tools.site import gallery

EXAMPLES = Path(__file__).parent.parent / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def page(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Run in a folder of the test's own, to which the examples write."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_it_is_a_page_that_says_how_to_run_it(file):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert f"python examples/{file.name} --resume" in text
    assert f"examples/{file.name}" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", gallery.files(), ids=lambda file: file.stem)
def test_an_example_of_the_gallery_reaches_its_number(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 120
    module = gallery.loaded(file)
    assert 0 <= module.main() <= module.BOUND


@pytest.mark.parametrize("file", gallery.files(), ids=lambda file: file.stem)
def test_the_gallery_has_what_the_example_says(file):
    module, found = gallery.loaded(file), json.loads(gallery.REACHED.read_text(encoding="utf-8"))["examples"][file.stem]
    assert (found["quantity"], found["bound"]) == (module.QUANTITY, module.BOUND)
    assert 0 <= found["reached"] <= found["bound"]
    assert gallery.first_sentence(file).endswith((".", ":")) and f"gallery/{file.name}" in gallery.page()


def test_digits(capsys):
    history = page("digits_cnn").main(["--epochs", "3"])
    assert history["val_accuracy"][-1] > 0.9
    assert "val_accuracy" in capsys.readouterr().out
    assert Path("digits.png").read_bytes().startswith(PNG)


def test_text(capsys):
    module = page("text_gpt")
    small = ["--width", "16", "--layers", "1", "--steps"]
    history = module.main([*small, "30"])
    assert np.mean(history.losses[-5:]) < np.mean(history.losses[:5]) < 8
    assert capsys.readouterr().out.count("def ") >= 1
    assert Path("text.png").read_bytes().startswith(PNG)
    whole = load_file("text.safetensors")
    again = module.main([*small, "30", "--resume"])
    assert len(again.losses) == 0 and all(np.array_equal(x, whole[k]) for k, x in load_file("text.safetensors").items())


def test_tabular(capsys):
    module = page("tabular")
    scores = module.main(["--tables", "wine", "--folds", "2"])
    assert len(scores) == 6 and min(scores.values()) > 0.8
    assert json.loads(Path("tabular.json").read_text()) == scores
    assert Path("tabular.png").read_bytes().startswith(PNG)
    assert "logistic" in capsys.readouterr().out
    del scores["wine boosting 1"]
    Path("tabular.json").write_text(json.dumps(scores))
    assert module.main(["--tables", "wine", "--folds", "2", "--resume"]).keys() == {*scores, "wine boosting 1"}


def test_maml(capsys):
    errors = page("maml").main(["--steps", "400"])
    assert errors["meta"] < 0.8 * errors["together"]
    assert "rates" in capsys.readouterr().out
    assert Path("maml.png").read_bytes().startswith(PNG)
    assert page("maml").main(["--steps", "400", "--resume"]) == errors


def test_data_parallel(capsys):
    pytest.importorskip("mpi4py", reason="MPI is an optional engine; not installed")
    history = page("data_parallel").main(["--epochs", "3"])
    assert history["val_accuracy"][-1] > 0.8
    assert "val_accuracy" in capsys.readouterr().out


def told_by(file, *arguments):
    """The last number that a page prints, run as a process of its own, since it starts processes."""
    command = [sys.executable, EXAMPLES / "exported" / file, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def test_an_exported_step_on_devices_of_two_processes_of_jax():
    pytest.importorskip("jax", reason="JAX runs the exported step; not installed")
    assert told_by("jax_devices.py", "--processes", "2") < 1e-5


def test_an_exported_module_in_two_processes_of_torch():
    pytest.importorskip("torch", reason="PyTorch trains the exported module; not installed")
    assert told_by("torch_processes.py") < 1e-5
