"""Transforms of transforms, in every order: each nest gives the value of its definition."""

import itertools

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.ir.build import current

RNG = np.random.default_rng(0)
X = RNG.normal(size=4)
W = RNG.normal(size=(4, 4)) / 2


def scanned(x):
    def step(c, row):
        c = np.tanh(c * row[0] + x)
        return c, (c * c).sum()

    carry, ys = ws.scan(ws.checkpoint(step), np.zeros(4), W)
    return carry.sum() + ys.sum()


def assigned(x):
    y = x * 1.5
    y[1:3] *= x[0]
    view = y[::-1]
    view[0] = np.sin(x[2])
    y[[0, 1]] += x[3] ** 2
    return (y * y).sum()


@ws.custom_vjp
def stated(x):
    return np.sin(x) * x


stated.defvjp(lambda x: (np.sin(x) * x, x), lambda x, g: (g * (np.cos(x) * x + np.sin(x)),))


@ws.custom_jvp
def stated_forward(x):
    return np.exp(x) * x


stated_forward.defjvp(lambda p, t: (stated_forward(p[0]), t[0] * (np.exp(p[0]) * (1 + p[0]))))

FUNCTIONS = {
    "dense": lambda x: np.tanh(W @ np.tanh(W @ x)).sum(),
    "scan of checkpoint": scanned,
    "assignment": assigned,
    "cond": lambda x: ws.cond(x[0] < 5, lambda x: np.sin(x).sum(), lambda x: x.prod(), x),
    "custom_vjp": lambda x: (stated(x) * x).sum(),
    "custom_jvp": lambda x: (stated_forward(x) ** 2).sum(),
    "composite": lambda x: ws.composite(lambda y: np.log1p(np.exp(y)), name="softplus")(x).prod(),
    "fori_loop": lambda x: ws.fori_loop(0, 3, lambda i, y: np.sin(y) + i * x, x).sum(),
    "sorted": lambda x: (np.sort(x) * np.arange(4.0)).sum() ** 2,
    "jit inside": lambda x: ws.jit(lambda y: (np.exp(-y) * y).sum())(x),
}


def differences(f, x, h=1e-3):
    """Fourth-order central differences of a function of one vector, stacked on a last axis."""
    weights = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
    columns = [sum(w * np.asarray(f(x + k * h * e)) for k, w in weights.items()) / h for e in np.eye(len(x))]
    return np.stack(columns, -1)


@pytest.fixture(params=FUNCTIONS)
def f(request):
    return FUNCTIONS[request.param]


def close(a, b, rtol=1e-7):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 10)


def test_gradient(f):
    close(ws.grad(f)(X), differences(f, X))


def test_every_second_derivative_is_the_hessian(f):
    expected = differences(ws.grad(f), X)
    ways = {
        "fwd over rev": ws.jacfwd(ws.grad(f)),
        "rev over rev": ws.jacrev(ws.grad(f)),
        "rev over fwd": ws.jacrev(ws.jacfwd(f)),
        "fwd over fwd": ws.jacfwd(ws.jacfwd(f)),
        "hessian": ws.hessian(f),
        "jit of hessian": ws.jit(ws.hessian(f)),
        "hessian of jit": ws.hessian(ws.jit(f)),
    }
    for name, way in ways.items():
        np.testing.assert_allclose(way(X), expected, rtol=1e-6, atol=1e-6, err_msg=name)
    close(ws.hvp(f, (X,), (W[0],)), expected @ W[0], 1e-6)


def test_third_order(f):
    direction = W[1]
    along = lambda x: ws.jvp(ws.grad(f), (x,), (direction,))[1]  # noqa: E731
    close(ws.jacrev(along)(X), differences(along, X), 1e-6)
    close(ws.jacfwd(along)(X), differences(along, X), 1e-6)


def test_vmap_is_a_loop_around_every_derivative(f):
    batch = RNG.normal(size=(3, 4))
    for transform in (lambda g: g, ws.grad, ws.hessian, lambda g: ws.jit(ws.grad(g))):
        whole = transform(f)
        close(ws.vmap(whole)(batch), np.stack([whole(x) for x in batch]), 1e-10)


def test_grad_of_vmap(f):
    batch = RNG.normal(size=(3, 4))
    total = lambda xs: (ws.vmap(f)(xs) ** 2).sum()  # noqa: E731
    close(ws.grad(total)(batch), np.stack([2 * f(x) * ws.grad(f)(x) for x in batch]), 1e-10)


def test_vmap_of_grad_of_vmap(f):
    batch = RNG.normal(size=(2, 3, 4))
    total = lambda xs: ws.vmap(f)(xs).sum()  # noqa: E731
    expected = np.stack([[ws.grad(f)(x) for x in rows] for rows in batch])
    close(ws.vmap(ws.grad(total))(batch), expected, 1e-10)
    close(ws.vmap(ws.grad(total), in_axes=1, out_axes=1)(batch), expected, 1e-10)


WRAPPERS = {
    "grad": lambda f: lambda x: ws.grad(f)(x).sum(),
    "jvp": lambda f: lambda x: ws.jvp(f, (x,), (np.ones(4),))[1],
    "vmap": lambda f: lambda x: ws.vmap(f)(np.stack([x, 2 * x])).sum(),
    "jit": lambda f: ws.jit(f),
    "checkpoint": lambda f: ws.checkpoint(f),
    "contractions kept": lambda f: ws.checkpoint(f, policy="contractions"),
    "linearize": lambda f: lambda x: ws.linearize(f, x)[1](x * x),
    "scan": lambda f: lambda x: ws.scan(lambda c, k: (c + f(x * k), None), 0.0, np.array([1.0, 0.5]))[0],
}


