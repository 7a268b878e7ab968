"""The minimum by BFGS: beside SciPy's and JAX's, its derivative beside the implicit function theorem by JAX."""

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np
import pytest
import scipy.optimize

import wholestep as ws
from wholestep.errors import DtypeError, NonScalarError, ShapeError, UnsupportedError
from wholestep.scipy.line_search import LinePlace, wolfe_step
from wholestep.scipy.optimize import Search, minimize

RNG = np.random.default_rng(0)
A = np.array([0.3, -0.8, 1.2])


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


def rosenbrock(xp=np):
    return lambda x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(xp=np):
    return lambda x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(xp=np):
    return lambda x: 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def eggholder(xp=np):
    def f(x):
        far, near = xp.sqrt(xp.abs(x[0] / 2 + x[1] + 47)), xp.sqrt(xp.abs(x[0] - x[1] - 47))
        return -(x[1] + 47) * xp.sin(far) - x[0] * xp.sin(near)

    return f


CASES = [
    (rosenbrock, np.zeros(2)),
    (rosenbrock, np.array([-1.2, 1.0])),
    (rosenbrock, RNG.normal(size=8)),
    (himmelblau, np.zeros(2)),
    (himmelblau, np.array([1.0, -3.0])),
    (matyas, np.array([9.0, -7.0])),
    (eggholder, np.full(2, 100.0)),
]


@pytest.mark.parametrize(("f", "start"), CASES)
def test_minima_are_those_of_scipy(f, start):
    tight = {"tol": 1e-8}
    wanted = scipy.optimize.minimize(f(), start, jac=ws.grad(f()), method="BFGS", **tight)
    found = minimize(f(), start, method="BFGS", **tight)
    assert found.success and found.status == 0 and found.nit <= 1.2 * wanted.nit and found.nfev <= 2 * wanted.nfev
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-6)
    np.testing.assert_allclose(found.fun, wanted.fun, atol=1e-12)
    np.testing.assert_allclose(found.jac, 0, atol=1e-8)
    compiled = ws.jit(lambda x: minimize(f(), x, **tight))(start)
    np.testing.assert_allclose(compiled.x, found.x, atol=1e-7)


@pytest.mark.parametrize(("f", "start"), CASES[-2:])
def test_minima_are_those_of_jax(f, start):
    found = minimize(f(), start)
    wanted = jax.scipy.optimize.minimize(f(jnp), start, method="BFGS")
    assert wanted.success and found._fields == wanted._fields
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-5)
    np.testing.assert_allclose(found.fun, wanted.fun, atol=1e-9)


def test_the_inverse_hessian_of_a_quadratic_function():
    bent = np.diag([1.0, 3.0, 10.0]) + 0.5
    found = minimize(lambda x: x @ bent @ x / 2 - np.sum(x), np.ones(3), tol=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.solve(bent, np.ones(3)), rtol=1e-9)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(bent), atol=1e-3)


def bowl(x, a, xp):
    return xp.sum(xp.cosh(x - a)) + 0.3 * xp.sum(x) ** 2 + 0.1 * xp.sin(a[0] * x[1])


def lowest(a):
    return minimize(lambda x: bowl(x, a, np), np.zeros(3), tol=1e-11).x


def implicit(x, a):
    """The Jacobian of the minimum in a, by the implicit function theorem."""
    slope = jax.grad(lambda x, a: bowl(x, a, jnp))
    return np.asarray(-jnp.linalg.solve(jax.jacobian(slope)(x, a), jax.jacobian(slope, argnums=1)(x, a)))


def test_the_derivative_of_the_place():
    wanted = implicit(lowest(A), A)
    for transform in (ws.jacrev, ws.jacfwd, lambda f: ws.jit(ws.jacrev(f))):
        np.testing.assert_allclose(transform(lowest)(A), wanted, atol=1e-9)
    both = np.stack([A, 2 * A])
    slopes = np.stack([implicit(lowest(a), a).sum(0) for a in both])
    np.testing.assert_allclose(ws.vmap(lowest)(both), [lowest(a) for a in both], atol=1e-10)
    np.testing.assert_allclose(ws.vmap(ws.grad(lambda a: lowest(a).sum()))(both), slopes, atol=1e-9)
    np.testing.assert_allclose(ws.grad(lambda a: ws.vmap(lowest)(a).sum())(both), slopes, atol=1e-9)
    first, step = ws.grad(lambda a: lowest(a)[0]), 1e-4
    bends = np.stack([(first(A + step * e) - first(A - step * e)) / (2 * step) for e in np.eye(3)])
    np.testing.assert_allclose(ws.hessian(lambda a: lowest(a)[0])(A), bends, atol=1e-6)


def test_the_derivative_of_the_minimum():
    """By the envelope theorem it is the derivative of the function in its other arguments, at the minimum."""

    def least(a):
        return minimize(lambda x: bowl(x, a, np), np.zeros(3), tol=1e-11).fun

    wanted = jax.grad(lambda x, a: bowl(x, a, jnp), argnums=1)(lowest(A), A)
    np.testing.assert_allclose(ws.grad(least)(A), wanted, atol=1e-9)


