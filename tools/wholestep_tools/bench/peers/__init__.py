"""The libraries that are measured, one module each, imported only in the process that measures it.

A peer's module says its VERSION and has `job(name, params, batch, at_once)`, which makes a Job of a workload.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Job(Protocol):
    """A workload that is ready to be called: one step, or `at_once` steps, in a call."""

    def call(self) -> Any:
        """Start the work and return what can be waited for."""

    def wait(self, result: Any) -> None:
        """Return when the work is done."""

    def numbers(self, result: Any) -> list[list[float]]:
        """The numbers compared between peers: for each step of the call its loss, or the digest of what it computed."""


class Peer(NamedTuple):
    """A peer: its module, what it needs, and the workloads that also run with many steps in one call."""

    module: str
    needs: str
    at_once: dict[str, int]


def _peer(file: str, needs: str, at_once: dict[str, int] | None = None) -> Peer:
    return Peer(f"{__name__}.{file}", needs, at_once or {})


PEERS = {
    "wholestep": _peer("wholestep", "wholestep", {"W4": 1000}),
    "jax": _peer("jax", "jax"),
    "torch": _peer("torch", "torch"),
    "torch.compile": _peer("torch_compile", "torch"),
}
USUAL = ("wholestep", "jax", "torch")
