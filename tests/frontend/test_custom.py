"""Stated derivatives: residuals of any kind, both modes, batches, composites."""

import math

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import DerivativeError, DtypeError, ShapeError, TreeError
from wholestep.frontend.precision import autocast

X = np.array([0.5, -1.0, 2.0])


def test_residuals_may_be_any_tree():
    @ws.custom_vjp
    def f(x, table, scale):
        return {"y": np.sin(x * scale) + table["k"]}

    def fwd(x, table, scale):
        return {"y": np.sin(x * scale) + table["k"]}, {"x": x, "scale": (scale, "text", 7)}

    def bwd(kept, g):
        scale, text, number = kept["scale"]
        assert text == "text" and number == 7
        return g["y"] * np.cos(kept["x"] * scale) * scale, None, None

    f.defvjp(fwd, bwd)
    loss = lambda x: f(x, {"k": 2.0}, 3.0)["y"].sum()  # noqa: E731
    np.testing.assert_allclose(ws.grad(loss)(X), 3 * np.cos(3 * X))
    np.testing.assert_allclose(ws.jvp(loss, (X,), (X,))[1], (3 * np.cos(3 * X) * X).sum())
    np.testing.assert_allclose(ws.vmap(ws.grad(loss))(np.stack([X, 2 * X]))[1], 3 * np.cos(6 * X))
    np.testing.assert_allclose(ws.hessian(loss)(X), np.diag(-9 * np.sin(3 * X)), atol=1e-12)
    assert f(X, {"k": 2.0}, 3.0)["y"].shape == (3,)


def test_a_rule_may_itself_differentiate():
    """The last reverse pass of a gradient records no nodes except those that a rule differentiates."""

    @ws.custom_vjp
    def f(x):
        return np.sin(x) * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: ws.vjp(lambda v: np.sin(v) * v, x)[1](g))
    loss = lambda x: np.sum(f(x) ** 2)  # noqa: E731
    wanted = ws.grad(lambda x: np.sum((np.sin(x) * x) ** 2))(X)
    np.testing.assert_allclose(ws.grad(loss)(X), wanted)
    np.testing.assert_allclose(ws.jit(ws.grad(loss))(X), wanted)
    inner = ws.custom_vjp(lambda x: np.sum(x**3))
    inner.defvjp(lambda x: (np.sum(x**3), x), lambda x, g: (g * ws.grad(lambda v: np.sum(v**3))(x),))
    np.testing.assert_allclose(ws.grad(inner)(X), 3 * X**2)


def test_straight_through_in_both_modes():
    @ws.custom_vjp
    def hard(x):
        return np.rint(x)

    hard.defvjp(lambda x: (np.rint(x), None), lambda _, g: (g,))
    np.testing.assert_array_equal(ws.grad(lambda x: hard(x).sum())(X), np.ones(3))
    np.testing.assert_array_equal(ws.jvp(hard, (X,), (X,))[1], X)
    np.testing.assert_array_equal(ws.jacfwd(hard)(X), np.eye(3))


def test_shared_arguments_under_vmap_add_up():
    @ws.custom_vjp
    def product(x, w):
        return (x * w).sum()

    product.defvjp(lambda x, w: ((x * w).sum(), (x, w)), lambda r, g: (g * r[1], g * r[0]))
    rows = np.stack([X, 2 * X, 3 * X])
    total = lambda w: ws.vmap(product, in_axes=(0, None))(rows, w).sum()  # noqa: E731
    np.testing.assert_allclose(ws.grad(total)(X), rows.sum(0))
    by_loop = np.stack([ws.grad(product, argnums=1)(row, X) for row in rows])
    np.testing.assert_allclose(ws.vmap(ws.grad(product, argnums=1), in_axes=(0, None))(rows, X), by_loop)
    twice = ws.vmap(ws.vmap(product, in_axes=(0, None)), in_axes=(None, 0))
    np.testing.assert_allclose(ws.grad(lambda w: twice(rows, w).sum())(np.stack([X, X])), np.stack([rows.sum(0)] * 2))


def test_keyword_arguments_keep_their_gradient():
    @ws.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], g * r[0]))
    assert ws.grad(lambda y: f(2.0, y=y))(3.0) == 2.0


