"""Solvers of SciPy that work in double precision: so do they here, on single numbers too."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import wholestep as ws

TIMES = np.linspace(0, 1, 3).astype(np.float32)
SINGLE = np.array([1.0, 2.0], np.float32)

SOLVED = {
    "odeint": lambda y: scipy.integrate.odeint(lambda y, t: -0.5 * y, y, TIMES)[-1],
    "solve_ivp": lambda y: scipy.integrate.solve_ivp(
        lambda t, y: -0.5 * y, (0, 1), y, t_eval=TIMES, rtol=1e-9, atol=1e-9
    ).y[:, -1],
    "root": lambda y: scipy.optimize.root(lambda x: x * x - 2.0, y).x,
    "least_squares": lambda y: scipy.optimize.least_squares(lambda x: x * x - 2.0, y, xtol=1e-12).x,
}


@pytest.mark.parametrize("name", SOLVED)
def test_single_numbers_are_solved_in_doubles(name):
    wanted, found = SOLVED[name](SINGLE), ws.jit(SOLVED[name])(SINGLE)
    assert found.dtype == wanted.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    exact = SINGLE * np.exp(-0.5) if name in ("odeint", "solve_ivp") else np.sqrt([2.0, 2.0])
    np.testing.assert_allclose(found, exact, rtol=2e-8)
    assert ws.grad(lambda y: np.sum(SOLVED[name](y)))(SINGLE).dtype == np.float32
