"""Schedules made of others: warmed up, one after another, scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.hyper import Rate, checked, rate_at, scheduled, within
from wholestep.optim.schedules import Schedule, ascending, blend, elapsed, part


@dataclass(frozen=True, repr=False)
class Warmup(Schedule):
    """A straight line up to where another schedule begins."""

    then: Rate = field(metadata=scheduled())
    steps: float = field(metadata=within(strictly=True))
    start: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        rising = blend(self.start, rate_at(self.then, wnp.zeros_like(t)), part(t, self.steps))
        return wnp.where(t < self.steps, rising, rate_at(self.then, wnp.maximum(t - self.steps, 0.0)))


@dataclass(frozen=True, repr=False)
class Join(Schedule):
    """One schedule after another, each of which counts from where it begins."""

    schedules: tuple[Any, ...]
    boundaries: tuple[float, ...] = field(metadata=within(strictly=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        found = rate_at(self.schedules[0], t)
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            found = wnp.where(t >= boundary, rate_at(schedule, wnp.maximum(t - boundary, 0.0)), found)
        return found

    def agree(self) -> None:
        """The boundaries ascend, and there is one schedule more."""
        ascending("join", "the boundaries", self.boundaries)
        if len(self.schedules) != len(self.boundaries) + 1:
            raise ParameterError(
                f"join: {len(self.schedules)} schedules and {len(self.boundaries)} boundaries; "
                "there is one schedule more"
            )


@dataclass(frozen=True, repr=False)
class Scaled(Schedule):
    """A schedule times a number."""

    schedule: Rate = field(metadata=scheduled())
    factor: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return rate_at(self.schedule, count) * self.factor


def warmup(then: Rate, steps: float, start: float = 0.0) -> Warmup:
    """From `start` at the first update in a straight line to the first value of `then` at update `steps`; then `then`.

    `then` is a schedule, which counts from the end of the warm-up, or a number. Raises ParameterError for a negative
    value or no steps, DtypeError for what is neither number nor function.

    >>> from wholestep.optim import cosine
    >>> schedule = warmup(cosine(1.0, 4), 2)
    >>> [float(schedule(t).round(6)) for t in range(7)]
    [0.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 0.0]
    """
    return checked(Warmup(then, steps, start))


def join(schedules: tuple[Rate, ...], boundaries: tuple[float, ...]) -> Join:
    """The first schedule until update boundaries[0], the second from there on, counting from 0 again, and so forth.

    Numbers are schedules too. Raises ParameterError for boundaries that do not ascend or are not one fewer than the
    schedules, DtypeError for what is neither number nor function.

    >>> from wholestep.optim import linear
    >>> [float(join((linear(0.0, 1.0, 2), linear(1.0, 0.0, 4)), (2,))(t)) for t in (0, 1, 2, 4, 6)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return checked(Join(tuple([checked(Scaled(s, 1.0)).schedule for s in schedules]), tuple(boundaries)))


def scaled(schedule: Rate, factor: float) -> Scaled:
    """A schedule, or a number, times `factor`.

    Raises ParameterError for a negative factor, DtypeError for what is neither number nor function.

    >>> from wholestep.optim import cosine
    >>> float(scaled(cosine(1.0, 10), 0.5)(0))
    0.5
    """
    return checked(Scaled(schedule, factor))
