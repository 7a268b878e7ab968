"""Random training steps: a random forward program, its gradient, and an update, several of them in one loop or not.

Some are drawn operation by operation; others are Python loops over rounds, of which the equal ones may be rolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.backends.reference import evaluate_node
from wholestep.ir.build import GraphBuilder, build, building, close, inline
from wholestep.ir.graph import OPS, Graph, NDArray, Value
from wholestep.ir.types import array_type
from wholestep.transforms.reverse import vjp
from wholestep_tools.drawn.draw import F32, I64, ending
from wholestep_tools.drawn.learner import Large, Learner
from wholestep_tools.drawn.moves import MOVES
from wholestep_tools.drawn.rounds import step_graph, wide
from wholestep_tools.drawn.wide_moves import WIDE_MOVES

RATE = 1e-3


@dataclass
class Training:
    """A step as a graph: its inputs are the state, then a batch; its first outputs replace the state."""

    graph: Graph
    args: list[NDArray]
    resident: list[tuple[int, int]]
    what: str
    roll: str = "never"
    """Test whether equal rounds are rolled: never, where it pays, always; always with no arrays of the state joined."""


@contextmanager
def drawn_again_by(command: str) -> Iterator[None]:
    """Add to an error of any kind the settings that draw its program again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"drawn again by {command}")
        raise


def training(seed: Sequence[int], size: int, double: bool = True) -> Training:
    """The step of a seed; with a smaller size its forward program is the beginning of the larger one. `double` tells if
    some of its values are float64.
    """
    rng = np.random.default_rng([*seed, 7])
    kind, repeats = ["sgd", "momentum", "adam"][int(rng.integers(3))], [1, 1, 3, 8][int(rng.integers(4))]
    forward, args, trained = program(seed, size, double)
    made = update(forward, args, trained, kind)
    made = made if repeats == 1 else repeated(made, repeats)
    return Training(made.graph, made.args, made.resident, f"{kind}, {repeats} steps")


def rounds(seed: Sequence[int]) -> Training:
    """The step of a seed whose forward program is a Python loop over rounds."""
    rng = np.random.default_rng([*seed, 11])
    drawn = wide(rng)
    roll = str(rng.choice(["never", "auto", "always", "apart"], p=[0.1, 0.4, 0.4, 0.1]))
    graph, args, kept = step_graph(drawn, int(rng.integers(2**31)))
    return Training(graph, args, [(i, i) for i in range(kept)], f"rolled {roll}: {drawn}", roll)


def program(seed: Sequence[int], size: int, double: bool = True) -> tuple[Graph, list[NDArray], list[bool]]:
    """A program with a scalar result, its inputs, and which of them are trained."""
    builder = GraphBuilder(evaluate_node)
    rng = np.random.default_rng(list(seed))
    drawer = Learner(rng, builder, double)
    usual = [m for m, _ in MOVES]
    table: list[Callable[[Learner], None]] = [*usual, *usual, *WIDE_MOVES, *WIDE_MOVES]
    with building(builder), np.errstate(all="ignore"):
        for _ in range(int(rng.integers(2, 5))):
            shape = tuple(drawer.size() for _ in range(int(rng.integers(0, 4))))
            value = np.asarray(rng.uniform(-2, 2, shape), drawer.widest if drawer.chance(0.15) else F32)
            drawer.pool.append(drawer.enter(value, drawer.chance(0.7)))
        while sum(node.op.name not in ("constant", "full") for node in builder.nodes) < size:
            known = len(builder.nodes)
            try:
                table[drawer.below(len(table))](drawer)
            except Large:
                del builder.nodes[known:]
        output = ending(drawer)
    graph, _ = close(builder, [output], "forward")
    return graph, drawer.args, drawer.trained


# The update.


