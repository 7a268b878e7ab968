"""Roots, fixed points and fits beside SciPy's, their derivatives beside closed forms, JAX and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize as theirs

import wholestep as ws
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.scipy import optimize as ours

RNG = np.random.default_rng(21)
T = np.linspace(0.0, 2.0, 9)
NOISY = 1.7 * np.exp(-1.3 * T) + 0.1 * RNG.normal(size=9)


def wave(x, a):
    return np.cos(x) - a * x**3


SCALARS = {
    "brentq": lambda f, a, module: module.brentq(f, 0.0, 2.0, args=(a,)),
    "bisect": lambda f, a, module: module.bisect(f, 2.0, 0.0, args=a),
    "newton": lambda f, a, module: module.newton(f, 1.0, args=(a,), tol=1e-13),
    "bracket": lambda f, a, module: module.root_scalar(f, args=(a,), bracket=(0.0, 2.0)).root,
    "root_scalar": lambda f, a, module: module.root_scalar(f, args=(a,), method="bisect", bracket=(0, 2)).root,
    "x0": lambda f, a, module: module.newton(f, 1, args=(a,), tol=1e-13, full_output=True)[0],
    "del2": lambda f, a, module: module.fixed_point(lambda x: x + f(x, a) / 4, 0.8, xtol=1e-13),
    "iteration": lambda f, a, module: module.fixed_point(
        lambda x, a: x + f(x, a) / 4, 0.8, (a,), 1e-14, method="iteration"
    ),
    "root": lambda f, a, module: module.root(lambda x: np.array([f(x[0], a)]), 1.0, tol=1e-12).x[0],
    "least_squares": lambda f, a, module: module.least_squares(f, 1.0, xtol=1e-14, ftol=None, gtol=None, args=(a,)).x[
        0
    ],
}


@pytest.mark.parametrize("name", SCALARS)
def test_roots_of_one_number(name):
    find = SCALARS[name]

    def theirs_found(a):
        return find(wave, a, theirs)

    def ours_found(a):
        return find(wave, a, ours)

    for a in (0.3, 1.0, 4.0):
        expected = theirs.brentq(wave, 0.0, 2.0, args=(a,), xtol=1e-15)
        np.testing.assert_allclose([ours_found(a), ws.jit(theirs_found)(a)], expected, rtol=4e-12)
        slope = expected**3 / (-np.sin(expected) - 3 * a * expected**2)
        for transform in (ws.grad, ws.jacfwd, lambda f: ws.jit(ws.grad(f))):
            np.testing.assert_allclose(transform(theirs_found)(a), slope, rtol=1e-10)
    both = np.array([0.3, 4.0])
    np.testing.assert_allclose(ws.vmap(ws.grad(theirs_found))(both), [ws.grad(ours_found)(a) for a in both], rtol=1e-10)
    bend = (ws.grad(ours_found)(1.0001) - ws.grad(ours_found)(0.9999)) / 2e-4
    np.testing.assert_allclose(ws.hessian(theirs_found)(1.0), bend, rtol=1e-5)


@pytest.mark.parametrize("search", [ours.brentq, ours.bisect])
def test_the_search_in_a_bracket(search):
    """Roots at an end, flat ones, roots at a jump; the number of steps is SciPy's, or one less, without the last."""
    outside = getattr(theirs, search.__name__)
    functions = [
        lambda x: x - 1.0,
        lambda x: np.exp(3 * x) - 5,
        lambda x: (x - 0.3) ** 3,
        lambda x: np.where(x < 0.7, -1.0, 2.0),
        lambda x: x**3 - 2 * x - 5,
        lambda x: 1 / (x - 0.61),
    ]
    for f in functions:
        for a, b in ((-1.0, 2.5), (2.5, -1.0)):
            if f(a) * f(b) > 0:
                continue
            expected, told = outside(f, a, b, full_output=True, disp=False)
            found, how = search(f, a, b, full_output=True)
            if not told.converged:
                assert np.isnan(found) and not how.converged and how.iterations == 100
                continue
            np.testing.assert_allclose(found, expected, atol=4e-12)
            assert how.converged and how.iterations in (told.iterations, told.iterations - 1)
    for a, b in ((1.0, 3.0), (-1.0, 1.0)):
        assert search(functions[0], a, b) == 1.0
    assert np.isnan(search(functions[1], -1.0, 2.5, maxiter=2))
    assert search(functions[4], np.float32(2), np.float32(3)).dtype == np.float32


def test_signs_at_the_ends():
    with pytest.raises(ParameterError, match=r"brentq: f.a. and f.b. must have different signs"):
        ws.grad(lambda a: ours.brentq(lambda x: x**2 + a, -1.0, 1.0))(1.0)
    assert np.isnan(ws.jit(lambda a: ours.brentq(lambda x: x**2 + a, -1.0, 1.0))(1.0))


def test_newtons_method_takes_each_element_by_itself():
    a = np.array([2.0, 9.0, 30.0])
    slope = {"fprime": lambda x, a: 3 * x**2}
    for more in ({}, slope):
        cubes = lambda a, more=more: theirs.newton(lambda x, a: x**3 - a, np.ones(3) * 2, args=(a,), tol=1e-13, **more)  # noqa: E731
        np.testing.assert_allclose(ws.jit(cubes)(a), np.cbrt(a), rtol=1e-12)
        np.testing.assert_allclose(ws.jacrev(cubes)(a), np.diag(np.cbrt(a) / (3 * a)), rtol=1e-10, atol=1e-14)
    assert np.isnan(ours.newton(lambda x: x**2 + 1, 0.7))


def system(x, a):
    return [x[0] * np.exp(-x[1]) - a[0], x[0] ** 2 + x[1] ** 2 + np.sin(x[2]) - 4, x[2] + x[1] - a[1]]


