"""`map` by batches and `associative_scan` beside plain loops, and beside JAX's."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import AxisError, ParameterError, ShapeError, TreeError

RNG = np.random.default_rng(3)


def affine(a, b):
    """Two maps x -> w x + c, the first one first: associative, and not commutative."""
    return {"w": a["w"] * b["w"], "c": a["c"] * b["w"] + b["c"]}


def one_by_one(xs, order):
    """The prefix results of rows in a given order, each at the position of its last row."""
    rows = [tree.map(lambda x, i=i: x[i], xs) for i in order]
    made = rows[:1]
    for row in rows[1:]:
        made.append(affine(made[-1], row))
    places = np.argsort(order)
    return tree.map(lambda *ys: np.stack(ys)[places], *made)


def close(found, wanted, rtol=1e-12):
    assert tree.structure(found) == tree.structure(wanted)
    for a, b in zip(tree.leaves(found), tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("n", [*range(1, 18), 64, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_is_the_loop(n, reverse):
    xs = {"w": RNG.normal(size=(n, 2)), "c": RNG.normal(size=(n, 2))}

    def ours(xs):
        return ws.associative_scan(affine, xs, reverse=reverse)

    wanted = one_by_one(xs, range(n - 1, -1, -1) if reverse else range(n))
    close(ours(xs), wanted)
    close(ws.jit(ours)(xs), wanted)
    if n in (1, 2, 7, 8):
        ws.gradcheck(lambda w, c: ours({"w": w, "c": c})["c"].sum(), xs["w"], xs["c"])


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
@pytest.mark.parametrize(("axis", "reverse"), [(0, True), (1, False), (-1, True), (-2, False)])
def test_an_associative_scan_is_that_of_jax(n, axis, reverse):
    jax = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    shape = [2, 3]
    shape.insert(axis if axis >= 0 else 3 + axis, n)
    x = RNG.normal(size=shape).astype(np.float32)
    wanted = jax.lax.associative_scan(jax.numpy.minimum, x, axis=axis % 3, reverse=reverse)
    np.testing.assert_array_equal(ws.associative_scan(np.minimum, x, axis=axis, reverse=reverse), wanted)


def test_an_associative_scan_of_nothing_and_of_flags():
    assert ws.associative_scan(np.add, np.zeros((0, 3))).shape == (0, 3)
    flags = np.array([False, True, False, False])
    found = ws.jit(lambda x: ws.associative_scan(lambda a, b: a | b, x))(flags)
    assert found.dtype == bool and found.tolist() == [False, True, True, True]


def test_an_associative_scan_is_batched_by_vmap():
    x = RNG.normal(size=(4, 6))
    found = ws.vmap(lambda row: ws.associative_scan(np.multiply, row))(x)
    np.testing.assert_allclose(found, np.cumprod(x, axis=1))


@pytest.mark.parametrize("n", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("size", [None, 1, 2, 3, 20])
def test_a_map_is_the_loop(n, size):
    xs = {"a": RNG.normal(size=(n, 3)), "b": RNG.normal(size=n)}

    def f(row):
        return np.tanh(row["a"]).sum() * row["b"], {"more": row["a"][::-1]}

    def ours(xs):
        return ws.map(f, xs, batch_size=size)

    rows = [f(tree.map(lambda x, i=i: x[i], xs)) for i in range(n)]
    wanted = tree.map(lambda *ys: np.stack(ys), *rows)
    close(ours(xs), wanted)
    close(ws.jit(ours)(xs), wanted)
    gradient = ws.grad(lambda xs: ours(xs)[0].sum())(xs)
    close(gradient, ws.grad(lambda xs: ws.vmap(f)(xs)[0].sum())(xs))


def test_a_map_by_batches_takes_the_memory_of_a_batch():
    x = np.ones((512, 200), np.float32)
    w = np.ones((200, 400), np.float32)

    def largest(size):
        f = ws.jit(lambda x, w: ws.map(lambda row: np.sum(np.outer(row, row @ w)), x, batch_size=size))
        return max(v.type.size for node in f.lower(x, w).nodes for v in node.outputs)

    assert largest(8) <= x.size < 200 * 400 * 512


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ws.map(np.sum, X, batch_size=0), ParameterError, "batch_size"),
        (lambda: ws.map(np.sum, (X, X[:2]), batch_size=2), ShapeError, "map: lengths differ"),
        (lambda: ws.map(np.sum, 1.0, batch_size=2), ShapeError, "map: xs holds a f64"),
        (lambda: ws.map(np.sum, (), batch_size=2), TreeError, "map: xs holds no arrays"),
        (lambda: ws.associative_scan(np.add, X, axis=2), AxisError, "associative_scan: axis 2"),
        (lambda: ws.associative_scan(np.add, ()), TreeError, "associative_scan: xs holds no arrays"),
        (lambda: ws.associative_scan(lambda a, b: (a, b), X), TreeError, "the function returns"),
        (lambda: ws.associative_scan(lambda a, b: a.sum(0), X), ShapeError, "the function turns"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


X = np.ones((4, 3))
