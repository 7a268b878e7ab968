"""Slopes by derivatives and by differences, in random directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.backends import reference
from wholestep.ir.graph import Graph, NDArray, Value

Function = Callable[[Sequence[NDArray]], list[NDArray]]

STEPS = ((1e-5, 1e-6, 1e-9, False), (4e-4, 1e-6, 1e-10, True), (1e-5, 1e-5, 1e-9, False), (1e-7, 1e-5, 1e-7, False))
"""Steps of differences, relative to the typical size of the moved argument; the gap that each may leave, relative to
the absolute products of the slope, and to the value; True for differences of fourth order. Small steps are for
points near a kink."""
ASIDE = 1e-3
"""The distance to move from a point at which a function has a kink, relative to the typical size of the argument."""


class HeldRun:
    """A graph whose values without a derivative are held: later runs reuse their values of the first run.

    Results of `stop_gradient`, integers and booleans have no derivative and are held, so that all runs take the same
    branches.
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.at: int | None = None

    def __call__(self, graph: Graph, arrays: Sequence[Any]) -> list[NDArray]:
        self.at = 0 if self.kept else None
        with np.errstate(all="ignore"):
            return [np.asarray(x) for x in self.run(graph, arrays)]

    def run(self, graph: Graph, arrays: Sequence[Any]) -> list[Any]:
        """The outputs of a graph; values are dropped after their last use."""
        last = graph.derived("last uses", lambda: last_uses(graph))
        known: dict[Value, Any] = dict(zip(graph.inputs, arrays, strict=True))
        for node, dying in zip(graph.nodes, last, strict=True):
            args = [reference.broadcast_thin(known[v], v.shape) for v in node.inputs]
            if node.op.nested:
                out = node.op.ref(*args, run=self.run, **node.params)
            else:
                out = reference.apply_primitive(node.op, args, node.params, node.where)
            made = list(out) if node.op.multiple else [out]
            for v, x in zip(node.outputs, made, strict=True):
                held = not node.op.nested and (node.op.name == "stop_gradient" or not v.type.inexact)
                known[v] = self.held(x) if held else x
            for v in dying:
                del known[v]
        return [reference.broadcast_thin(known[v], v.shape) for v in graph.outputs]

    def held(self, x: Any) -> Any:
        """The held value of a result without a derivative: this one in the first run, later that of the first."""
        if self.at is None:
            self.kept.append(x)
            return x
        self.at += 1
        return self.kept[self.at - 1]


def last_uses(graph: Graph) -> list[list[Value]]:
    """The values whose last use is a node, for each node."""
    kept, seen = set(graph.outputs), set[Value]()
    found = []
    for node in reversed(graph.nodes):
        dying = [v for v in dict.fromkeys((*node.inputs, *node.outputs)) if v not in kept and v not in seen]
        seen.update(dying)
        found.append(dying)
    return found[::-1]


class Slope(NamedTuple):
    """The slope of a function in a direction: by differences and by cotangents."""

    differences: float
    cotangents: float
    gap: float
    """The difference of the two, relative to the sum of the absolute products of cotangents and direction."""
    ok: bool
    finite: bool


def random_directions(rng: np.random.Generator, args: Sequence[NDArray], marks: Sequence[bool]) -> list[NDArray | None]:
    """A random direction for each marked argument, of the argument's size."""
    return [random_way(rng, x) if m else None for x, m in zip(args, marks, strict=True)]


def random_way(rng: np.random.Generator, x: NDArray) -> NDArray:
    """A random direction with elements of 1/2 to 1 times the typical size of x, and random signs."""

    def part() -> NDArray:
        return np.asarray(rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape))

    return np.asarray((part() + 1j * part() if x.dtype.kind == "c" else part()) * typical_size(x), x.dtype)


def typical_size(x: NDArray) -> float:
    """The mean absolute value of the elements that are finite and not 0; 1 where there are none."""
    sizes = np.abs(x)
    known = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(known.mean()) if known.size else 1.0


def aside(rng: np.random.Generator, args: Sequence[NDArray], marks: Sequence[bool]) -> list[NDArray]:
    """Arguments a little beside these, in random directions, to leave a kink."""
    ways = random_directions(rng, args, marks)
    return [x if d is None else x + ASIDE * d * rng.uniform(0.2, 1.0, x.shape) for x, d in zip(args, ways, strict=True)]


def move_along(args: Sequence[NDArray], ways: Sequence[NDArray | None], t: float) -> list[NDArray]:
    """The arguments moved by t along their directions."""
    return [x if d is None else x + t * d for x, d in zip(args, ways, strict=True)]


def products(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """Re<x, y> over all arrays, and the sum of absolute products."""
    value = sum([float(np.sum(np.real(np.conj(x) * y))) for x, y in zip(xs, ys, strict=True)])
    return value, sum([float(np.sum(np.abs(x) * np.abs(y))) for x, y in zip(xs, ys, strict=True)])


def compare_slopes(
    function: Function,
    args: Sequence[NDArray],
    ways: Sequence[NDArray | None],
    gys: Sequence[NDArray | None],
    gxs: Sequence[NDArray],
    base: Sequence[NDArray],
) -> Slope:
    """The slope of <gys, function> by differences, beside <gxs, ways>; `base` is the function at the arguments."""
    given = [d for d in ways if d is not None]
    if any([g.shape != d.shape for g, d in zip(gxs, given, strict=True)]):
        return Slope(np.nan, np.nan, np.inf, False, True)
    by_cotangents, size = products(gxs, given)
    on = [i for i, g in enumerate(gys) if g is not None]
    seeds = [gys[i] for i in on]
    value = products(seeds, [base[i] for i in on])[1]
    best = Slope(np.nan, by_cotangents, np.inf, False, bool(np.isfinite(size)) and bool(np.isfinite(value)))
    for h, relative, floor, fourth in STEPS if best.finite else ():
        near = central_differences(function, args, ways, h, fourth)
        slope, other = products(seeds, [near[i] for i in on])
        if not (np.isfinite(slope) and np.isfinite(other)):
            best = best._replace(finite=False)
            continue
        scale = max(size, other)
        gap = abs(slope - by_cotangents)
        fits = gap <= relative * scale + floor * value
        if fits or gap / (scale or 1.0) < best.gap:
            best = Slope(slope, by_cotangents, gap / (scale or 1.0), fits, True)
        if fits:
            break
    return best


def central_differences(
    function: Function, args: Sequence[NDArray], ways: Sequence[NDArray | None], h: float, fourth: bool
) -> list[NDArray]:
    """The directional derivative by central differences."""
    near = [
        b - a for a, b in zip(function(move_along(args, ways, -h)), function(move_along(args, ways, h)), strict=True)
    ]
    if not fourth:
        return [x / (2 * h) for x in near]
    two = zip(function(move_along(args, ways, -2 * h)), function(move_along(args, ways, 2 * h)), strict=True)
    return [(8.0 * x - (d - c)) / (12.0 * h) for x, (c, d) in zip(near, two, strict=True)]
