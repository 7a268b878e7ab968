"""Updates of equal parameters are traced once and copied: the program is that of separate traces, but for values that
depend on no parameter, which it computes once."""

import numpy as np
import pytest
from tests.optim.test_optimizers import MADE, OTHERS, REAL

import wholestep as ws
from wholestep import optim
from wholestep.frontend import copied_calls
from wholestep.frontend.array import Array
from wholestep.optim.moments import Adam
from wholestep.passes.cse import cse
from wholestep.passes.rewrite import map_nested_graphs
from wholestep.primitives.family import zeros

OPTIMIZERS = {**MADE, **OTHERS, **REAL}
SHAPES = [(3, 2), (4,), (3, 2), (2, 3), (4,), (2, 3), ()]


def params(dtypes=(np.float32,)):
    """Parameters of which some have equal types."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape).astype(dtypes[i % len(dtypes)]) for i, shape in enumerate(SHAPES)]


def merged(graph):
    """The graph after elimination of common subexpressions, in nested graphs too."""
    return cse(map_nested_graphs(graph, merged))


def program(optimizer, given, grads=None):
    """The text of an update after elimination of common subexpressions."""
    state = optimizer.init(given)
    return str(merged(ws.trace(lambda g, s, p: optimizer.update(g, s, p))(grads or given, state, given)))


def program_traced_one_by_one(monkeypatch, *given):
    monkeypatch.setattr(copied_calls, "call_key", lambda arrays, rest: None)
    found = program(*given)
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_is_the_one_that_is_traced_leaf_by_leaf(name, monkeypatch):
    optimizer = OPTIMIZERS[name]
    for given in (params(), params((np.float32, np.float64, np.float16))):
        assert program(optimizer, given) == program_traced_one_by_one(monkeypatch, optimizer, given)


def test_decay_and_zero_gradients_are_told_apart(monkeypatch):
    optimizer = optim.adamw(0.1, decay=lambda path: path in ("[0]", "[4]"))
    given = params()
    assert program(optimizer, given) == program_traced_one_by_one(monkeypatch, optimizer, given)

    def loss(p, batch):
        return sum(np.sum(np.tanh(x)) for x in p[:3]) * batch  # no gradient reaches the others: zeros, which fold

    def step_program():
        step = ws.compile(loss, given, optimizer=optimizer, batch=1.0, allow_unused=True, guard=None)
        return str(merged(step.graph))

    found = step_program()
    monkeypatch.setattr(copied_calls, "call_key", lambda arrays, rest: None)
    assert found == step_program()


def test_the_same_array_twice_is_no_pair_of_arrays(monkeypatch):
    def shared(x, y):
        call = copied_calls.CopiedCalls(lambda arrays: {"": arrays[0] * arrays[1] + arrays[0]})
        return [call([a, b])[""] for a, b in pairs(x, y)]

    def pairs(x, y):
        return (x, x), (x, y), (y, x), (y, y)

    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    for found, (a, b) in zip(ws.jit(shared)(x, y), pairs(x, y), strict=True):
        np.testing.assert_array_equal(found, a * b + a)


def test_updates_are_traced_once_for_each_type(monkeypatch):
    calls = []
    moved = Adam.moved
    monkeypatch.setattr(Adam, "moved", lambda self, *args: calls.append(args) or moved(self, *args))
    many = [np.ones(shape, np.float32) for shape in ((3, 2), (4,)) for _ in range(50)]
    ws.compile(lambda p, x: sum((a * x).sum() for a in p), many, optimizer=optim.adam(0.1), batch=1.0)
    assert len(calls) == 2


def test_what_no_parameter_goes_into_is_made_once():
    optimizer = optim.adam(0.1)
    sizes = []
    for n in (1, 2, 3):
        given = [np.ones((3, 2), np.float32)] * n
        state = optimizer.init(given)
        sizes.append(len(ws.trace(lambda s, g: optimizer.update(g, s, g))(state, given).nodes))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] < 0.6 * sizes[0]


def test_constants_are_traced_each_time():
    calls = []

    def shared(x):
        call = copied_calls.CopiedCalls(lambda arrays: calls.append(arrays) or {"": arrays[0] + 1.0})
        return [call([Array(zeros(x.value.type))])[""] for _ in range(3)] + [call([2.0 * x])[""] for _ in range(3)]

    np.testing.assert_array_equal(ws.jit(shared)(np.ones(2)), [[1.0, 1.0]] * 3 + [[3.0, 3.0]] * 3)
    assert len(calls) == 3 + 1
