"""One process, one library, one way to save memory: it trains a deep GPT and says what that took.

It speaks as `worker` does: a command on its input, an answer in a line of JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from wholestep.cli.bench.spec import SEED, draw_gpt
from wholestep.cli.bench.worker import peak_megabytes, timed

WIDTH, HEADS, TIME, LAYERS, RATE = 256, 8, 256, 24, 3e-4
MODES = {
    "wholestep": ("plain", "budget 50%", "budget 25%", "checkpoint"),
    "jax": ("plain", "checkpoint"),
    "torch": ("plain", "checkpoint"),
}
"""What is compared: every library as it is and with a checkpoint for each layer, ours also inside a budget."""
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
        module = importlib.import_module(f"wholestep.cli.bench.peers.deep_{peer}")
        module.warm()
        forget_peak()
        self.before = peak_megabytes()
        params, batch = draw_gpt(np.random.default_rng(SEED), WIDTH, layers, length)
        begun = time.perf_counter()
        self.job = module.job(mode, layers, params, batch)
        del params  # each library has taken its own
        results = [self.job.call()]
        self.job.wait(results[-1])
        self.begun = {"version": module.VERSION, "first_s": time.perf_counter() - begun, "peak_mb": self.taken()}
        forget_peak()
        results += [self.job.call() for _ in range(STEPS - 1)]
        self.losses = [row[0] for result in results for row in self.job.numbers(result)]

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The answer to a command: times, or what is told last."""
        if command == "timed":
            return {"seconds": timed(self.job, n)}
        return {"peak_mb": self.taken(), "losses": self.losses, "arena": getattr(self.job, "arena", 0)}

    def taken(self) -> float:
        """Megabytes at the peak beyond what there was before."""
        return peak_megabytes() - self.before


def serve(peer: str, mode: str, layers: int, commands: TextIO, answers: TextIO, length: int = TIME) -> None:
    """Make the model, then answer commands until there are no more."""

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        trainer = Trainer(peer, mode, layers, length)
        say(**trainer.begun)
        for line in commands:
            command, n = line.split()
            say(**trainer.obey(command, int(n)))
    except Exception as error:  # a peer's, of any kind; the table says so in its row
        traceback.print_exc()
        say(error=f"{type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.stdin, replies)
