"""Several processes on this machine that train together, joined by pipes."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

WAIT = 120


class PipeCommunicator:
    """A communicator over pipes, one between any two processes; it counts the messages and bytes that it sends."""

    def __init__(self, rank: int, pipes: dict[int, Connection]) -> None:
        self.rank, self.size, self.pipes = rank, len(pipes) + 1, pipes
        self.sent, self.messages = 0, 0

    def swap(self, other: int, data: np.ndarray[Any, Any]) -> bytes:
        """Exchange bytes with another rank; the lower rank sends first."""
        pipe = self.pipes[other]
        self.sent += data.nbytes
        self.messages += 1
        if self.rank < other:
            pipe.send_bytes(data.tobytes())
            return pipe.recv_bytes()
        found = pipe.recv_bytes()
        pipe.send_bytes(data.tobytes())
        return found

    def all_gather(self, send: np.ndarray[Any, Any], receive: np.ndarray[Any, Any]) -> None:
        receive[self.rank] = send
        for other in sorted(self.pipes):
            receive[other] = np.frombuffer(self.swap(other, send), np.uint8)

    def all_to_all(self, send: np.ndarray[Any, Any], receive: np.ndarray[Any, Any]) -> None:
        receive[self.rank] = send[self.rank]
        for other in sorted(self.pipes):
            receive[other] = np.frombuffer(self.swap(other, send[other]), np.uint8)


def child(f: Callable[..., Any], rank: int, pipes: dict[int, Connection], answer: Connection, args: Any) -> None:
    """Run the function in a child process; sends (True, result), or (False, the text of the error)."""
    try:
        answer.send((True, f(PipeCommunicator(rank, pipes), *args)))
    except BaseException:
        answer.send((False, traceback.format_exc()))


def run_processes(size: int, f: Callable[..., Any], *args: Any) -> list[Any]:
    """The results of a function, `f(communicator, *args)`, in as many processes; texts of errors where it raised."""
    context = multiprocessing.get_context("spawn")
    pipes: list[dict[int, Connection]] = [{} for _ in range(size)]
    for i in range(size):
        for j in range(i):
            pipes[i][j], pipes[j][i] = context.Pipe()
    answers = [context.Pipe(duplex=False) for _ in range(size)]
    started = [
        context.Process(target=child, args=(f, i, pipes[i], answers[i][1], args), daemon=True) for i in range(size)
    ]
    for process in started:
        process.start()
    for i in range(size):  # a pipe whose other end has no process is at its end
        answers[i][1].close()
        for pipe in pipes[i].values():
            pipe.close()
    found = []
    for i in range(size):
        assert answers[i][0].poll(WAIT), "a process does not answer"
        try:
            found.append(answers[i][0].recv()[1])
        except EOFError:
            found.append("ended")
    for process in started:
        process.join(WAIT)
    return found
