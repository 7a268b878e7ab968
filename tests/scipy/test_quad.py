"""Integrals of functions beside SciPy's and closed forms, and their derivatives in limits and parameters."""

import math

import numpy as np
import pytest
import scipy.integrate as theirs
from scipy.special import gamma as closed, polygamma

import wholestep as ws
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.scipy import integrate as ours

INTEGRALS = {
    "smooth": (lambda x: np.exp(-x) * np.cos(3 * x), 0.3, 2.0),
    "backwards": (lambda x: np.exp(-x) * np.cos(3 * x), 2, 0),
    "nothing": (lambda x: np.exp(x), 1.0, 1.0),
    "peak": (lambda x: 1 / (1e-4 + (x - 0.3) ** 2), 0.0, 1.0),
    "kink": (lambda x: np.abs(x - 0.37), -1.0, 2.0),
    "root": (lambda x: np.sqrt(x), 0.0, 1.0),
    "waves": (lambda x: np.sin(80 * x) ** 2, 0.0, 3.0),
    "half line": (lambda x: x**2 * np.exp(-x), 0, np.inf),
    "the other half": (lambda x: np.exp(x), -np.inf, 0.5),
    "back from far": (lambda x: 1 / (1 + x * x), math.inf, 1.0),
    "line": (lambda x: np.exp(-((x - 2) ** 2)), -np.inf, np.inf),
    "line backwards": (lambda x: np.exp(-((x - 2) ** 2)), np.inf, -np.inf),
    "written out": (lambda x: math.sin(x) if True else 0.0, 0.0, 2.0),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals_are_those_of_scipy(name):
    f, a, b = INTEGRALS[name]
    expected = theirs.quad(f, a, b, epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    found, error = ours.quad(f, a, b)
    compiled = ws.jit(lambda scale: theirs.quad(lambda x: scale * f(x), a, b))(1.0)
    for value in (found, compiled[0]):
        assert abs(value - expected) <= 1.49e-8 * max(1, abs(expected))
    assert abs(found - expected) <= max(10 * error, 1e-13) and error <= 1.49e-8 * max(1, abs(expected))
    tight, _ = ours.quad(f, a, b, epsabs=0.0, epsrel=1e-13, limit=120)
    np.testing.assert_allclose(tight, expected, rtol=1e-12, atol=1e-12)


def gamma(s):
    return theirs.quad(lambda x: x ** (s - 1) * np.exp(-x), 0, np.inf, epsabs=1e-12, epsrel=1e-12)[0]


def test_derivatives_in_parameters_and_limits():
    s = 3.5
    np.testing.assert_allclose(ws.jit(gamma)(s), closed(s), rtol=1e-12)
    slope = closed(s) * polygamma(0, s)
    for transform in (ws.grad, ws.jacfwd, lambda f: ws.jit(ws.grad(f))):
        np.testing.assert_allclose(transform(gamma)(s), slope, rtol=1e-10)
    bend = closed(s) * (polygamma(0, s) ** 2 + polygamma(1, s))
    np.testing.assert_allclose(ws.hessian(gamma)(s), bend, rtol=1e-9)
    both = np.array([2.5, 3.5])
    np.testing.assert_allclose(ws.vmap(ws.grad(gamma))(both), closed(both) * polygamma(0, both), rtol=1e-9)
    ws.gradcheck(
        lambda v: theirs.quad(lambda x, k: np.exp(-k * x) * v[0], v[1], v[2], args=(v[3],))[0], np.arange(1.0, 5.0)
    )
    ws.gradcheck(lambda a: theirs.quad(lambda x: np.exp(-x), a, np.inf)[0], 0.4)


def test_what_is_asked_for_in_vain_is_told():
    found, error = ours.quad(lambda x: 1 / np.sqrt(x), 0.0, 1.0, limit=5)
    assert error > 1.49e-8 and 1e-8 < abs(found - 2) < 0.5


@pytest.mark.parametrize("n", [1, 5, 8])
def test_a_rule_of_fixed_places(n):
    f = lambda x, k: np.stack([np.exp(k * x), np.sin(x)])  # noqa: E731
    expected = theirs.fixed_quad(f, 0.2, 1.5, args=(0.7,), n=n)
    found = ws.jit(lambda a, b, k: theirs.fixed_quad(f, a, b, args=(k,), n=n)[0])(0.2, 1.5, 0.7)
    assert expected[1] is None and ours.fixed_quad(f, 0.2, 1.5, (0.7,), n)[1] is None
    np.testing.assert_allclose(found, expected[0], rtol=1e-14)
    ws.gradcheck(lambda a, b, k: ours.fixed_quad(f, a, b, (k,), n)[0], 0.2, 1.5, 0.7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ours.quad(np.exp, 0, x, points=[0.5]), UnsupportedError, "quad: points= is not covered"),
        (lambda x: ours.quad(np.exp, 0, x, weight="cos"), UnsupportedError, "quad: weight= is not covered"),
        (lambda x: ours.quad(np.exp, 0, x, tolerance=1), TypeError, "unexpected keyword argument 'tolerance'"),
        (lambda x: ours.quad(np.exp, 0, x, limit=0), ParameterError, "quad: limit is 0"),
        (lambda x: ours.quad(np.exp, 0, 1j * x), DtypeError, "quad: b is c128, not a real number"),
        (lambda x: ours.quad(lambda t: x * np.ones(2), 0, 1), ShapeError, r"quad: the function gives f64\[2\]"),
        (lambda x: ours.fixed_quad(np.exp, x, np.inf), ParameterError, "fixed_quad: the limits must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        ws.jit(lambda x: call(x)[0])(1.0)
