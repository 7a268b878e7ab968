"""Random training steps over layers in a Python loop: most alike, some not, tied, skipped, saved or read twice.

Programs drawn with `wide` also have operations of numerical programs in their rounds, besides those of layers; see
`moves`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.ir.graph import Graph
from wholestep_tools.drawn.round_moves import CHEAP, MOVES, WIDE, Pool

ROWS = 3


@dataclass
class Program:
    """One drawn step: the number of layers, the operations of a layer, and the differences between layers."""

    count: int
    width: int
    moves: list[tuple[str, list[int]]]
    handed: int
    """The number of values that a layer hands on."""
    odd: int
    """A layer that has one operation more, or -1."""
    named: bool
    """True if the layers are in a dictionary by name, whose order is another one."""
    behind: bool
    """True if the last layer comes first."""
    twice: bool
    extras: set[str] = field(default_factory=set)
    optimizer: str = "sgd"
    guarded: bool = True
    dtype: str = "f8"
    tied: bool = False
    """Test whether all layers have the parameters of one."""


def wide(rng: np.random.Generator) -> Program:
    """A program of 3 to 12 rounds of which some do linear algebra and more; one in 25 is a long chain."""
    program = drawn(rng)
    program.dtype = "f8" if rng.random() < 0.3 else "f4"
    program.count = int(rng.integers(3, 13))
    program.odd = min(program.odd, program.count - 1)
    names = sorted(WIDE)
    for _ in range(rng.integers(1, 4)):
        move = str(rng.choice(names)), [int(i) for i in rng.integers(0, 9, 2)]
        program.moves.insert(int(rng.integers(len(program.moves))), move)
    if rng.random() < 0.04:
        cheap = [(str(rng.choice(CHEAP)), [int(i) for i in rng.integers(0, 9, 2)]) for _ in range(rng.integers(2, 6))]
        program.moves = [*cheap, ("tanh", [len(cheap) + 1, 0])]
        program.count = int(rng.integers(100, 1000)) // len(program.moves)
        program.extras.discard("saved")
        program.tied = True
    return program


def drawn(rng: np.random.Generator) -> Program:
    """A program; most have layers that are equal."""
    names = sorted(MOVES)
    moves = [(str(rng.choice(names)), [int(i) for i in rng.integers(0, 9, 2)]) for _ in range(rng.integers(2, 7))]
    moves.insert(int(rng.integers(len(moves) + 1)), ("product", [int(rng.integers(9)), 0]))
    moves.append(("tanh", [len(moves) + 1, 0]))
    count = int(rng.integers(4, 13))
    extras = {name for name in ("penalty", "skip", "first", "last", "saved") if rng.random() < 0.25}
    return Program(
        count,
        4,
        moves,
        int(rng.integers(1, 3)),
        int(rng.integers(count)) if rng.random() < 0.15 else -1,
        bool(rng.random() < 0.3),
        bool(rng.random() < 0.2),
        bool(rng.random() < 0.15),
        extras,
        str(rng.choice(["sgd", "adam", "clipped"])),
        bool(rng.random() < 0.6),
    )


def arguments(program: Program, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """(parameters, data, tables) of a program, in float64, where rounding hides no wrong layer, or its own dtype."""
    n = program.width

    def some(*shape: int) -> Any:
        return (rng.normal(size=shape) * 0.5).astype(program.dtype)

    layers: Any = [{"w": some(n, n), "b": some(n)} for _ in range(1 if program.tied else program.count)]
    if program.named:
        layers = {f"{key}{i}": x for i, layer in enumerate(layers) for key, x in layer.items()}
    params = {"layers": layers, "shared": {"w": some(n, n)}, "first": some(n, n), "last": some(n, n)}
    return params, some(ROWS, program.count, n), some(program.count, n)


def loss_of(program: Program, tables: Any) -> Callable[[Any, Any], Any]:
    """The loss: the layers, and the further parts of the program."""

    def layer(own: Any, state: list[Any], shared: Any, number: int, data: Any, matrix: Any) -> tuple[list[Any], Any]:
        pool = Pool(list(state), own, shared, number, data, tables, matrix)
        for name, places in program.moves:
            pool.values.append((MOVES | WIDE)[name](pool, places))
        if number == program.odd:
            pool.values.append(np.sin(pool.values[-1]))
        handed = pool.values[-program.handed :] if program.handed == 1 else [pool.values[-1], pool.values[-2]]
        return handed, pool.matrix

    def through(params: Any, state: list[Any], data: Any, saved: list[Any]) -> list[Any]:
        numbers, matrix = range(program.count), np.eye(program.width, dtype=program.dtype)
        for i in reversed(numbers) if program.behind else numbers:
            layers = params["layers"]
            at = 0 if program.tied else i
            own = {key: layers[f"{key}{at}"] for key in ("w", "b")} if program.named else layers[at]
            state, matrix = layer(own, state, params["shared"], i, data, matrix)
            saved.append(state[0])
        return state

    def loss(params: Any, data: Any) -> Any:
        start = data[:, 0] @ params["first"] if "first" in program.extras else data[:, 0]
        saved: list[Any] = []
        state = through(params, [start] * program.handed, data, saved)
        if program.twice:
            state = through(params, state, data, [])
        out = state[0] @ params["last"] if "last" in program.extras else state[0]
        total = np.mean(out**2)
        if "skip" in program.extras:
            total = total + np.mean(saved[1] * out)
        if "saved" in program.extras:
            total = total + sum([np.mean(x) for x in saved])
        if "penalty" in program.extras:
            total = total + 1e-2 * sum([np.sum(x**2) for x in tree.leaves(params)])
        return total

    return loss


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: ws.optim.sgd(0.1, momentum=0.9),
    "adam": lambda: ws.optim.adam(1e-2),
    "clipped": lambda: ws.optim.chain(ws.optim.clip_by_global_norm(0.1), ws.optim.adamw(1e-2)),
}


def step_graph(program: Program, seed: int) -> tuple[Graph, list[Any], int]:
    """The graph of one training step, (state, data) -> (state, loss), its arguments, and the size of the state."""
    rng = np.random.default_rng(seed)
    params, data, tables = arguments(program, rng)
    optimizer = OPTIMIZERS[program.optimizer]()
    loss = loss_of(program, tables)

    def step(state: Any, data: Any) -> Any:
        value, grads = ws.value_and_grad(loss)(state[0], data)

        def update(state: Any, grads: Any) -> Any:
            return optimizer.update(grads, state[1], state[0])

        if not program.guarded:
            return update(state, grads), value
        fine = np.isfinite(value)
        for g in tree.leaves(grads):
            fine = fine & np.isfinite(g).all()
        return ws.cond(fine, update, lambda state, grads: state, state, grads), value

    state = (params, tree.map(lambda x: x + rng.uniform(0.1, 1, x.shape).astype(x.dtype), optimizer.init(params)))
    leaves = tree.leaves(state)
    return ws.trace(step)(state, data), [*leaves, data], len(leaves)
