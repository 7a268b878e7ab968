"""D-Adaptation, Prodigy and DoG: AdamW and plain descent that estimate their rate from the distance traveled."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.numpy.working_precision import working_array
from wholestep.optim.averaging import working_copy
from wholestep.optim.hyper import Rate, number_in, number_or_schedule, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
from wholestep.optim.moments import WithMoments
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import (
    root_of_squares,
    running_mean,
    scalar_like,
    squared_magnitude,
    working_zeros,
)


class WithDistance(WithMoments):
    """The base of Prodigy and D-Adaptation: a rate of lr * d, where d is an estimate that only grows."""

    lr: Rate = field(default=1.0, metadata=number_or_schedule())
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    _: KW_ONLY
    first: float = field(default=1e-6, metadata=number_in(strictly=True))
    corrected: bool = False
    decay: Choice = None

    def common(self) -> dict[str, Any]:
        """The number of updates, the estimate and the previous one, and the progress from which it is computed."""
        first = {name: np.float64(0) + self.first for name in ("distance", "before")}
        return {**super().common(), **first, "progress": np.float64(0)}

    def rate(self, count: Any, distance: Any) -> Any:
        """The rate of an update."""
        rate, new = rate_at(self.lr, count) * distance, count + 1
        return rate * wnp.sqrt(1 - self.b2**new) / (1 - self.b1**new) if self.corrected else rate


class Prodigy(WithDistance):
    """Prodigy: AdamW whose rate is lr * d, where d, an estimate of the distance to the solution, only grows.

    The estimate begins at `first`. Each update compares it with `coefficient` times the progress of all parameters
    against their gradients, over the sum of the absolute values of the summed gradients; progress and sums decay by the
    root of b2. `lr` is best left at 1, or a schedule that ends lower. With `corrected` the rate has Adam's corrections;
    with `cautious`, for rates that rise at first, the sum is not scaled by the rate. All parameters share one estimate;
    each part of `groups` has its own. `b1` and `b2` are those of `adam`, and so is `eps`, times d; `weight_decay` and
    `decay` are those of `adamw`.

    Shapes: trees of floating or complex arrays; the state has four arrays like each, and d under the name distance.
    Raises: as `adamw` does.
    Source: Mishchenko and Defazio, "Prodigy: an expeditiously adaptive parameter-free learner", 2024, and the authors'
    code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.prodigy(), np.array([3.0])
    >>> state = optimizer.init(p)
    >>> for _ in range(100):
    ...     p, state = optimizer.update(2 * p, state, p)
    >>> bool(abs(p[0]) < 0.5), bool(state["distance"] > 0.1)
    (True, True)
    """

    _: KW_ONLY
    coefficient: float = field(default=1.0, metadata=number_in(strictly=True))
    cautious: bool = False

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(the rate by the previous estimate, the previous estimate, the new one)."""
        before, count = common["before"], common["count"]
        return (self.rate(count, before), before, common["distance"]), {**common, "count": count + 1}

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments, the initial parameter, and the sum of its gradients."""
        return {**super().kept(p), "start": working_copy(p), "sum": working_zeros(p)}

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state, whose estimate includes these gradients."""
        leaves, structure = tree.flatten(params)
        below = [tree.below(structure, x) for x in (grads, state["start"], state["sum"])]
        gs, starts, sums = [[working_array(x) for x in xs] for xs in below]
        before, fade = state["distance"], self.b2**0.5
        rate = self.rate(state["count"], before)
        pairs = zip(gs, starts, map(working_array, leaves), strict=True)
        onward = double_sum(wnp.sum(real_product(g, start - p)) for g, start, p in pairs)
        progress = fade * state["progress"] + before / self.first * rate * onward
        part = before / self.first * (before if self.cautious else rate)
        sums = [scalar_like(fade, s) * s + scalar_like(part, s) * g for g, s in zip(gs, sums, strict=True)]
        size = double_sum(wnp.sum(abs(s)) for s in sums)
        found = wnp.where(size > 0, self.coefficient * progress / wnp.where(size > 0, size, 1), 0.0)
        known = {"before": before, "distance": wnp.maximum(before, found), "progress": progress}
        return super().update(grads, {**state, **known, "sum": tree.unflatten(structure, sums)}, params)

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        rate, before, distance = numbers
        m, v = self.moments(kept, scalar_like(before, p) * g)
        root = root_of_squares(v) + scalar_like(distance * self.eps, v)
        return decay_parameter(p, rate, decay) - scalar_like(rate, v) * m / root, {**kept, "m": m, "v": v}


