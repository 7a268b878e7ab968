"""`wholestep audit mine` verifies the steps of any script."""

import sys
import textwrap

import pytest

from wholestep.cli import main
from wholestep.ir.graph import OPS

SCRIPT = """
import sys
import numpy as np
import wholestep as ws


def loss(params, x):
    return np.mean(np.tanh(x @ params["w"]) ** 2)


rng = np.random.default_rng(0)
params, x = {"w": rng.normal(size=(4, 3))}, rng.normal(size=(10, 4))
step = ws.compile(loss, params, optimizer=ws.optim.adam(0.1), batch=x)
if "idle" not in sys.argv:
    for _ in range(3):
        step(x)
    step(x[:4])
if "raise" in sys.argv:
    raise ValueError("as it was asked")
if "leave" in sys.argv:
    sys.exit(3)
print("given", sys.argv[1:], __name__)
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "training.py"
    file.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    return str(file)


def test_every_program_of_every_step_is_verified(script, capsys):
    before = sys.argv[:], sys.path[:]
    assert main(["audit", "mine", "--rows", "8", script, "--epochs", "3"]) == 0
    said = capsys.readouterr().out
    assert "given ['--epochs', '3'] __main__" in said
    assert said.count("agrees with the reference") == 2 and "f64[8, 4]" in said and "np.tanh(x @" in said
    assert said.endswith("1 of 1 steps verified, in 2 calls: all agree\n")
    assert (sys.argv, sys.path) == before


def test_a_step_that_is_off_is_an_exit_code(script, capsys, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "partials", (lambda y, x: 1 - y,))
    assert main(["audit", "mine", script]) == 1
    said = capsys.readouterr().out
    assert "the derivative of tanh is off" in said and said.endswith("in 2 calls: 2 off\n")


@pytest.mark.parametrize(
    ("args", "out", "err"),
    [
        (["idle"], "0 of 1 steps verified, in 0 calls: nothing was verified, since the script calls no step\n", ""),
        (["raise"], "in 2 calls: all agree\n", "wholestep: the script ended with ValueError\n"),
        (["leave"], "in 2 calls: all agree\n", "wholestep: the script ended with exit code 3\n"),
    ],
)
def test_what_proves_nothing_is_an_exit_code(script, capsys, args, out, err):
    assert main(["audit", "mine", script, *args]) == 1
    said = capsys.readouterr()
    assert said.out.endswith(out) and said.err.endswith(err)


def test_a_script_that_is_not_there(capsys):
    assert main(["audit", "mine", "nowhere.py"]) == 1
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_a_folder_is_no_script(tmp_path, capsys):
    assert main(["audit", "mine", str(tmp_path)]) == 1
    assert f"{tmp_path} is a folder" in capsys.readouterr().err
