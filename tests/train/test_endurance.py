"""A step that is called very often takes no more memory, descriptors or threads than one that is called once.

`ENDURANCE=1000000 pytest tests/train/test_endurance.py` makes a million calls, in six seconds.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import wholestep as ws

CALLS = int(os.environ.get("ENDURANCE") or 100_000)
PROCESS = Path("/proc/self")


def held() -> tuple[int, int, int]:
    """Kilobytes in memory, open descriptors and threads of this process."""
    status = dict(line.split(":", 1) for line in (PROCESS / "status").read_text().splitlines() if ":" in line)
    return int(status["VmRSS"].split()[0]), len(list((PROCESS / "fd").iterdir())), int(status["Threads"])


def tiny(params: dict[str, np.ndarray], batch: dict[str, np.ndarray]) -> np.ndarray:
    hidden = np.tanh(batch["x"] @ params["w1"] + params["b1"])
    return np.mean((hidden @ params["w2"] - batch["y"]) ** 2)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts descriptors in /proc")
def test_many_steps_take_nothing() -> None:
    rng = np.random.default_rng(0)
    shapes = {"w1": (2, 16), "b1": (16,), "w2": (16, 1)}
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    batch = {"x": rng.normal(size=(16, 2)).astype(np.float32), "y": rng.normal(size=(16, 1)).astype(np.float32)}
    step = ws.compile(tiny, params, optimizer=ws.optim.adam(1e-3), batch=batch)
    for _ in range(1000):
        first = step(batch)
    memory, descriptors, threads = held()
    for _ in range(CALLS):
        last = step(batch)
    after = held()
    assert after[1:] == (descriptors, threads)
    assert after[0] <= memory + 512
    assert step.traces == 1 and step.state["counters"]["step"] == CALLS + 1000
    assert last.loss < first.loss