def sgd(p: Value, g: Value, rate: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    return p - rate * g, []


def momentum(p: Value, g: Value, rate: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    velocity = state[0] * 0.9 + g
    return p - rate * (g + velocity * 0.9), [velocity]


def adam(p: Value, g: Value, rate: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    m = state[0] * 0.9 + g * 0.1
    v = state[1] * 0.99 + g * g * 0.01
    return p - rate * m / (OPS["sqrt"](v) + 0.01), [m, v]


RULES = {"sgd": (sgd, 0), "momentum": (momentum, 1), "adam": (adam, 2)}
"""Each optimizer's update of parameters and state, with the number of arrays that it keeps for each."""


def clipped(gs: Sequence[Value]) -> list[Value]:
    """Gradients divided by the square root of 1 plus their squared global norm."""
    total = None
    for g in gs:
        part = OPS["cast"](OPS["sum"](g * g, axes=tuple(range(g.ndim))), dtype=F32)
        total = part if total is None else total + part
    assert total is not None
    scale = OPS["sqrt"](total + 1.0)
    return [g / spread(OPS["cast"](scale, dtype=g.dtype), g) for g in gs]


def spread(x: Value, like: Value) -> Value:
    return OPS["broadcast"](x, shape=like.shape, axes=())


def update(forward: Graph, args: list[NDArray], trained: list[bool], kind: str) -> Training:
    """One step: loss and gradients, then the optimizer; the rate is an input, and Adam counts its steps."""
    wrt = [t and x.dtype.kind == "f" for t, x in zip(trained, args, strict=True)]
    wrt = wrt if any(wrt) else [x.dtype.kind == "f" for x in args]
    rule, kept = RULES[kind]
    order = [i for i, w in enumerate(wrt) if w]
    state = [args[i] for i in order] + [np.full_like(args[i], 0.01) for i in order for _ in range(kept)]
    state = [*state, np.asarray(0, np.int64)]
    batch = [x for x, w in zip(args, wrt, strict=True) if not w]
    rate = np.asarray(RATE, np.float32)

    def step(*values: Value) -> list[Value]:
        params, inner = values[: len(order)], values[len(order) : len(state) - 1]
        count, rest, speed = values[len(state) - 1], iter(values[len(state) : -1]), values[-1]
        own = dict(zip(order, params, strict=True))
        inputs = [own[i] if i in own else next(rest) for i in range(len(wrt))]
        seed = OPS["full"](value=1.0, shape=(), dtype=forward.out_types[0].dtype)
        loss, *gs = inline(vjp(forward, wrt, (True,), primals=True), [*inputs, seed])
        after = count + 1
        slow = speed / OPS["sqrt"](OPS["cast"](after, dtype=F32))
        new, news = [], []
        for k, (p, g) in enumerate(zip(params, clipped(gs), strict=True)):
            speed_here = spread(OPS["cast"](slow, dtype=p.dtype), p)
            made, more = rule(p, g, speed_here, list(inner[kept * k : kept * (k + 1)]))
            new.append(made)
            news += more
        return [*new, *news, after, OPS["cast"](loss, dtype=F32)]

    given = [*state, *batch, rate]
    graph, captured = build(step, [array_type(x.shape, x.dtype) for x in given], name="step")
    assert not captured
    return Training(graph, given, [(i, i) for i in range(len(state))], kind)


def repeated(one: Training, times: int) -> Training:
    """A loop of several steps, over as many batches."""
    carries = len(one.resident)
    batch = one.args[carries:-1]
    stacked = [np.stack([x] * times) for x in batch]
    for x in stacked:
        if x.dtype.kind == "f":
            x += np.linspace(0, 1e-3, times, dtype=x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    given = [*one.args[:carries], *stacked, one.args[-1]]

    def run(*values: Value) -> list[Value]:
        state, xs, rate = values[:carries], values[carries:-1], values[-1]

        def body(speed: Value, *rest: Value) -> list[Value]:
            return inline(one.graph, [*rest, speed])

        types = [rate.type, *[v.type for v in state], *[array_type(x.shape, x.dtype) for x in batch]]
        graph, _ = build(body, types, name="step")
        scan: Any = OPS["scan"]
        return list(scan(rate, *state, *xs, graph=graph, sizes=(1, carries), length=times, reverse=False))

    graph, _ = build(run, [array_type(x.shape, x.dtype) for x in given], name="steps")
    return Training(graph, given, one.resident, one.what)


assert I64 == np.int64