@pytest.mark.parametrize("start", [np.ones(3), np.array([1.0, 0.5, -1.0]), np.array([1, 1, 2])])
def test_systems(start):
    a = np.array([0.9, 0.4])
    expected = theirs.root(system, start, (a,), tol=1e-13)
    found = ours.root(system, start, (a,), tol=1e-13)
    assert expected.success and found.success and found.status == 1
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-10)
    np.testing.assert_allclose(found.fun, 0, atol=1e-12)
    place = lambda a: theirs.root(system, start, (a,), tol=1e-13).x  # noqa: E731
    np.testing.assert_allclose(ws.jit(place)(a), expected.x, rtol=1e-10)
    differences = [(place(a + 1e-5 * e) - place(a - 1e-5 * e)) / 2e-5 for e in np.eye(2)]
    for transform in (ws.jacrev, ws.jacfwd):
        np.testing.assert_allclose(transform(place)(a), np.transpose(differences), rtol=1e-6)


def test_a_place_that_is_no_root():
    found = ours.root(lambda x: x**2 + 1.0, np.array([0.7]))
    assert not found.success and found.status == 5
    assert ours.root(lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), np.array([-1.2, 1.0])).success


def decay(t, size, rate):
    return size * np.exp(-rate * t)


def test_fits():
    start, tight = np.array([1.0, 1.0]), {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    expected = theirs.least_squares(lambda p: decay(T, *p) - NOISY, start, **tight)
    found = ours.least_squares(lambda p: decay(T, *p) - NOISY, start, **tight)
    assert found.success and found.nfev < 3 * expected.nfev
    for name in ("x", "fun", "cost", "jac"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-8)
    place = lambda y: theirs.least_squares(lambda p: decay(T, *p) - y, start, **tight).x  # noqa: E731
    with jax.enable_x64(True):
        slope = jax.grad(lambda p, y: jnp.sum((p[0] * jnp.exp(-p[1] * T) - y) ** 2))
        bend, mixed = [jax.jacobian(slope, argnums=i)(jnp.asarray(found.x), NOISY) for i in (0, 1)]
        wanted = -np.linalg.solve(bend, mixed)
    for transform in (ws.jacrev, ws.jacfwd, lambda f: ws.jit(ws.jacrev(f))):
        np.testing.assert_allclose(transform(place)(NOISY), wanted, rtol=1e-7)


@pytest.mark.parametrize("sigma", [None, np.linspace(0.5, 2.0, 9), np.eye(9) + 0.2], ids=["none", "vector", "matrix"])
@pytest.mark.parametrize("absolute", [False, True])
def test_curves_that_are_fitted(sigma, absolute):
    def fitted(y):
        return theirs.curve_fit(decay, T, y, sigma=sigma, absolute_sigma=absolute, xtol=1e-13, ftol=1e-13, gtol=1e-13)

    for found in (ours.curve_fit(decay, T, NOISY, None, sigma, absolute), ws.jit(fitted)(NOISY)):
        for a, b in zip(found, fitted(NOISY), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    numeric = [(fitted(NOISY + 1e-3 * e)[0] - fitted(NOISY - 1e-3 * e)[0]) / 2e-3 for e in np.eye(9)]
    np.testing.assert_allclose(ws.jacrev(lambda y: fitted(y)[0])(NOISY), np.transpose(numeric), rtol=1e-4, atol=1e-5)


X = np.ones(2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ours.brentq(lambda x: x * X, -1.0, 2.0), ShapeError, r"brentq: the function gives f64\[2\] for f64"),
        (lambda: ours.brentq(lambda x: x, X, 2.0), ShapeError, "brentq: a is f64.2., not a real number"),
        (lambda: ours.newton(lambda x: x, 1.0, fprime2=abs), UnsupportedError, "newton: fprime2= is not covered"),
        (lambda: ours.newton(lambda x: x, 1j), DtypeError, "newton: x0 is c128"),
        (lambda: ours.root_scalar(lambda x: x, method="halley", x0=1.0), UnsupportedError, "the method 'halley'"),
        (lambda: ours.root_scalar(lambda x: x), ParameterError, "newton takes an x0"),
        (lambda: ours.root_scalar(lambda x: x, method="brentq"), ParameterError, "brentq takes a bracket"),
        (lambda: ours.fixed_point(np.cos, 1.0, method="slow"), ParameterError, "fixed_point: the method is 'slow'"),
        (lambda: ours.root(lambda x: x, X, method="krylov"), UnsupportedError, "root: the method 'krylov'"),
        (lambda: ours.root(lambda x: x, X, jac=True), UnsupportedError, "root: jac=True is not covered"),
        (lambda: ours.root(lambda x: x, X, options={"eps": 1}), UnsupportedError, "the option 'eps' is not covered"),
        (lambda: ours.root(lambda x: x[:1], X), ShapeError, r"root: the function gives f64\[1\] for f64\[2\]"),
        (lambda: ours.root(lambda x: x, np.ones((2, 2))), ShapeError, "the unknowns are a vector"),
        (lambda: ours.least_squares(lambda x: x, X, bounds=(0, 1)), UnsupportedError, "least_squares: bounds="),
        (lambda: ours.least_squares(lambda x: x, X, loss="huber"), UnsupportedError, "loss='huber' is not covered"),
        (lambda: ours.least_squares(lambda x: x, X, los="linear"), TypeError, "unexpected keyword argument 'los'"),
        (lambda: ours.curve_fit(lambda *a: a[0], T, T), ParameterError, "does not say how many parameters"),
        (lambda: ours.curve_fit(decay, T, T, full_output=True), UnsupportedError, "full_output=True is not covered"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
