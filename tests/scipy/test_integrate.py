"""The solver of differential equations: its states against SciPy's, its derivatives against differences."""

import numpy as np
import pytest
import scipy.integrate

import wholestep as ws
from wholestep.errors import UnsupportedError
from wholestep.scipy.integrate import odeint, solve_ivp

START, TIMES, RATE = np.array([0.5, 0.2]), np.array([0.0, 0.4, 1.3, 2.0]), np.float64(1.3)
WEIGHTS = np.array([[0.3, -1.0], [0.8, 0.4], [-0.6, 0.2], [1.1, 0.7]])
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def pendulum(y, t, rate):
    return np.stack([y[1], -rate * np.sin(y[0]) + 0.1 * np.cos(t)])


def loss(y0, t, rate):
    return np.sum(WEIGHTS * odeint(pendulum, y0, t, rate, **TIGHT))


def slope(f, x, direction, step=1e-5):
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


def test_states_are_those_of_scipy():
    for t in (TIMES, TIMES[::-1].copy()):
        found = odeint(pendulum, START, t, RATE, **TIGHT)
        expected = scipy.integrate.odeint(pendulum, START, t, args=(RATE,), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_loose_tolerance_is_kept():
    expected = odeint(pendulum, START, TIMES, RATE, **TIGHT)
    assert np.abs(odeint(pendulum, START, TIMES, RATE, rtol=1e-4, atol=1e-4) - expected).max() < 1e-3


@pytest.mark.parametrize("argument", [0, 1, 2])
@pytest.mark.parametrize("run", [lambda f: f, ws.jit])
def test_gradients(argument, run):
    args = [START, TIMES, RATE]
    gradient = run(ws.grad(loss, argument))(*args)
    for i in range(np.size(args[argument])):
        unit = np.zeros(np.size(args[argument]))
        unit[i] = 1
        unit = unit.reshape(np.shape(args[argument]))
        numeric = slope(lambda x: loss(*args[:argument], x, *args[argument + 1 :]), args[argument], unit)
        assert abs(np.sum(gradient * unit) - numeric) < 1e-6


def test_the_second_derivative():
    second = ws.grad(ws.grad(loss, 2), 2)(START, TIMES, RATE)
    assert abs(second - slope(lambda r: ws.grad(loss, 2)(START, TIMES, r), RATE, 1.0, 1e-4)) < 1e-5


def test_a_batch_is_a_loop():
    rates = np.array([0.7, 1.3, 2.0])
    batch = ws.vmap(lambda r: odeint(pendulum, START, TIMES, r, **TIGHT))(rates)
    np.testing.assert_allclose(batch, [odeint(pendulum, START, TIMES, r, **TIGHT) for r in rates], atol=1e-9)


def test_states_and_arguments_are_trees():
    def rule(y, t, p):
        return {"a": -p["k"] * y["a"], "b": y["a"] * p["c"][0]}

    def end(p):
        made = odeint(rule, {"a": 1.0, "b": np.zeros(2)}, np.array([0.0, 1.0]), p, **TIGHT)
        return np.sum(made["b"][-1])

    p = {"k": np.float64(2.0), "c": [np.array([3.0, 1.0])]}
    found = ws.grad(end)(p)
    share = (1 - np.exp(-2)) / 2
    np.testing.assert_allclose(end(p), 4 * share, rtol=1e-8)
    np.testing.assert_allclose(found["c"][0], [share, share], rtol=1e-7)
    np.testing.assert_allclose(found["k"], 4 * (np.exp(-2) * 3 - 1) / 4, rtol=1e-7)


def test_complex_states():
    turn = lambda w: odeint(lambda y, t, w: 1j * w * y, 1 + 0j, np.array([0.0, 1.0]), w, **TIGHT)[-1].real  # noqa: E731
    np.testing.assert_allclose(turn(0.7), np.cos(0.7), atol=1e-8)
    np.testing.assert_allclose(ws.grad(turn)(0.7), -np.sin(0.7), atol=1e-7)


def test_too_few_steps_give_nan():
    made = odeint(pendulum, START, TIMES, RATE, mxstep=2, **TIGHT)
    assert np.isfinite(made[0]).all() and np.isnan(made[-1]).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ws.errors.TreeError, match="structure"):
        odeint(lambda y, t: (y, y), START, TIMES)
    with pytest.raises(ws.errors.ShapeError, match="derivative"):
        odeint(lambda y, t: y[:1], START, TIMES)
    with pytest.raises(ws.errors.ShapeError, match="vector of times"):
        odeint(lambda y, t: y, START, 1.0)


def test_what_the_function_closes_over_is_as_an_argument():
    def end(rate, solve=odeint):
        def slope(y, t):
            return pendulum(y, t, rate)

        return np.sum(WEIGHTS * solve(slope, START, TIMES, **TIGHT))

    expected = ws.grad(loss, argnums=2)(START, TIMES, RATE)
    for gradient in (ws.grad(end), ws.jit(ws.grad(end)), ws.grad(lambda r: end(r, scipy.integrate.odeint))):
        np.testing.assert_allclose(gradient(RATE), expected, rtol=1e-9)


