"""Processes that share an audit come to the record that one process makes."""

import json
import os
from functools import partial

import pytest

from wholestep.cli import main
from wholestep.errors import CommandError
from wholestep_tools.audit import AUDITS
from wholestep_tools.audit.campaign import Seen, Shares, joined_parts
from wholestep_tools.audit.correctness import mutants, steps
from wholestep_tools.audit.endurance import memory
from wholestep_tools.drawn import cuda_cpp


def same(one, other):
    for found in (one, other):
        found.pop("environment")
    assert list(one) == list(other) and one == other
    assert list(one["checks"]) == list(other["checks"])


def see(numbers, count, seed):
    """Count some numbers as checks, every third of them a failure."""
    seen = Seen()
    for i in numbers:
        seen.count("odd" if i % 2 else "even", i == 7 or 1)
        seen.right(bool((i + seed) % 3), f"{i} of {count}")
    return seen


def told(parts, count, seed):
    seen = joined_parts(parts)
    return {"checks": dict(seen.checks), "failures": seen.failures}


def dying(numbers, count, seed):
    os._exit(3)


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("count", [1, 40])
def test_failures_come_in_the_order_of_numbers(jobs, count):
    shares = Shares(see, told)
    alone, shared = shares(count, 1), shares(count, 1, jobs)
    assert alone == shared and list(alone["checks"]) == list(shared["checks"])


def test_a_process_that_dies_is_told():
    with pytest.raises(CommandError, match="a process died on its share"):
        Shares(dying, told)(4, 1, 2)


@pytest.mark.parametrize(
    ("audit", "count"),
    [
        pytest.param(steps.audit, 2, id="steps"),
        *[
            pytest.param(
                AUDITS[name].run,
                3,
                id=name,
                marks=pytest.mark.skipif(cuda_cpp.COMPILER is None, reason="kernels are compiled by g++ on Linux"),
            )
            for name in ("cuda", "cudasteps")
        ],
    ],
)
def test_two_processes_make_the_record_of_one(audit, count):
    same(audit(count, 3), audit(count, 3, 2))


def test_parts_of_the_audit_of_memory_make_the_record_of_the_whole(monkeypatch):
    def answered(orders, threads):
        hashes = [f"{order['seed'][1] % 5 and threads}" for order in orders]
        wrong = [["odd"] * (order["seed"][1] % 2) for order in orders]
        pairs = zip(wrong, hashes, strict=True)
        return [{"problems": p, "arena": 64, "exact": True, "sha256": h} for p, h in pairs]

    monkeypatch.setattr(memory, "answers", lambda orders, threads: answered(orders, threads))
    audit = memory.audit((), ())
    whole = audit.told([audit.see(range(12), 12, 1)], 12, 1)
    same(audit.told([audit.see(range(a, a + 3), 12, 1) for a in range(0, 12, 3)], 12, 1), whole)
    assert whole["failures"] == 7 and whole["checks"]["programs run in guarded memory"] == 15


def test_the_command(tmp_path, capsys):
    file = tmp_path / "passes.json"
    assert main(["audit", "passes", "--count", "2", "--jobs", "2", "--record", str(file)]) == 0
    assert json.loads(file.read_text())["count"] == 2
    assert main(["audit", "lostworkers", "--jobs", "2"]) == 2
    assert "unrecognized arguments: --jobs" in capsys.readouterr().err


def test_faults_are_planted_so_many_at_a_time(monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        found = json.dumps({"known": 9, "planted": 1, "survived": []})
        return partial(mutants.subprocess.CompletedProcess, command, 0, found, "")()

    monkeypatch.setattr(mutants.subprocess, "run", run)
    mutants.audit(1, 0)
    mutants.audit(1, 0, 16)
    assert commands[1] == [*commands[0], "--jobs", "16"]
