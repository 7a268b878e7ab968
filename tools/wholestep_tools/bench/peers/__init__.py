"""The libraries that are measured, one module each, imported only in the process that measures it.

A peer's module says its VERSION and has `job(name, params, batch, at_once)`, which makes a Job of a workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Job(Protocol):
    """A workload that is ready to be called: one step, or `at_once` steps, in a call."""

    def call(self) -> Any:
        """Start the work and return a result for `wait`."""

    def wait(self, result: Any) -> None:
        """Return when the work is done."""

    def numbers(self, result: Any) -> list[list[float]]:
        """The numbers compared between peers: for each step of the call its loss, or the digest of its results."""


class DeviceJob(Protocol):
    """A workload that is trained on a device: one step a call, and K steps a call from a state of its own."""

    def one(self) -> float:
        """Train one step, and return its loss."""

    def resident(self, n: int) -> tuple[list[float], float]:
        """Train K steps a call on batches that lie on the device: the seconds of n calls after one that is not
        counted, each until its last loss is read, and the last loss."""

    def fed(self, n: int) -> tuple[list[float], float]:
        """As `resident`, with K batches copied from the host's memory in each call."""

    def about(self) -> dict[str, Any]:
        """The bytes of the device that were in use at most, as far as the library counts them, and remarks."""


def timed_calls(call: Callable[[], float], n: int) -> tuple[list[float], float]:
    """The seconds of n calls after one that is not counted, and the last loss."""
    seconds, loss = [], 0.0
    for _ in range(n + 1):
        before = time.perf_counter()
        loss = call()
        seconds.append(time.perf_counter() - before)
    return seconds[1:], loss


class Peer(NamedTuple):
    """A peer: its module, the library it needs, the workloads that also run with many steps in one call, and the module
    that trains on devices: `job(name, params, batch, device, k)` makes a DeviceJob."""

    module: str
    needs: str
    at_once: dict[str, int]
    on_devices: str = ""


def _peer(file: str, needs: str, at_once: dict[str, int] | None = None, on_devices: str = "") -> Peer:
    return Peer(f"{__name__}.{file}", needs, at_once or {}, on_devices and f"{__name__}.{on_devices}")


PEERS = {
    "wholestep": _peer("wholestep", "wholestep", {"W4": 1000}, "device_wholestep"),
    "wholestep.winograd": _peer("wholestep_winograd", "wholestep"),
    "jax": _peer("jax", "jax", on_devices="device_jax"),
    "torch": _peer("torch", "torch"),
    "torch.compile": _peer("torch_compile", "torch", on_devices="device_torch"),
}
USUAL = ("wholestep", "jax", "torch")
