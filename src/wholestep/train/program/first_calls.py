"""Observers of steps, which are called for each program of a step just before its first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from wholestep.ir.graph import NDArray
from wholestep.runtime.executable import UnfitArguments
from wholestep.train.program.resident_program import ResidentProgram
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.result import Result


class StepObserver(Protocol):
    """The interface of an observer of steps, which is called as they are compiled and used, and changes nothing."""

    def made(self, engine: Any) -> None:
        """Called when a step has been compiled."""

    def called(self, engine: Any, feed: BatchSignature, arrays: Sequence[NDArray] | None) -> None:
        """Called before the first call of a step's program, with the arrays of a batch, or None where it has none."""


OBSERVERS: list[StepObserver] = []
"""The active observers, for all threads."""

Batch = tuple[BatchSignature, Sequence[NDArray] | None]


@contextmanager
def observing(observer: StepObserver) -> Iterator[None]:
    """Call an observer for every step that is compiled inside the block, and for its programs' first calls."""
    OBSERVERS.append(observer)
    try:
        yield
    finally:
        OBSERVERS.remove(observer)


def announce(
    engine: Any, program: ResidentProgram, signature: BatchSignature, batch: Callable[[Sequence[NDArray]], Batch]
) -> None:
    """Call the observers before the first call of a program; `batch` makes a batch of the program's arguments."""
    observers, first = tuple(OBSERVERS), program.run

    def run(arrays: Sequence[NDArray], strict: bool = False) -> Result:
        given = arrays[len(engine.head) :]
        if strict and not all(map(fits, given, signature.facts)):
            raise UnfitArguments  # the caller converts the arguments and calls again
        for observer in observers:
            observer.called(engine, *batch(given))
        return first(arrays, strict)  # `first` replaces `program.run`, so that this function runs once

    if observers:
        program.run = run


def fits(x: Any, fact: tuple[Any, tuple[Any, ...], int]) -> bool:
    """Test whether x is an array with the dtype of a leaf of a signature, of any sizes."""
    return type(x) is np.ndarray and x.dtype is fact[0]
