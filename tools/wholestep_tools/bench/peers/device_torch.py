"""The workloads in compiled PyTorch on a device: a step as a graph of CUDA, called K times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

from wholestep.runtime.delegates.libraries import library_named
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers import timed_calls, torch as eager
from wholestep_tools.bench.peers.torch_compile import VERSION, Compiled

__all__ = ["VERSION", "job"]


class OnDevice:
    """A training by one function, whose state begins anew for each way to call it."""

    def __init__(self, name: str, params: Arrays, batch: Arrays, device: str, k: int) -> None:
        self.device, self.k = library_named(f"torch:{device}").device, k
        torch.set_float32_matmul_precision("highest")  # float32, and not TF32, as here
        torch.backends.cudnn.allow_tf32 = False
        eager.TURNS[self.device.type] = tuple([x.to(self.device) for x in eager.TURNS["cpu"]])
        self.step = Compiled(name, params, batch, self.device, "reduce-overhead")
        *state, self.batch = self.step.given
        self.state = [x for part in state for x in (part.values() if isinstance(part, dict) else [part])]
        for tensor in (*self.state, *self.batch.values()):
            # A graph of CUDA may then write the state where it lies; without this no graph is made of such a step.
            torch._dynamo.mark_static_address(tensor)
        self.start = [x.clone() for x in self.state]
        self.begun: set[Any] = set()
        self.host = {key: torch.stack([x.cpu()] * k) for key, x in self.batch.items()}
        self.staged: dict[str, torch.Tensor] = {}

    def one(self) -> float:
        return float(self.step.call())

    def timed(self, way: Callable[[], Any], n: int) -> tuple[list[float], float]:
        """Seconds of n calls after one, the first of which begins with the first state, and the last loss."""
        if way not in self.begun:
            self.begun.add(way)
            for tensor, old in zip(self.state, self.start, strict=True):
                tensor.copy_(old)
        return timed_calls(lambda: float(way()), n)

    def steps(self) -> Any:
        """K steps on the batch that lies on the device; the last loss, which is not waited for."""
        loss = None
        for _ in range(self.k):
            loss = self.step.call()
        return loss

    def fed_steps(self) -> Any:
        """K steps on batches that come from the host in one copy."""
        for key, x in self.host.items():
            self.staged[key].copy_(x)
        loss = None
        for i in range(self.k):
            for key, tensor in self.batch.items():
                tensor.copy_(self.staged[key][i])
            loss = self.step.call()
        return loss

    def resident(self, n: int) -> tuple[list[float], float]:
        return self.timed(self.steps, n)

    def fed(self, n: int) -> tuple[list[float], float]:
        self.staged = self.staged or {key: torch.empty_like(x, device=self.device) for key, x in self.host.items()}
        return self.timed(self.fed_steps, n)

    def about(self) -> dict[str, Any]:
        on_card = self.device.type == "cuda"
        skips = int(counters["inductor"]["cudagraph_skips"])
        return {
            "device_bytes": torch.cuda.max_memory_allocated(self.device) if on_card else 0,
            "remark": "ran without graphs of CUDA" if on_card and skips else "",
        }


def job(name: str, params: Arrays, batch: Arrays, device: str, k: int) -> OnDevice:
    """The workload, ready to be trained."""
    return OnDevice(name, params, batch, device, k)
