"""Faults that random training steps have found, each reduced to the smallest program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.train.models import classifier

import wholestep as ws
from wholestep import tree
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph
from wholestep.ir.types import array_type
from wholestep_tools.drawn.law import compiled, outputs, unexplained
from wholestep_tools.drawn.rounds import Program, step_graph
from wholestep_tools.drawn.training import training

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def clipped_update(w: Any, v: Any, g: Any, scale: Any) -> Any:
    """A possible cycle of fusion groups: the sum reads a cheap value that a later group would compute itself."""
    h = w + np.cos(scale)
    norm = np.sqrt((h * h).sum() + (g * g).sum() + 1)
    return w + h / norm, v + g / norm


def sum_of_a_permuted_product(x: Any, y: Any) -> Any:
    """The rows of the reduction are in another order than the axes of its operand."""
    return (np.pad(x, ((0, 1), (1, 0), (0, 0))).transpose(1, 2, 0) * y).sum()


def doubling(x: Any) -> Any:
    """Each statement reads the result of the one before twice, at two offsets."""
    for k in (1, 2, 4, 8, 16, 32):
        x = x * np.concatenate([np.ones((5, k), np.float32), x[:, :-k]], axis=1)
    return x


def nothing(x: Any, y: Any) -> Any:
    """Reductions of arrays without elements, some of them in order."""
    return (x.cumsum(0) * y.sum()).sum() + y.sum(), np.concatenate([x, x]).sum(0)


def assigned(x: Any, y: Any) -> Any:
    """Every third column, from the second on; then rows backwards."""
    z = x * 2
    z[:, 1::3] = y
    z[::-2] += 1
    return z


def first_of_equals(x: Any) -> Any:
    return np.argmax(np.round(x), axis=1), np.argmin(np.round(x), axis=0), np.argmax(x > 0)


def cut_and_reshaped(x: Any) -> Any:
    """Slices far into a stored buffer, reshaped again."""
    far = x.T.reshape(-1)[19:21] * 3
    return far, x[2:, 3:].reshape(-1)[5:].reshape(3, -1).T * 2, np.pad(x, 1)[1:-1, 1:-1].reshape(-1)[::-1]


def kept_and_joined(x: Any, w: Any, y: Any) -> Any:
    """A value that is only moved is stored for one reader; other values of its kernel are joined to another one."""
    wide = np.broadcast_to(x[:, None], (7, 3, 33))
    same = wide.copy()
    same[5:5, :1, 12:18] = y
    return np.einsum("abc,abc->b", wide, same), wide.reshape(21, 33) @ w


def repeated_not_once(x: Any) -> Any:
    """An empty sum is 0, even if its terms would be NaN."""
    return np.broadcast_to(np.log(x), (0, 17)).sum() + x, (np.broadcast_to(x / 0, (0, 17)) * 2).sum(0)


def contracted_over_nothing(x: Any, w: Any) -> Any:
    """Operands without elements, moved before they are multiplied."""
    return x[::-1].reshape(0, 3).T @ np.tanh(x[::-1].reshape(0, 3) @ w)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "clipped_update": (clipped_update, [drawn(3, 2, 2), drawn(4), drawn(4), drawn()]),
    "sum_of_a_permuted_product": (sum_of_a_permuted_product, [drawn(5, 8, 3), drawn(9, 3, 6)]),
    "doubling": (doubling, [drawn(5, 36)]),
    "assigned": (assigned, [drawn(5, 20), drawn(5, 7)]),
    "first_of_equals": (first_of_equals, [drawn(7, 40)]),
    "cut_and_reshaped": (cut_and_reshaped, [drawn(9, 8)]),
    "kept_and_joined": (kept_and_joined, [drawn(7, 33), drawn(33, 31), drawn(0, 1, 6)]),
    "repeated_not_once": (repeated_not_once, [drawn(17)]),
    "contracted_over_nothing": (contracted_over_nothing, [drawn(4, 0, 3), drawn(3, 7)]),
    "nothing": (nothing, [drawn(0, 4), drawn(3)]),
    "nothing_at_all": (nothing, [drawn(0, 4), drawn(0)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right(name: str) -> None:
    function, args = PROGRAMS[name]
    graph = ws.jit(function).lower(*args)
    program = compiled(graph)
    assert not unexplained(graph, args, program(args))
    assert max(len(str(k)) for k in program.kernels) < 20_000


FOUND = {1262: 46, 4904: 47, 1555: 58, 3098: 34, 4089: 59, 4929: 38}
"""Seeds of faults, of 5,000: carries along lanes, twice; a lost moved value; no elements; circular kernels; 0 * nan."""


@pytest.mark.parametrize(
    "draw",
    [
        *[((1, 37), 29), ((1, 91), 58), ((2, 232), 50), ((9, 20), 32), ((1, 42), 49), ((3, 63), 22)],
        *[((4047314676, i), size) for i, size in FOUND.items()],
        ((2468454778, 583), 59),
        ((1159561677, 11), 29),  # a sum over a short last axis, term after term
    ],
)
def test_a_step_is_right(draw: tuple[tuple[int, int], int]) -> None:
    made = training(*draw)
    for resident in ([], made.resident):
        program = compiled(made.graph, resident)
        assert not unexplained(made.graph, made.args, program(made.args))


def test_a_loop_of_nothing_is_right() -> None:
    def run(x, xs):
        body, _ = build(lambda c, v: [c * 0.5 + v, c], [x.type, x.type], name="body")
        return list(OPS["scan"](x, xs, graph=body, sizes=(0, 1), length=2, reverse=True))

    args = [np.zeros((2, 0), np.float32), np.zeros((2, 2, 0), np.float32)]
    graph: Graph = build(run, [array_type(x.shape, x.dtype) for x in args])[0]
    assert [x.shape for x in compiled(graph)(args)] == [(2, 0), (2, 2, 0)]


def test_a_carry_that_takes_a_detour_is_none_of_what_the_branches_hold() -> None:
    """The loop's carry replaces the state that the backward pass begins with, so the latter moves to another buffer."""

    model = classifier()
    batch = tree.map(lambda x: np.resize(x, (4, 5, *x.shape[1:])), model.data)
    given: Any = {"optimizer": ws.optim.sgd(0.1), "steps_per_call": 4, "unroll": "through", "batch": batch}
    steps = [ws.compile(model.loss, model.params, device=device, **given) for device in ("cpu", "reference")]
    results = [step(batch) for step in steps]
    np.testing.assert_allclose(results[0].losses, results[1].losses, rtol=1e-12)
    np.testing.assert_allclose(results[0].hypergradients["lr"], results[1].hypergradients["lr"], rtol=1e-10)


