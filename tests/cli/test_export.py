"""`wholestep export` writes the step of a script, and runs what it wrote before it says so."""

import textwrap

import numpy as np
import pytest

from wholestep.cli import export, main

SCRIPT = """
import sys
import numpy as np
import wholestep as ws

rng = np.random.default_rng(0)
params, x = {"w": rng.normal(size=(4, 3))}, rng.normal(size=(10, 4))
trained = ws.compile(lambda p, x: np.mean(np.tanh(x @ p["w"]) ** 2), params, optimizer=ws.optim.adam(0.1), batch=x)
if "idle" not in sys.argv:
    trained(x)
if "save" in sys.argv:
    trained.save("kept.safetensors")
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    return tmp_path / "training.py"


def test_a_step_is_written_and_compared(script, capsys):
    assert main(["export", "--to", "numpy", "--out", "line.py", "--step", "trained", str(script)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["wrote line.py", "wrote line.safetensors"]
    assert said[2].startswith("compared: the losses of 3 calls differ by ")


def test_a_checkpoint_is_taken_over(script, capsys):
    words = ["--to", "numpy", "--step", "trained"]
    assert main(["export", *words, "--out", "a.py", str(script), "save"]) == 0
    assert main(["export", *words, "--out", "b.py", "--load", "kept.safetensors", str(script), "idle"]) == 0
    assert capsys.readouterr().out.endswith("not compared: the script calls the step with no batch and has none\n")
    assert (script.parent / "b.safetensors").read_bytes() == (script.parent / "a.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "numpy", "--out", "training.py"], "is the script itself"),
        (["--to", "numpy", "--out", "a.py"], "defines no step 'step'"),
        (["--out", "a.py"], "may be for jax"),
    ],
)
def test_what_cannot_be_done_is_said(script, capsys, words, said):
    assert main(["export", *words, str(script)]) == 1
    assert said in capsys.readouterr().err
    assert not (script.parent / "a.py").exists()


def test_a_file_that_computes_something_else_is_no_success(script, capsys, monkeypatch):
    monkeypatch.setitem(export.RUNNERS, "numpy", lambda path: lambda given: float(np.mean(given["batch"])))
    assert main(["export", "--to", "numpy", "--out", "line.py", "--step", "trained", str(script)]) == 1
    assert "the losses of the file are" in capsys.readouterr().err
