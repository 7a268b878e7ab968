"""grad, vjp, jvp and linearize as callers rely on them: trees, auxiliary results, types, unused arguments."""

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import scipy.special

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.backends.reference import interpret
from wholestep.errors import DerivativeError, ParameterError

X = np.array([0.5, -1.0, 2.0])


class Pair(NamedTuple):
    a: Any
    b: Any


def test_gradient_has_the_structure_of_the_argument():
    params = {"w": X, "more": [2.0, Pair(np.ones((2, 2)), (np.float32(1.0),))], "none": None, "empty": {}}
    loss = lambda p: (p["w"] ** 2).sum() * p["more"][0] + p["more"][1].a.sum() * p["more"][1].b[0]  # noqa: E731
    value, g = ws.value_and_grad(loss)(params)
    assert value == 2.0 * (X**2).sum() + 4.0
    np.testing.assert_array_equal(g["w"], 4.0 * X)
    assert isinstance(g["more"][1], Pair) and g["none"] is None and g["empty"] == {}
    assert g["more"][0] == (X**2).sum() and isinstance(g["more"][0], np.float64)
    assert g["more"][1].b[0].dtype == np.float32


def test_argnums_and_keywords():
    f = lambda x, y, *, scale: (x * y).sum() * scale  # noqa: E731
    gx, gy = ws.grad(f, argnums=(0, 1))(X, 2 * X, scale=3.0)
    np.testing.assert_array_equal(gx, 6 * X)
    np.testing.assert_array_equal(gy, 3 * X)
    np.testing.assert_array_equal(ws.grad(f, argnums=-1)(X, 2 * X, scale=3.0), 3 * X)
    assert isinstance(ws.grad(f, argnums=[0])(X, X, scale=1.0), tuple)
    with pytest.raises(ws.errors.DerivativeError):
        ws.grad(f, argnums=2)(X, X, scale=1.0)


def test_auxiliary_results():
    def f(x):
        y = x * 2.0
        return y.sum(), {"y": y, "n": 3, "text": "as it is"}

    (value, aux), g = ws.value_and_grad(f, has_aux=True)(X)
    assert value == 2 * X.sum() and aux["n"] == 3 and aux["text"] == "as it is"
    np.testing.assert_array_equal(aux["y"], 2 * X)
    assert type(aux["y"]) is np.ndarray
    g2, aux2 = ws.grad(f, has_aux=True)(X)
    np.testing.assert_array_equal(g, g2)
    np.testing.assert_array_equal(aux2["y"], 2 * X)


def test_types_of_results():
    assert isinstance(ws.grad(np.sin)(0.5), np.float64)
    assert isinstance(ws.grad(np.sin)(np.float32(0.5)), np.float32)
    assert type(ws.grad(lambda x: x.sum())(np.array(0.5))) is np.ndarray
    assert ws.grad(lambda x: x.sum())(X.astype(np.float32)).dtype == np.float32
    assert isinstance(ws.value_and_grad(lambda x: x.sum())(X)[0], np.float64)
    for name in (np.float16, ml_dtypes.bfloat16):
        x = X.astype(name)
        value, g = ws.value_and_grad(lambda x: (x * x).sum())(x)
        assert g.dtype == x.dtype and value.dtype == x.dtype
        np.testing.assert_array_equal(g.astype(np.float32), (2 * x).astype(np.float32))


def test_unused_and_constant():
    np.testing.assert_array_equal(ws.grad(lambda x, y: (x * 2).sum(), argnums=1)(X, X), 0 * X)
    assert ws.grad(lambda x: 3.0)(1.0) == 0.0
    assert ws.value_and_grad(lambda t: 3.0)(()) == (3.0, ())


def test_complex_gradients():
    z = np.array([1 + 2j, -0.5j])
    np.testing.assert_allclose(ws.grad(lambda z: (abs(z) ** 2).sum())(z), 2 * z)
    np.testing.assert_allclose(ws.grad(lambda z: (z * z).real.sum())(z), 2 * z.conj())
    np.testing.assert_allclose(ws.grad(lambda z: (z**3).sum(), holomorphic=True)(z), 3 * z**2)
    np.testing.assert_allclose(ws.grad(lambda x: (x * 1j * z).imag.sum())(np.array([1.0, 2.0])), z.real)


def test_vjp():
    def f(x, p):
        return {"y": x * p["k"], "n": np.argmax(x)}, [x.sum()]

    out, pullback = ws.vjp(f, X, {"k": 3.0})
    np.testing.assert_array_equal(out[0]["y"], 3 * X)
    for scale in (1.0, 2.0):
        gx, gp = pullback(({"y": scale * np.ones(3), "n": 0}, [1.0]))
        np.testing.assert_array_equal(gx, 3 * scale + np.ones(3))
        assert gp["k"] == scale * X.sum()
    with pytest.raises(ws.errors.TreeError):
        pullback(np.ones(3))


