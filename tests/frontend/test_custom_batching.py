"""Custom batching rules: `vmap` of a function with one, in every order of transforms."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import DtypeError, ShapeError, TreeError, UnsupportedError

RNG = np.random.default_rng(0)
A, X, STACK = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=(4, 2, 3))
SEEN = []


def plain(a, x):
    return np.sin(a @ x)


stated = ws.custom_vmap(plain)


@stated.def_vmap
def rows(axis_size, in_batched, a, x):
    SEEN.append((axis_size, in_batched))
    if in_batched == [False, True]:
        return np.sin(x @ a.T), True
    a = a if in_batched[0] else np.broadcast_to(a, (axis_size, *a.shape))
    x = x if in_batched[1] else np.broadcast_to(x, (axis_size, *x.shape))
    return np.sin(np.einsum("nij,nj->ni", a, x)), True


CASES = {"x": ((None, 0), (A, X)), "both": ((0, 0), (STACK, X)), "a": ((0, None), (STACK, X[0]))}


def squared(f):
    return lambda a, x: np.sum(f(a, x) ** 2)


def looped(f):
    return lambda a, x: ws.scan(lambda c, _: (c + np.sum(f(a * c, x)), None), 1.0, length=3)[0]


TRANSFORMS = {
    "as it is": lambda f: f,
    "jit": lambda f: ws.jit(f),
    "grad": lambda f: ws.grad(squared(f), (0, 1)),
    "jit of grad": lambda f: ws.jit(ws.grad(squared(f), (0, 1))),
    "jacfwd": lambda f: ws.jacfwd(f, (0, 1)),
    "hessian": lambda f: ws.hessian(squared(f), (0, 1)),
    "jvp": lambda f: lambda a, x: ws.jvp(f, (a, x), (a, x)),
    "scan": looped,
    "grad of scan": lambda f: ws.grad(looped(f), (0, 1)),
    "checkpoint": lambda f: ws.grad(lambda a, x: np.sum(ws.checkpoint(f)(a, x) ** 2), (0, 1)),
}


def alike(found, expected):
    for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_vmap_of_a_transform(name, case):
    (axes, args), transform = CASES[case], TRANSFORMS[name]
    SEEN.clear()
    alike(ws.vmap(transform(stated), in_axes=axes)(*args), ws.vmap(transform(plain), in_axes=axes)(*args))
    assert SEEN


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_of_vmap(name, case):
    (axes, args), transform = CASES[case], TRANSFORMS[name]
    SEEN.clear()
    alike(transform(ws.vmap(stated, in_axes=axes))(*args), transform(ws.vmap(plain, in_axes=axes))(*args))
    assert SEEN[0] == (4, [axis == 0 for axis in axes])


def test_a_batch_of_batches():
    twice = lambda f: ws.vmap(ws.vmap(f, in_axes=(None, 0)), in_axes=(0, None))  # noqa: E731
    alike(twice(stated)(STACK, X), twice(plain)(STACK, X))


def test_without_a_batch_it_is_the_function():
    alike(stated(A, X[0]), plain(A, X[0]))
    alike(ws.grad(squared(stated))(A, X[0]), ws.grad(squared(plain))(A, X[0]))
    assert "custom_vmap" in str(ws.trace(stated)(A, X[0]))


def test_trees_and_plain_values_go_through_the_rule():
    @ws.custom_vmap
    def f(given, how):
        return {"sum": given["x"] + given["y"], "kept": given["y"] * 2.0}

    @f.def_vmap
    def _(axis_size, in_batched, given, how):
        assert axis_size == 4 and how == "plain"
        assert in_batched == [{"x": True, "y": False}, False]
        return {"sum": given["x"] + given["y"], "kept": given["y"] * 2.0}, {"sum": True, "kept": False}

    found = ws.vmap(lambda x: f({"x": x, "y": 3.0}, "plain"))(np.arange(4.0))
    alike(found, {"sum": np.arange(4.0) + 3, "kept": np.full(4, 6.0)})


def test_a_compiled_step_takes_the_rule():
    def loss(w, batch):
        return np.mean(ws.vmap(stated, in_axes=(None, 0))(w, batch) ** 2)

    SEEN.clear()
    step = ws.compile(loss, A, optimizer=ws.optim.sgd(0.1), batch=X)
    np.testing.assert_allclose(step(X).loss, np.mean(np.sin(X @ A.T) ** 2))
    assert SEEN


@pytest.mark.parametrize(
    ("rule", "error", "text"),
    [
        (lambda n, on, x: x, TreeError, "returns \\(out, out_batched\\)"),
        (lambda n, on, x: ((x, x), True), TreeError, "and the function"),
        (lambda n, on, x: (x[0], True), ShapeError, "f64 for a result f64\\[4\\] that carries the batch"),
        (lambda n, on, x: (x, False), ShapeError, "without the batch"),
        (lambda n, on, x: (x.astype(np.float32), True), DtypeError, "f32\\[4\\] for a result f64\\[4\\]"),
        (lambda n, on, x: (x, 1), TreeError, "says True or False"),
        (None, UnsupportedError, "custom_vmap without a rule"),
    ],
)
def test_a_rule_that_does_not_fit(rule, error, text):
    f = ws.custom_vmap(lambda x: x * 2.0)
    if rule is not None:
        f.def_vmap(rule)
    with pytest.raises(error, match=text):
        ws.vmap(f)(np.arange(4.0))


def test_a_batch_that_the_rule_is_not_given():
    def f(w, x):
        inner = ws.custom_vmap(lambda x: x * w)
        inner.def_vmap(lambda n, on, x: (x * w, True))
        return inner(x)

    alike(ws.vmap(f, in_axes=(None, 0))(2.0, np.arange(3.0)), 2 * np.arange(3.0))
    with pytest.raises(UnsupportedError, match="closes over a traced array"):
        ws.vmap(f)(np.arange(3.0), np.arange(3.0))
