"""`wholestep bench exports`: its tables, its record, losses that differ from the step's, and the formats of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wholestep.cli import main
from wholestep.errors import CommandError
from wholestep_tools.bench import exports, exports_worker
from wholestep_tools.bench.exports import StepRow

ROWS = {
    "wholestep": StepRow(0.001, [2.0, 1.0]),
    "C": StepRow(0.0014, [2.0, 1.0]),
    "jax": StepRow(0.003, [2.0, 1.000001]),
    "jax by hand": StepRow(0.002, [2.0, 1.0]),
}


def test_the_table_and_its_record(monkeypatch: Any, capsys: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(exports, "measured", lambda name, rounds: ROWS)
    file = tmp_path / "exports.json"
    assert main(["bench", "exports", "--rounds", "3", "--workloads", "W1", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["wholestep", "1.00", "ms"]
    assert lines[2].split() == ["C", "1.40", "ms", "1.40", "of", "wholestep"]
    assert lines[3].split() == ["jax", "3.00", "ms", "1.50", "of", "jax", "by", "hand", "1.10"]
    assert json.loads(file.read_text())["rounds"] == 3
    page = exports.page_table(file)
    assert page[0].endswith("one thread, the median of 3 rounds.") and page[-1] == "| W1 | 1.40 |  | 1.50 |  |  |  |  |"
    assert exports.page_table(tmp_path / "none.json") == []


def test_other_losses_are_told(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(exports, "measured", lambda name, rounds: ROWS | {"C": StepRow(0.001, [2.0, 1.1])})
    assert main(["bench", "exports", "--workloads", "W4"]) == 1
    assert "W4: the losses of C are others by 9.1e-02" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--workloads", "vit"], "there is no workload 'vit'"), (["--json", "no such folder/file"], "there is no folder")],
)
def test_wrong_options_are_told(capsys: Any, options: list[str], says: str) -> None:
    assert main(["bench", "exports", *options]) == 1
    assert says in capsys.readouterr().err


def test_a_process_that_fails_is_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(exports, "MODULE", "wholestep_tools.bench.no_such_module")
    with pytest.raises(CommandError, match="bench exports: W4: died"):
        exports.measured("W4", 1)


def test_all_ways_that_are_here_take_the_same_steps(monkeypatch: Any) -> None:
    if exports_worker.COMPILER is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(exports_worker, "LIBRARIES", ())
    found = exports_worker.measured("W4", 2)
    assert {"wholestep", "C", "object"} <= found.keys()
    rows = {who: StepRow(min(row["seconds"]), row["losses"]) for who, row in found.items()}
    assert not exports.complaints("W4", rows) and all(row.seconds > 0 for row in rows.values())