def test_pullback_takes_traced_cotangents_and_outlives_its_trace():
    _, pullback = ws.vjp(np.sin, X)
    weighted = lambda w: (pullback(w)[0] ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(ws.grad(weighted)(X), 2 * X * np.cos(X) ** 2)
    np.testing.assert_allclose(ws.jit(weighted)(X), (X**2 * np.cos(X) ** 2).sum())
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(ws.vmap(lambda g: pullback(g)[0])(rows), rows * np.cos(X))
    assert ws.jit(lambda x: ws.vjp(np.sin, x)[1](x)[0])(0.0) == 0.0


def test_jvp_and_linearize():
    f = lambda x, y: (x * y, x.sum())  # noqa: E731
    out, tangent = ws.jvp(f, (X, 2.0), (np.ones(3), 1.0))
    np.testing.assert_array_equal(out[0], 2 * X)
    np.testing.assert_array_equal(tangent[0], 2 + X)
    assert tangent[1] == 3.0
    calls = []
    out, push = ws.linearize(lambda x: calls.append(1) or np.exp(x), X)
    np.testing.assert_allclose(push(X), np.exp(X) * X)
    np.testing.assert_allclose(push(2 * X), np.exp(X) * 2 * X)
    assert calls == [1]
    with pytest.raises(TypeError):
        ws.jvp(np.sin, 0.5, 1.0)
    with pytest.raises(ws.errors.ShapeError):
        ws.jvp(np.sin, (X,), (np.ones(4),))
    _, nothing = ws.jvp(lambda x: 2.0, (X,), (X,))
    assert nothing == 0.0


def test_jacobians():
    f = lambda x, k: {"a": x * k, "b": (x**2).sum()}  # noqa: E731
    for jacobian in (ws.jacrev, ws.jacfwd, ws.jacobian):
        made = jacobian(f, argnums=(0, 1))(X, 3.0)
        np.testing.assert_allclose(made["a"][0], 3 * np.eye(3))
        np.testing.assert_allclose(made["a"][1], X)
        np.testing.assert_allclose(made["b"][0], 2 * X)
        assert made["b"][1] == 0.0
    assert ws.hessian(lambda p: p["x"] ** 2 * p["y"])({"x": 2.0, "y": 3.0})["x"]["y"] == 4.0
    np.testing.assert_allclose(ws.elementwise_grad(np.tanh)(X), 1 - np.tanh(X) ** 2)
    assert ws.jacrev(lambda x: x[:0])(X).shape == (0, 3)
    with pytest.raises(ws.errors.DtypeError):
        ws.jacrev(np.argmax)(X)


def test_arguments_are_never_written():
    x, y = X.copy(), X.copy()

    def f(a, b):
        a *= 2.0
        a[0] = 5.0
        b[1] = 7.0
        return (a * b).sum()

    for transform in (ws.grad(f), ws.jit(f), ws.grad(f, argnums=1), lambda a, b: ws.jvp(f, (a, b), (a, b))):
        transform(x, y)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, X)
    np.testing.assert_allclose(ws.grad(f)(x, y), [0.0, 14.0, 4.0])


def test_results_share_no_memory_with_arguments():
    _, g = ws.value_and_grad(lambda x: (x * 1.0).sum())(X)
    kept = ws.jit(lambda x: x)(X)
    assert not np.shares_memory(kept, X) and kept.flags.writeable and g.flags.writeable
    out, _ = ws.vjp(lambda x: x, X)
    assert not np.shares_memory(out, X)
    _, tangent = ws.jvp(lambda x: x, (X,), (X,))
    assert not np.shares_memory(tangent, X)


def test_a_closed_over_array_counts_as_it_was_when_used():
    table = np.array([1.0, 2.0, 3.0])

    def f(x):
        first = (x * table).sum()
        table[:] = 100.0
        second = (x * table).sum()
        table[:] = [1.0, 2.0, 3.0]
        return first * second

    expected = table * (X * 100.0).sum() + 100.0 * (X * table).sum()
    np.testing.assert_allclose(ws.grad(f)(X), expected)


def test_zero_size_and_scalars():
    empty = np.zeros((0, 3))
    assert ws.grad(lambda x: (x @ np.ones((3, 2))).sum())(empty).shape == (0, 3)
    assert ws.grad(lambda x: x.sum() + x.prod())(np.zeros((2, 0))).shape == (2, 0)
    assert ws.vmap(np.sin)(np.zeros((0,))).shape == (0,)


def test_python_numbers_stay_weak():
    x = np.ones(3, np.float32)
    assert ws.jit(lambda k: (k * 2 + 1) * x)(3.0).dtype == np.float32
    assert ws.jit(lambda k: np.multiply(k, 2.0) * x)(3.0).dtype == np.float64
    assert ws.jit(lambda k: k * x)(np.float64(3.0)).dtype == np.float64
    assert isinstance(ws.grad(lambda k: (k * x).sum())(3.0), np.float64)


