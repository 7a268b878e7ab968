"""Audits of exports find nothing wrong in a few samples and names."""

from __future__ import annotations

import pytest

from wholestep_tools.audit.foreign import exported_samples
from wholestep_tools.audit.hostile import exported_names


def test_a_few_samples_are_right_in_other_libraries() -> None:
    pytest.importorskip("onnxruntime")
    found = exported_samples.audit(40, 3, ("numpy", "onnx"))
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["right in numpy"] >= 38 and found["checks"]["right in onnx"] >= 16


def test_hostile_names_are_data() -> None:
    found = exported_names.audit(200, 5)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["written for jax"] >= 1
