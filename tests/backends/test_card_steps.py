"""Random training steps on cards, against float64; seeds are fresh on every run.

`TRAINING_SEED=123 TRAINING_FIRST=17 pytest tests/backends/test_card_steps.py` draws a step again.
"""

from __future__ import annotations

import os
import secrets

import numpy as np
import pytest
from tests.backends.cards import missing

from wholestep.compiler.devices import compile_for_device
from wholestep.errors import UnsupportedError
from wholestep_tools.drawn.law import unexplained
from wholestep_tools.drawn.training import training

SEED = int(os.environ.get("TRAINING_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("CARD_COUNT") or 60)
FIRST = int(os.environ.get("TRAINING_FIRST") or 0)
CHUNK = 10
DEVICE = os.environ.get("CARD_DEVICE") or "opencl"


@pytest.mark.parametrize("chunk", range((COUNT + CHUNK - 1) // CHUNK))
def test_a_training_step_is_right_on_a_card(chunk: int) -> None:
    if missing(DEVICE):
        pytest.skip(missing(DEVICE))
    for i in range(FIRST + chunk * CHUNK, FIRST + min((chunk + 1) * CHUNK, COUNT)):
        made = training((SEED, i), int(np.random.default_rng([SEED, i]).integers(3, 16)))
        try:
            found = compile_for_device(made.graph, made.resident, DEVICE)(list(made.args))
        except UnsupportedError:  # what libraries of the host compute, and float64 where there is none
            continue
        assert not unexplained(made.graph, made.args, found), f"step {i} of seed {SEED}, {made.what}\n{made.graph}"
