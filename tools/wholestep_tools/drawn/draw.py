"""Random programs by the language's own type rules, kept finite and away from kinks by looking at their values.

A program is drawn with its values attached (as NNSmith does): an operand is squashed into the domain of the function
that takes it, and a comparison, a sort or a maximum is taken only where no two of its candidates are close.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.ir.graph import OPS, Graph, NDArray, Value
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing import laws
from wholestep.testing.primitives import graph_of

F64, F32, I64 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)
APART = 0.05
"""The distance that candidates must keep."""
LARGE = 3.0
KINKED = {"abs", "maximum", "minimum", "sign", "copysign", "floor_divide", "remainder", "fmod", "nextafter"}


@cache
def smooth_functions() -> tuple[Elementwise, ...]:
    """The elementwise primitives of floats that have all their derivatives everywhere on their domain."""

    def smooth(p: Elementwise) -> bool:
        if "f" not in p.takes or p.gives or p.name in KINKED or None in p.partials:
            return False
        sample = Sample(tuple(np.full(1, sum(p.domain) / 2) for _ in p.partials))
        return bool(p.partials) and all(laws.differentiable(graph_of(p, sample)))

    return tuple(p for p in REGISTRY.values() if isinstance(p, Elementwise) and smooth(p))


@dataclass
class Drawn:
    """A program with a scalar output, and the arguments it was drawn at."""

    graph: Graph
    args: list[NDArray]


class Drawer:
    """The values so far, and the ways to make another."""

    def __init__(self, rng: np.random.Generator, mixed: bool, only: set[str] | None = None) -> None:
        self.rng, self.mixed, self.only = rng, mixed, only
        self.widest: np.dtype[Any] = F64
        self.pool: list[Value] = []
        self.used: set[Value] = set()
        self.functions = [p for p in smooth_functions() if only is None or p.name in only]

    def op(self, name: str, *xs: Value, **params: Any) -> Any:
        self.used.update(xs)
        return OPS[name](*xs, **params)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def size(self) -> int:
        return int(self.rng.choice([0, 1, 2, 3, 4], p=[0.02, 0.13, 0.35, 0.3, 0.2]))

    def pick(self, rank: int = 0, dtype: Any = None) -> Value:
        """A value of at least this rank; later ones more often."""
        able = [v for v in self.pool if v.ndim >= rank and (dtype is None or v.dtype == dtype)]
        if not able:
            return self.fit(self.pool[-1], (2, 3)[:rank] if rank < 3 else (2, 3, 2), dtype)
        return able[-1 - min(int(self.rng.exponential(3.0)), len(able) - 1)]

    def pick_axis(self, n: int) -> Value:
        """A float vector of n elements, to read from."""
        return self.fit(self.pick(), (n,))

    def fit(self, x: Value, shape: Sequence[int], dtype: Any = None) -> Value:
        """x made to have this shape and dtype, by a sum and a broadcast if need be."""
        if x.shape != tuple(shape):
            point = self.op("sin", self.op("sum", x, axes=tuple(range(x.ndim))))
            x = self.op("broadcast", point, shape=tuple(shape), axes=())
            weights = self.rng.uniform(0.5, 1.5, shape).astype(x.dtype)
            x = self.op("mul", x, self.op("constant", value=weights))
        return x if dtype is None or dtype == x.dtype else self.op("cast", x, dtype=dtype)

    def squashed(self, x: Value, low: float, high: float) -> Value:
        """x brought inside an interval, smoothly."""
        known = data_of(x)
        width = 0.1 * (high - low)
        if known.size == 0 or (known.min() > low + width and known.max() < high - width):
            return x
        middle, half = (low + high) / 2, 0.8 * (high - low) / 2
        inside: Value = self.op("sin", x) * half + middle
        return inside

    def keep(self, x: Value) -> None:
        """Enter a value; a large one is squashed first."""
        known = data_of(x)
        assert np.isfinite(known).all(), f"{x.node.op.name if x.node else 'input'} is not finite"
        if known.size and np.abs(known).max() > LARGE:
            x = self.op("tanh", x) if self.chance(0.5) else self.op("sin", x)
        self.pool.append(x)

    def axes(self, x: Value) -> tuple[int, ...]:
        return tuple(i for i in range(x.ndim) if self.chance(0.5))

    def indices(self, count: int, shape: Sequence[int]) -> Value:
        """Positions on an axis, some counted from the end."""
        drawn = self.rng.integers(-count, count, size=shape)
        made: Value = self.op("constant", value=np.asarray(drawn, np.int64))
        return made


def data_of(x: Value) -> NDArray:
    return np.asarray(np.broadcast_to(np.asarray(x.data), x.shape))


def apart(x: NDArray, axis: int) -> bool:
    """Test whether no two elements along an axis are close."""
    return bool((np.diff(np.sort(x, axis), axis=axis) > APART).all())


def ending(drawer: Drawer) -> Value:
    """One number that depends on every value that nothing else used."""
    loose = [v for v in drawer.pool if v not in drawer.used] or drawer.pool[-1:]
    result: Value | None = None
    for v in loose:
        weights = drawer.rng.uniform(0.5, 1.5, v.shape).astype(v.dtype)
        part = drawer.op("sum", v * drawer.op("constant", value=weights), axes=tuple(range(v.ndim)))
        part = drawer.op("cast", part, dtype=drawer.widest) if part.dtype != drawer.widest else part
        result = part if result is None else result + part
    assert result is not None
    return result