@pytest.mark.parametrize("roll", ["never", "auto", "always", "apart"])
@pytest.mark.parametrize("move", ["sorted", "solve own", "inverse", "recalled and solved"])
def test_what_a_routine_writes_in_a_loop_of_many_rounds_is_there_for_the_way_back(move: str, roll: str) -> None:
    """The verifier of plans follows three trips, and has to know the writes of routines too in the others."""
    moves = [("product", [0, 0]), ("remembered", [1, 0]), (move, [1, 1]), ("tanh", [3, 0])]
    graph, args, kept = step_graph(Program(12, 4, moves, 1, -1, False, False, False, dtype="f4"), 1)
    found = outputs(graph, args, [(i, i) for i in range(kept)], roll)
    assert unexplained(graph, args, found) == []


def test_a_carry_of_an_inner_loop_is_not_written_over_what_that_loop_reads() -> None:
    """The innermost loop reads the carry of the middle loop, which has the buffer of the outermost loop's carry."""

    def innermost(w: Any, _: Any) -> Any:
        return ws.scan(lambda a, _: (a * 0.5 + w * 0.25, None), w, None, 3)[0], None

    def middle(w: Any, _: Any) -> Any:
        return ws.scan(innermost, w, None, 2)[0], None

    w = np.linspace(0.1, 1, 40)
    expected = w
    for _ in range(2 * 2):
        start = expected
        for _ in range(3):
            expected = expected * 0.5 + start * 0.25
    np.testing.assert_allclose(ws.jit(lambda w: ws.scan(middle, w, None, 2)[0])(w), expected, rtol=1e-14)


def test_a_branch_that_leaves_a_state_as_it_is_leaves_it_where_a_later_check_may_end_the_program() -> None:
    """Resident results are written by copies there; the branch without a change had left its copy unfilled."""

    class Averaging:
        """Every other update moves halfway to the last mean; the parameters are an inverse, which may fail."""

        def init(self, params: Any) -> Any:
            return {"slow": np.array(params), "since": np.zeros((), np.int64)}

        def update(self, grads: Any, state: Any, params: Any) -> Any:
            since = state["since"] + 1

            def follow(fast: Any, slow: Any) -> Any:
                new = slow + 0.5 * (fast - slow)
                return new, new, np.zeros_like(since)

            fast, slow, since = ws.cond(
                since >= 2, follow, lambda fast, slow: (fast, slow, since), params - grads, state["slow"]
            )
            return np.linalg.inv(fast), {"slow": slow, "since": since}

    params, batch = np.array([[1.0, 2.0], [4.0, 3.0]]), np.array([[0.0, 0.5], [0.25, 1.0]])
    losses = []
    for device in ("cpu", "reference"):
        step = ws.compile(
            lambda p, x: np.mean((p - x) ** 2), params, optimizer=Averaging(), batch=batch, guard=None, device=device
        )
        losses.append([step(batch).loss for _ in range(5)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-12)


def test_a_contraction_of_one_term_has_the_sign_of_its_product_and_a_longer_one_begins_at_zero():
    zeros, ones = np.zeros((7, 1)), -np.ones((1, 7))
    compiled = ws.jit(np.matmul)
    assert not np.signbit(zeros @ ones).any() and np.signbit(compiled(zeros, ones)).all()
    np.testing.assert_array_equal(compiled(zeros, ones), zeros @ ones)
    assert not np.signbit(compiled(np.zeros((7, 2)), -np.ones((2, 7)))).any()


@pytest.mark.parametrize(
    "product",
    [
        np.matmul,
        np.dot,
        lambda x, y: np.einsum("ij,jk->ik", x, y),
        lambda x, y: np.vdot(x, y.T),
        lambda x, y: np.convolve(x[0], y[:3, 0]),
    ],
    ids=["matmul", "dot", "einsum", "vdot", "convolve"],
)
def test_products_of_truth_values_say_whether_a_pair_holds(product: Callable[..., Any]) -> None:
    x, y = np.zeros((3, 256), bool), np.zeros((256, 3), bool)
    x[0], x[1, 7], y[:, 0], y[7, 1] = True, True, True, True
    found, wanted = ws.jit(product)(x, y), product(x, y)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype == bool
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("slide", [np.convolve, np.correlate])
@pytest.mark.parametrize("mode", ["valid", "same"])
def test_sliding_products_are_windows_of_the_longer_operand(slide: Callable[..., Any], mode: str) -> None:
    short, long = np.array([1.0, -2.0, 3.0]), np.arange(40.0)
    long[20] = np.inf
    found = ws.jit(lambda x, y: slide(x, y, mode))(short, long)
    np.testing.assert_array_equal(found, slide(short, long, mode))
