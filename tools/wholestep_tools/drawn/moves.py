"""The ways to make another value in a random program, each with the primitives that it needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wholestep.ir.graph import OPS
from wholestep_tools.drawn.draw import APART, F32, F64, Drawer, apart, data_of

MOVES: list[tuple[Callable[[Drawer], None], set[str]]] = []


def move(*needs: str) -> Callable[[Callable[[Drawer], None]], Callable[[Drawer], None]]:
    """Enter a way into the table."""

    def enter(function: Callable[[Drawer], None]) -> Callable[[Drawer], None]:
        MOVES.append((function, set(needs)))
        return function

    return enter


@move()
def call_a_function(d: Drawer) -> None:
    p = d.functions[d.below(len(d.functions))]
    x = d.pick()
    low, high = (0.5, 3.0) if p.name in ("arctan2", "hypot") else p.domain  # they have no derivative at the origin
    xs = [x, *[d.fit(d.pick(), x.shape, x.dtype) for _ in range(p.arity - 1)]]
    d.keep(d.op(p.name, *[d.squashed(v, low, high) for v in xs]))


@move("mul", "add", "sub")
def combine(d: Drawer) -> None:
    x = d.pick()
    y = d.fit(d.pick(), x.shape, x.dtype)
    d.keep(d.op(["mul", "add", "sub"][d.below(3)], x, y))


@move("maximum", "minimum")
def choose_the_larger(d: Drawer) -> None:
    x = d.pick()
    y = d.fit(d.pick(), x.shape, x.dtype)
    if (np.abs(data_of(x) - data_of(y)) > APART).all():
        d.keep(d.op("maximum" if d.chance(0.5) else "minimum", x, y))


@move("abs", "floor", "less", "select")
def take_sides(d: Drawer) -> None:
    x = d.pick()
    y = d.fit(d.pick(), x.shape, x.dtype)
    if (np.abs(data_of(x)) > APART).all():
        d.keep(d.op("abs", x))
    if (np.abs(data_of(x) - data_of(y)) > APART).all():
        d.keep(d.op("select", d.op("less", x, y), x, d.op("sin", y)))


@move("cast")
def change_precision(d: Drawer) -> None:
    x = d.pick()
    if d.mixed:
        d.keep(d.op("cast", x, dtype=F32 if x.dtype == F64 else F64))


@move("broadcast")
def repeat(d: Drawer) -> None:
    x = d.pick()
    if x.ndim < 3:
        at = sorted(d.rng.choice(x.ndim + 1, x.ndim, replace=False).tolist())
        shape = [d.size()] * (x.ndim + 1)
        for axis, n in zip(at, x.shape, strict=True):
            shape[axis] = n
        d.keep(d.op("broadcast", x, shape=tuple(shape), axes=tuple(at)))


@move("reshape", "permute", "flip")
def rearrange(d: Drawer) -> None:
    x = d.pick(1)
    kind = d.below(3)
    if kind == 0:
        n = int(np.prod(x.shape))
        d.keep(d.op("reshape", x, shape=(n,) if x.ndim != 1 or n % 2 or n == 0 else (2, n // 2)))
    elif kind == 1:
        d.keep(d.op("permute", x, axes=tuple(d.rng.permutation(x.ndim).tolist())))
    else:
        d.keep(d.op("flip", x, axes=d.axes(x)))


@move("slice", "pad")
def cut_or_pad(d: Drawer) -> None:
    x = d.pick(1)
    if d.chance(0.5):
        start = [d.below(n + 1) // 2 for n in x.shape]
        stop = [int(d.rng.integers(a, n + 1)) for a, n in zip(start, x.shape, strict=True)]
        step = [1 + d.below(2) for _ in x.shape]
        d.keep(d.op("slice", x, start=tuple(start), stop=tuple(stop), step=tuple(step)))
    else:
        before, after, interior = (tuple(d.below(2) for _ in x.shape) for _ in range(3))
        d.keep(d.op("pad", x, before=before, after=after, interior=interior))


@move("concat")
def join(d: Drawer) -> None:
    x = d.pick(1)
    axis = d.below(x.ndim)
    others = [v for v in d.pool if v.dtype == x.dtype and v.shape == x.shape] or [x]
    parts = [x, others[d.below(len(others))], *([x] if d.chance(0.3) else [])]
    if x.shape[axis] * len(parts) <= 8:
        d.keep(d.op("concat", *parts, axis=axis))


@move("update_slice")
def write_a_slice(d: Drawer) -> None:
    x = d.pick(1)
    u_shape = tuple(d.below(n + 1) for n in x.shape)
    start = tuple(d.below(n - m + 1) for n, m in zip(x.shape, u_shape, strict=True))
    d.keep(d.op("update_slice", x, d.fit(d.pick(), u_shape, x.dtype), start=start, step=(1,) * x.ndim))


@move("contract")
def multiply(d: Drawer) -> None:
    x, y = d.pick(1), d.pick(1)
    y = d.fit(y, y.shape, x.dtype)
    a, free, b = "abcdef"[: x.ndim], iter("uvwxyz"), ""
    sizes = dict(zip(a, x.shape, strict=True))
    for n in y.shape:
        same = [c for c in a if sizes[c] == n and c not in b]
        letter = same[d.below(len(same))] if same and d.chance(0.7) else next(free)
        b, sizes[letter] = b + letter, n
    shared = [c for c in a if c in b]
    summed = [c for c in shared if d.chance(0.7)]
    out = [c for c in dict.fromkeys(a + b) if c not in summed]
    if len(out) <= 4:
        d.keep(d.op("contract", x, y, spec=f"{a},{b}->{''.join(d.rng.permutation(out))}"))


@move("window", "unwindow")
def slide(d: Drawer) -> None:
    x = d.pick(1)
    n = x.shape[-1]
    size, stride, dilation = 1 + d.below(3), 1 + d.below(2), 1 + d.below(2)
    if n >= (size - 1) * dilation + 1 and x.ndim < 3:
        w = d.op("window", x, size=(size,), stride=(stride,), dilation=(dilation,))
        d.keep(w)
        if d.chance(0.5):
            sizes = (n + (1 if (n - (size - 1) * dilation - 1) % stride < stride - 1 else 0),)
            d.keep(d.op("unwindow", w * 0.7, sizes=sizes, stride=(stride,), dilation=(dilation,)))


@move("sum", "prod")
def reduce(d: Drawer) -> None:
    x = d.pick(1)
    name, axes = "sum" if d.chance(0.6) else "prod", d.axes(x)
    made = d.op(name, x, axes=axes)
    if not np.isfinite(data_of(made)).all():  # so many factors of more than one that no number holds the product
        made = d.op(name, d.squashed(x, -1.0, 1.0), axes=axes)
    d.keep(made)


@move("max", "min", "reshape", "permute")
def reduce_to_the_largest(d: Drawer) -> None:
    x = d.pick(1)
    axis = d.below(x.ndim)
    if x.shape[axis] and apart(data_of(x), axis):
        d.keep(d.op("max" if d.chance(0.5) else "min", x, axes=(axis,)))


@move("cumsum", "cumprod", "cummax", "cummin")
def run_along(d: Drawer) -> None:
    x = d.pick(1)
    axis, reverse = d.below(x.ndim), d.chance(0.5)
    kind = ["cumsum", "cumprod", "cummax", "cummin"][d.below(4)]
    if kind in ("cumsum", "cumprod"):
        d.keep(d.op(kind, x, axis=axis, reverse=reverse))
    elif apart(data_of(x), axis):
        d.keep(d.op(kind, x, axis=axis)[0])


@move("sort", "top_k", "partition", "argmax", "argmin", "gather")
def put_in_order(d: Drawer) -> None:
    x = d.pick(1)
    axis = d.below(x.ndim)
    n = x.shape[axis]
    if n == 0 or not apart(data_of(x), axis):
        return
    kind = d.below(4)
    if kind == 3:
        first = d.op("argmax" if d.chance(0.5) else "argmin", x, axis=axis)
        d.keep(d.op("gather", d.pick_axis(n), first, axes=(0,)))
        return
    if kind == 0:
        values, order = d.op("sort", x, axis=axis)
    elif kind == 1:
        values, order = d.op("top_k", x, axis=axis, k=1 + d.below(n))
    else:
        values, order = d.op("partition", x, axis=axis, kth=(d.below(n),))
    d.keep(values)
    if d.chance(0.5) and order.ndim < 3:
        d.keep(d.op("gather", d.pick_axis(n), order, axes=(0,)))


@move("gather", "scatter", "scatter_add")
def look_up(d: Drawer) -> None:
    x = d.pick(1)
    axes = tuple(sorted(d.rng.choice(x.ndim, 1 + d.below(min(x.ndim, 2)), replace=False).tolist()))
    if any(x.shape[a] == 0 for a in axes):
        return
    shape = [(), (2,), (3,), (2, 2)][d.below(4)]
    indices = [d.indices(x.shape[a], shape) for a in axes]
    kind = d.below(3)
    if kind == 0:
        d.keep(d.op("gather", x, *indices, axes=axes))
        return
    u_shape = (*shape, *[n for i, n in enumerate(x.shape) if i not in axes])
    u = d.fit(d.pick(), u_shape, x.dtype)
    d.keep(d.op("scatter" if kind == 1 else "scatter_add", x, u, *indices, axes=axes))


@move("capture")
def name_it(d: Drawer) -> None:
    d.keep(d.op("capture", d.pick(), label="h"))


assert all(needs <= set(OPS) for _, needs in MOVES)
