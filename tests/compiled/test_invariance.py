"""Bits of results are independent of threads, residence, contents of memory and names; predictions are exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.target import schedule
from wholestep.errors import BoundsError
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import array_type
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import Launch, Step, walk_steps
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.drawn.invariance import PATTERNS, outputs, renamed, text_of
from wholestep_tools.drawn.law import compiled, watched
from wholestep_tools.drawn.training import Training, training

SEED, COUNT = 5, 6
F32 = np.dtype(np.float32)


@pytest.fixture(params=range(COUNT))
def made(request: pytest.FixtureRequest) -> Training:
    return training((SEED, request.param), 30)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every kernel that can be is shared out among threads."""
    monkeypatch.setattr(schedule, "SHARED_POINTS", 1)
    with thread_pool.threads(1):
        yield


def same(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> None:
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        assert x.tobytes() == y.tobytes(), f"output {i}: {x} and {y}"


def test_threads_change_nothing(made: Training, shared: None) -> None:
    program = compiled(made.graph, made.resident)
    assert program.executable.artefact.parallel
    alone = outputs(program, made)
    for count in (2, 4):
        with thread_pool.threads(count):
            same(alone, outputs(program, made))


def test_residence_changes_nothing(made: Training) -> None:
    same(outputs(compiled(made.graph, made.resident), made), compiled(made.graph)(made.args))


def test_what_memory_held_changes_nothing(made: Training) -> None:
    program = compiled(made.graph, made.resident)
    first = outputs(program, made)
    for pattern in PATTERNS:
        same(first, outputs(program, made, pattern))


def test_a_second_call_goes_on_from_the_first(made: Training) -> None:
    program, n = compiled(made.graph, made.resident), len(made.resident)
    state = [x.copy() for x in made.args[:n]]
    instance = program.instance(state)
    instance(made.args[n:])
    rest = [np.array(x) for x in instance(made.args[n:])]
    one = outputs(program, made)
    again = Training(made.graph, [*one[:n], *made.args[n:]], made.resident, made.what)
    same(outputs(program, again), [*state, *rest])


# Names.


def test_names_change_nothing(made: Training) -> None:
    assert text_of(made.graph, made.resident) == text_of(renamed(made.graph), made.resident)


# Prediction.


def test_the_arena_is_what_was_predicted(made: Training) -> None:
    program = compiled(made.graph, made.resident)
    assert program.executable.artefact.slots[0].nbytes == program.memory.arena == program.plan.arena
    assert program.plan.bound <= program.plan.arena


def test_nothing_beyond_the_arena_is_touched(made: Training) -> None:
    program = compiled(made.graph, made.resident)
    state = [made.args[i].copy() for i, _ in made.resident]
    instance = program.instance(state)
    frame = instance._frame
    (place,) = program.executable.artefact.places("arena")
    size = program.plan.arena
    room = np.full(size + 8192, 0xA5, np.uint8)
    start = 4096 + -(room.ctypes.data + 4096) % 64
    frame.table[place] = room.ctypes.data + start
    instance(made.args[len(state) :])
    assert (room[:start] == 0xA5).all()
    assert (room[start + size :] == 0xA5).all()


# Order and residence in loops.


def test_a_loop_still_reads_what_its_carry_replaces() -> None:
    """One value is both a constant of the loop and the initial value of its carry."""

    def run(p: Value) -> list[Value]:
        body, _ = build(lambda fixed, c: [c * 2.0 + fixed], [p.type, p.type], name="body")
        return list(OPS["scan"](p, p, graph=body, sizes=(1, 1), length=3, reverse=False))

    x = np.arange(1, 6, dtype=np.float32)
    graph, _ = build(run, [array_type(x.shape, F32)], name="loop")
    state = [x.copy()]
    compiled(graph, [(0, 0)]).instance(state)([])
    np.testing.assert_array_equal(state[0], 15 * x)


def test_carries_may_change_places() -> None:
    def run(p: Value, q: Value) -> list[Value]:
        body, _ = build(lambda a, b: [a + 1.0, b * 2.0], [p.type, q.type], name="body")
        return list(OPS["scan"](q, p, graph=body, sizes=(0, 2), length=2, reverse=False))

    x, y = np.arange(4, dtype=np.float32), np.full(4, 7, np.float32)
    graph, _ = build(run, [array_type(x.shape, F32)] * 2, name="loop")
    state = [x.copy(), y.copy()]
    compiled(graph, [(0, 0), (1, 1)]).instance(state)([])
    np.testing.assert_array_equal(state[0], y + 2)
    np.testing.assert_array_equal(state[1], x * 4)


def test_outputs_may_change_places() -> None:
    graph, _ = build(lambda p, q: [q * 2.0, p * 3.0], [array_type((5,), F32)] * 2)
    x, y = np.arange(5, dtype=np.float32), np.full(5, 7, np.float32)
    state = [x.copy(), y.copy()]
    compiled(graph, [(0, 0), (1, 1)]).instance(state)([])
    np.testing.assert_array_equal(state, [y * 2, x * 3])


def test_a_transposed_result_replaces_its_own_operand() -> None:
    graph, _ = build(lambda p: [OPS["permute"](p, axes=(1, 0)) + p], [array_type((9, 9), F32)])
    x = np.arange(81, dtype=np.float32).reshape(9, 9)
    state = [x.copy()]
    compiled(graph, [(0, 0)]).instance(state)([])
    np.testing.assert_array_equal(state[0], x.T + x)


def test_an_index_out_of_range_leaves_the_state_alone() -> None:
    """The index is out of range in a single step, or in a later trip of a loop of steps."""
    rows = array_type((4,), np.dtype(np.int64))

    def step(table: Value, at: Value) -> list[Value]:
        picked = OPS["gather"](table, at, axes=(0,))
        return [OPS["scatter_add"](table * 0.5, picked, at, axes=(0,)), OPS["sum"](picked, axes=(0,))]

    def steps(table: Value, at: Value) -> list[Value]:
        body, _ = build(step, [table.type, rows], name="body")
        return list(OPS["scan"](table, at, graph=body, sizes=(0, 1), length=3, reverse=False))

    x, good = np.arange(1, 6, dtype=np.float32), np.array([0, 1, -5, 4])
    table = array_type((5,), F32)
    once, _ = build(step, [table, rows])
    loop, _ = build(steps, [table, array_type((3, 4), np.dtype(np.int64))])
    for graph, at in ((once, good), (loop, np.stack([good] * 3))):
        program, state = compiled(graph, [(0, 0)]), [x.copy()]
        for wrong in (5, -6):
            bad = at.copy()
            bad.reshape(-1)[-1] = wrong
            with pytest.raises(BoundsError, match=f"index {wrong} is out of bounds for axis 0 with size 5"):
                program.instance(state)([bad])
            np.testing.assert_array_equal(state[0], x)
        program.instance(state)([at])
        assert not (state[0] == x).all()


def test_every_step_of_these_programs_is_met() -> None:
    """The random programs reach loops, branches, checks, copies and kernels."""
    found: set[type] = set()
    with watched():
        for i in range(40):
            made = training((SEED, i), 30)
            steps: tuple[Step, ...] = lower_program(made.graph, machine_model(host_target()), made.resident).steps
            found |= {type(s) for s in walk_steps(steps)}
    assert {kind.__name__ for kind in found} >= {"Launch", "RoutineCall", "StatusCheck", "ForLoop", "Switch"}
    assert Launch in found
