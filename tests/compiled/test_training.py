"""Random training steps, compiled with resident state, against float64; seeds are fresh on every run.

A failure prints the smallest program that fails in the same way, and how to draw it again:
`TRAINING_SEED=123 TRAINING_FIRST=17 pytest tests/compiled/test_training.py`. The same with a record: `wholestep audit
steps`.
"""

from __future__ import annotations

import os
import secrets

import pytest

from wholestep_tools.drawn.steps import explained

SEED = int(os.environ.get("TRAINING_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("TRAINING_COUNT") or 300)
FIRST = int(os.environ.get("TRAINING_FIRST") or 0)
CHUNK = 10
pytestmark = pytest.mark.usefixtures("quick_modules")


@pytest.mark.parametrize("chunk", range((COUNT + CHUNK - 1) // CHUNK))
def test_a_training_step_is_right(chunk: int) -> None:
    numbers = range(FIRST + chunk * CHUNK, FIRST + min((chunk + 1) * CHUNK, COUNT))
    unsure = [i for i in numbers if not explained(SEED, i)]
    assert len(unsure) <= CHUNK // 2, f"steps {unsure} of seed {SEED} are right only by NumPy's errors beside them"
