"""Interfaces of every device: an executable, and an executable bound to its resident state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.types import Type, array_type

QuickCall = Callable[[Sequence[Any]], list[NDArray] | None]
"""Runs a program for arrays that native code reads as they are; for others it returns None, and nothing has run."""


class Executable(ABC):
    """A graph compiled or prepared for a device. It holds no state, so that bound executables share it.

    `resident` pairs inputs with the outputs that replace them: (input, output) says that a bound executable
    keeps that input as its own memory and writes that output over it.
    """

    graph: Graph
    resident: tuple[tuple[int, int], ...]

    def input_name(self, i: int) -> str:
        """The name of an input in errors."""
        names = self.graph.input_names
        return names[i] if i < len(names) else f"argument {i}"

    def fresh_inputs(self) -> list[int]:
        """The numbers of the inputs that are not resident."""
        return numbers_without(len(self.graph.inputs), {i for i, _ in self.resident})

    def fresh_outputs(self) -> list[int]:
        """The numbers of the outputs that are not resident."""
        return numbers_without(len(self.graph.outputs), {o for _, o in self.resident})

    @abstractmethod
    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        """The outputs for these inputs, buffers of the device or host arrays, in fresh arrays; no input is written."""

    def quick_call(self) -> QuickCall | None:
        """A call that checks its arrays natively; None for a program that has none."""
        return None

    @abstractmethod
    def instance(self, state: Sequence[Any]) -> BoundExecutable:
        """Bind the executable to one resident buffer for each pair in `resident`, in that order.

        It lies in the memory of the device, or in a file where it is streamed.

        The buffers are written in place by every call; several instances, of this or another program, may share them.
        """


class UnfitArguments(Exception):
    """Arrays that must be checked, and perhaps copied, before a program reads them."""


def numbers_without(count: int, left_out: Set[int]) -> list[int]:
    """The numbers from 0 to before `count` without these."""
    return [i for i in range(count) if i not in left_out]


def check_count(arrays: Sequence[Any], count: int) -> None:
    """Raise ShapeError unless a program that takes `count` arrays is given as many."""
    if len(arrays) != count:
        raise ShapeError(f"call: the program takes {count} arrays, not {len(arrays)}")


def fitting_array(array: Any, wanted: Type, name: str, own: type[Any]) -> Any:
    """An array that a program can read, of the device's own class or of the host; raises ShapeError or DtypeError."""
    if not isinstance(array, own | np.ndarray | np.generic):
        raise DtypeError(f"call: {name} must be an array {wanted}, not {type(array).__name__}")
    if array.dtype != wanted.dtype:
        raise DtypeError(f"call: {name} must be {wanted}, not {array_type(array.shape, array.dtype)}")
    if array.shape != wanted.shape:
        raise ShapeError(f"call: {name} must be {wanted}, not {array_type(array.shape, array.dtype)}")
    return array


class BoundExecutable(ABC):
    """An executable with its resident state: one native call for one run."""

    state: Sequence[Any]
    """The resident buffers, in the order of `resident`."""

    @abstractmethod
    def __call__(self, arrays: Sequence[Any], strict: bool = False) -> Sequence[NDArray]:
        """Run once with the inputs that are not resident, in order; return the outputs that are not resident.

        An input is a host array, or a buffer of the device.

        Where `strict`, raise UnfitArguments for arrays that native code cannot read as they are, instead of checking
        and copying them in Python.

        The results are the instance's own buffers, overwritten by the next call. Raises BoundsError and LinAlgError as
        the reference does, with the state as it was before the call. Where `stop()` was called from another thread or
        from a signal handler, an outermost loop ends after the trip it is in, and the state is that of whole trips.
        """

    @abstractmethod
    def stop(self) -> None:
        """Ask the run in progress to end after the trip of its outermost loop that it is in; may be called any time."""

    @property
    @abstractmethod
    def trips(self) -> int:
        """Number of completed trips of the outermost loop in the last run; 0 where the program has none."""

    def trace(self) -> Any:
        """Return the profile record of the last run; None where there is none."""
        return None
