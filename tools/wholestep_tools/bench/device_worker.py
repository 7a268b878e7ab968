"""A process of one peer that trains one workload on a device, and tells when it began, its losses and its times."""

from __future__ import annotations

import gc
import importlib
import statistics
import sys
import time
from typing import Any

from wholestep_tools import answering
from wholestep_tools.bench.peers import PEERS, DeviceJob, timed_calls
from wholestep_tools.bench.spec import WORKLOADS
from wholestep_tools.bench.worker import work


class DeviceWork:
    """A workload on a device, from the import of its library to its last time."""

    def __init__(self, peer: str, name: str, k: int, device: str) -> None:
        params, batch = WORKLOADS[name].data()
        module = importlib.import_module(PEERS[peer].on_devices)
        imported_at, before = time.time(), time.perf_counter()
        self.job: DeviceJob = module.job(name, params, batch, device, k)
        self.losses = [self.job.one()]
        self.made = {"version": module.VERSION, "imported_at": imported_at, "first_s": time.perf_counter() - before}
        self.losses += [self.job.one() for _ in range(k - 1)]

    def begun(self) -> dict[str, Any]:
        """Compile all that is timed later; the losses of K steps, and the last of K by each way to take K a call."""
        lasts = [self.job.resident(0)[1], self.job.fed(0)[1]]
        gc.collect()
        return self.made | {"losses": self.losses, "lasts": lasts}

    def obey(self, command: str, n: int) -> dict[str, Any]:
        """The median seconds of n calls, or the final report."""
        if command == "end":
            return self.job.about()
        ways = {"one": lambda n: timed_calls(self.job.one, n), "resident": self.job.resident, "fed": self.job.fed}
        return {"seconds": statistics.median(ways[command](n)[0])}


if __name__ == "__main__":
    peer, name, count, device = sys.argv[1:]
    work(lambda: DeviceWork(peer, name, int(count), device), sys.stdin, answering.replies())
