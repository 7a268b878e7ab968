"""`wholestep bench depth`: its output, the results that it reports as wrong, and equal programs for all libraries."""

import importlib
import json

import numpy as np
import pytest

import wholestep as ws
from wholestep.cli import main
from wholestep_tools.bench import depth
from wholestep_tools.bench.deep_programs import PROGRAMS
from wholestep_tools.bench.depth import Row
from wholestep_tools.bench.depth_worker import Compiled

SMALL = {"gpt": 2}
ROUNDS = 5


def planted(program, at, ways, rounds, threads):
    """Rows as they could have been measured."""
    assert (rounds, threads) == (2, 1)
    took = {"wholestep": 2.0 + at / 100, "unrolled": at / 10, "jax": at / 5}
    return [Row(program, at, way, "1", took[way] / 2, took[way], at / 1000, 3.0, alone=took[way] / 4) for way in ways]


@pytest.fixture(autouse=True)
def all_ways(monkeypatch):
    monkeypatch.setattr(depth, "installed", lambda: ["wholestep", "unrolled", "jax"])


def test_the_table_and_its_record(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(depth, "run", planted)
    file = tmp_path / "found.json"
    most = ["--unrolled", "200", "--jax", "100"]
    assert main(["bench", "depth", "--only", "gpt", "--depths", "100,200", *most, "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = [line.split("  ") for line in lines if line.startswith("  gpt")]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in table]
    assert cells[0] == [
        "gpt",
        "100",
        "3.00 s",
        "10.0 s",
        "20.0 s",
        "750 ms",
        "1.00",
        "0.15",
        "100 ms",
        "100 ms",
        "100 ms",
    ]
    assert cells[1] == ["gpt", "200", "4.00 s", "20.0 s", "1.00 s", "1.33", "200 ms", "200 ms"]
    assert lines[-1] == "all losses agree to 0.0001"
    assert len(json.loads(file.read_text())["rows"]) == 5
    page = depth.page_table(file)
    assert page[-1] == "| gpt | 200 | 4.00 s | 20.0 s |  | 1.00 s | 1.33 |  | 200 ms | 200 ms |  |"
    assert {line.count("|") for line in page[2:]} == {12}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"loss": 3.01}, "gpt of 6: jax and wholestep differ by 3.3e-03"),
        ({"failed": "died"}, "gpt of 6, jax failed: died"),
    ],
)
def test_what_is_wrong_is_told(monkeypatch, capsys, changed, says):
    def run(*how):
        *rows, last = planted(*how)
        return [*rows, last._replace(**changed)]

    monkeypatch.setattr(depth, "run", run)
    assert main(["bench", "depth", "--only", "gpt", "--depths", "6"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == says


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--only", "vit"], "no program is called 'vit'"),
        (["--depths", "3,none"], "'none' is no depth"),
        (["--json", "no such folder/file"], "there is no folder no such folder"),
    ],
)
def test_wrong_options_are_told(capsys, options, says):
    assert main(["bench", "depth", *options]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_library_computes_the_same(name):
    program, at = PROGRAMS[name], SMALL.get(name, ROUNDS)
    params, batch = program.draw(np.random.default_rng(1), at)
    loss, gradient = ws.value_and_grad(lambda p: program.loss(np, p, batch, at))(params)
    jax = pytest.importorskip("jax", reason="JAX is compared where it is installed")
    on = importlib.import_module("jax.numpy")
    other, theirs = jax.value_and_grad(lambda p: program.loss(on, p, batch, at))(params)
    np.testing.assert_allclose(float(loss), float(other), rtol=1e-5)
    for key, g in gradient.items():
        np.testing.assert_allclose(g, theirs[key], rtol=1e-3, atol=1e-5 * float(np.abs(g).max() + 1), err_msg=key)


def test_a_worker_says_what_compiling_took():
    made = Compiled("wholestep", "rnn", 4)
    begun = made.begun()
    assert begun["seconds"] > 0 and begun["cpu"] > 0 and begun["loss"] == Compiled("unrolled", "rnn", 4).begun()["loss"]
    assert len(made.obey("timed", 2)["seconds"]) == 2
