"""A scatter into a loop's carry writes it in place; one whose operand is read later works on a copy."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import BoundsError
from wholestep.lower.program.steps import RoutineCall, WhileLoop, walk_steps

X = np.arange(12.0).reshape(4, 3)


def copies(f, *args):
    """The number of copies in the program of a function, and its result."""
    compiled = ws.jit(f)
    found = compiled(*args)
    (program,) = compiled.programs.values()
    return str(program.executable("cpu").explain()).count("  copy"), found


def written(read_later, loop, changed):
    def step(x, i):
        new = changed(x)
        new[i] = i + 0.5
        return new + x if read_later else new, i + 1

    def scanned(x):
        return ws.scan(lambda carry, _: (step(*carry), None), (x, np.int64(0)), None, length=4)[0][0]

    def repeated(x):
        return ws.while_loop(lambda carry: carry[1] < 4, lambda carry: step(*carry), (x, np.int64(0)))[0]

    return scanned if loop == "scan" else repeated


CHANGES = {"as it is": np.copy, "computed": lambda x: 2 * x + 1}


@pytest.mark.parametrize("loop", ["scan", "while"])
@pytest.mark.parametrize("read_later", [False, True])
@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_what_a_loop_carries_is_copied_only_where_it_is_read_again(loop, read_later, changed):
    wanted = X.copy()
    for i in range(4):
        before, wanted = wanted, changed(wanted)
        wanted[i] = i + 0.5
        wanted = wanted + before if read_later else wanted
    made, found = copies(written(read_later, loop, changed), X)
    np.testing.assert_array_equal(found, wanted)
    assert made == int(read_later and changed is np.copy)


@pytest.mark.parametrize("late", [lambda x, new: x + new, lambda x, new: new - np.flip(x), lambda x, new: x @ new.T])
def test_a_carry_that_is_read_after_its_update_keeps_its_old_value(late):
    """The update waits for a value that is computed from both, which would wait for it if it were in place."""

    def step(carry, i):
        x, total = carry
        new = 2 * x + 1
        new[i] = i + 0.5
        return (new, total + np.sum(late(x, new) ** 2)), None

    wanted, total = X, 0.0
    for i in range(4):
        (wanted, total), _ = step((wanted, total), i)
    made, found = copies(lambda x: ws.scan(step, (x, 0.0), np.arange(4))[0], X)
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_allclose(found[1], total)
    assert made == 0  # a copy back, of what was there before the update, might come after it


def test_a_chain_of_assignments_has_one_copy_into_the_result():
    def table(x, places):
        found = np.sin(x)
        for k in range(5):
            found[places[k]] = k
        return found

    places = np.array([3, 1, 0, 3, 2])
    made, found = copies(table, X, places)
    np.testing.assert_array_equal(found, table(X.copy(), places))
    assert made == 1


def test_a_next_index_that_is_looked_at_does_not_copy_the_table():
    """The bounds check of the next row comes before the write of this one; the copy that breaks the cycle is small."""

    def step(carry):
        table, i, total = carry
        new = table.copy()
        new[i] = i + 0.5
        return new, i + 1, total + new[(i + 1) % 4] + np.sum(new)

    start = (np.arange(4000.0).reshape(4, 1000), np.int64(0), np.zeros(1000))
    compiled = ws.jit(lambda x, i, total: ws.while_loop(lambda carry: carry[1] < 4, step, (x, i, total)))
    found = compiled(*start)
    for _ in range(4):
        start = step(start)
    np.testing.assert_allclose(found[2], start[2], rtol=1e-12)
    (program,) = compiled.programs.values()
    (loop,) = [s for s in program.executable("cpu").plan.steps if isinstance(s, WhileLoop)]
    copied = [s.params[0] for s in walk_steps(loop.body) if isinstance(s, RoutineCall) and s.routine == "copy"]
    assert copied == [8]


def test_an_index_out_of_bounds_leaves_the_state_as_it_was():
    def loss(p, i):
        table = p.copy()
        for k in range(2):
            table[i[k]] = table[i[k]] * 2
        return np.sum(table**2)

    step = ws.compile(loss, X[:, 0].copy(), optimizer=ws.optim.sgd(0.1), batch=np.array([0, 1]))
    before = np.array(step.params)
    with pytest.raises(BoundsError):
        step(np.array([0, 9]))
    np.testing.assert_array_equal(step.params, before)


def borders(u):
    """One step of heat conduction, and the values at the borders of the grid."""
    new = np.zeros_like(u)
    new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] - 2 * u[1:-1, 1:-1])
    new[0], new[-1], new[:, ::-50] = 1.0, new[1], 2.0
    new[:, -1] = new[:, 3]
    return new


def some_places(x):
    new = np.sin(x)
    for k in range(5):
        new[k + 1, 7] = x[0, k] * 2
    return new


@pytest.mark.parametrize(("f", "most"), [(borders, 2), (some_places, 1)])
def test_small_slices_of_large_arrays_are_written_alone(f, most):
    """One copy goes into the result; another one keeps the row that is read after a first row is written."""
    x = np.random.default_rng(0).normal(size=(100, 101))
    made, found = copies(f, x)
    np.testing.assert_allclose(found, f(x), rtol=1e-14)
    assert made == most
    weights = np.random.default_rng(1).normal(size=x.shape)
    slope = ws.jit(ws.grad(lambda x: np.sum(f(x) * weights)))(x)
    np.testing.assert_allclose(slope, ws.grad(lambda x: np.sum(f(x) * weights))(x), rtol=1e-12, atol=1e-12)
    many = ws.jit(ws.vmap(f))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(many, [f(x), f(2 * x)], rtol=1e-14)