@pytest.mark.parametrize("names", list(itertools.product(WRAPPERS, repeat=2)), ids="-".join)
@pytest.mark.parametrize("inner", ["dense", "assignment"])
def test_gradient_of_every_pair_of_transforms(names, inner):
    f = FUNCTIONS[inner]
    for name in names:
        f = WRAPPERS[name](f)
    np.testing.assert_allclose(ws.grad(f)(X), differences(f, X), rtol=1e-6, atol=1e-6)


def test_perturbations_are_not_confused():
    assert ws.grad(lambda x: x * ws.grad(lambda y: x + y)(x))(3.0) == 1.0
    assert ws.grad(lambda x: x * ws.jvp(lambda y: x * y, (2.0,), (1.0,))[1])(3.0) == 6.0


def test_a_gradient_stops_where_it_is_told():
    value, gradients = ws.frontier_grad(
        lambda x: (ws.capture("b", np.sin(ws.capture("a", x * 2.0))) ** 2).sum(), stop=["a", "b"]
    )(X)
    close(gradients["b"], 2 * np.sin(2 * X))
    assert value == pytest.approx((np.sin(2 * X) ** 2).sum())
    # The reverse pass stops at b, so that a, which comes before b, gets zeros.
    close(gradients["a"], np.zeros(4))


def test_every_intermediate_has_a_gradient():
    _, gradient, records = ws.trace_gradients(lambda x: np.exp(np.sin(x)).sum())(X)
    by_name = {r.operation: r for r in records}
    close(by_name["sin"].gradient, np.exp(np.sin(X)))
    close(by_name["exp"].gradient, np.ones(4))
    close(gradient, np.exp(np.sin(X)) * np.cos(X))
    assert "test_nesting.py" in by_name["sin"].line


def test_values_are_attached_outside_jit():
    def newton(a):
        x = a
        while abs(x * x - a) > 1e-12:
            x = (x + a / x) / 2
        return x

    close(ws.grad(newton)(2.0), 0.5 / np.sqrt(2.0))
    close(ws.grad(ws.grad(newton))(2.0), -0.25 * 2.0**-1.5)


def test_user_exceptions_pass_through():
    class Mine(Exception):
        pass

    def f(x):
        raise Mine("as it is")

    for transform in (ws.grad, ws.jit, ws.vmap, ws.jacfwd):
        with pytest.raises(Mine, match="as it is"):
            transform(f)(X)


def test_errors_leave_no_trace_behind():
    with pytest.raises(ValueError):
        ws.grad(lambda x: (x @ np.ones((3, 3))).sum())(X)
    assert current() is None
    close(ws.grad(lambda x: (x**2).sum())(X), 2 * X)


def test_vmap_of_grad_in_an_argument_that_is_shared():
    f = lambda w, row: np.sum(np.tanh(row @ w) ** 3)  # noqa: E731
    rows = RNG.normal(size=(3, 4))
    for transform in (ws.grad, ws.hessian, ws.jacrev):
        expected = np.stack([transform(f)(X, row) for row in rows])
        close(ws.vmap(transform(f), in_axes=(None, 0))(X, rows), expected, 1e-12)


def test_the_size_of_a_batch_may_be_stated():
    """As `jax.vmap(axis_size=)`: a function may have no mapped operand."""
    close(ws.vmap(lambda: np.sin(1.0), axis_size=2)(), np.full(2, np.sin(1.0)), 0)
    shared = ws.vmap(lambda x: x * ws.axis_index("i"), in_axes=None, axis_name="i", axis_size=3)
    close(shared(X), np.stack([0 * X, X, 2 * X]), 0)
    close(ws.grad(lambda x: shared(x).sum())(X), np.full_like(X, 3.0), 0)
    close(ws.jit(ws.vmap(shared, axis_size=2))(np.stack([X, X]))[1], shared(X), 0)
    total = ws.vmap(lambda x: ws.psum(x, "i"), None, 0, "i", np.int64(4))
    close(total(2.0), np.full(4, 8.0), 0)
    assert ws.vmap(lambda x: x, in_axes=None, axis_size=0)(X).shape == (0, *X.shape)
    n = ws.Dim("n")
    wide = ws.trace(lambda x: ws.vmap(lambda: 2.0, axis_size=x.shape[0])())(ws.ShapeDtype((n,), "f64"))
    assert str(wide.out_types[0]) == "f64[n]"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ws.vmap(np.sin, axis_size=2)(np.ones(3)), ShapeError, "axis_size is 2, and the arguments have .* 3"),
        (lambda: ws.vmap(np.sin, in_axes=None)(np.ones(3)), TreeError, "no argument is mapped"),
        (lambda: ws.vmap(np.sin, axis_size=2.0), DtypeError, "axis_size is 2.0, not an integer"),
        (lambda: ws.vmap(np.sin, axis_size=True), DtypeError, "axis_size is True, not an integer"),
        (lambda: ws.vmap(np.sin, axis_size=-1), ParameterError, "axis_size is -1"),
        (lambda: ws.vmap(np.sin, out_axes="0"), TreeError, "out_axes is '0', and says by a number or None"),
        (lambda: ws.vmap(np.sin, out_axes=(0, 0))(np.ones(3)), TreeError, "out_axes does not fit the results"),
    ],
)
def test_a_stated_size_and_axes_fit(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_axes_may_be_integers_of_numpy():
    assert ws.vmap(np.sum, in_axes=np.int64(1), out_axes=np.int32(-1))(np.ones((2, 3))).tolist() == [2.0, 2.0, 2.0]
