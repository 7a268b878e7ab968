"""Compound schedules: warm-up, one schedule after another, scaling."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.optim.hyper import Rate, check_numbers, number_in, number_or_schedule, rate_at
from wholestep.optim.schedules import Formula, blend, check_ascending, count_as_float, part_done


class Warmup(Formula):
    """A linear warm-up from `start` at update 0 to the first value of `then` at update `steps`, followed by `then`.

    `then` is a schedule, which counts from the end of the warm-up, or a number.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value or no steps, DtypeError for an argument that is neither number nor
    function.
    Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017.

    >>> from wholestep.optim import cosine, warmup
    >>> schedule = warmup(cosine(1.0, 4), 2)
    >>> [float(schedule(t).round(6)) for t in range(7)]
    [0.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 0.0]
    """

    then: Rate = field(metadata=number_or_schedule())
    steps: float = field(metadata=number_in(strictly=True))
    start: float = field(default=0.0, metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        rising = blend(self.start, rate_at(self.then, wnp.zeros_like(t)), part_done(t, self.steps))
        return wnp.where(t < self.steps, rising, rate_at(self.then, wnp.maximum(t - self.steps, 0.0)))


class Join(Formula):
    """The first schedule until update boundaries[0], the second from there on, counting from 0 again, and so forth.

    `schedules` may be numbers too.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for boundaries that do not ascend or are not one fewer than the schedules, DtypeError for
    an item that is neither number nor function.

    >>> from wholestep.optim import join, linear
    >>> [float(join((linear(0.0, 1.0, 2), linear(1.0, 0.0, 4)), (2,))(t)) for t in (0, 1, 2, 4, 6)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    schedules: tuple[Any, ...]
    boundaries: tuple[float, ...] = field(metadata=number_in(strictly=True))

    def resolved(self) -> Join:
        """The same object with checked numbers and schedules."""
        return replace(self, schedules=tuple([check_numbers(Scaled(s, 1.0)).schedule for s in self.schedules]))

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        found = rate_at(self.schedules[0], t)
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            found = wnp.where(t >= boundary, rate_at(schedule, wnp.maximum(t - boundary, 0.0)), found)
        return found

    def agree(self) -> None:
        """Raise ParameterError unless the boundaries ascend, and there is one more schedule than boundaries."""
        check_ascending("join", "the boundaries", self.boundaries)
        if len(self.schedules) != len(self.boundaries) + 1:
            raise ParameterError(
                f"join: {len(self.schedules)} schedules and {len(self.boundaries)} boundaries; "
                "there is one schedule more"
            )


class Scaled(Formula):
    """A schedule, or a number, times `factor`.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative factor, DtypeError for a schedule that is neither number nor function.

    >>> from wholestep.optim import cosine, scaled
    >>> float(scaled(cosine(1.0, 10), 0.5)(0))
    0.5
    """

    schedule: Rate = field(metadata=number_or_schedule())
    factor: float = field(metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        return rate_at(self.schedule, count) * self.factor
