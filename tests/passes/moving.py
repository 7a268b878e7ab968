"""Random programs of contractions and movements on small integers: rounding cannot hide a wrong order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph, Value
from wholestep.ir.types import array_type

F64 = np.dtype(np.float64)
LETTERS = "abcdefgh"


class Mover:
    """The values so far; most steps take the last one, so that chains grow and inner values have one use."""

    def __init__(self, rng: np.random.Generator, pool: list[Value]) -> None:
        self.rng, self.pool = rng, pool

    def pick(self) -> Value:
        recent = self.rng.random() < 0.75
        return self.pool[-1 if recent else int(self.rng.integers(len(self.pool)))]

    def order(self, n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.rng.permutation(n))

    def some(self, n: int, p: float = 0.4) -> tuple[int, ...]:
        return tuple(i for i in range(n) if self.rng.random() < p)

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def contract(self) -> Value | None:
        """A contraction; labels are shared where sizes allow, and summed half the time."""
        x, y = self.pick(), self.pick()
        if self.rng.random() < 0.5:
            x, y = y, x
        a = LETTERS[: x.ndim]
        free = {i: n for i, n in enumerate(x.shape)}
        b, fresh = "", iter("ABCDEFGH")
        for n in y.shape:
            twins = [i for i, m in free.items() if m == n]
            if twins and self.rng.random() < 0.7:
                at = twins[self.below(len(twins))]
                b += a[at]
                del free[at]
            else:
                b += next(fresh)
        both = [c for c in a if c in b]
        out = [c for c in dict.fromkeys(a + b) if c not in both or self.rng.random() < 0.4]
        if len(out) > 4:
            return None
        out = [out[i] for i in self.order(len(out))]
        return OPS["contract"](x, y, spec=f"{a},{b}->{''.join(out)}")

    def permute(self) -> Value:
        x = self.pick()
        return OPS["permute"](x, axes=self.order(x.ndim))

    def reshape(self) -> Value:
        """A reshape that merges two axes, splits one, or removes or inserts an axis of size 1."""
        x = self.pick()
        shape = list(x.shape)
        way = self.below(3)
        if way == 0 and len(shape) > 1:
            at = self.below(len(shape) - 1)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif way == 1 and 4 in shape:
            at = shape.index(4)
            shape[at : at + 1] = [2, 2]
        elif 1 in shape:
            shape.remove(1)
        else:
            shape.insert(self.below(len(shape) + 1), 1)
        return OPS["reshape"](x, shape=tuple(shape))

    def broadcast(self) -> Value | None:
        x = self.pick()
        if x.ndim > 3:
            return None
        at = self.below(x.ndim + 1)
        shape = (*x.shape[:at], int(self.rng.integers(1, 4)), *x.shape[at:])
        return OPS["broadcast"](x, shape=shape, axes=tuple(i for i in range(x.ndim + 1) if i != at))

    def sum(self) -> Value:
        x = self.pick()
        return OPS["sum"](x, axes=self.some(x.ndim))

    def slice(self) -> Value:
        x = self.pick()
        start = tuple(self.below(n) for n in x.shape)
        step = tuple(1 + self.below(2) for _ in x.shape)
        return OPS["slice"](x, start=start, stop=x.shape, step=step)

    def pad(self) -> Value:
        x = self.pick()
        ways = [tuple(self.below(2) for _ in x.shape) for _ in range(3)]
        return OPS["pad"](x, before=ways[0], after=ways[1], interior=ways[2])

    def apart(self) -> Value | None:
        """The pattern of the gradient of two slices: two parts among zeros, added."""
        x = self.pick()
        if x.ndim == 0:
            return None
        axis, gap = self.below(x.ndim), self.below(2)
        y = OPS["neg"](x)
        n = x.shape[axis]

        def place(v: Value, before: int, after: int) -> Value:
            widths = [tuple(w if i == axis else 0 for i in range(x.ndim)) for w in (before, after)]
            return OPS["pad"](v, before=widths[0], after=widths[1], interior=(0,) * x.ndim)

        return OPS["add"](place(x, n + gap, 0), place(y, 0, n + gap))

    def concat(self) -> Value | None:
        x = self.pick()
        return OPS["concat"](x, x * 2, axis=self.below(x.ndim)) if x.ndim else None

    def flip(self) -> Value:
        x = self.pick()
        return OPS["flip"](x, axes=self.some(x.ndim))

    def arithmetic(self) -> Value:
        """A sum, difference, product or maximum with a value of the same shape, perhaps a constant."""
        x = self.pick()
        twins = [v for v in self.pool if v.shape == x.shape]
        y = twins[self.below(len(twins))]
        name = ("add", "sub", "mul", "maximum")[self.below(4)]
        if self.rng.random() < 0.3:
            y = OPS["full"](value=int(self.rng.integers(-2, 3)), shape=x.shape, dtype=x.dtype)
        return OPS[name](x, y)

    def outer(self) -> Value | None:
        """A matrix product written with broadcasts and a sum."""
        x, y = self.pick(), self.pick()
        if not x.ndim or not y.ndim or x.shape[-1] != y.shape[0] or x.ndim + y.ndim > 4:
            return None
        shape = (*x.shape, *y.shape[1:])
        a = OPS["broadcast"](x, shape=shape, axes=tuple(range(x.ndim)))
        b = OPS["broadcast"](y, shape=shape, axes=tuple(range(x.ndim - 1, len(shape))))
        return OPS["sum"](a * b, axes=(x.ndim - 1,))

    def window(self) -> Value | None:
        x = self.pick()
        if x.ndim == 0 or x.ndim > 3 or x.shape[-1] < 3:
            return None
        return OPS["window"](x, size=(2,), stride=(1 + self.below(2),), dilation=(1 + self.below(2),))

    def unwindow(self) -> Value | None:
        x = self.pick()
        if x.ndim < 2 or not x.shape[-1] or not x.shape[-2]:
            return None
        stride, dilation = 1 + self.below(2), 1 + self.below(2)
        rest = self.below(stride)
        size = (x.shape[-1] - 1) * dilation + 1 + (x.shape[-2] - 1) * stride + rest
        return OPS["unwindow"](x, sizes=(size,), stride=(stride,), dilation=(dilation,))


STEPS = (
    "contract contract contract permute permute reshape broadcast sum slice pad apart concat flip arithmetic "
    "arithmetic outer window unwindow unwindow"
).split()
LARGEST = 400


def moving(seed: Any, steps: int, only: str = "") -> tuple[Graph, list[np.ndarray]]:
    """A program and its arguments; its outputs are the last values."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(n) for n in rng.choice([1, 2, 2, 3, 4], size=rng.integers(1, 4))) for _ in range(3)]
    ways = only.split() or STEPS

    def write(*inputs: Value) -> list[Value]:
        mover = Mover(rng, list(inputs))
        for _ in range(steps):
            made = getattr(mover, ways[mover.below(len(ways))])()
            if made is not None and made.type.size <= LARGEST and made.ndim <= 5:
                mover.pool.append(made)
        return mover.pool[-2:]

    graph, _ = build(write, [array_type(s, F64) for s in shapes])
    return graph, [rng.integers(-2, 3, s).astype(F64) for s in shapes]
