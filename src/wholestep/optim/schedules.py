"""Learning rates as functions of the number of updates made so far: the value for the update about to be made."""

from __future__ import annotations

from dataclasses import field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray
from wholestep.optim.hyper import Fields, Spelled, is_one_number, number_in


class Schedule(Spelled):
    """A function of the count of updates, 0 for the first, which may be an array or traced.

    Its fields that hold floats are hyper-parameters like an optimizer's. It prints as the call that makes it.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: in the call that makes it, ParameterError for numbers out of range, DtypeError for a value that is no
    number.

    >>> import wholestep as ws
    >>> ws.optim.cosine(0.1, 100)
    cosine(peak=0.1, steps=100.0, end=0.0)
    """

    def __call__(self, count: Any) -> NDArray:
        """The value for the update with this number."""
        raise NotImplementedError


class Formula(Fields, Schedule):
    """A schedule whose parameters are its fields."""


class Constant(Formula):
    """A schedule of one constant value, for `join`.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value, DtypeError for a value that is no number.

    >>> from wholestep.optim import constant
    >>> float(constant(0.1)(7))
    0.1
    """

    value: float = field(metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        return wnp.zeros_like(count_as_float(count)) + self.value


class LinearSchedule(Formula):
    """A linear schedule from `start` at the first update to `end` at update `steps`, and `end` from then on.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value or no steps, DtypeError for a value that is no number.
    Source: as `polynomial`, with power 1.

    >>> from wholestep.optim import linear
    >>> [float(linear(1.0, 0.0, 4)(t)) for t in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    start: float = field(metadata=number_in())
    end: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(strictly=True))

    def __call__(self, count: Any) -> NDArray:
        return blend(self.start, self.end, part_done(count, self.steps))


class Polynomial(Formula):
    """end + (start - end) * (1 - count / steps) ** power, and `end` from update `steps` on.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value, no steps or a power that is not positive.
    Source: Chen et al., "DeepLab: semantic image segmentation with deep convolutional nets", 2018.

    >>> from wholestep.optim import polynomial
    >>> [float(polynomial(1.0, 4, power=2.0)(t)) for t in (0, 2, 4)]
    [1.0, 0.25, 0.0]
    """

    start: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(strictly=True))
    end: float = field(default=0.0, metadata=number_in())
    power: float = field(default=1.0, metadata=number_in(strictly=True))

    def __call__(self, count: Any) -> NDArray:
        return blend(self.end, self.start, (1 - part_done(count, self.steps)) ** self.power)


class Cosine(Formula):
    """A cosine decay from `peak` at the first update to `end` at update `steps`, and `end` from then on.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value or no steps.
    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017, without restarts.

    >>> from wholestep.optim import cosine
    >>> [float(cosine(1.0, 10)(t).round(6)) for t in (0, 5, 10, 11)]
    [1.0, 0.5, 0.0, 0.0]
    """

    peak: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(strictly=True))
    end: float = field(default=0.0, metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        return blend(self.end, self.peak, half_cosine(part_done(count, self.steps)))


class CosineRestarts(Formula):
    """Repeated periods of `cosine`, each from `peak` down; every period is `growth` times as long as the previous one.

    The first period has `steps` updates; each goes down to `end`.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value, no steps or a growth below 1.
    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.

    >>> from wholestep.optim import cosine_restarts
    >>> [float(cosine_restarts(1.0, 2, growth=2.0)(t).round(6)) for t in (0, 1, 2, 4, 6)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    peak: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(strictly=True))
    end: float = field(default=0.0, metadata=number_in())
    growth: float | None = field(default=1.0, metadata=number_in(1.0, strictly=True, off=1.0))

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        if self.growth is None:
            return blend(self.end, self.peak, half_cosine(t % self.steps / self.steps))
        growth = self.growth
        n = wnp.floor(wnp.log(t / self.steps * (growth - 1) + 1) / np.log(growth))
        # The logarithm may be off by its last bit where a period begins.
        n = n + (t >= self.begins(n + 1)) - (t < self.begins(n))
        return blend(self.end, self.peak, half_cosine((t - self.begins(n)) / (self.steps * growth**n)))

    def begins(self, n: Any) -> Any:
        """The count at which a period begins."""
        assert self.growth is not None
        return self.steps * (self.growth**n - 1) / (self.growth - 1)


class Exponential(Formula):
    """value * factor ** (count / steps).

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative value, no steps or a factor that is not positive.
    Source: Szegedy et al., "Rethinking the inception architecture for computer vision", 2016.

    >>> from wholestep.optim import exponential
    >>> float(exponential(1.0, 0.5, steps=10)(20))
    0.25
    """

    value: float = field(metadata=number_in())
    factor: float = field(metadata=number_in(strictly=True))
    steps: float = field(default=1.0, metadata=number_in(strictly=True))

    def __call__(self, count: Any) -> NDArray:
        return self.value * self.factor ** (count_as_float(count) / self.steps)


class StepDecay(Formula):
    """value * factor ** floor(count / every): a step down after every `every` updates.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for negative numbers or stairs of no length.
    Source: as `multi_step`, at equal distances.

    >>> from wholestep.optim import step_decay
    >>> [float(step_decay(1.0, 3, 0.5)(t)) for t in (2, 3, 6)]
    [1.0, 0.5, 0.25]
    """

    value: float = field(metadata=number_in())
    every: float = field(metadata=number_in(strictly=True))
    factor: float = field(default=0.1, metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        return self.value * self.factor ** wnp.floor(count_as_float(count) / self.every)


class MultiStep(Formula):
    """`value`, multiplied by `factor` at each of `milestones`, which are counts of updates.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for negative numbers or milestones that do not ascend.
    Source: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016.

    >>> from wholestep.optim import multi_step
    >>> [float(multi_step(1.0, (2, 5), 0.5)(t)) for t in (1, 2, 5)]
    [1.0, 0.5, 0.25]
    """

    value: float = field(metadata=number_in())
    milestones: tuple[float, ...] = field(metadata=number_in())
    factor: float = field(default=0.1, metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        reached = sum([t >= milestone for milestone in self.milestones], wnp.zeros_like(t))
        return self.value * self.factor**reached

    def agree(self) -> None:
        """Raise ParameterError unless the milestones ascend."""
        check_ascending("multi_step", "the milestones", self.milestones)


class Piecewise(Formula):
    """values[0] before boundaries[0], values[1] from there on, and so forth; one more value than boundaries.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for negative numbers, boundaries that do not ascend, or another number of values.

    >>> from wholestep.optim import piecewise
    >>> [float(piecewise((2, 5), (0.3, 0.2, 0.1))(t)) for t in (0, 2, 5)]
    [0.3, 0.2, 0.1]
    """

    boundaries: tuple[float, ...] = field(metadata=number_in())
    values: tuple[float, ...] = field(metadata=number_in())

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        found = wnp.zeros_like(t) + self.values[0]
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            found = wnp.where(t >= boundary, value, found)
        return found

    def agree(self) -> None:
        """Raise ParameterError unless the boundaries ascend, and there is one more value than boundaries."""
        check_ascending("piecewise", "the boundaries", self.boundaries)
        if len(self.values) != len(self.boundaries) + 1:
            raise ParameterError(
                f"piecewise: {len(self.boundaries)} boundaries and {len(self.values)} values; there is one more value"
            )


class InverseSqrt(Formula):
    """peak / sqrt(1 + count / steps); after a `warmup` of as many steps it is peak * sqrt(steps / total count).

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for a negative peak or no steps.
    Source: Vaswani et al., "Attention is all you need", 2017, section 5.3.

    >>> from wholestep.optim import inverse_sqrt
    >>> [float(inverse_sqrt(1.0, 10)(t)) for t in (0, 30)]
    [1.0, 0.5]
    """

    peak: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(strictly=True))

    def __call__(self, count: Any) -> NDArray:
        return self.peak / wnp.sqrt(1 + count_as_float(count) / self.steps)


class OneCycle(Formula):
    """A cosine rise from `start` to `peak` at update round(rise * steps) - 1, and a cosine decay to `end`.

    The last step has the value `end`. By default start is peak / 25 and end start / 10000. The values are those of
    torch's OneCycleLR where rise * steps is an integer; elsewhere torch does not reach the peak.

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for negative values, fewer than two steps or a rise outside (0, 1).
    Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large learning rates",
    2019.

    >>> from wholestep.optim import one_cycle
    >>> [float(one_cycle(1.0, 10)(t).round(4)) for t in (0, 1, 2, 9)]
    [0.04, 0.52, 1.0, 0.0]
    """

    peak: float = field(metadata=number_in())
    steps: float = field(metadata=number_in(2.0))
    rise: float = field(default=0.3, metadata=number_in(0.0, 1.0, strictly=True))
    start: float | None = field(default=None, metadata=number_in())
    end: float | None = field(default=None, metadata=number_in())

    def resolved(self) -> OneCycle:
        """The same object with `start` and `end` filled in."""
        start = self.peak / 25 if self.start is None and is_one_number(self.peak) else self.start
        end = start / 1e4 if self.end is None and start is not None and is_one_number(start) else self.end
        return replace(self, start=start, end=end)

    def __call__(self, count: Any) -> NDArray:
        t = count_as_float(count)
        top = wnp.maximum(wnp.rint(self.rise * self.steps) - 1, 0.0)
        up = wnp.minimum(t / wnp.maximum(top, 1.0), 1.0)
        down = wnp.clip((t - top) / wnp.maximum(self.steps - 1 - top, 1.0), 0.0, 1.0)
        rising, sinking = blend(self.peak, self.start, half_cosine(up)), blend(self.end, self.peak, half_cosine(down))
        return wnp.where(t < top, rising, sinking)


class Cyclic(Formula):
    """Repeated linear cycles from `low` to `high` in `up` updates and back in `down`, which is `up` by default.

    With a `factor` the height of each cycle is that of the previous one times the factor: 0.5 is torch's "triangular2".

    Shapes: count an integer or an array of any shape; f64 of its shape.
    Raises: ParameterError for negative values or no updates.
    Source: Smith, "Cyclical learning rates for training neural networks", 2017.

    >>> from wholestep.optim import cyclic
    >>> [float(cyclic(0.0, 1.0, 2, factor=0.5)(t)) for t in range(7)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.25, 0.5]
    """

    low: float = field(metadata=number_in())
    high: float = field(metadata=number_in())
    up: float = field(metadata=number_in(strictly=True))
    down: float | None = field(default=None, metadata=number_in(strictly=True))
    factor: float | None = field(default=None, metadata=number_in(optional=True))

    def resolved(self) -> Cyclic:
        """The same object with `down` filled in, by default `up`."""
        return replace(self, down=self.up if self.down is None else self.down)

    def __call__(self, count: Any) -> NDArray:
        assert self.down is not None
        t = count_as_float(count)
        period = self.up + self.down
        since = t % period
        height = wnp.where(since <= self.up, since / self.up, (period - since) / self.down)
        if self.factor is not None:
            height = height * self.factor ** wnp.floor(t / period)
        return blend(self.low, self.high, height)


def count_as_float(count: Any) -> Any:
    """A count as float64."""
    return wnp.asarray(count).astype(np.float64)


def part_done(count: Any, steps: Any) -> Any:
    """The fraction of so many steps that is done, 1 after them."""
    return wnp.minimum(count_as_float(count) / steps, 1.0)


def blend(a: Any, b: Any, x: Any) -> Any:
    """The point between a and b that is exactly a where x is 0 and exactly b where x is 1."""
    return (1 - x) * a + x * b


def half_cosine(x: Any) -> Any:
    """Half a period of a cosine, from 1 to 0 as x goes from 0 to 1."""
    return (1 + wnp.cos(np.pi * x)) / 2


def check_ascending(who: str, what: str, items: tuple[Any, ...]) -> None:
    """Raise ParameterError where counts do not grow."""
    if any(b <= a for a, b in pairwise(items)):
        raise ParameterError(
            f"{who}: {what} are {', '.join(f'{x:g}' for x in items)}; each is more than the one before"
        )
