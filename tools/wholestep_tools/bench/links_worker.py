"""A process that trains with others of PyTorch's gloo over a link, and tells the time of a step and its prediction."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.collectives import Communicator, NDArray

WIDTH, LAYERS, ROWS = 512, 5, 4
STEPS, BEFORE = 12, 2
"""The steps, and the first of them, which are not counted."""
MESSAGES = 50
AXIS = "links"
PAYLOAD = 1448 / 1514
"""The part of an Ethernet frame that TCP fills with data."""


class Counted:
    """A communicator that counts the bytes that it sends."""

    def __init__(self, inner: Communicator) -> None:
        self.inner, self.sent = inner, 0
        self.rank, self.size = inner.rank, inner.size

    def all_gather(self, send: NDArray, receive: NDArray) -> None:
        self.sent += (self.size - 1) * send.nbytes
        self.inner.all_gather(send, receive)

    def all_to_all(self, send: NDArray, receive: NDArray) -> None:
        self.sent += (self.size - 1) * send[0].nbytes
        self.inner.all_to_all(send, receive)


def latency_of(communicator: Communicator) -> float:
    """The median time of an exchange of one byte, by the messages that each process sends one after another."""
    send, receive, taken = np.zeros(1, np.uint8), np.zeros((communicator.size, 1), np.uint8), []
    for _ in range(MESSAGES):
        before = time.perf_counter()
        communicator.all_gather(send, receive)
        taken.append(time.perf_counter() - before)
    return statistics.median(taken) / max(1, communicator.size - 1)


def loss(params: Any, batch: Any) -> Any:
    """Dense layers, whose gradients fill several buckets."""
    h = batch
    for w in params:
        h = np.tanh(h @ w)
    return np.mean(h * h)


def train(communicator: Counted, rate: float) -> dict[str, Any]:
    """The measured time and traffic of a step, beside the predicted ones."""
    rng = np.random.default_rng(0)
    params = [np.asarray(rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)), np.float32) for _ in range(LAYERS)]
    batch = np.asarray(rng.normal(size=(ROWS, WIDTH)), np.float32)
    link = ws.mesh.Link(latency_of(communicator), rate * PAYLOAD)
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-3), batch=batch, mesh={AXIS: communicator}, roll=False)
    taken = []
    for _ in range(STEPS):
        before, sent = time.perf_counter(), communicator.sent
        step(batch)
        taken.append(time.perf_counter() - before)
        bytes_of_step = communicator.sent - sent
    predicted = step.cost(mesh=link).at(communicator.size)
    return {
        "predicted": predicted.seconds,
        "measured": statistics.median(taken[BEFORE:]),
        "predicted_bytes": predicted.bytes,
        "bytes": bytes_of_step,
        "latency": link.latency_seconds,
    }


def main() -> None:
    """Print the measurements as JSON."""
    from torch import distributed

    distributed.init_process_group("gloo")
    found = train(Counted(ws.mesh.torch()), float(sys.argv[1]))
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
