"""Random programs: both modes, differences, batches and text must agree on each; seeds are fresh on every run.

A failure prints the program and how to draw it again: `PROGRAMS_SEED=123 pytest tests/programs -k ...`.
"""

from __future__ import annotations

import os
import secrets

import pytest

from wholestep_tools.drawn.programs import UNSURE, check_inside, explained

SEED = int(os.environ.get("PROGRAMS_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("PROGRAMS_COUNT") or 500)
CHUNK = 10


@pytest.mark.parametrize("chunk", range(COUNT // CHUNK))
def test_transforms_agree(chunk: int) -> None:
    UNSURE.clear()
    for i in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        explained((SEED, i), check_inside, mixed=i % 4 == 3)
    assert len(UNSURE) <= CHUNK // 2, f"differences could not tell for programs {UNSURE} of seed {SEED}"