def test_lists_are_arrays_and_arguments_anything_under_the_name_of_scipy():
    def end(rate):
        return scipy.integrate.odeint(spring, [1.0, 2.0], TIMES, (rate, "bound"), **TIGHT)[-1].sum()

    def spring(y, t, rate, kind):
        return [y[1], -rate * y[0] if kind == "bound" else 0.0]

    far, rate = TIMES[-1] - TIMES[0], 1.7
    root = np.sqrt(rate)
    closed = lambda root: (1 - 1j * 2 / root) * (1 + 1j * root)  # noqa: E731 (amplitude of y + y')
    expected = (closed(root) * np.exp(1j * root * far)).real
    np.testing.assert_allclose(ws.jit(end)(rate), expected, rtol=1e-6)
    low, high = end(rate - 1e-3), end(rate + 1e-3)
    np.testing.assert_allclose(ws.grad(end)(rate), (high - low) / 2e-3, rtol=1e-5)


def test_arguments_as_scipy_has_them():
    def grows(t, y, rate, lift):
        return rate * y + lift

    def end(rate, **options):
        return np.sum(odeint(grows, START, TIMES, args=(rate, 0.3), tfirst=True, **options)[-1])

    value, found = ws.value_and_grad(end)(0.4)
    expected = scipy.integrate.odeint(grows, START, TIMES, args=(0.4, 0.3), tfirst=True, rtol=1e-10, atol=1e-10)[-1]
    np.testing.assert_allclose(value, expected.sum(), rtol=1e-6)
    by_place = ws.grad(lambda rate: np.sum(odeint(lambda y, t, *a: grows(t, y, *a), START, TIMES, rate, 0.3)[-1]))(0.4)
    np.testing.assert_allclose(found, by_place, rtol=1e-12)
    with pytest.raises(UnsupportedError, match="odeint: the option hmax= is not covered"):
        end(0.4, hmax=0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'steps'"):
        end(0.4, steps=3)


def test_solve_ivp_is_that_of_scipy():
    def states(rate, solve=scipy.integrate.solve_ivp, **options):
        def slope(t, y, kind):
            return [y[1], -rate * np.sin(y[0]) + (0.1 if kind == "driven" else 0.0) * np.cos(t)]

        return solve(slope, (-0.5, 2.0), [0.5, 0.2], t_eval=TIMES, args=("driven",), rtol=1e-10, atol=1e-10, **options)

    expected = states(RATE)
    for found in (ws.jit(lambda rate: tuple(states(rate)))(RATE), states(RATE, solve_ivp)):
        np.testing.assert_allclose(found[0], expected.t)
        np.testing.assert_allclose(found[1], expected.y, rtol=1e-7, atol=1e-8)
        assert found[2]
    slopes = ws.grad(lambda rate: np.sum(WEIGHTS * states(rate).y.T))(RATE)
    difference = slope(lambda rate: np.sum(WEIGHTS * states(rate).y.T), RATE, 1.0)
    np.testing.assert_allclose(slopes, difference, rtol=1e-5)
    for options, words in [({"method": "BDF"}, "the method 'BDF'"), ({"dense_output": True}, "dense_output=")]:
        with pytest.raises(UnsupportedError, match=words):
            states(RATE, solve_ivp, **options)
    with pytest.raises(UnsupportedError, match="without t_eval="):
        ws.grad(lambda k: scipy.integrate.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0]).y[0, -1])(1.0)
    with pytest.raises(ws.errors.ShapeError, match="are vectors"):
        solve_ivp(lambda t, y: y, (0, 1), np.eye(2), t_eval=TIMES)


@pytest.mark.parametrize(("state", "times"), [("f4", "f8"), ("f8", "f4"), ("f4", "f4"), ("c8", "f8")])
def test_states_have_the_dtype_of_a_sum_of_the_first_and_the_times(state: str, times: str) -> None:
    y0, t = np.array([1, 2], state), np.linspace(0, 1, 5, dtype=times)
    turned = ws.jit(lambda y0: odeint(lambda y, t: -2 * y * np.cos(t), y0, t))(y0)
    assert turned.dtype == (y0[0] + t[0]).dtype
    np.testing.assert_allclose(turned, y0 * np.exp(-2 * np.sin(t))[:, None], rtol=1e-6)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_simpson_has_the_dtype_of_scipy_and_no_width_of_zero_matters(count):
    y = np.linspace(1, 2, count, dtype="f4")
    for options in ({}, {"dx": 0.5}, {"x": np.arange(count, dtype="f4")}, {"x": np.minimum(np.arange(count), 1)}):
        expected = scipy.integrate.simpson(y, **options)
        found = ws.jit(lambda y, options=options: scipy.integrate.simpson(y, **options))(y)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    for rule in (scipy.integrate.simpson, scipy.integrate.cumulative_trapezoid):
        with pytest.raises(ws.errors.ShapeError, match=f"does not fit {count} numbers along the axis"):
            ws.jit(lambda y, rule=rule: rule(y, x=np.arange(count + 1.0)))(y)


def test_odeint_sums_the_gradients_of_single_precision_weights_in_the_precision_of_the_times():
    weights, times = np.array([[0.1, -0.5], [0.4, 0.2]], np.float32), np.linspace(0, 1, 3)

    def end(w):
        return np.sum(odeint(lambda y, t: w @ y, np.ones(2, np.float32), times)[-1])

    found = ws.grad(end)(weights)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ws.grad(end)(weights.astype(np.float64)), rtol=1e-6)
