"""Results of calls: the losses, the flags of finite steps, and captured and auxiliary values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wholestep.ir.graph import NDArray

T = TypeVar("T")


class EmptyMapping(Mapping[str, Any]):
    """A read-only mapping without entries, which all results share, and which can be pickled."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


EMPTY_MAPPING = EmptyMapping()


class ResultDetails(NamedTuple):
    """The details of a result beside losses and flags; calls without any share one value."""

    guarded: bool
    aux: Any = None
    captures: Mapping[str, Any] = EMPTY_MAPPING
    interrupted: bool = False
    hypergradients: Mapping[str, float] = EMPTY_MAPPING
    grad_norm: Any = None


class Result:
    """The outcome of one step, of the K steps of one call, or of a whole run.

    It is also the sequence of its losses: `len(result)`, `result[-1]`, `np.asarray(result)`.

    >>> import numpy as np
    >>> r = Result(np.array([2.0, 1.0]), np.array([True, True]), ResultDetails(guarded=True))
    >>> r.loss, r.steps, r.status
    (1.0, 2, 'completed')
    >>> str(Result(np.array([2.0, np.nan]), np.array([True, False]), ResultDetails(guarded=True)))
    'loss 2.0000, 1 of 2 steps skipped (step.diagnose with the same data says why)'
    """

    __slots__ = ("_flags", "_losses", "_more")

    def __init__(self, losses: Any, flags: Any, more: ResultDetails) -> None:
        self._losses = losses
        self._flags = flags
        self._more = more

    @property
    def aux(self) -> Any:
        """The auxiliary values of the loss, with a first axis of steps where there were several; None after `run`."""
        return self._more.aux

    @property
    def captures(self) -> Mapping[str, Any]:
        """The captured values by name, with a first axis of steps where there were several; none after `run`."""
        return self._more.captures

    @property
    def grad_norm(self) -> Any:
        """The global norm of the gradients with grad_norm=True, before the optimizer clips them.

        It is a number, or with several steps a call an array of one for each step; None without `grad_norm`, and after
        `run`. With loss scaling it is the norm of the unscaled gradients.
        """
        return self._more.grad_norm

    @property
    def hypergradients(self) -> Mapping[str, float]:
        """The gradient of the mean of the losses by each hyper-parameter, by name, with unroll="through".

        It is nan where Ctrl-C ended the call, and empty after `run`.
        """
        return self._more.hypergradients

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C ended the call early, between two steps."""
        return self._more.interrupted

    @property
    def loss(self) -> float:
        """The loss of the last step; nan where no step was taken."""
        if type(self._losses) is float:
            return self._losses
        return float(self._losses[-1]) if len(self._losses) else np.nan

    @property
    def losses(self) -> NDArray:
        """The loss of every step, f64[steps]."""
        return np.atleast_1d(self._losses)

    @property
    def finite(self) -> bool:
        """True if the guard found every step finite."""
        return bool(np.all(self._flags))

    @property
    def flags(self) -> NDArray:
        """True for each step that the guard found finite, bool[steps]."""
        return np.atleast_1d(self._flags)

    @property
    def steps(self) -> int:
        """The number of steps, skipped ones included."""
        return 1 if type(self._losses) is float else len(self._losses)

    @property
    def skipped(self) -> int:
        """The number of steps whose update was skipped, since the loss or a gradient was not finite."""
        if self._flags is True or not self._more.guarded:
            return 0
        return self.steps - int(np.count_nonzero(self._flags))

    @property
    def skipped_last(self) -> int:
        """The number of skipped steps in a row at the end."""
        if not self.skipped:
            return 0
        return int(np.argmax([*np.atleast_1d(self._flags)[::-1], True]))

    @property
    def status(self) -> str:
        """The status: `completed`, `skipped` where the guard skipped an update, or `interrupted`."""
        if self.interrupted:
            return "interrupted"
        return "skipped" if self.skipped else "completed"

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: Any) -> Any:
        return self.losses[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.losses)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array(self.losses, dtype)

    def __float__(self) -> float:
        return self.loss

    def __str__(self) -> str:
        if not self.steps:
            return "no step"
        counted = self.losses[self.flags] if 0 < self.skipped < self.steps else self.losses
        left_out = f", {self.skipped} of {self.steps} steps skipped" if self.steps > 1 else ", skipped"
        told = f"{left_out} (step.diagnose with the same data says why)" if self.skipped else ""
        return f"loss {np.mean(counted):.4f}{told}"

    def __repr__(self) -> str:
        return f"Result({self}, {self.steps} step{'s' * (self.steps != 1)}, {self.status})"


def join_results(results: Sequence[Result], interrupted: bool = False) -> Result:
    """One result for several, one after the other."""
    losses = np.concatenate([r.losses for r in results] or [np.zeros(0)])
    flags = np.concatenate([np.atleast_1d(r._flags) for r in results] or [np.zeros(0, bool)])
    return Result(losses, flags, ResultDetails(any(r._more.guarded for r in results), interrupted=interrupted))


def block_until_ready(x: T) -> T:
    """Wait until every array of a tree has its value, and return the tree.

    Results on the CPU are ready when the call returns, so this is for code that times programs on any device.

    Shapes: x a tree of arrays of any shapes and dtypes; the same tree.
    Raises: nothing of its own.

    >>> import numpy as np, wholestep as ws
    >>> ws.block_until_ready(np.ones(2))
    array([1., 1.])
    """
    return x