def test_calls_of_scipy_are_answered():
    def least(a, start):
        found = scipy.optimize.minimize(lambda x, a: np.sum((x - a) ** 2) + np.exp(x[0]), start, args=(a,), tol=1e-9)
        return found.fun

    plain = least(A, A)
    np.testing.assert_allclose(ws.jit(least)(A, A), plain, rtol=1e-9)
    slope = ws.grad(least)(A, A)
    step = 1e-5
    numeric = [(least(A + step * e, A) - least(A - step * e, A)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(slope, numeric, atol=1e-6)


def test_the_derivative_may_be_given():
    f, slope = (lambda x, a: np.sum((x - a) ** 2)), (lambda x, a: 2 * (x - a))
    np.testing.assert_allclose(minimize(f, np.zeros(3), (A,), jac=slope).x, A, atol=1e-6)
    found = minimize(lambda x, a: (f(x, a), slope(x, a)), np.zeros(3), A, jac=True)
    np.testing.assert_allclose(found.x, A, atol=1e-6)
    pulled = ws.grad(lambda a: minimize(f, np.zeros(3), (a,), jac=slope).x @ A)(A)
    np.testing.assert_allclose(pulled, A, rtol=1e-9)


def test_a_start_has_no_derivative_and_keeps_its_dtype():
    assert not ws.grad(lambda x: minimize(matyas(), x).x.sum())(np.ones(2)).any()
    found = minimize(rosenbrock(), np.zeros(2, np.float32), tol=1e-3)
    assert found.x.dtype == found.jac.dtype == found.hess_inv.dtype == np.float32 and found.success
    assert minimize(matyas(), np.ones(2, int)).x.dtype == np.float64


@pytest.mark.parametrize(
    ("f", "start", "options", "status"),
    [
        (rosenbrock(), np.zeros(2), {"maxiter": 0}, 1),
        (rosenbrock(), np.zeros(2), {"maxiter": 3}, 1),
        (rosenbrock(), np.ones(2), {"maxiter": 0}, 0),
        (lambda x: np.sum(x), np.zeros(2), {"maxiter": 20}, 1),
        (lambda x: np.sum(np.abs(x)), np.array([0.3, 0.7]), {}, 2),
        (lambda x: np.sum(x) / 0.0 * 0.0, np.ones(2), {}, 3),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered")
def test_how_a_search_ends(f, start, options, status):
    found = minimize(f, start, options=options)
    assert found.status == status and found.success == (status == 0)
    assert found.nit == options.get("maxiter", found.nit) or status == 0


def test_a_step_keeps_the_wolfe_conditions():
    """The search begins with a trial that is far too short, far too long, or where the function is NaN."""

    def smooth(x):
        return np.sum(x**2) + np.sum(np.exp(-x))

    def walled(x):
        return np.sum(x - np.log(x))

    search = Search()
    for f, begin in ((smooth, np.array([3.0, -2.0])), (walled, np.array([5.0, 0.5]))):
        for first in (1e-4, 1.0, 300.0):

            def step(first, f=f, begin=begin):
                slope_at = ws.value_and_grad(f)
                value, slope = slope_at(begin)
                start = LinePlace(0 * first, value, slope @ -slope, slope)
                return wolfe_step(slope_at, begin, start, -slope, first, search), start

            with np.errstate(all="ignore"):
                (found, count), start = ws.jit(step)(first)
            assert 0 < found.at and count < search.line_search_maxiter
            assert found.value <= start.value + search.c1 * found.at * start.slope
            assert abs(found.slope) <= search.c2 * abs(start.slope)
            np.testing.assert_allclose(found.value, f(begin - found.at * ws.grad(f)(begin)), rtol=1e-12)


def square(x):
    return np.sum(x**2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: minimize(square, A, method="Newton-CG"), UnsupportedError, "the method 'Newton-CG' is not covered"),
        (lambda: minimize(square, A, bounds=[(0, 1)]), UnsupportedError, "minimize: bounds= is not covered"),
        (lambda: minimize(square, A, options={"disp": True}), UnsupportedError, "the option 'disp' is not covered"),
        (lambda: minimize(square, np.ones((2, 2))), ShapeError, r"x0 is f64\[2, 2\], and the unknowns are a vector"),
        (lambda: minimize(square, 1j * A), DtypeError, "x0 is c128"),
        (lambda: minimize(lambda x: x, A), NonScalarError, "not a scalar"),
        (lambda: minimize(square, A, jac=lambda x: x[:1]), ShapeError, "its derivative is f64"),
        (
            lambda: ws.grad(lambda a: minimize(lambda x: (x[0] + x[1] - a) ** 2, A).x.sum())(1.0),
            np.linalg.LinAlgError,
            "Singular",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_name_of_scipy_is_answered_where_the_function_closes_over_traced_values():
    def lowest(a, solve):
        return np.sum(solve(lambda x: np.sum((x - a) ** 4 + x**2), np.zeros(3), method="BFGS", tol=1e-9).x ** 2)

    expected = ws.grad(lambda a: lowest(a, minimize))(A)
    np.testing.assert_array_equal(ws.grad(lambda a: lowest(a, scipy.optimize.minimize))(A), expected)


class Cubic:
    """A function of x with a root that its attribute decides."""

    def __init__(self, a):
        self.a = a

    def __call__(self, x):
        return x**3 - self.a

    def at(self, x):
        return self(x)


def default(a):
    def f(x, a=a):
        return x**3 - a

    return f


def keyword(a):
    def f(x, *, a=a):
        return x**3 - a

    return f


def closed(a):
    f = Cubic(a)
    return lambda x: f(x)


@pytest.mark.parametrize("made", [Cubic, lambda a: Cubic(a).at, default, keyword, closed])
def test_the_name_of_scipy_is_answered_where_a_default_or_an_object_holds_traced_values(made):
    slope = ws.grad(lambda a: scipy.optimize.brentq(made(a), 0.0, 5.0))(8.0)
    np.testing.assert_allclose(slope, 1 / 12, rtol=1e-12)
