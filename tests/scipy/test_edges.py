"""Slopes of densities and special functions at the ends of what they are defined on, beside their formulas there."""

import warnings

import numpy as np
import pytest
import scipy.special
import scipy.stats
from tests.scipy.test_tails import compiled

import wholestep as ws

INF = np.inf


def orders(function, x):
    """The value, the slope and the second derivative in a compiled program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [float(ws.jit(f)(np.float64(x))) for f in (function, ws.grad(function), ws.grad(ws.grad(function)))]


@pytest.mark.parametrize(
    "name, shapes, at, expected",
    [
        ("gamma", (1.0,), 0.0, (1, -1, 1)),
        ("gamma", (1.5,), 0.0, (0, INF, -INF)),
        ("gamma", (2.0,), 0.0, (0, 1, -2)),
        ("gamma", (0.5,), 0.0, (INF, -INF, INF)),
        ("chi2", (4.0,), 0.0, (0, 0.25, -0.25)),
        ("beta", (0.5, 1.0), 0.0, (INF, -INF, INF)),
        ("beta", (0.5, 2.0), 0.0, (INF, -INF, INF)),
        ("beta", (1.5, 1.0), 0.0, (0, INF, -INF)),
        ("beta", (2.0, 0.5), 1.0, (INF, INF, INF)),
        ("beta", (2.0, 2.0), 0.0, (0, 6, -12)),
        ("beta", (2.0, 2.0), 1.0, (0, -6, -12)),
        ("beta", (5000.0, 5000.0), 0.0, (0, 0, 0)),
        ("weibull_min", (1.5,), 0.0, (0, INF, -INF)),
        ("weibull_min", (2.0,), 0.0, (0, 2, 0)),
        ("weibull_max", (2.0,), 0.0, (0, -2, 0)),
        ("f", (4.0, 3.0), 0.0, (0, 20 / 3, -560 / 9)),
        ("f", (1e4, 1e4), 0.0, (0, 0, 0)),
        ("rayleigh", (), 0.0, (0, 1, 0)),
    ],
)
def test_densities_at_the_ends_of_their_support(name, shapes, at, expected):
    distribution = getattr(scipy.stats, name)
    np.testing.assert_allclose(orders(lambda x: distribution.pdf(x, *shapes), at), expected, rtol=1e-12)
    side = np.nextafter(at, 0.5)
    logs = [ws.jit(ws.grad(lambda x: distribution.logpdf(x, *shapes)))(np.float64(x)) for x in (at, side)]
    assert np.sign(logs[0]) == np.sign(logs[1])


@pytest.mark.parametrize(
    "name, shapes, at, expected",
    [
        ("gammainc", (0.5,), 0.0, (0, INF, -INF, INF)),
        ("gammainc", (1.5,), 0.0, (0, 0, INF, -INF)),
        ("gammainc", (3.0,), 0.0, (0, 0, 0, 1)),
        ("gammaincc", (2.0,), 0.0, (1, 0, -1, 2)),
        ("betainc", (0.5, 1.0), 0.0, (0, INF, -INF, INF)),
        ("betainc", (0.5, 2.0), 0.0, (0, INF, -INF, INF)),
        ("betainc", (1.5, 2.5), 0.0, (0, 0, INF, -INF)),
        ("betainc", (2.0, 0.5), 1.0, (1, INF, INF, INF)),
        ("betainc", (3.0, 2.0), 1.0, (1, 0, -12, -48)),
    ],
)
def test_incomplete_functions_at_their_ends(name, shapes, at, expected):
    function = lambda x: getattr(scipy.special, name)(*shapes, x)  # noqa: E731
    third = ws.jit(ws.grad(ws.grad(ws.grad(function))))(np.float64(at))
    np.testing.assert_allclose([*orders(function, at), third], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name, k, shapes, at, expected",
    [
        ("binom", 1, (5,), 0.0, (0, 5, -40)),
        ("binom", 4, (5,), 1.0, (0, -5, -40)),
        ("binom", 1, (2000,), 0.0, (0, 2000, -2 * 2000 * 1999)),
        ("poisson", 1, (), 0.0, (0, 1, -2)),
        ("geom", 2, (), 1.0, (0, -1, -2)),
        ("nbinom", 1, (2.5,), 1.0, (0, -2.5, -12.5)),
        ("bernoulli", 1, (), 0.0, (0, 1, 0)),
    ],
)
def test_masses_of_certain_events(name, k, shapes, at, expected):
    distribution = getattr(scipy.stats, name)
    np.testing.assert_allclose(orders(lambda p: distribution.pmf(k, *shapes, p), at), expected, rtol=1e-11)


def test_masses_of_vectors_at_a_share_of_zero():
    def multinomial(q):
        return scipy.stats.multinomial.pmf(np.array([1, 1, 1]), 3, np.stack([q, 0.7 - q, 0.3 + 0 * q]))

    def dirichlet(x):
        return scipy.stats.dirichlet.pdf(np.stack([x, 0.7 - x, 0.3 + 0 * x]), np.array([2.0, 2.0, 3.0]))

    np.testing.assert_allclose(orders(multinomial, 0.0), (0, 6 * 0.7 * 0.3, -2 * 6 * 0.3), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(orders(dirichlet, 0.0), (0, 360 * 0.7 * 0.09, -2 * 360 * 0.09), rtol=1e-12)


@pytest.mark.parametrize("a", [1e3, 1e5, 1e8, 1e150])
@pytest.mark.parametrize("sign", [1, -1])
def test_normal_numbers_between_far_and_wide_bounds(a, sign):
    """Beyond a bound that is far out what is left is an exponential distribution of scale 1 / a."""

    def of(method, *x):
        low, high = (a, 3 * a) if sign > 0 else (-3 * a, -a)
        return float(compiled("truncnorm", method, *x, low, high))

    np.testing.assert_allclose(of("logpdf", sign * a), np.log(a), rtol=2e-6)
    np.testing.assert_allclose(of("mean"), sign * (a + 1 / a), rtol=1e-11)
    np.testing.assert_allclose(of("std"), 1 / a, rtol=3e-6)
    np.testing.assert_allclose(of("entropy"), 1 - np.log(a), rtol=3e-6)

    def of_bound(b):
        return scipy.stats.truncnorm.logpdf(sign * a, *((b, INF) if sign > 0 else (-INF, b)))

    slope = ws.jit(ws.grad(of_bound))(sign * a)
    np.testing.assert_allclose(slope, sign * (a + 1 / a), rtol=1e-11)


@pytest.mark.parametrize("at", [(1.0, INF), (9.0, INF), (-INF, -9.0), (-INF, INF)])
def test_infinite_bounds_have_no_slope(at):
    slopes = ws.jit(ws.grad(lambda q: scipy.stats.truncnorm.std(q[0], q[1])))(np.array(at))
    assert np.all(np.isfinite(slopes)) and np.all(slopes[np.isinf(at)] == 0)


def test_second_slopes_where_the_first_is_infinite():
    assert orders(np.cbrt, 0.0) == [0.0, INF, -INF] and orders(np.cbrt, -0.0) == [0.0, INF, INF]
    assert orders(np.arccosh, 1.0) == [0.0, INF, -INF]


@pytest.mark.parametrize(
    "function, at, slopes, seconds",
    [
        (scipy.special.binom, (1.0, 2.0), (1 / 2, -1 / 2), (1.0, 3 / 2)),
        (scipy.special.binom, (5.0, 6.0), (1 / 6, -1 / 6), (137 / 180, 49 / 60)),
        (scipy.special.binom, (5.0, -1.0), (0.0, 1 / 6), (0.0, 49 / 60)),
        (scipy.special.poch, (0.0, 2.0), (1.0, 0.0), (2.0, 0.0)),
        (scipy.special.poch, (-1.0, 3.0), (-1.0, 0.0), (0.0, 0.0)),
        (scipy.special.owens_t, (0.0, INF), (0.0, 0.0), (0.0, 0.0)),
        (scipy.special.owens_t, (INF, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_slopes_at_zeros_that_are_poles_of_a_factor(function, at, slopes, seconds):
    def value(q):
        return function(q[0], q[1])

    np.testing.assert_allclose(ws.jit(ws.grad(value))(np.array(at)), slopes, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.diag(ws.jit(ws.hessian(value))(np.array(at))), seconds, rtol=1e-9, atol=1e-12)


def test_a_product_of_whole_numbers_below_zero_has_a_slope():
    np.testing.assert_allclose(orders(lambda z: scipy.special.poch(z, 3.0), -5.0), (-60, 47, -24), rtol=1e-12)
    assert np.isnan(ws.grad(lambda k: scipy.special.binom(-3.0, k))(2.0))


@pytest.mark.parametrize(("name", "sign"), [("sici", -1), ("shichi", 1)])
def test_sine_integrals_bend_at_zero(name, sign):
    """Si(x) = x - x**3/18 + ..., and Shi(x) has the other sign."""
    slope = ws.grad(lambda x: getattr(scipy.special, name)(x)[0])
    np.testing.assert_allclose(orders(slope, 0.0), (1, 0, sign / 3), atol=1e-15)
