"""Processes that MPI and torch.distributed have started train together, and end together."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mesh import programs, train_with

import wholestep as ws
from wholestep.collectives import communicator_of, enter_axis

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "distributed.md"
PROGRAM = str(Path(__file__).with_name("train_with.py"))
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
SECONDS = 100

has_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="MPI is an optional engine; not installed"
)
has_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is an optional engine; not installed"
)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **more}


def by_mpi(what: str, size: int) -> subprocess.CompletedProcess[str]:
    """The program in processes of MPI."""
    command = [str(MPIEXEC), "-n", str(size), sys.executable, PROGRAM, "mpi", what]
    return subprocess.run(
        command, env=environment(), cwd=ROOT, timeout=SECONDS, check=False, capture_output=True, text=True
    )


def by_torch(what: str, size: int) -> list[tuple[int, str, str]]:
    """The program in processes of torch.distributed: (exit code, output, errors) of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    started = [
        subprocess.Popen(
            [sys.executable, PROGRAM, "torch", what],
            env=environment(RANK=str(rank), **own),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    found = []
    try:
        for process in started:
            out, errors = process.communicate(timeout=SECONDS)
            found.append((process.returncode, out, errors))
    finally:
        for process in started:
            process.kill()
    return found


def wanted(size: int) -> str:
    """The digest of the same training in one process by micro-batches."""
    cases = []
    for name, how, rows, options in train_with.CASES:
        loss, params, batch = programs.start(name, rows)
        by = programs.optimizer(how)
        step = ws.compile(loss, params, optimizer=by, batch=batch, microbatch=rows // size, **options)
        cases.append(programs.trained(step, batch))
    return train_with.digest(cases)


@has_mpi
def test_the_page_on_processes_runs() -> None:
    """On eight devices of JAX, in a process that may change how JAX is set."""
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = "\n".join([*blocks, "print(len(history.losses), step.steps, len(shared['x'].sharding.device_set))"])
    own = environment(XLA_FLAGS="--xla_force_host_platform_device_count=8")
    found = subprocess.run(
        [sys.executable, "-c", program], env=own, timeout=SECONDS, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split()[-3:] == ["4", "3", "8"], "behind the table of costs"


@has_mpi
def test_mpi_has_the_bits_of_micro_batches() -> None:
    found = by_mpi("bits", 2)
    assert found.returncode == 0, found.stderr
    assert re.findall("[0-9a-f]{64}", found.stdout) == [wanted(2)] * 2


@has_mpi
def test_a_communicator_may_be_made_twice() -> None:
    first, second = ws.mesh.mpi(), ws.mesh.mpi()
    assert first == second
    assert len({first, second}) == 1
    enter_axis("twice", first)
    enter_axis("twice", second)
    assert communicator_of("twice") == second


@has_mpi
@pytest.mark.parametrize("what", ["raised", "killed"])
def test_a_process_that_ends_ends_all_of_mpi(what: str) -> None:
    found = by_mpi(what, 2)
    assert found.returncode != 0
    assert "went on" not in found.stdout
    assert what == "killed" or "ValueError: planted" in found.stderr


@has_torch
def test_torch_has_the_bits_of_micro_batches() -> None:
    ranks = by_torch("bits", 3)
    assert [code for code, _, _ in ranks] == [0] * 3, ranks
    assert [re.findall("[0-9a-f]{64}", out) for _, out, _ in ranks] == [[wanted(3)]] * 3


@has_torch
def test_a_process_that_is_killed_is_an_error_of_the_others_of_torch() -> None:
    (code, out, errors), (_, _, _) = by_torch("killed", 2)
    assert code == 1
    assert "went on" not in out
    assert "CommunicationError" in errors
    assert "start all of them again from the last checkpoint" in errors
