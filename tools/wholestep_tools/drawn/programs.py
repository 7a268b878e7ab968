"""Random programs and their laws: both modes, differences, batches and text must agree on each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep.backends.reference import evaluate_node, interpret
from wholestep.ir.build import GraphBuilder, building, close
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.types import array_type
from wholestep.testing import laws
from wholestep.testing.arrays import DOUBLE, STEP, coarsest_eps, directions, gap, largest_magnitude
from wholestep.transforms.reverse import vjp
from wholestep.transforms.vmap import Batching
from wholestep_tools.drawn.draw import F32, F64, Drawer, Drawn, ending
from wholestep_tools.drawn.moves import MOVES

NODES = (5, 28)


def program(seed: Sequence[int], nodes: int, mixed: bool = False, only: set[str] | None = None) -> Drawn:
    """The program of a seed; one with fewer steps is its beginning."""
    rng = np.random.default_rng(list(seed))
    drawer = Drawer(rng, mixed, only)
    builder = GraphBuilder(evaluate_node)
    moves: list[Callable[[Drawer], None]] = [m for m, needs in MOVES if only is None or needs <= only]
    with building(builder):
        args = []
        for _ in range(int(rng.integers(2, 5))):
            shape = tuple(drawer.size() for _ in range(int(rng.integers(0, 4))))
            dtype = F32 if mixed and drawer.chance(0.3) else F64
            args.append(np.asarray(rng.uniform(-2, 2, shape), dtype))
            drawer.pool.append(builder.input(array_type(shape, dtype), args[-1]))
        for _ in range(nodes):
            moves[drawer.below(len(moves))](drawer)
        output = ending(drawer)
    graph, _ = close(builder, [output], "program")
    return Drawn(graph, args)


def nodes_of(seed: tuple[int, ...]) -> int:
    return int(np.random.default_rng([*seed, 1]).integers(*NODES))


def explained(seed: tuple[int, ...], check: Callable[[Drawn, tuple[int, ...]], None], **options: Any) -> None:
    """Check the program of a seed; where it fails, the shortest beginning of it that fails is shown."""
    nodes = nodes_of(seed)
    try:
        check(program(seed, nodes, **options), seed)
    except Exception as first:
        for fewer in range(nodes):
            drawn = program(seed, fewer, **options)
            try:
                check(drawn, seed)
            except Exception as error:
                shown = f"program {seed[1]} of seed {seed[0]}, {fewer} steps: {error}\n{drawn.graph}"
                raise AssertionError(shown) from error
        raise first


def slope(graph: Graph, args: list[NDArray], dxs: list[NDArray], step: float) -> float:
    """The directional derivative of a scalar program by central differences of fourth order."""

    def at(t: float) -> float:
        return float(interpret(graph, [x + t * step * dx for x, dx in zip(args, dxs, strict=True)])[0])

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


STEEP = 1e4
"""A program steeper than this oscillates within the steps: differences reach its tangent only at 1e-8 and below."""
UNSURE: list[int] = []
"""Programs whose differences are too rough to tell."""


def check_tangent(drawn: Drawn, rng: np.random.Generator, seed: tuple[int, ...]) -> None:
    """The tangent against differences, at the point that was drawn or, should a kink lie there, at one beside it.

    A program has dozens of kinks, and one within a step of the point happens once in some thousand programs; a wrong
    rule is wrong at each of the three points.
    """
    problems = []
    for width in (0.0, 0.01, 0.02):
        moves = directions(rng, drawn.graph.in_types, (True,) * len(drawn.args))
        args = [x + width * move for x, move in zip(drawn.args, moves, strict=True)]
        problem = tangent_problem(drawn.graph, args, rng, seed)
        if problem is None:
            return
        problems.append(problem)
    raise AssertionError("; ".join(problems))


def tangent_problem(graph: Graph, args: list[NDArray], rng: np.random.Generator, seed: tuple[int, ...]) -> str | None:
    """The error of the tangent beside differences of ever smaller steps, as far as the best two can be trusted."""
    marks = (True,) * len(args)
    dxs = directions(rng, graph.in_types, marks)
    (found,) = laws.tangents(graph, args, marks, dxs)
    slopes = [slope(graph, args, dxs, STEP / 4**k) for k in range(5)]
    off, fine = min((abs(a - b), b) for a, b in itertools.pairwise(slopes))
    trust = 1e-6 * max(1.0, abs(fine)) + 4 * off
    if abs(float(found)) > STEEP:
        UNSURE.append(seed[1])
        return None
    if trust > 1e-3 * max(1.0, abs(fine)):
        UNSURE.append(seed[1])
    if abs(float(found) - fine) <= trust:
        return None
    return f"tangent {float(found)!r}, differences {fine!r}, trusted to {trust:.2g}"


def check_inside(drawn: Drawn, seed: tuple[int, ...]) -> None:
    """All that needs no other library."""
    graph, args = drawn.graph, drawn.args
    rng = np.random.default_rng([*seed, 2])
    laws.types(graph, args)
    laws.text(graph)
    laws.adjoint(graph, args, rng)
    if coarsest_eps(graph) <= DOUBLE:
        check_tangent(drawn, rng, seed)
    pulled = vjp(graph, (True,) * len(args), (True,))
    values = laws.arguments(graph, args, pulled, rng)
    laws.text(pulled)
    check_batch(pulled, values, rng)
    laws.adjoint(pulled, values, rng)


def beside(graph: Graph, args: list[NDArray], on: tuple[bool, ...]) -> list[NDArray]:
    """A point a hair away, or less where a program leaves its domain there: an arcsine close to 1 may."""
    for hair in (1e-3, 1e-6):
        found = [x + np.asarray(hair, x.dtype) if o else x for x, o in zip(args, on, strict=True)]
        try:
            with np.errstate(invalid="raise", divide="raise"):
                interpret(graph, found)
        except FloatingPointError:
            continue
        return found
    return args


def check_batch(graph: Graph, args: list[NDArray], rng: np.random.Generator) -> None:
    """The pullback over a batch is the loop over it; both rows are the point it was drawn at, moved by a hair."""
    on = tuple(bool(o) for o in rng.integers(0, 2, len(args)))
    on = on if any(on) else (True,) * len(args)
    made, marks = Batching(2).graph(graph, on)
    rows = [args, beside(graph, args, on)]
    outs = interpret(made, [np.stack([a, b]) if o else a for a, b, o in zip(*rows, on, strict=True)])
    looped = [interpret(graph, row) for row in rows]
    for y, mark, *both in zip(outs, marks, *looped, strict=True):
        # Where a result is ill-conditioned, as near a pole, rounding moves it as much.
        bound = 1e5 * coarsest_eps(graph) * max(largest_magnitude(both), 1e-3)
        for j, expected in enumerate(both):
            assert gap(y[j] if mark else y, expected) <= bound, f"row {j} of {on} differs from the loop"
