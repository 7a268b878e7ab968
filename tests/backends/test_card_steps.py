"""Random training steps on cards, against float64, some of them through PoCL's optimizer; seeds are fresh on every run.

`TRAINING_SEED=123 TRAINING_FIRST=17 pytest tests/backends/test_card_steps.py` draws a step again.
"""

from __future__ import annotations

import os
import secrets

import pytest
from tests.backends.cards import device_for_tests

from wholestep_tools.audit.correctness.card_steps import check_step

SEED = int(os.environ.get("TRAINING_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("CARD_COUNT") or 60)
FIRST = int(os.environ.get("TRAINING_FIRST") or 0)
OPTIMIZED = int(os.environ.get("CARD_OPTIMIZED") or 1)
CHUNK = 10


@pytest.mark.parametrize("device", ["opencl", "webgpu", "cuda"])
@pytest.mark.parametrize("chunk", range((COUNT + CHUNK - 1) // CHUNK))
def test_a_training_step_is_right_on_a_card(chunk: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # PoCL's optimizer takes most of the time; the first steps go through it, since its results have been wrong.
    if chunk >= OPTIMIZED:
        monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
    with device_for_tests(device):
        for i in range(FIRST + chunk * CHUNK, FIRST + min((chunk + 1) * CHUNK, COUNT)):
            check_step(SEED, i, device)
