"""Audits of exports find nothing wrong in a few samples and names."""

from __future__ import annotations

import shutil

import pytest

from wholestep.export.coreml import evaluator
from wholestep_tools.audit.foreign import exported_samples
from wholestep_tools.audit.hostile import export_files, exported_names


def test_a_few_samples_are_right_in_other_libraries() -> None:
    pytest.importorskip("onnxruntime")
    found = exported_samples.audit(40, 3, ("numpy", "onnx"))
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["right in numpy"] >= 38 and found["checks"]["right in onnx"] >= 16


def test_hostile_names_are_data() -> None:
    found = exported_names.audit(200, 5)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["written for jax"] >= 1


@pytest.fixture
def all_readers() -> None:
    """Skip without the audit's programs: a C compiler, node, and coremltools, which writes packages of Core ML."""
    pytest.importorskip("coremltools", reason="coremltools writes the packages; not installed")
    if export_files.COMPILER is None or shutil.which("node") is None:
        pytest.skip("there is no C compiler, or no node")


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_of_exports_are_refused(all_readers: None) -> None:
    found = export_files.audit(150, 7)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["damaged files"] == 150


@pytest.mark.filterwarnings("ignore")
def test_the_audit_notices_another_error(all_readers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator, "FAULTS", ())
    assert export_files.audit(60, 7)["failures"]
