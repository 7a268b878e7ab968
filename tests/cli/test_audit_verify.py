"""The audit of verification, made small: no false alarm, and faults are named with their lines."""

from pathlib import Path

import pytest

from wholestep.errors import CommandError
from wholestep_tools.audit.correctness import planted, verified_jobs, verify
from wholestep_tools.audit.correctness.named_faults import NAMED_FAULTS
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.spec import SMALL

FEW = ("the sign of cos's derivative", "a flip that starts one too late")


def test_faults_are_found_and_nothing_else():
    chosen = [fault for fault in NAMED_FAULTS if fault.name in FEW]
    found = verify.audit(2, 3, chosen, ("W4",))
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["random steps, and workloads"] == 3
    assert found["checks"]["of them whose line was named first"] == found["checks"]["planted faults"] == 2


def test_every_named_fault_is_planted_and_has_a_job():
    assert len(NAMED_FAULTS) >= 40 and len(verify.planted(NAMED_FAULTS)) == len(NAMED_FAULTS)
    source = Path(verified_jobs.__file__).read_text(encoding="utf-8")
    for fault in NAMED_FAULTS:
        assert fault.job in verified_jobs.JOBS and all(line in source for line in fault.lines), fault


def test_models_of_real_size_are_left_out():
    assert set(verify.MADE_LOSSES) == {*SMALL} and not REAL.keys() & verify.CASES.keys()


def test_a_copy_is_whole_again_after_a_fault(tmp_path):
    planted.copy_sources(verify.ROOT, tmp_path)
    for fault in NAMED_FAULTS:
        mutant = verify.planted(NAMED_FAULTS)[fault.name]
        file = planted.broken_file(mutant, tmp_path)
        before = file.read_text(encoding="utf-8")
        with planted.faulty(tmp_path, mutant):
            assert file.read_text(encoding="utf-8") == before.replace(mutant.old, mutant.new) != before
        assert file.read_text(encoding="utf-8") == before, fault


def test_what_is_not_found_is_a_failure(monkeypatch):
    monkeypatch.setattr(verify, "outcome", lambda fault, mutant, seed, copy: "missed")
    found = verify.audit(1, 3, NAMED_FAULTS[:1], ())
    assert found["failures"] == 1 and found["examples"][0].endswith("in spectra: missed")


def test_it_needs_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    with pytest.raises(CommandError, match="in a checkout"):
        verify.audit(1, 0, NAMED_FAULTS[:1])
