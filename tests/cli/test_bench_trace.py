"""`wholestep bench trace`: its programs trace in both ways, and its table and record have the measurements."""

import json
import os
import subprocess
import sys

import pytest

from wholestep.cli import main
from wholestep_tools.bench import first_trace
from wholestep_tools.bench.first_trace import KINDS
from wholestep_tools.bench.first_trace_worker import first_trace as seconds_here
from wholestep_tools.bench.first_traced import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rewrite", [True, False])
def test_every_program_is_traced(name, rewrite, tmp_path):
    program = PROGRAMS[name]()
    program.write(tmp_path)
    assert seconds_here(tmp_path, program.function, True, rewrite) > 0


def test_a_process_of_its_own_tells_its_time(tmp_path):
    environment = {**os.environ, "WHOLESTEP_CACHE": str(tmp_path / "cache")}
    ((program, place),) = first_trace.written(["three lines"], tmp_path).values()
    assert first_trace.seconds(program, KINDS[0], True, environment, place) > 0


def test_the_process_loads_nothing_of_the_bench(tmp_path):
    order = [sys.executable, "-X", "importtime", "-P", str(first_trace.WORKER)]
    ((program, place),) = first_trace.written(["W3"], tmp_path).values()
    run = subprocess.run([*order, str(place), program.function, "0", "1"], capture_output=True, text=True, check=True)
    assert "wholestep.frontend.source" in run.stderr
    assert "wholestep_tools" not in run.stderr


def test_the_table_and_its_record(monkeypatch, capsys, tmp_path):
    asked = []

    def planted(program, kind, rewrite, environment, folder):
        name = next(name for name in PROGRAMS if program.function == PROGRAMS[name]().function)
        asked.append((name, kind, rewrite))
        return (0.003 if rewrite else 0.002) / (1 + (kind == KINDS[1])) / (1 + len(asked) // 100)

    monkeypatch.setattr(first_trace, "seconds", planted)
    files = [tmp_path / "made.json", tmp_path / "kept.json"]
    for file, more in zip(files, ([], ["--kept"]), strict=True):
        assert main(["bench", "trace", "--only", "W1, W3", "--rounds", "2", "--json", str(file), *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["W1", *KINDS[0].split(), "3.00", "ms", "2.00", "ms", "1.50", "1.20"]
    assert [json.loads(file.read_text())["kept"] for file in files] == [False, True]
    assert asked.count(("W1", KINDS[1], True)) == 2 * (2 + 1)
    page = first_trace.page_table(files)
    assert page[4] == f"| W1 | {KINDS[0]} | 3.00 ms | 3.00 ms | 2.00 ms | 1.50 | 1.50 |"
    assert {line.count("|") for line in page[2:]} == {8}


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--only", "vit"], "there is no program 'vit'"), (["--json", "no such folder/file"], "there is no folder")],
)
def test_wrong_options_are_told(capsys, options, says):
    assert main(["bench", "trace", *options]) == 1
    assert says in capsys.readouterr().err
