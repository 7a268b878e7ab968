"""L-BFGS and its line searches: conditions that hold, minima that are found, eagerly and inside the compiled step."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import wholestep as ws
from wholestep import optim
from wholestep.errors import ParameterError
from wholestep.optim.line_search import FLATTER, SUFFICIENT, backtracking, strong_wolfe

START = {"a": np.array([-1.2, 1.0]), "b": np.array([[0.5], [-0.5]])}


def rosenbrock(p):
    x, y = p["a"]
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2 + np.sum((p["b"] - 2.0) ** 4) + np.sum((p["b"] - 2.0) ** 2)


@pytest.mark.parametrize("search", ["strong_wolfe", "backtracking"])
def test_the_minimum_of_a_curved_valley_is_found(search):
    optimizer = optim.lbfgs(line_search=search)
    p, state, values = START, optimizer.init(START), []
    for _ in range(60):
        value, g = ws.value_and_grad(rosenbrock)(p)
        values.append(value)
        p, state = optimizer.update(g, state, p, loss=value, objective=rosenbrock)
    np.testing.assert_allclose(p["a"], 1.0, atol=1e-6)
    np.testing.assert_allclose(p["b"], 2.0, atol=1e-6)
    assert (np.diff(values) <= 0).all()


def test_a_compiled_step_searches_its_own_objective_and_evaluates_it_only_when_asked():
    def loss(p, batch):
        return rosenbrock(p) * batch

    step = ws.compile(loss, START, optimizer=optim.lbfgs(), batch=1.0)
    losses = [step(1.0).loss for _ in range(60)]
    assert (np.diff(losses) <= 0).all()
    np.testing.assert_allclose(step.params["a"], 1.0, atol=1e-6)
    fixed = ws.compile(loss, START, optimizer=optim.lbfgs(line_search=None), batch=1.0)
    assert "while" in str(step.graph)
    assert "while" not in str(fixed.graph)


def test_a_group_searches_its_own_part():
    optimizer = optim.groups({"b": None}, optim.lbfgs())
    p, state = START, optimizer.init(START)
    for _ in range(60):
        value, g = ws.value_and_grad(rosenbrock)(p)
        p, state = optimizer.update(g, state, p, loss=value, objective=rosenbrock)
    np.testing.assert_allclose(p["a"], 1.0, atol=1e-6)
    assert p["b"] is START["b"]


@settings(max_examples=40, deadline=None)
@given(
    centre=st.floats(0.01, 50.0),
    first=st.floats(1e-3, 100.0),
    wave=st.floats(0.0, 0.5),
    sharp=st.floats(0.3, 30.0),
)
def test_lengths_meet_the_conditions(centre, first, wave, sharp):
    def at(t):
        x = sharp * (t - centre)
        return x * x + wave * np.sin(x) + wave, sharp * (2 * x + wave * np.cos(x))

    value, slope = at(0.0)
    if slope >= -1e-9:
        return
    t = strong_wolfe(at, np.float64(first), value, slope, 60)
    found, steep = at(t)
    assert t > 0
    assert found <= value + SUFFICIENT * t * slope
    assert abs(steep) <= FLATTER * abs(slope)
    t = backtracking(at, np.float64(first), value, slope, 60)
    assert 0 < t <= first
    assert at(t)[0] <= value + SUFFICIENT * t * slope


def test_a_search_that_finds_nothing_stays_where_it_is():
    def rising(t):
        return 1.0 + t, 1.0

    for search in (strong_wolfe, backtracking):
        assert search(rising, np.float64(1.0), 1.0, -1.0, 5) == 0.0
    nowhere = optim.lbfgs()
    p, _ = nowhere.update(
        np.zeros(2), nowhere.init(np.ones(2)), np.ones(2), loss=0.0, objective=lambda p: np.sum(0 * p)
    )
    assert (p == 1).all()


def test_a_step_into_what_is_not_finite_is_shortened():
    def f(p):
        return np.sum(p - np.log(p))

    optimizer = optim.lbfgs(line_search="backtracking")
    p = np.array([8.0])
    state = optimizer.init(p)
    with np.errstate(invalid="ignore"):
        for _ in range(30):
            value, g = ws.value_and_grad(f)(p)
            p, state = optimizer.update(g, state, p, loss=value, objective=f)
    np.testing.assert_allclose(p, 1.0, atol=1e-6)


def test_an_objective_that_was_not_given_is_missed():
    optimizer = optim.lbfgs()
    with pytest.raises(ParameterError, match=r"^lbfgs: update was not given loss="):
        optimizer.update(np.ones(2), optimizer.init(np.ones(2)), np.ones(2))
