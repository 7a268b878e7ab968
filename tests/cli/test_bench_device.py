"""`wholestep bench device`: its table, its record and its verdict."""

import importlib
import importlib.util
import json
import math
import re

import numpy as np
import pytest

from wholestep.cli import main
from wholestep_tools.bench import device, device_peers, runner
from wholestep_tools.bench.device_peers import PeerRow
from wholestep_tools.bench.spec import WORKLOADS
from wholestep_tools.drawn import cuda_card, cuda_cpp


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


@pytest.mark.skipif(cuda_cpp.COMPILER is None, reason="kernels are compiled by g++ on Linux; not installed")
def test_a_workload_by_the_launcher_of_cuda(capsys):
    with cuda_card.offered():
        assert main(["bench", "device", "cuda", "--workloads", "W4", "--rounds", "1", "--kernels"]) == 0
    said = capsys.readouterr().out
    assert "all losses agree to 1e-06" in said and "µs in kernels" in said and "contract_tanh" in said
    assert re.search(r"\w+ and \d more", said), "a launch that does several kernels names one of them"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["tpu"], "no device is called 'tpu'"),
        (["cpu", "--workloads", "W6"], "there is no workload 'W6'"),
        (["cpu", "--json", "no such folder/file"], "there is no folder"),
        (["cpu", "--json", "no such folder/file", "--peers", ""], "there is no folder"),
        (["cpu", "--peers", "torch"], "there is no peer 'torch' for devices"),
        (["opencl", "--peers", "jax"], "JAX and PyTorch know no device 'opencl'"),
    ],
)
def test_wrong_options_are_told(capsys, options, says):
    assert main(["bench", "device", *options]) == 1
    assert says in capsys.readouterr().err


HAS_JAX = importlib.util.find_spec("jax") is not None


def planted(**changed):
    """Rows of a workload as they could have been measured."""
    ours = PeerRow("wholestep", "Wholestep 9", 1e-7, 0.3, 2.0, 3e-5, 1e-5, 2e-5, 3 << 20)
    jax = ours._replace(peer="jax", difference=2e-6, first=3.0, one=6e-5, resident=4e-5, fed=1e-4)
    torch = jax._replace(peer="torch.compile", first=30.0, resident=3e-5, fed=1.2e-4, remark="ran slowly")
    return [row._replace(**changed.get(row.peer, {})) for row in (ours, jax, torch)]


def test_the_table_of_peers():
    lines = [line.split() for line in device_peers.table("W4", planted()).splitlines()]
    assert lines[2] == "wholestep 1.0e-07 300 ms 2.00 s 30.0 us 10.0 us 20.0 us 3".split()
    assert lines[5] == "times faster 1.50 2.00 3.00 5.00".split()
    assert lines[6] == "torch.compile ran slowly".split()
    assert device_peers.complaints("W4", planted()) == []


def test_the_page_of_a_record(tmp_path):
    file = tmp_path / "device.json"
    assert device_peers.page_table(file) == []
    rows = {"W1": planted(jax={"failed": "died"}), "W4": planted()}
    record = {"card": "a card", "driver": "", "day": "a day", "steps": 20}
    record["workloads"] = {name: [row._asdict() for row in made] for name, made in rows.items()}
    file.write_text(json.dumps(record))
    lines = device_peers.page_table(file)
    assert lines[0].startswith("On a card, driver of unknown version, a day: Wholestep 9, float32 without TF32.")
    assert "| W1 | 1.0e-07 | 2.0 |  | 30.0 |" in lines and "| W4 | 1.0e-07 | 2.0 | 3.0 | 30.0 |" in lines
    assert "| W1, 1 a call | 30 |  | 60 | 2.00 |" in lines
    assert "| W4, 20 a call, fed by the host | 20 | 100 | 120 | 5.00 |" in lines


def test_peers_that_fail_or_part_are_told():
    rows = planted(jax={"failed": "died"}, wholestep={"difference": 2e-6})
    assert device_peers.complaints("W4", rows) == [
        "W4: jax failed: died",
        "W4: wholestep's losses part from the CPU's by 2.0e-06, more than 1e-06",
    ]
    assert "jax" not in device_peers.table("W4", rows)
    assert device_peers.times_faster(rows, "resident") == 3.0
    assert device_peers.complaints("W4", planted(jax={"difference": math.nan}))
    assert math.isnan(device_peers.times_faster(planted(wholestep={"failed": "died"}), "one"))


@pytest.mark.parametrize("peers", ["", pytest.param("jax", marks=pytest.mark.skipif(not HAS_JAX, reason="needs JAX"))])
def test_peers_in_turns(capsys, tmp_path, peers):
    file = tmp_path / "device.json"
    options = ["--workloads", "W4", "--peers", peers, "--rounds", "1", "--json", str(file)]
    assert main(["bench", "device", "cpu", *options]) == 0
    assert capsys.readouterr().out.endswith("all losses agree\n")
    record = json.loads(file.read_text())
    rows = [PeerRow(**row) for row in record["workloads"]["W4"]]
    assert [row.peer for row in rows] == ["wholestep", *peers.split()] and record["card"] and record["steps"] == 20
    for row in rows:
        assert min(row.imported, row.first, row.one, row.resident, row.fed) > 0 and not row.failed


def test_a_device_that_is_not_there_is_told_by_each_peer(capsys):
    assert main(["bench", "device", "cuda:99", "--workloads", "W4", "--peers", ""]) == 1
    assert "device 'cuda" in capsys.readouterr().err


def test_cards_are_hidden_from_measurements_of_the_processor_alone(tmp_path):
    here, there = (runner.environment(tmp_path, 2, device) for device in ("cpu", "cuda"))
    assert here["CUDA_VISIBLE_DEVICES"] == "" and here["JAX_PLATFORMS"] == "cpu"
    assert here["JAX_ENABLE_COMPILATION_CACHE"] == there["JAX_ENABLE_COMPILATION_CACHE"] == "false"
    assert set(here) - set(there) <= {"CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"}


@pytest.mark.skipif(not HAS_JAX, reason="needs JAX")
@pytest.mark.parametrize("name", ["W2", "W3", "text"])
def test_both_forms_of_the_workloads_of_jax_are_one_loss(monkeypatch, name):
    theirs = importlib.import_module("wholestep_tools.bench.peers.jax")
    found = []
    for gathers in (True, False):
        monkeypatch.setattr(theirs, "gathers", lambda gathers=gathers: gathers)
        job = theirs.job(name, *WORKLOADS[name].data(), 1)
        found.append([job.numbers(job.call())[0][0] for _ in range(2)])
    np.testing.assert_allclose(*found, rtol=1e-6)