class DadaptAdamw(WithDistance):
    """D-Adaptation of AdamW: a rate of lr * d, where d, a lower bound of the distance to the solution, only grows.

    The bound begins at `first`. Each update divides the progress of all parameters, their gradients times the sums of
    earlier gradients over the root of v, by the sum of the absolute values of these sums; progress and sums decay by
    the root of b2. The bound grows by a factor of at most `growth`, and without a limit where that is None. `lr` is
    best left at 1, or a schedule that ends lower. With `corrected` the rate has Adam's corrections. All parameters
    share one bound; each part of `groups` has its own. `b1`, `b2` and `eps` are those of `adam`, `weight_decay` and
    `decay` those of `adamw`.

    Shapes: trees of floating or complex arrays; the state has three arrays like each, and d under the name distance.
    Raises: as `adamw` does.
    Source: Defazio and Mishchenko, "Learning-rate-free learning by D-Adaptation", 2023, and the authors' code.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.dadapt_adamw(), np.array([3.0])
    >>> state = optimizer.init(p)
    >>> for _ in range(100):
    ...     p, state = optimizer.update(2 * p, state, p)
    >>> bool(abs(p[0]) < 0.5), bool(state["distance"] > 0.1)
    (True, True)
    """

    _: KW_ONLY
    growth: float | None = field(default=None, metadata=number_in(1.0, optional=True))

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate by the previous bound."""
        count = common["count"]
        return self.rate(count, common["before"]), {**common, "count": count + 1}

    def kept(self, p: Any) -> dict[str, Any]:
        """Both moments, and the sum of the gradients."""
        return {**super().kept(p), "sum": working_zeros(p)}

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state, whose bound includes these gradients."""
        structure = tree.structure(params)
        below = [tree.below(structure, x) for x in (grads, state["sum"], state["v"])]
        gs, sums, squares = [[working_array(x) for x in xs] for xs in below]
        before, fade = state["distance"], self.b2**0.5
        rate = self.rate(state["count"], before)
        rows = zip(gs, sums, squares, strict=True)
        onward = double_sum(
            wnp.sum(real_product(g, s / (root_of_squares(v) + scalar_like(self.eps, v)))) for g, s, v in rows
        )
        progress = fade * state["progress"] + (1 - fade) * rate * onward
        sums = [running_mean(s, scalar_like(rate, s) * g, fade) for g, s in zip(gs, sums, strict=True)]
        size = (1 - fade) * double_sum(wnp.sum(abs(s)) for s in sums)
        found = wnp.where(size > 0, progress / wnp.where(size > 0, size, 1), 0.0)
        most = found if self.growth is None else wnp.minimum(found, before * self.growth)
        known = {"before": before, "distance": wnp.maximum(before, most), "progress": progress}
        return super().update(grads, {**state, **known, "sum": tree.unflatten(structure, sums)}, params)

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        m = running_mean(kept["m"], scalar_like(numbers, p) * g, self.b1)
        v = running_mean(kept["v"], squared_magnitude(g), self.b2)
        root = root_of_squares(v) + scalar_like(self.eps, v)
        return decay_parameter(p, numbers, decay) - m / root, {**kept, "m": m, "v": v}


class Dog(Leafwise):
    """DoG: gradient descent whose rate is the largest distance from the initial point over the norm of all gradients.

    Norms are those of all parameters together; each part of `groups` has its own. The distance begins at `first` * (1 +
    the norm of the parameters). `lr` is best left at 1, and the mean of the parameters is better than the last ones:
    `ema` keeps one. `eps` is added to the sum of the squared norms of gradients, before the root is taken.
    `weight_decay` and `decay` are those of `adamw`.

    Shapes: trees of floating or complex arrays; the state has one array like each, and two numbers.
    Raises: as `adamw` does.
    Source: Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule", 2023.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.dog(), np.array([3.0])
    >>> state = optimizer.init(p)
    >>> for _ in range(200):
    ...     p, state = optimizer.update(2 * p, state, p)
    >>> bool(abs(p[0]) < 0.1)
    True
    """

    lr: Rate = field(default=1.0, metadata=number_or_schedule())
    first: float = field(default=1e-6, metadata=number_in(strictly=True))
    eps: float = field(default=1e-8, metadata=number_in())
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def common(self) -> dict[str, Any]:
        """The number of updates, the largest distance, and the sum of the squared norms of gradients."""
        return {**super().common(), "distance": np.float64(0), "size": np.float64(0)}

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        ratio = common["distance"] / wnp.sqrt(common["size"] + self.eps)
        return rate_at(self.lr, common["count"]) * ratio, {**common, **increment_count(common)}

    def kept(self, p: Any) -> dict[str, Any]:
        """The initial parameter."""
        return {"start": working_copy(p)}

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state, whose distance and size include these parameters and gradients."""
        leaves, structure = tree.flatten(params)
        ps, gs, starts = [
            [working_array(x) for x in xs]
            for xs in (leaves, tree.below(structure, grads), tree.below(structure, state["start"]))
        ]
        begin = self.first * (1 + root_of_squares(double_sum(wnp.sum(real_product(s, s)) for s in starts)))
        gone = double_sum(wnp.sum(real_product(p - s, p - s)) for p, s in zip(ps, starts, strict=True))
        distance = wnp.maximum(wnp.maximum(state["distance"], begin), root_of_squares(gone))
        size = state["size"] + double_sum(wnp.sum(real_product(g, g)) for g in gs)
        return super().update(grads, {**state, "distance": distance, "size": size}, params)

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        return decay_parameter(p, numbers, decay) - scalar_like(numbers, p) * g, kept


def real_product(a: Any, b: Any) -> Any:
    """The real part of conj(a) * b, element by element."""
    return a.real * b.real + a.imag * b.imag if dtypes.is_complex(a.dtype) else a * b


def double_sum(numbers: Iterable[Any]) -> Any:
    """The sum of scalars in double precision."""
    return functools.reduce(wnp.add, [wnp.asarray(x).astype(np.float64) for x in numbers], wnp.zeros(()))
