"""One process, one library, one way to save memory: it trains a deep GPT and reports time and memory.

Its protocol is that of `worker`.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep_tools.answering import replies
from wholestep_tools.bench.spec import SEED, draw_gpt
from wholestep_tools.bench.worker import peak_megabytes, timed, work

WIDTH, HEADS, TIME, LAYERS, RATE = 256, 8, 256, 24, 3e-4
MODES = {
    "wholestep": (
        "plain",
        "budget 50%",
        "budget 25%",
        "checkpoint",
        "stack, all",
        "stack, inputs",
        "stack, sqrt",
    ),
    "jax": ("plain", "checkpoint"),
    "torch": ("plain", "checkpoint"),
}
"""The comparison: every library as it is and with a checkpoint for each layer; ours also inside a budget, and as a
stack that keeps everything, the inputs of its layers, or those of some."""
MARKS = Path("/proc/self/clear_refs")
STEPS = 3
"""The losses of so many steps are compared."""


def forget_peak() -> None:
    """Let the peak of this process begin anew, where the system can."""
    gc.collect()
    if MARKS.exists():
        MARKS.write_text("5")


class Trainer:
    """A model from its making to its peak."""

    def __init__(self, peer: str, mode: str, layers: int, length: int = TIME) -> None:
        module = importlib.import_module(f"wholestep_tools.bench.peers.deep_{peer}")
        module.warm()
        forget_peak()
        self.before = peak_megabytes()
        params, batch = draw_gpt(np.random.default_rng(SEED), WIDTH, layers, length)
        begun = time.perf_counter()
        self.job = module.job(mode, layers, params, batch)
        del params  # each library has taken its own
        results = [self.job.call()]
        self.job.wait(results[-1])
        self.made = {"version": module.VERSION, "first_s": time.perf_counter() - begun, "peak_mb": self.taken()}
        forget_peak()
        results += [self.job.call() for _ in range(STEPS - 1)]
        self.losses = [row[0] for result in results for row in self.job.numbers(result)]

    def begun(self) -> dict[str, Any]:
        """The first message of the process."""
        return self.made

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The answer to a command: times, or the final report."""
        if command == "timed":
            return {"seconds": timed(self.job, n)}
        return {"peak_mb": self.taken(), "losses": self.losses, "arena": getattr(self.job, "arena", 0)}

    def taken(self) -> float:
        """Megabytes at the peak beyond those at the start."""
        return peak_megabytes() - self.before


def main(arguments: Sequence[str], length: int = TIME) -> None:
    """Train as the bench says: a peer, a way, and how many layers."""
    peer, mode, layers = arguments
    work(lambda: Trainer(peer, mode, int(layers), length), sys.stdin, replies())


if __name__ == "__main__":
    main(sys.argv[1:])