def test_values_refuse_to_become_plain():
    for convert in (float, complex, np.asarray, memoryview, lambda x: x.item(), lambda x: x.tolist(), bytes):
        with pytest.raises(TypeError):
            ws.grad(lambda x, c=convert: c(x) or x, rewrite=False)(1.0)
    for convert in (memoryview, lambda x: x.item(), lambda x: x.tolist(), bytes):
        with pytest.raises(TypeError):
            ws.grad(lambda x, c=convert: c(x) or x)(1.0)
    # Eager values have a truth value and, as integers, are indices.
    assert ws.grad(lambda x: x * 2 if x > 0 else x)(1.0) == 2.0
    assert ws.jvp(lambda x: x[np.argmax(x)], (X,), (np.ones(3),))[1] == 1.0
    assert ws.grad(lambda x: [x, x * 3][int(x > 0)])(1.0) == 3.0


def test_unknown_array_likes_may_wrap_ours():
    class Labelled:
        __array_ufunc__ = None

        def __rmul__(self, other):
            return "wrapped"

    assert ws.grad(lambda x: x if x * Labelled() == "wrapped" else None)(1.0) == 1.0


def test_arrays_are_recognised():
    seen = []
    ws.grad(lambda x: seen.append(isinstance(x, wnp.ndarray)) or x.sum())(X)
    assert seen == [True] and isinstance(X, wnp.ndarray)


def test_nothing_is_computed_of_what_has_no_elements():
    """NumPy would warn of the logarithm of a negative base, although there is no element to compute."""
    base, exponent = np.array([-2.0, -3.0]), np.ones((2, 0))
    found = ws.grad(lambda y: np.sum(np.power(np.broadcast_to(base[:, None], (2, 0)), y)))(exponent)
    assert found.shape == (2, 0)
    traced = ws.trace(ws.grad(lambda x, y: np.sum(np.power(np.broadcast_to(x[:, None], (2, 0)), y)), argnums=1))
    (out,) = interpret(traced(base, exponent), [base, exponent])
    assert out.shape == (2, 0)


def test_an_index_of_more_axes_than_numpy_adds_at():
    """NumPy's own `add.at` crashes for an index of 40 axes."""
    index = np.full((1,) * 40, 2)
    np.testing.assert_array_equal(ws.grad(lambda x: np.sum(x[index]))(np.zeros(4)), [0, 0, 1, 0])
    assert ws.grad(lambda x: np.sum(x[np.zeros((0, 2), int)]))(np.zeros((3, 0))).shape == (3, 0)


def test_gradcheck_knows_two_modes_and_names_them():
    with pytest.raises(ParameterError, match="gradcheck: modes has 'forward'; the modes are 'fwd' and 'rev'"):
        ws.gradcheck(np.sin, X, modes=("forward",))
    ws.gradcheck(np.sin, X, order=1, modes="fwd")


@pytest.mark.parametrize("wrong", [{"order": 0}, {"order": 3}, {"eps": 0.0}])
def test_gradcheck_that_would_check_nothing_is_refused(wrong):
    with pytest.raises(ParameterError, match="order is 1 or 2, and eps more than 0"):
        ws.gradcheck(np.sin, X, **wrong)


@pytest.mark.parametrize("transform", [ws.grad, ws.jacrev, ws.jacfwd])
def test_argnums_name_each_argument_once(transform):
    with pytest.raises(DerivativeError, match="names an argument twice"):
        transform(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0)
    assert transform(lambda x, y: x * y, argnums=np.int64(1))(3.0, 2.0) == 3.0


def test_gradcheck_takes_ordinary_numpy():
    ws.gradcheck(lambda x: np.sum(np.array([x[0] ** 2, math.sin(x[1])])), np.array([0.3, -1.2]))


@pytest.mark.parametrize("f", [np.fmax, np.fmin])
def test_a_number_beside_a_nan_has_the_whole_derivative(f):
    x, y = np.array([1.0, np.nan, 2.0, 3.0]), np.array([np.nan, 1.0, 2.0, np.nan])
    for transform in (ws.grad, ws.jacfwd):
        slopes = transform(lambda x, y: np.sum(f(x, y)), argnums=(0, 1))(x, y)
        assert [s.tolist() for s in slopes] == [[1.0, 0.0, 0.5, 1.0], [0.0, 1.0, 0.5, 0.0]]


def test_the_slope_of_the_huber_loss_is_bounded_at_infinity_too():
    x = np.array([np.inf, -np.inf, 5.0, 0.5])
    for transform in (ws.grad, ws.jacfwd):
        assert transform(lambda x: np.sum(scipy.special.huber(2.0, x)))(x).tolist() == [2.0, -2.0, 2.0, 0.5]
