"""Observers of steps: what they are told of each program of a step just before its first call."""

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
    """Something that looks at steps as they are made and used; it changes nothing of them."""

    def made(self, engine: Any) -> None:
        """A step has been compiled."""

    def called(self, engine: Any, feed: BatchSignature, arrays: Sequence[NDArray] | None) -> None:
        """A program of a step is about to be called for the first time, on a batch; None for one that is none."""


OBSERVERS: list[StepObserver] = []
"""Those that are told, in every thread."""

Batch = tuple[BatchSignature, Sequence[NDArray] | None]


@contextmanager
def observing(observer: StepObserver) -> Iterator[None]:
    """Tell an observer of every step that is made inside the block, and of its programs' first calls."""
    OBSERVERS.append(observer)
    try:
        yield
    finally:
        OBSERVERS.remove(observer)


def announce(
    engine: Any, program: ResidentProgram, signature: BatchSignature, batch: Callable[[Sequence[NDArray]], Batch]
) -> None:
    """Have the observers told before the first call of a program; `batch` makes a batch of what that is called with."""
    observers, first = tuple(OBSERVERS), program.run

    def run(arrays: Sequence[NDArray], strict: bool = False) -> Result:
        given = arrays[len(engine.head) :]
        if strict and not all(map(fits, given, signature.facts)):
            raise UnfitArguments  # it comes again, converted
        for observer in observers:
            observer.called(engine, *batch(given))
        return first(arrays, strict)  # which puts another one in the place of this

    if observers:
        program.run = run


def fits(x: Any, fact: tuple[Any, tuple[Any, ...], int]) -> bool:
    """Test whether something is an array of a leaf of a signature, whatever its sizes."""
    return type(x) is np.ndarray and x.dtype is fact[0]
