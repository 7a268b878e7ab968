"""Learning rates as functions of the number of updates made so far: the value for the update about to be made."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.optim.hyper import Spelled, checked, within


class Schedule(Spelled):
    """A function of the count of updates, 0 for the first, which may be an array or traced.

    Its fields that hold floats are hyper-parameters like an optimizer's. It prints as the call that makes it.
    """

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Constant(Schedule):
    """One value for all updates."""

    value: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value."""
        return wnp.zeros_like(elapsed(count)) + self.value


@dataclass(frozen=True, repr=False)
class Linear(Schedule):
    """A straight line, then its end."""

    start: float = field(metadata=within())
    end: float = field(metadata=within())
    steps: float = field(metadata=within(strictly=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return blend(self.start, self.end, part(count, self.steps))


@dataclass(frozen=True, repr=False)
class Polynomial(Schedule):
    """What is left of the way, to a power."""

    start: float = field(metadata=within())
    steps: float = field(metadata=within(strictly=True))
    end: float = field(metadata=within())
    power: float = field(metadata=within(strictly=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return blend(self.end, self.start, (1 - part(count, self.steps)) ** self.power)


@dataclass(frozen=True, repr=False)
class Cosine(Schedule):
    """Half a period of a cosine, then its end."""

    peak: float = field(metadata=within())
    steps: float = field(metadata=within(strictly=True))
    end: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return blend(self.end, self.peak, falling(part(count, self.steps)))


@dataclass(frozen=True, repr=False)
class CosineRestarts(Schedule):
    """Half a period of a cosine again and again, each as long as `growth` times the one before."""

    peak: float = field(metadata=within())
    steps: float = field(metadata=within(strictly=True))
    end: float = field(metadata=within())
    growth: float | None = field(metadata=within(1.0, strictly=True, optional=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        if self.growth is None:
            return blend(self.end, self.peak, falling(t % self.steps / self.steps))
        growth = self.growth
        n = wnp.floor(wnp.log(t / self.steps * (growth - 1) + 1) / np.log(growth))
        # The logarithm may be off by its last bit where a period begins.
        n = n + (t >= self.begins(n + 1)) - (t < self.begins(n))
        return blend(self.end, self.peak, falling((t - self.begins(n)) / (self.steps * growth**n)))

    def begins(self, n: Any) -> Any:
        """The count at which a period begins."""
        assert self.growth is not None
        return self.steps * (self.growth**n - 1) / (self.growth - 1)


@dataclass(frozen=True, repr=False)
class Exponential(Schedule):
    """value * factor ** (count / steps)."""

    value: float = field(metadata=within())
    factor: float = field(metadata=within(strictly=True))
    steps: float = field(metadata=within(strictly=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return self.value * self.factor ** (elapsed(count) / self.steps)


@dataclass(frozen=True, repr=False)
class StepDecay(Schedule):
    """value * factor ** floor(count / every)."""

    value: float = field(metadata=within())
    every: float = field(metadata=within(strictly=True))
    factor: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return self.value * self.factor ** wnp.floor(elapsed(count) / self.every)


@dataclass(frozen=True, repr=False)
class MultiStep(Schedule):
    """value * factor for each milestone that was reached."""

    value: float = field(metadata=within())
    milestones: tuple[float, ...] = field(metadata=within())
    factor: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return self.value * self.factor ** reached(count, self.milestones)

    def agree(self) -> None:
        """The milestones ascend."""
        ascending("multi_step", "the milestones", self.milestones)


@dataclass(frozen=True, repr=False)
class Piecewise(Schedule):
    """One value after another."""

    boundaries: tuple[float, ...] = field(metadata=within())
    values: tuple[float, ...] = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        found = wnp.zeros_like(t) + self.values[0]
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            found = wnp.where(t >= boundary, value, found)
        return found

    def agree(self) -> None:
        """The boundaries ascend, and there is one value more."""
        ascending("piecewise", "the boundaries", self.boundaries)
        if len(self.values) != len(self.boundaries) + 1:
            raise ParameterError(
                f"piecewise: {len(self.boundaries)} boundaries and {len(self.values)} values; there is one more value"
            )


@dataclass(frozen=True, repr=False)
class InverseSqrt(Schedule):
    """peak / sqrt(1 + count / steps)."""

    peak: float = field(metadata=within())
    steps: float = field(metadata=within(strictly=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        return self.peak / wnp.sqrt(1 + elapsed(count) / self.steps)


@dataclass(frozen=True, repr=False)
class OneCycle(Schedule):
    """Up half a cosine from `start` to `peak`, and down another to `end`."""

    peak: float = field(metadata=within())
    steps: float = field(metadata=within(2.0))
    rise: float = field(metadata=within(0.0, 1.0, strictly=True))
    start: float = field(metadata=within())
    end: float = field(metadata=within())

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        top = wnp.maximum(wnp.rint(self.rise * self.steps) - 1, 0.0)
        up = wnp.minimum(t / wnp.maximum(top, 1.0), 1.0)
        down = wnp.clip((t - top) / wnp.maximum(self.steps - 1 - top, 1.0), 0.0, 1.0)
        rising, sinking = blend(self.peak, self.start, falling(up)), blend(self.end, self.peak, falling(down))
        return wnp.where(t < top, rising, sinking)


@dataclass(frozen=True, repr=False)
class Cyclic(Schedule):
    """Up a straight line from `low` to `high` and down another, again and again."""

    low: float = field(metadata=within())
    high: float = field(metadata=within())
    up: float = field(metadata=within(strictly=True))
    down: float = field(metadata=within(strictly=True))
    factor: float | None = field(metadata=within(optional=True))

    def __call__(self, count: Any) -> Any:
        """The value for the update with this number."""
        t = elapsed(count)
        period = self.up + self.down
        since = t % period
        height = wnp.where(since <= self.up, since / self.up, (period - since) / self.down)
        if self.factor is not None:
            height = height * self.factor ** wnp.floor(t / period)
        return blend(self.low, self.high, height)


def elapsed(count: Any) -> Any:
    """A count as a number to calculate with."""
    return wnp.asarray(count).astype(np.float64)


def part(count: Any, steps: Any) -> Any:
    """How much of so many steps is done, 1 after them."""
    return wnp.minimum(elapsed(count) / steps, 1.0)


def blend(a: Any, b: Any, x: Any) -> Any:
    """The point between a and b that is exactly a where x is 0 and exactly b where x is 1."""
    return (1 - x) * a + x * b


def falling(x: Any) -> Any:
    """Half a period of a cosine, from 1 to 0 as x goes from 0 to 1."""
    return (1 + wnp.cos(np.pi * x)) / 2


def reached(count: Any, boundaries: tuple[Any, ...]) -> Any:
    """How many of the boundaries a count has reached."""
    t = elapsed(count)
    found = wnp.zeros_like(t)
    for boundary in boundaries:
        found = found + (t >= boundary)
    return found


def ascending(who: str, what: str, items: tuple[Any, ...]) -> None:
    """Raise ParameterError where counts do not grow."""
    if any(b <= a for a, b in pairwise(items)):
        raise ParameterError(
            f"{who}: {what} are {', '.join(f'{x:g}' for x in items)}; each is more than the one before"
        )


def constant(value: float) -> Constant:
    """The same value always, as a schedule, for `join`.

    >>> float(constant(0.1)(7))
    0.1
    """
    return checked(Constant(value))


def linear(start: float, end: float, steps: float) -> Linear:
    """From `start` at the first update in a straight line to `end` at update `steps`, and `end` from then on.

    Raises ParameterError for a negative value or no steps, DtypeError for what is no number.

    >>> [float(linear(1.0, 0.0, 4)(t)) for t in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    return checked(Linear(start, end, steps))


def polynomial(start: float, steps: float, end: float = 0.0, power: float = 1.0) -> Polynomial:
    """end + (start - end) * (1 - count / steps) ** power, and `end` from update `steps` on.

    Raises ParameterError for a negative value, no steps or a power that is not positive.

    >>> [float(polynomial(1.0, 4, power=2.0)(t)) for t in (0, 2, 4)]
    [1.0, 0.25, 0.0]
    """
    return checked(Polynomial(start, steps, end, power))


def cosine(peak: float, steps: float, end: float = 0.0) -> Cosine:
    """From `peak` at the first update down half a cosine to `end` at update `steps`, and `end` from then on.

    Raises ParameterError for a negative value or no steps. Loshchilov and Hutter, SGDR (2017), without restarts.

    >>> [float(cosine(1.0, 10)(t).round(6)) for t in (0, 5, 10, 11)]
    [1.0, 0.5, 0.0, 0.0]
    """
    return checked(Cosine(peak, steps, end))


def cosine_restarts(peak: float, steps: float, end: float = 0.0, growth: float = 1.0) -> CosineRestarts:
    """`cosine` again and again, from `peak` each time; every period is `growth` times as long as the one before.

    Raises ParameterError for a negative value, no steps or a growth below 1. Loshchilov and Hutter, SGDR (2017).

    >>> [float(cosine_restarts(1.0, 2, growth=2.0)(t).round(6)) for t in (0, 1, 2, 4, 6)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """
    return checked(CosineRestarts(peak, steps, end, None if growth == 1 else growth))


def exponential(value: float, factor: float, steps: float = 1.0) -> Exponential:
    """value * factor ** (count / steps).

    Raises ParameterError for a negative value, no steps or a factor that is not positive.

    >>> float(exponential(1.0, 0.5, steps=10)(20))
    0.25
    """
    return checked(Exponential(value, factor, steps))


def step_decay(value: float, every: float, factor: float = 0.1) -> StepDecay:
    """value * factor ** floor(count / every): a stair down every so many updates.

    Raises ParameterError for negative numbers or stairs of no length.

    >>> [float(step_decay(1.0, 3, 0.5)(t)) for t in (2, 3, 6)]
    [1.0, 0.5, 0.25]
    """
    return checked(StepDecay(value, every, factor))


def multi_step(value: float, milestones: tuple[float, ...], factor: float = 0.1) -> MultiStep:
    """`value`, multiplied by `factor` at each milestone, a count of updates.

    Raises ParameterError for negative numbers or milestones that do not ascend.

    >>> [float(multi_step(1.0, (2, 5), 0.5)(t)) for t in (1, 2, 5)]
    [1.0, 0.5, 0.25]
    """
    return checked(MultiStep(value, tuple(milestones), factor))


def piecewise(boundaries: tuple[float, ...], values: tuple[float, ...]) -> Piecewise:
    """values[0] before boundaries[0], values[1] from there on, and so forth; one more value than boundaries.

    Raises ParameterError for negative numbers, boundaries that do not ascend, or another number of values.

    >>> [float(piecewise((2, 5), (0.3, 0.2, 0.1))(t)) for t in (0, 2, 5)]
    [0.3, 0.2, 0.1]
    """
    return checked(Piecewise(tuple(boundaries), tuple(values)))


def inverse_sqrt(peak: float, steps: float) -> InverseSqrt:
    """peak / sqrt(1 + count / steps); after a `warmup` of as many steps it is peak * sqrt(steps / total count).

    Raises ParameterError for a negative peak or no steps. Vaswani and others, Attention is all you need (2017).

    >>> [float(inverse_sqrt(1.0, 10)(t)) for t in (0, 30)]
    [1.0, 0.5]
    """
    return checked(InverseSqrt(peak, steps))


def one_cycle(
    peak: float, steps: float, rise: float = 0.3, start: float | None = None, end: float | None = None
) -> OneCycle:
    """Up half a cosine from `start` to `peak`, which the update number round(rise * steps) - 1 has, and down to `end`.

    The last of the steps has `end`. By default start is peak / 25 and end start / 10000. These are the values of
    torch's OneCycleLR where rise * steps is whole; elsewhere torch does not reach the peak.

    Raises ParameterError for negative values, fewer than two steps or a rise outside (0, 1). Smith and Topin,
    Super-convergence (2019).

    >>> [float(one_cycle(1.0, 10)(t).round(4)) for t in (0, 1, 2, 9)]
    [0.04, 0.52, 1.0, 0.0]
    """
    first = peak / 25 if start is None and isinstance(peak, int | float) else start
    last = first / 1e4 if end is None and isinstance(first, int | float) else end
    return checked(OneCycle(peak, steps, rise, first, last))


def cyclic(low: float, high: float, up: float, down: float | None = None, factor: float | None = None) -> Cyclic:
    """Up from `low` to `high` in `up` updates and back in `down`, as many by default, again and again.

    With a `factor` each cycle is that much as high as the one before: 0.5 is torch's "triangular2".

    Raises ParameterError for negative values or no updates. Smith, Cyclical learning rates (2017).

    >>> [float(cyclic(0.0, 1.0, 2, factor=0.5)(t)) for t in range(7)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.25, 0.5]
    """
    return checked(Cyclic(low, high, up, up if down is None else down, factor))
