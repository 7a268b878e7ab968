"""Distributions far out in their tails and at the ends of their parameters, beside SciPy where it has digits there."""

import numpy as np
import pytest
import scipy.stats

import wholestep as ws

F = (3.7, 1.0)
"""An F distribution with heavy tails."""


def compiled(name, method, *args):
    return ws.jit(lambda *a: getattr(getattr(scipy.stats, name), method)(*a))(*map(np.float64, args))


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("q", [1e-12, 0.3, 1 - 1e-12])
def test_quantiles_of_f(method, q):
    inverse = scipy.stats.f.cdf if method == "ppf" else scipy.stats.f.sf
    np.testing.assert_allclose(inverse(compiled("f", method, q, *F), *F), q, rtol=1e-12)


@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("x", [1e-3, 0.9, 5.0, 1e24])
def test_probabilities_of_f_and_their_slopes(method, x):
    rule = getattr(scipy.stats.f, method)
    np.testing.assert_allclose(compiled("f", method, x, *F), rule(x, *F), rtol=1e-10)
    sign = -1 if "sf" in method else 1
    share = np.exp(rule(x, *F)) if "log" in method else 1.0
    slope = ws.grad(lambda x: rule(x, *F))(np.float64(x))
    np.testing.assert_allclose(slope, sign * scipy.stats.f.pdf(x, *F) / share, rtol=1e-9)


@pytest.mark.parametrize("q", [1e-300, 0.3, 0.5, 0.999])
def test_quantiles_of_t_have_the_sign_of_their_half(q):
    found = compiled("t", "ppf", q, 0.001), compiled("t", "isf", q, 0.001)
    assert np.sign(found[0]) == np.sign(q - 0.5) and np.sign(found[1]) == np.sign(0.5 - q)
    assert ws.grad(lambda q: scipy.stats.t.ppf(q, 3.0))(0.5) == pytest.approx(1 / scipy.stats.t.pdf(0.0, 3.0))


@pytest.mark.parametrize("df", [99.0, 101.0, 1e10, np.inf])
@pytest.mark.parametrize("method", ["logpdf", "pdf", "entropy", "var", "std"])
def test_t_of_many_degrees_of_freedom(method, df):
    point = () if method in ("entropy", "var", "std") else (1.5,)
    expected = getattr(scipy.stats.t, method)(*point, df)
    np.testing.assert_allclose(compiled("t", method, *point, df), expected, rtol=1e-12)


def test_logarithms_keep_the_digits_of_small_tails():
    for name, method, args in [
        ("geom", "logsf", (1000.0, 0.9)),
        ("laplace", "logcdf", (800.0,)),
        ("truncnorm", "logsf", (100.0, -1e-5, np.inf)),
        ("truncnorm", "logcdf", (-1000.0, -np.inf, 1e-5)),
        ("truncnorm", "logcdf", (1.0, -0.5, 1.5)),
        ("truncnorm", "cdf", (-1e300, -np.inf, 0.0)),
        ("truncnorm", "sf", (1e300, -40.0, np.inf)),
    ]:
        expected = getattr(getattr(scipy.stats, name), method)(*args)
        np.testing.assert_allclose(compiled(name, method, *args), expected, rtol=1e-12, err_msg=f"{name}.{method}")
    assert compiled("laplace", "logsf", 800.0) == -800 - np.log(2)
    np.testing.assert_allclose(compiled("poisson", "logcdf", 30.0, 1.0), -scipy.stats.poisson.sf(30, 1.0), rtol=1e-12)


@pytest.mark.parametrize("name, shapes", [("rayleigh", ()), ("skewnorm", (0.0,)), ("gamma", (2.0,)), ("f", F)])
def test_no_density_at_infinity(name, shapes):
    assert compiled(name, "logpdf", np.inf, *shapes) == -np.inf and compiled(name, "pdf", np.inf, *shapes) == 0


def test_a_variance_too_large_for_a_number_is_infinite():
    assert compiled("weibull_min", "var", 0.001) == np.inf and compiled("weibull_max", "std", 0.001) == np.inf


@pytest.mark.parametrize("method", ["cdf", "logsf", "logpdf"])
def test_f_of_infinite_degrees_of_freedom_is_nan_as_in_scipy(method):
    assert np.isnan(compiled("f", method, 1.5, 2.0, np.inf)) and np.isnan(compiled("f", method, 1.5, np.inf, 2.0))


@pytest.mark.parametrize(
    ("low", "high", "mean", "variance", "slope"),
    [
        (0.0, 1e-8, 5e-9, 1e-16 / 12, 0.5),
        (5.0, 5 + 2.0**-20, 5 + 2.0**-21, 2.0**-40 / 12, 0.5),
        (30.0, 31.0, 30.033259667433622, 0.0011037715118352822, 0.9988962284865168),
    ],
)
def test_moments_of_a_normal_number_between_near_bounds_keep_their_digits(low, high, mean, variance, slope):
    between = scipy.stats.truncnorm
    found = ws.jit(lambda a: (between.mean(a, high), between.var(a, high), between.cdf((a + high) / 2, a, high)))(low)
    np.testing.assert_allclose(found[:2], (mean, variance), rtol=1e-6)
    assert high - low > 0.1 or abs(found[2] - 0.5) < 1e-5
    np.testing.assert_allclose(ws.grad(lambda a: between.mean(a, high))(low), slope, rtol=1e-5)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 100.0, 1e5])
def test_probabilities_of_the_generalized_normal_near_its_centre(beta):
    spread = scipy.stats.gennorm
    height = beta / (2 * scipy.special.gamma(1 / beta))
    for x in (0.0, 1e-40):
        assert ws.jit(lambda x: spread.cdf(x, beta))(x) == 0.5
        np.testing.assert_allclose(ws.grad(lambda x: spread.cdf(x, beta))(x), height, rtol=1e-12)
    np.testing.assert_allclose(ws.grad(lambda q: spread.ppf(q, beta))(0.5), 1 / height, rtol=1e-12)
    np.testing.assert_allclose(ws.jit(lambda q: spread.ppf(spread.cdf(q, beta), beta))(0.25), 0.25, rtol=1e-12)
    if beta > 1000:
        np.testing.assert_allclose(
            ws.jit(lambda x: spread.cdf(x, beta))(np.array([-0.5, 0.5])), [0.25, 0.75], rtol=1e-5
        )
