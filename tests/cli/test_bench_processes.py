"""`wholestep bench processes`: its turns, its table and its record; and a worker that tells its time."""

import json

import pytest

from wholestep.cli import main
from wholestep_tools.bench import processes
from wholestep_tools.bench.processes_worker import seconds_of_a_step


def test_the_table_and_its_record(monkeypatch, capsys, tmp_path):
    turns = []

    def planted(workload, size, threads):
        turns.append((workload, size, threads))
        return {"W1": {2: 0.0011, 1: 0.001}, "text": {2: 0.03, 1: 0.02}}[workload][size]

    monkeypatch.setattr(processes, "seconds", planted)
    file = tmp_path / "processes.json"
    assert main(["bench", "processes", "--rounds", "2", "--json", str(file)]) == 1, "text takes too long"
    assert turns == [(name, size, 3 - size) for name in ("W1", "text") for _ in range(2) for size in (2, 1)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["W1", "1.10", "ms", "1.00", "ms", "1.10", "1.15"]
    assert json.loads(file.read_text())["rows"][1]["threads"] == [0.02, 0.02]
    assert processes.table_of(file)[-1] == "| text | 30.0 ms | 20.0 ms | 1.50 |"
    assert main(["bench", "processes", "--rounds", "1", "--workloads", "W1"]) == 0


def test_a_worker_tells_the_time_of_a_step():
    assert seconds_of_a_step("W1", 1, 8) > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--workloads", "vit"], "there is no workload 'vit'"), (["--json", "no such folder/file"], "there is no folder")],
)
def test_wrong_options_are_told(capsys, options, says):
    assert main(["bench", "processes", *options]) == 1
    assert says in capsys.readouterr().err
