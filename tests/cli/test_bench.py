"""`wholestep bench`: its output, the results that it reports as wrong, and the same work for every library."""

import doctest
import functools
import importlib
import json
import math
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, tree
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.cli import main
from wholestep_tools.bench import instruction_sets, machine, peers, runner, spec, table, worker, workloads
from wholestep_tools.bench.peers import wholestep as ours
from wholestep_tools.bench.runner import Contestant, Options, Process, Row, WorkerError

QUICK = Options(rounds=1, budget=0.01, threads=1, quiet=0.0)
MEASURED, MEASURED_WITHIN = machine.measured, machine.measured_within
AVX2 = "x86-64-v3" in host_levels()


def planted(**changed):
    """Rows of one workload as they could have been measured."""
    first, last = (1.0617667,), (1.0539129,)
    ours = Row("wholestep", 1, "Wholestep 9", 2.3e-6, 2.5e-6, 2.2e-6, 0.05, 0.004, 58.0, (first, last), 0.1)
    loop = ours._replace(at_once=1000, least=8.1e-7, median=9e-7, back_to_back=8e-7)
    jax = Row("jax", 1, "JAX 9", 3.1e-5, 4.2e-5, 3e-5, 0.7, None, 290.0, (first, last), 0.0)
    torch = jax._replace(peer="torch", least=1.4e-4, median=0.0100, cold=12.0, numbers=((1.06176672,), (1.0539129,)))
    return [row._replace(**changed.get(row.peer, {})) for row in (ours, loop, jax, torch)]


@pytest.fixture(autouse=True)
def known_machine(monkeypatch):
    known = machine.Machine("a processor", 2, 300.0, 30.0)
    monkeypatch.setattr(machine, "measured", lambda threads: known)

    def within(limits, threads):  # NumPy would be measured in a process of its own
        return known._replace(limits=[f"{name}={limits[name]}" for name in limits]) if limits else known

    monkeypatch.setattr(machine, "measured_within", within)


def given(monkeypatch, rows):
    monkeypatch.setattr(workloads, "installed", lambda peer: True)
    monkeypatch.setattr(workloads, "run", lambda name, contestants, options: rows)


def test_a_whole_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there"))
    (tmp_path / "there").mkdir()
    file = tmp_path / "found.json"
    options = ["--peers", "wholestep", "--workloads", "W4", "--rounds", "1", "--budget", "0.05", "--json", str(file)]
    assert main(["bench", *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("a processor, 2 threads") and text.endswith("one peer, nothing to compare\n")
    rows = [Row(**row) for row in json.loads(file.read_text())["workloads"]["W4"]["rows"]]
    assert [row.label for row in rows] == ["wholestep", "wholestep, 1000 a call"]
    for row in rows:
        assert f"  {row.label}  " in text
        assert 0 < row.least <= row.median and row.back_to_back > 0 and row.cold >= 0 <= row.warm and row.peak_mb > 10
        assert [len(numbers) for numbers in row.numbers] == [1, 1]
    assert list((tmp_path / "there").iterdir()) == []


def test_the_page(golden, monkeypatch, capsys):
    rows = planted(wholestep={"others": 1.24}, torch={"failed": "died: out of memory"})
    given(monkeypatch, rows)
    assert main(["bench", "--workloads", "W4", "--peers", "wholestep,jax,torch"]) == 1
    assert capsys.readouterr().out == golden


def test_a_page_with_large_results(golden):
    rows = [row._replace(numbers=((1.0, 2.0),)) for row in planted() if row.at_once == 1]
    assert f"{table.table('W6', rows)}\n\n{table.summary({'W6': rows})}" == golden


def test_numbers_that_agree(monkeypatch, capsys):
    given(monkeypatch, planted())
    assert main(["bench", "--workloads", "W4", "--peers", "wholestep,jax,torch"]) == 0
    assert capsys.readouterr().out.endswith("all numbers agree to 1e-05\n")


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (((1.0617667,), (1.05394,)), "differ by 2.6e-05"),
        (((1.0617667,), (math.nan,)), "differ by inf"),
        (((1.0617667,), (-1.0539129,)), "differ by 2.0e+00"),
        (((1.0617667,),), "differ by inf"),
        ((), "differ by inf"),
    ],
)
def test_wrong_numbers_are_told(monkeypatch, capsys, numbers, says):
    given(monkeypatch, planted(jax={"numbers": numbers}))
    assert main(["bench", "--workloads", "W4", "--peers", "wholestep,jax,torch"]) == 1
    last = [line for line in capsys.readouterr().out.splitlines() if line.startswith("W4: ")]
    assert len(last) == 3 and all(says in line and "jax" in line for line in last)


