"""The workloads in Wholestep on a device: one step a call, epochs over data that lie there, and K steps a call."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers import timed_calls
from wholestep_tools.bench.peers.wholestep import VERSION, trained

__all__ = ["VERSION", "job"]


class OnDevice:
    """A training by three steps, each with a state of its own."""

    def __init__(self, name: str, params: Arrays, batch: Arrays, device: str, k: int) -> None:
        self.given = name, params, batch, device
        self.k = k
        self.single = trained(name, params, batch, 1, device)
        self.others: dict[int, Any] = {}

    def other(self, at_once: int) -> Any:
        """A step that takes so many steps a call, made when it is first asked for."""
        if at_once not in self.others:
            name, params, batch, device = self.given
            self.others[at_once] = trained(name, params, batch, at_once, device)
        return self.others[at_once]

    def one(self) -> float:
        return self.single.numbers(self.single.call())[0][0]

    def resident(self, n: int) -> tuple[list[float], float]:
        """Epochs of K batches, by `step.run`."""
        ends: list[float] = []
        rows = {key: np.concatenate([x] * self.k) for key, x in self.given[2].items()}
        result = self.other(1).step.run(
            rows, epochs=n + 1, shuffle=False, progress=lambda *_: ends.append(time.perf_counter())
        )
        return [after - before for before, after in pairwise(ends)], float(result.losses[-1])

    def fed(self, n: int) -> tuple[list[float], float]:
        """Calls with `steps_per_call=K`."""
        training = self.other(self.k)
        return timed_calls(lambda: float(training.numbers(training.call())[-1][0]), n)

    def about(self) -> dict[str, Any]:
        memory = self.other(self.k).step.memory
        return {"device_bytes": int(memory.state + memory.inputs + memory.outputs + memory.constants + memory.arena)}


def job(name: str, params: Arrays, batch: Arrays, device: str, k: int) -> OnDevice:
    """The workload, ready to be trained."""
    return OnDevice(name, params, batch, device, k)
