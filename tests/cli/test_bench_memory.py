"""`wholestep bench memory`: its output, the results that it reports as wrong, and the same model for all libraries."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

from wholestep.cli import main
from wholestep_tools.bench import deep, machine, memory, workloads
from wholestep_tools.bench.memory import Row

LOSSES = (5.6, 5.5, 5.4)


def planted(**changed):
    """Rows as they could have been measured."""
    ours = Row("wholestep", "plain", "Wholestep 9", 2100.0, 2000.0, 1800.0, 1.5, 1.6, 12.0, LOSSES)
    half = ours._replace(mode="budget 50%", peak_mb=1200.0, later_mb=1100.0, arena_mb=900.0, least=1.6)
    torch = ours._replace(peer="torch", later_mb=1500.0, arena_mb=0.0, least=3.0, losses=(5.60001, 5.5, 5.4))
    rows = {"ours": ours, "half": half, "torch": torch}
    return [row._replace(**changed.get(name, {})) for name, row in rows.items()]


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    known = machine.Machine("a processor", 2, 300.0, 30.0)
    monkeypatch.setattr(machine, "measured", lambda threads: known)
    monkeypatch.setattr(machine, "wait_until_quiet", lambda patience: 0.0)


def told(monkeypatch, rows, *options):
    monkeypatch.setattr(memory, "run", lambda peers, layers, rounds, threads: rows)
    return main(["bench", "memory", "--peers", "wholestep", *options])


def test_the_table(monkeypatch, capsys, tmp_path):
    file = tmp_path / "found.json"
    assert told(monkeypatch, planted(), "--layers", "3", "--json", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("GPT of 3 layers, width 256, 8 heads, 8 sequences of 256")
    assert lines[5].split() == "wholestep, budget 50% 1200 1100 900 1.60 s 1.60 s 0.55 1.07 12.0 s 5.400000".split()
    assert lines[6].split()[:4] == ["torch", "2100", "1500", "3.00"]
    assert lines[-1] == "all losses agree, those of Wholestep to the bit"
    assert json.loads(file.read_text())["rows"][1]["arena_mb"] == 900.0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"half": {"losses": (5.6, 5.5, np.nextafter(5.4, 6))}}, "wholestep, budget 50% has other bits than wholestep"),
        ({"torch": {"losses": (5.6, 5.5, 5.41)}}, "torch and wholestep differ by 1.8e-03, more than 0.0001"),
        ({"half": {"failed": "died: killed"}}, "wholestep, budget 50% failed: died: killed"),
    ],
)
def test_what_is_wrong_is_told(monkeypatch, capsys, changed, says):
    assert told(monkeypatch, planted(**changed)) == 1
    assert capsys.readouterr().out.splitlines()[-1] == says


def test_a_library_that_fails_takes_nothing_with_it(tmp_path, monkeypatch):
    monkeypatch.setitem(memory.MODES, "wholestep", ("no such way", "checkpoint"))
    monkeypatch.setattr(memory, "MODULE", "tests.cli.small_deep")
    first, last = memory.run(["wholestep"], 1, 2, 1)
    assert "KeyError" in first.failed and not last.failed
    assert last.peak_mb >= last.later_mb > 0 and last.arena_mb > 0 and len(last.losses) == deep.STEPS
    assert 0 < last.least <= last.median


def test_a_file_needs_a_place(monkeypatch, capsys):
    assert told(monkeypatch, planted(), "--json", "no such folder/file") == 1
    assert "there is no folder no such folder" in capsys.readouterr().err


@functools.cache
def losses(peer, mode):
    return deep.Trainer(peer, mode, 1, 8).losses


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, by PyTorch
@pytest.mark.parametrize(("peer", "mode"), [(p, m) for p, ms in deep.MODES.items() for m in ms if "budget" not in m])
def test_every_way_trains_the_same_model(peer, mode):
    if peer != "wholestep":
        pytest.importorskip(peer, reason=f"{peer} is compared where it is installed")
    np.testing.assert_allclose(losses(peer, mode), losses("wholestep", "plain"), rtol=1e-5)
    if peer == "wholestep":
        assert losses(peer, mode) == losses(peer, "plain")


def test_only_libraries_that_train_it_are_asked(monkeypatch):
    monkeypatch.setattr(workloads, "installed", lambda peer: True)
    asked = []
    monkeypatch.setattr(memory, "bench", lambda peers, *rest: asked.append(peers) or 0)
    assert main(["bench", "memory", "--peers", "torch,torch.compile"]) == 0
    assert asked == [["torch"]]