def test_a_peer_that_fails_is_a_row_that_says_why():
    rows = planted(jax={"failed": "died: no such file"})
    assert table.complaints("W4", rows) == ["W4: jax failed: died: no such file"]
    assert table.versus("W4", [row for row in rows if row.peer in ("wholestep", "jax")]) is None


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ["--workloads", "W9"],
            1,
            "there is no workload 'W9'; hint: choose from W1, W2, W3, W4, W5, W6, W7, digits, text",
        ),
        (
            ["--peers", "numba"],
            1,
            "there is no peer 'numba'; hint: choose from wholestep, wholestep.winograd, jax, torch, torch.compile",
        ),
        (["--peers", "torch"], 1, "torch is not installed; hint: install it, or leave torch out"),
        (["--json", "no such folder/file"], 1, "there is no folder no such folder; hint: choose another file"),
        (["--budget", "0"], 2, "must be above 0, not 0"),
        (["--budget", "much"], 2, "'much' is not a number"),
        (["--rounds", "0"], 2, "must be 1 or more, not 0"),
    ],
)
def test_what_cannot_be_done(monkeypatch, capsys, options, code, says):
    monkeypatch.setattr(workloads, "installed", lambda peer: peer in ("wholestep", "jax"))
    assert main(["bench", *options]) == code
    assert says in capsys.readouterr().err
    assert workloads.chosen(None) == ["wholestep", "jax"]


def test_a_worker_that_raises_says_so(monkeypatch):
    monkeypatch.setitem(peers.PEERS, "nobody", peers.Peer("nobody", "numpy", {}))
    (row,) = runner.run("W4", ["nobody"], QUICK)
    assert row == Row("nobody", 1, failed="KeyError: 'nobody'")


def test_a_worker_that_dies_says_so(tmp_path):
    process = Process("wholestep", "W4", 1, tmp_path, 1)
    try:
        process.process.kill()
        with pytest.raises(WorkerError, match="died:"):
            process.ask("timed", 1)
    finally:
        process.end()


def test_the_machine_is_measured():
    found = MEASURED(1, 0.01)
    assert found.threads == 1 and found.processor and found.gflops > 0 and found.gigabytes > 0
    assert machine.processors() >= 1 and machine.wait_until_quiet(0.0) >= 0


@pytest.mark.skipif(not machine.STAT.exists(), reason="only Linux says what a process has had")
def test_every_library_is_told_how_many_threads(tmp_path):
    """JAX reads the number of threads from NPROC alone; XLA_FLAGS have no option for it."""
    told = runner.environment(tmp_path, 3)
    assert {told[f"{name}_NUM_THREADS"] for name in runner.THREADS} == {"3"}
    assert told["WHOLESTEP_THREADS"] == told["NPROC"] == "3"