def test_custom_jvp_in_both_modes():
    @ws.custom_jvp
    def logsumexp(x):
        m = x.max()
        return m + np.log(np.exp(x - m).sum())

    @logsumexp.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        y = logsumexp(x)
        return y, (np.exp(x - y) * dx).sum()

    weights = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(ws.grad(logsumexp)(X), weights)
    np.testing.assert_allclose(ws.jvp(logsumexp, (X,), (X,))[1], (weights * X).sum())
    np.testing.assert_allclose(ws.hessian(logsumexp)(X), np.diag(weights) - np.outer(weights, weights), atol=1e-12)
    np.testing.assert_allclose(ws.vmap(ws.grad(logsumexp))(np.stack([X, X]))[1], weights)


def test_composite_with_a_declared_pullback():
    calls = []

    def softmax(x):
        e = np.exp(x - x.max())
        return e / e.sum()

    fused = ws.composite(softmax, name="softmax")

    @fused.defvjp
    def _(args, out, g):
        calls.append(1)
        return (out * (g - (out * g).sum()),)

    loss = lambda f: lambda x: (f(x) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(ws.grad(loss(fused))(X), ws.grad(loss(softmax))(X))
    assert calls
    np.testing.assert_allclose(ws.hessian(loss(fused))(X), ws.hessian(loss(softmax))(X), atol=1e-12)
    rows = np.stack([X, 2 * X])
    np.testing.assert_allclose(ws.vmap(ws.grad(loss(fused)))(rows)[1], ws.grad(loss(softmax))(2 * X))
    assert "composite(" in str(ws.trace(fused)(X)) and "label='softmax'" in str(ws.trace(fused)(X))


def test_a_rule_must_be_there():
    @ws.custom_vjp
    def f(x):
        return x

    with pytest.raises(ws.errors.DerivativeError, match="defvjp"):
        ws.grad(f)(1.0)
    assert f(1.0) == 1.0


def test_stop_gradient_and_capture():
    assert ws.grad(lambda x: x * ws.stop_gradient(x))(3.0) == 3.0
    np.testing.assert_array_equal(ws.hessian(lambda x: (x * ws.stop_gradient(x)).sum())(X), np.zeros((3, 3)))
    assert ws.stop_gradient({"a": 1})["a"] == 1
    assert ws.capture("h", 2.0) == 2.0


def test_values_stay_attached_inside_checkpoint_and_stated_rules():
    @ws.checkpoint
    def branching(x):
        return np.sin(x) if x > 0 else np.cos(x)

    assert ws.grad(branching)(1.0) == np.cos(1.0)
    assert ws.grad(branching)(-1.0) == np.sin(1.0)


@pytest.mark.parametrize("wrap", [ws.checkpoint, ws.composite, autocast])
def test_a_python_number_stays_weak_inside(wrap):
    single = np.ones(3, np.float32)
    f = wrap(lambda x, a: x * a)
    found = [f(single, 2.0), ws.jit(f)(single, 2.0), ws.jit(lambda x: f(x, 2.0))(single)]
    assert [x.dtype for x in found] == [np.float32] * 3


def test_one_rule_for_each_operand():
    """As `jax.custom_jvp.defjvps`: the tangent is the sum of the rules' results, and a rule None adds nothing."""

    @ws.custom_jvp
    def f(x, p, count):
        return {"a": np.sin(x) * p["y"], "b": count * p["y"] ** 2}

    f.defjvps(
        lambda dx, out, x, p, count: {"a": np.cos(x) * p["y"] * dx, "b": np.zeros_like(x)},
        lambda dp, out, x, p, count: {"a": np.sin(x) * dp["y"], "b": 2 * count * p["y"] * dp["y"]},
        None,
    )

    def loss(x, y):
        out = f(x, {"y": y}, 3)
        return np.sum(out["a"] ** 3) + np.sum(out["b"])

    def plain(x, y):
        return np.sum((np.sin(x) * y) ** 3) + np.sum(3 * y**2)

    y = np.array([0.3, 0.2, -1.0])
    for transform in (
        lambda f: ws.grad(f, (0, 1))(X, y),
        lambda f: ws.jit(ws.grad(f, (0, 1)))(X, y),
        lambda f: ws.jvp(f, (X, y), (y, X)),
        lambda f: ws.hessian(f, (0, 1))(X, y),
        lambda f: ws.vmap(ws.grad(f))(np.stack([X, y]), np.stack([y, y])),
        lambda f: ws.grad(lambda y: ws.vmap(f, in_axes=(0, None))(np.stack([X, 2 * X]), y).sum())(y),
    ):
        for found, wanted in zip(tree.leaves(transform(loss)), tree.leaves(transform(plain)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    f.defjvps(None, None, None)
    assert not ws.grad(loss)(X, y).any() and ws.jvp(loss, (X, y), (y, X))[1] == 0


def test_the_tangent_of_a_rule_fits_its_result():
    @ws.custom_jvp
    def f(x, y):
        return np.sin(x) * y

    def jvp():
        return ws.jvp(lambda x: f(x, X), (X,), (X,))

    for rule, error, words in (
        (lambda p, t: (f(*p), np.sum(t[0])), ShapeError, r"f: the rule gives a tangent f64 for a result f64\[3\]"),
        (lambda p, t: (f(*p), 1j * t[0]), DtypeError, r"f: the rule gives a tangent c128\[3\]"),
        (lambda p, t: (f(*p), (t[0], t[0])), TreeError, "f: the rule gives a tangent"),
        (lambda p, t: f(*p), TreeError, "returns \\(out, tangent\\)"),
    ):
        f.defjvp(rule)
        for transform in (jvp, lambda: ws.grad(lambda x: f(x, X).sum())(X)):
            with pytest.raises(error, match=words):
                transform()
    f.defjvps(lambda dx, out, x, y: dx * np.float32(2), None)
    assert jvp()[1].dtype == np.float64
    f.defjvps(None)
    with pytest.raises(TreeError, match="f: defjvps was given 1 rules for 2 operands"):
        jvp()


def test_rules_are_ordinary_code():
    """A rule is rewritten as the function is: arrays of traced values, `math`, and assignment into an array."""

    def slopes(x):
        out = np.zeros(3)
        out[1:] = 2 * x[1:]
        return out + np.array([math.cos(x[0]), 0.0, 0.0])

    def of(x):
        return math.sin(x[0]) + x[1] ** 2 + x[2] ** 2

    tangent, pullback, pair = ws.custom_jvp(of), ws.custom_vjp(of), ws.custom_gradient(lambda x: (of(x), pulled(x)))
    tangent.defjvp(lambda p, t: (of(*p), np.sum(slopes(*p) * t[0])))
    pullback.defvjp(lambda x: (of(x), x), lambda x, g: (g * slopes(x),))

    def pulled(x):
        return lambda g: g * slopes(x)

    declared = ws.composite(of, name="of")
    declared.defvjp(lambda args, out, g: (g * slopes(*args),))
    for f in (tangent, pullback, pair, declared):
        np.testing.assert_allclose(ws.grad(f)(X), [np.cos(0.5), -2.0, 4.0])


def test_a_function_that_returns_its_pullback():
    """As `jax.custom_gradient`; the pullback may read any value that the function has computed."""

    @ws.custom_gradient
    def f(x, p, scale):
        order = np.argsort(x)
        picked = np.sin(x[order])

        def pullback(g):
            gx = np.zeros(3)
            gx[order] = scale * np.cos(x[order]) * p["y"] * g["a"]
            return gx + 2 * x * g["b"], {"y": scale * picked * g["a"]}, None

        return {"a": scale * picked * p["y"], "b": x @ x}, pullback

    def loss(x, y):
        out = f(x, {"y": y}, 2)
        return np.sum(out["a"] ** 3) + out["b"] ** 2

    def plain(x, y):
        return np.sum((2 * np.sin(np.sort(x)) * y) ** 3) + (x @ x) ** 2

    y = np.array([0.3, 0.2, -1.0])
    assert f(X, {"y": y}, 2)["b"] == X @ X
    for transform in (
        lambda f: ws.grad(f, (0, 1))(X, y),
        lambda f: ws.jit(ws.grad(f, (0, 1)))(X, y),
        lambda f: ws.jvp(f, (X, y), (y, X)),
        lambda f: ws.hessian(f, (0, 1))(X, y),
        lambda f: ws.vmap(ws.grad(f))(np.stack([X, y]), np.stack([y, y])),
        lambda f: ws.grad(lambda y: ws.vmap(f, in_axes=(0, None))(np.stack([X, 2 * X]), y).sum())(y),
    ):
        for found, wanted in zip(tree.leaves(transform(loss)), tree.leaves(transform(plain)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_a_pullback_of_one_argument_gives_its_cotangent():
    whole = ws.custom_gradient(lambda p: (2 * p["x"], lambda g: {"x": 7 * g}))
    assert ws.grad(whole)({"x": 1.0}) == {"x": 7.0}
    in_a_tuple = ws.custom_gradient(lambda x: (2 * x, lambda g: (7 * g,)))
    assert ws.grad(in_a_tuple)(1.0) == 7.0
    decided = ws.custom_gradient(lambda x: (2 * x, lambda g: g if x > 0 else -g))
    assert ws.grad(decided)(-1.0) == -1.0
    with pytest.raises(TreeError, match="returns \\(out, pullback\\)"):
        ws.custom_gradient(lambda x: x)(1.0)
    with pytest.raises(TreeError, match="2 leaves where the argument has 1"):
        ws.grad(ws.custom_gradient(lambda x: (x, lambda g: (g, g))))(1.0)


def test_a_pullback_that_is_not_linear_states_no_tangent():
    @ws.custom_vjp
    def clipped(x):
        return x * 1.0

    clipped.defvjp(lambda x: (x * 1.0, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    square = lambda x: clipped(x) ** 2  # noqa: E731
    assert ws.grad(square)(3.0) == 1.0 and ws.grad(ws.grad(square))(0.1) == 1.0
    np.testing.assert_array_equal(ws.vmap(ws.grad(square))(np.array([0.1, 3.0])), [0.2, 1.0])
    point = np.array(0.1)
    pushes = (
        lambda x: ws.jvp(clipped, (x,), (x,)),
        lambda x: ws.jvp(ws.grad(square), (x,), (x,)),
        ws.jacfwd(clipped),
        ws.hessian(square),
    )
    for push in pushes:
        for call, x in ((push, point), (ws.jit(push), point), (ws.vmap(push), point[None])):
            with pytest.raises(DerivativeError, match="custom_vjp: the backward rule is not linear in its cotangent"):
                call(x)


def test_a_tangent_that_calls_its_own_linear_function_is_transposed_by_the_body():
    matrix = np.arange(9.0).reshape(3, 3)
    turned = ws.custom_jvp(lambda x: matrix @ x)
    again = ws.custom_jvp(lambda x: matrix @ x)
    turned.defjvp(lambda primals, tangents: (turned(*primals), again(*tangents)))
    again.defjvp(lambda primals, tangents: (again(*primals), turned(*tangents)))
    x = np.ones(3)
    wanted = 2 * matrix.T @ matrix
    loss = lambda x: np.sum(turned(x) ** 2)  # noqa: E731
    for gradient in (ws.grad(loss), ws.jit(ws.grad(loss)), ws.grad(ws.checkpoint(loss))):
        np.testing.assert_allclose(gradient(x), wanted @ x)
    np.testing.assert_allclose(ws.jacrev(ws.grad(loss))(x), wanted)
    np.testing.assert_allclose(ws.hessian(loss)(x), wanted)
    np.testing.assert_allclose(ws.vmap(ws.grad(loss))(np.ones((2, 3))), [wanted @ x] * 2)


def test_a_tangent_that_is_not_linear_states_no_pullback():
    sine = ws.custom_jvp(lambda x: np.sin(x))
    bent = ws.custom_jvp(lambda x: np.sin(x))
    sine.defjvp(lambda primals, tangents: (sine(*primals), np.cos(primals[0]) * sine(*tangents)))
    bent.defjvp(lambda primals, tangents: (bent(*primals), np.cos(primals[0]) * tangents[0] ** 2))
    for f in (sine, bent):
        for pull in (ws.grad(f), ws.jit(ws.grad(f)), ws.grad(ws.grad(f)), ws.jit(ws.grad(ws.grad(f)))):
            with pytest.raises(DerivativeError, match="custom_jvp: the rule is not linear in its tangents"):
                pull(1.0)
        with pytest.raises(DerivativeError, match="custom_jvp: the rule is not linear in its tangents"):
            ws.vmap(ws.grad(f))(np.ones(2))
