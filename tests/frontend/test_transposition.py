"""Transposes of linear functions, and functions whose closures have become arguments."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import DerivativeError, DtypeError, ShapeError, TreeError, ValueDependentError

RNG = np.random.default_rng(0)
A, X, V = RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=3)


def assigned(x):
    y = np.zeros((4, 3))
    y[1] = x @ A
    y[2, 1:] = np.cumsum(x)[:2] * np.sin(2.0)
    y[[0, 3], [1, 1]] += x[0]
    return y


LINEAR = {
    "product": lambda x: x @ A,
    "assignment": assigned,
    "choice": lambda x: np.where(np.arange(3) > 0, x, 0.0) - x / 3.0,
    "fori_loop": lambda x: ws.fori_loop(0, 4, lambda i, c: c * i + x, x),
    "scan": lambda x: ws.scan(lambda c, a: (c @ A + a * c + x, c * 2.0), np.zeros(3), A),
    "cond": lambda x: ws.jit(lambda k: ws.cond(k > 0, lambda x: x * 3.0, lambda x: x[::-1], x))(1.0),
    "fourier": lambda x: np.fft.rfft(x),
    "solve": lambda x: np.linalg.solve(A, x),
    "checkpoint": lambda x: ws.checkpoint(lambda x: x * 2.0)(x),
    "composite": lambda x: ws.composite(lambda x: x + x[::-1], name="both ends")(x),
    "convolve": lambda x: np.convolve(x, A[0]),
    "sum and nothing": lambda x: {"sum": x.sum(), "nothing": np.zeros(2)},
    "gather": lambda x: x[np.array([2, 0, 2])],
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_transpose_is_the_pullback(name):
    f = LINEAR[name]
    out, pullback = ws.vjp(f, X)
    draw = lambda y: RNG.normal(size=y.shape) + (1j * RNG.normal(size=y.shape) if np.iscomplexobj(y) else 0.0)  # noqa: E731
    y = tree.map(draw, out)
    transpose = ws.linear_transpose(f, ws.ShapeDtype(3))
    np.testing.assert_allclose(transpose(y)[0], pullback(y)[0], rtol=1e-12)
    np.testing.assert_allclose(ws.jit(lambda y: transpose(y)[0])(y), pullback(y)[0], rtol=1e-12)
    inner = sum(np.sum((np.conj(a) * b).real) for a, b in zip(tree.leaves(f(V)), tree.leaves(y), strict=True))
    np.testing.assert_allclose(inner, V @ transpose(y)[0])


def test_what_it_closes_over_is_differentiated():
    def f(w):
        return np.sum(ws.linear_transpose(lambda x: w * (x @ A), X)(V)[0] ** 2)

    plain = lambda w: np.sum((A @ (w * V)) ** 2)  # noqa: E731
    np.testing.assert_allclose(ws.grad(f)(X), ws.grad(plain)(X))
    np.testing.assert_allclose(ws.jit(ws.grad(f))(X), ws.grad(plain)(X))
    np.testing.assert_allclose(ws.vmap(ws.grad(f))(A), ws.vmap(ws.grad(plain))(A))
    np.testing.assert_allclose(ws.hessian(f)(X), ws.hessian(plain)(X), atol=1e-12)


def test_the_transpose_is_linear_itself():
    transpose = ws.linear_transpose(lambda x: x @ A, X)
    assert isinstance(ws.linear_transpose(lambda x: 2 * x, 1.0)(3.0)[0], np.float64)
    np.testing.assert_allclose(ws.vmap(lambda y: transpose(y)[0])(A), A @ A.T)
    np.testing.assert_allclose(ws.linear_transpose(lambda y: transpose(y)[0], X)(V)[0], V @ A)
    np.testing.assert_allclose(ws.jacrev(lambda y: transpose(y)[0])(V), A, atol=1e-12)


def test_several_arguments_and_trees():
    f = lambda a, b: {"s": a["x"] + 2.0 * b, "x": a["x"][:1]}  # noqa: E731
    a, b = ws.linear_transpose(f, {"x": X}, ws.ShapeDtype((3,), "f32"))({"s": V, "x": np.ones(1)})
    np.testing.assert_allclose(a["x"], V + np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(b, 2 * V, rtol=1e-6)
    assert b.dtype == np.float32


def test_complex_numbers_are_conjugated():
    z = X + 1j * V
    np.testing.assert_allclose(ws.linear_transpose(lambda x: x * z, z)(z)[0], z * np.conj(z))
    np.testing.assert_allclose(ws.linear_transpose(lambda x: x.real, z)(V)[0], V + 0j)


NOT_LINEAR = {
    "sin": (lambda x: np.sin(x), "sin is not linear"),
    "affine": (lambda x: x + 1.0, "add takes what does not depend on them"),
    "square": (lambda x: x * x, "mul multiplies two values"),
    "quotient": (lambda x: 1.0 / x, "div is not linear"),
    "remainder": (lambda x: x % 2.0, "remainder is not linear"),
    "rounding": (lambda x: np.floor(x), "floor is not linear"),
    "comparison": (lambda x: np.where(x > 0, x, 0.0), "less is not linear"),
    "constant": (lambda x: np.ones(3), "does not depend on the arguments"),
    "stop_gradient": (lambda x: ws.stop_gradient(x), "stop_gradient is not linear"),
    "carry": (lambda x: ws.scan(lambda c, _: (x, None), np.ones(3), length=2)[0], "scan gives what depends on them"),
    "loop": (lambda x: ws.while_loop(lambda c: c[0] < 0, lambda c: c * 2.0, x), "while_loop runs until"),
    "inside": (lambda x: ws.checkpoint(lambda x: np.exp(x))(x), "exp is not linear"),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_not_linear_is_an_error_at_its_line(name):
    f, text = NOT_LINEAR[name]
    with pytest.raises(DerivativeError, match=text) as caught:
        ws.linear_transpose(f, X)
    assert "test_transposition.py" in str(caught.value) and "ws.vjp" in str(caught.value)


def test_arguments_that_do_not_fit():
    with pytest.raises(DtypeError, match="x is i64"):
        ws.linear_transpose(lambda x: x, 1)
    with pytest.raises(DtypeError, match="x is a str"):
        ws.linear_transpose(lambda x: x, "one")
    with pytest.raises(DtypeError, match="a result is bool"):
        ws.linear_transpose(lambda x: np.ones(3) > 0, X)
    with pytest.raises(ShapeError, match=r"expected f64\[3\]"):
        ws.linear_transpose(lambda x: 2 * x, X)(np.ones(2))
    with pytest.raises(ValueDependentError):
        ws.linear_transpose(lambda x: x if x[0] > 0 else -x, X)


@ws.custom_vjp
def applied(g, x, closed):
    return g(x, *closed)


def forward(g, x, closed):
    return ws.vjp(g, x, *closed)


applied.defvjp(forward, lambda pull, y: (None, pull(y)[0], list(pull(y)[1:])))


def by_rule(w, x):
    factor = np.sin(w)
    g, closed = ws.closure_convert(lambda x: np.sum(factor * x**2) * w[0], x)
    assert len(closed) == 2
    return applied(g, x, closed)


def by_itself(w, x):
    return np.sum(np.sin(w) * x**2) * w[0]


TRANSFORMS = {
    "grad": lambda f: ws.grad(f, (0, 1)),
    "jit": lambda f: ws.jit(ws.grad(f, (0, 1))),
    "hessian": lambda f: ws.hessian(f, (0, 1)),
    "jvp": lambda f: lambda w, x: ws.jvp(f, (w, x), (x, w)),
    "vmap": lambda f: lambda w, x: ws.vmap(ws.grad(f))(np.stack([w, x]), np.stack([x, x])),
    "scan": lambda f: ws.grad(lambda w, x: ws.scan(lambda c, r: (c + f(w * c, r), None), 1.0, np.stack([x, x]))[0]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_rule_differentiates_what_a_function_closes_over(name):
    found, expected = TRANSFORMS[name](by_rule)(X, V), TRANSFORMS[name](by_itself)(X, V)
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_outside_of_transforms_nothing_is_closed_over():
    g, closed = ws.closure_convert(lambda x: x * V, X)
    assert closed == []
    np.testing.assert_array_equal(g(X), X * V)


def test_integers_stay_with_the_function():
    def f(w, k):
        g, closed = ws.closure_convert(lambda x: x * w + k, 1.0)
        assert len(closed) == 1
        return g(3.0, *closed)

    assert ws.jit(ws.grad(f))(2.0, 5) == 3.0
    assert ws.jit(f)(2.0, 5) == 11.0


def test_a_converted_function_takes_what_it_was_made_for():
    g, _ = ws.closure_convert(lambda x: x["a"] * 2.0, {"a": X})
    with pytest.raises(TreeError, match="closure_convert"):
        g(X)
    with pytest.raises(ShapeError, match="closure_convert"):
        g({"a": np.ones(2)})
    with pytest.raises(TreeError, match="1 arrays after the arguments"):
        g({"a": X}, X)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (lambda w: w[:1], ShapeError),
        (lambda w: w[None], ShapeError),
        (lambda w: 1.0, ShapeError),
        (lambda w: w + 0j, DtypeError),
        (lambda w: (w,), TreeError),
    ],
    ids=["shorter", "more axes", "a number", "complex", "a tuple"],
)
def test_a_converted_function_takes_arrays_like_those_it_closed_over(other, error):
    def f(w):
        g, closed = ws.closure_convert(lambda x: np.sum(w * x), X)
        return g(X, *[other(array) for array in closed])

    for run in (f, ws.jit(f)):
        with pytest.raises(error, match="closure_convert: expected"):
            ws.grad(run)(X)
