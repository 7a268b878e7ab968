"""`wholestep bench device`: its table, its record and its verdict."""

import json

import pytest

from wholestep.cli import main
from wholestep_tools.bench import device
from wholestep_tools.drawn import cuda_card


def test_the_table_and_its_record(monkeypatch, capsys, tmp_path):
    row = device.DeviceRow("W4", 1e-7, 0.5, 0.001, 0.002)
    monkeypatch.setattr(device.bench, "__defaults__", (lambda name, place, rounds: row._replace(workload=name),))
    file = tmp_path / "device.json"
    assert main(["bench", "device", "cpu", "--workloads", "W4,W1", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["W4", "1.0e-07", "0.50", "s", "1", "ms", "2", "ms"]
    assert [x["workload"] for x in json.loads(file.read_text())["rows"]] == ["W4", "W1"]
    row = row._replace(difference=float("nan"))
    assert main(["bench", "device", "cpu", "--workloads", "W4"]) == 1
    assert "losses part from the CPU's: W4" in capsys.readouterr().out


@pytest.mark.skipif(cuda_card.COMPILER is None, reason="kernels are compiled by g++ on Linux; not installed")
def test_a_workload_by_the_launcher_of_cuda(capsys):
    with cuda_card.offered():
        assert main(["bench", "device", "cuda", "--workloads", "W4", "--rounds", "1"]) == 0
    assert "all losses agree to 1e-06" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["tpu"], "no device is called 'tpu'"),
        (["cpu", "--workloads", "W6"], "there is no workload 'W6'"),
        (["cpu", "--json", "no such folder/file"], "there is no folder"),
    ],
)
def test_wrong_options_are_told(capsys, options, says):
    assert main(["bench", "device", *options]) == 1
    assert says in capsys.readouterr().err