@pytest.mark.skipif(not AVX2, reason="this processor cannot be held to AVX2")
def test_a_record_says_how_every_library_was_held_to_an_instruction_set(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(workloads, "run", lambda name, contestants, options: asked.append(options.isa) or planted()[:2])
    file = tmp_path / "found.json"
    options = ["--peers", "wholestep", "--workloads", "W4", "--isa", "avx2", "--json", str(file)]
    assert main(["bench", *options]) == 0
    told = json.loads(file.read_text())["workloads"]["W4"]["machine"]["limits"]
    assert asked == ["avx2"] and "WHOLESTEP_TARGET=x86-64-v3" in told and told[0] in capsys.readouterr().out
    given_to_workers = runner.environment(tmp_path, 1, isa="avx2")
    assert [f"{name}={given_to_workers[name]}" for name in instruction_sets.AVX2] == told


@pytest.mark.skipif(not AVX2, reason="this processor cannot be held to AVX2")
@pytest.mark.parametrize(
    ("library", "says", "expected"),
    [
        ("wholestep.backends.cpu.cpu_features", "host_target().vector_bytes", "32"),
        ("torch", "backends.cpu.get_cpu_capability()", "AVX2"),
        ("numpy", "show_config() or __import__('threadpoolctl').threadpool_info()[0]['architecture']", "Haswell"),
    ],
)
def test_libraries_obey_an_instruction_set(tmp_path, library, says, expected):
    pytest.importorskip(library)
    program = f"import {library} as library; print(eval({says!r}, vars(library)))"
    told = runner.environment(tmp_path, 1, isa="avx2")
    done = subprocess.run([sys.executable, "-c", program], env=told, check=True, capture_output=True, text=True)
    assert done.stdout.split()[-1] == expected


def test_an_instruction_set_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(instruction_sets, "host_levels", lambda: ["x86-64-v2"])
    assert main(["bench", "--peers", "wholestep", "--isa", "avx2"]) == 1
    assert "this processor has no AVX2; hint: leave out --isa" in capsys.readouterr().err


@pytest.mark.skipif(not AVX2, reason="this processor cannot be held to AVX2")
def test_the_machine_is_measured_within_an_instruction_set(monkeypatch):
    limits = instruction_sets.limits("avx2")
    found = MEASURED_WITHIN(limits, 1)
    assert found.threads == 1 and found.gflops > 0 and list(found.limits) == [f"{k}={v}" for k, v in limits.items()]


def test_the_memory_of_a_worker_is_its_own(tmp_path):
    ballast = np.ones(400_000_000, np.uint8)
    process = Process("wholestep", "W4", 1, tmp_path, 1)
    try:
        process.answer()
        assert 10 < process.ask("end")["peak_mb"] < ballast.nbytes / 1e6 < worker.peak_megabytes()
    finally:
        process.end()


def test_each_round_another_one_begins(monkeypatch):
    turns = []

    class Still(Contestant):
        def start(self):
            return self

        def end(self):
            pass

        def build(self):
            pass

        def finish(self):
            self.failed = "only here to wait"

        def turn(self):
            turns.append(self.peer)

    monkeypatch.setattr(runner, "Contestant", Still)
    runner.run("W1", ["wholestep", "jax", "torch"], QUICK._replace(rounds=4))
    assert "".join(peer[0] for peer in turns) == "wjt" + "jtw" + "twj" + "wjt"


def test_compiling_is_what_the_first_calls_take_beyond_later_ones():
    begun = {"first_s": 3.0, "settling_s": [0.5, 0.25], "call_s": 0.25}
    assert runner.compiling(begun) == 3.0
    assert runner.compiling(begun | {"call_s": 2.0}) == 0.0


class Counting:
    """A job that counts."""

    def __init__(self):
        self.calls = self.waits = 0

    def call(self):
        self.calls += 1
        return self.calls

    def wait(self, result):
        assert result == self.calls
        self.waits += 1


def test_what_is_timed():
    job = Counting()
    assert len(worker.timed(job, 7)) == 7 and (job.calls, job.waits) == (7, 7)
    assert worker.back_to_back(job, 5) > 0 and (job.calls, job.waits) == (12, 8)


@pytest.mark.parametrize("name", spec.SMALL)
def test_the_data_are_the_same_every_time(name):
    one, other = spec.WORKLOADS[name].data(), spec.WORKLOADS[name].data()
    for arrays, again in zip(one, other, strict=True):
        assert list(arrays) == list(again) == sorted(arrays)
        for key, array in arrays.items():
            assert array.dtype in (np.float32, np.int32) and array.tobytes() == again[key].tobytes()


def test_a_digest_is_what_it_says_and_sees_signs_and_order():
    x = np.random.default_rng(0).normal(size=(3, 500_000)).astype(np.float32)
    weights = np.linspace(1, 2, x.size) * x.ravel().astype(np.float64) ** 2
    expected = [weights[x.ravel() > 0].sum(), weights[x.ravel() < 0].sum()]
    np.testing.assert_allclose(spec.digest([x]), expected, rtol=1e-12)
    for other in (-x, x[:, ::-1], x[::-1]):
        assert max(abs(a / b - 1) for a, b in zip(spec.digest([other]), expected, strict=True)) > 1e-4


def given_to_all(name):
    """A workload's arrays, fewer where it is elementwise."""
    params, batch = spec.WORKLOADS[name].data()
    if name == "W5":
        params["x"] = params["x"][:64]
    return params, batch


@functools.cache
def here(name):
    """The losses of two training steps in Wholestep without compilation; the digest of a call for other workloads."""
    params, batch = given_to_all(name)
    if name not in ours.LOSSES:
        return [spec.digest(np.asarray(leaf) for leaf in tree.flatten(ours.FUNCTIONS[name](params, batch))[0])]
    params = nn.join(ours.MODELS[name](), params) if name in ours.MODELS else params
    optimizer, losses = ws.optim.adam(spec.WORKLOADS[name].rate), []
    state = optimizer.init(params)
    for _ in range(2):
        loss, gradient = ws.value_and_grad(ours.LOSSES[name])(params, batch)
        params, state = optimizer.update(gradient, state, params)
        losses.append([float(loss)])
    return losses


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, by PyTorch
@pytest.mark.filterwarnings("ignore::FutureWarning")  # the same
@pytest.mark.parametrize("peer", ["jax", "torch", "torch.compile"])
@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4", "W5", "W7", "digits", "text"])
def test_every_library_computes_the_same(peer, name):
    pytest.importorskip(peers.PEERS[peer].needs)
    module = importlib.import_module(peers.PEERS[peer].module)
    if peer == "torch.compile":
        module.torch.compiler.set_stance("force_eager")
    params, batch = given_to_all(name)
    job = module.job(name, {key: array.copy() for key, array in params.items()}, dict(batch), 1)
    theirs = [numbers for _ in range(1 + (name in ours.LOSSES)) for numbers in job.numbers(job.call())]
    for a, b in zip(here(name), theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=spec.WORKLOADS[name].tolerance)


def test_a_job_starts_from_the_arrays_that_all_are_given():
    params, batch = spec.WORKLOADS["digits"].data()
    step = ours.job("digits", params, batch, 1).step
    assert step.params.keys() == params.keys()
    assert all(np.array_equal(step.params[name], x) for name, x in params.items())


@pytest.mark.parametrize(
    "module",
    [
        "wholestep.cli.options",
        *(
            f"wholestep_tools.bench{m}"
            for m in ("", ".workloads", ".spec", ".table", ".device_peers", ".instruction_sets")
        ),
    ],
)
def test_examples(module):
    tried = doctest.testmod(importlib.import_module(module))
    assert tried.attempted and not tried.failed
