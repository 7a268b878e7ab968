"""Loops, branches and batches as callers rely on them."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ShapeError

X = np.array([0.5, -1.0, 2.0])


def test_scan_stacks_and_carries_trees():
    def step(carry, row):
        total, count = carry
        return (total + row["x"], count + 1), (total, row["y"] if row["y"] is not None else None)

    (total, count), (before, nothing) = ws.scan(step, (0.0, 0), {"x": X, "y": None})
    assert total == X.sum() and count == 3 and nothing is None
    np.testing.assert_allclose(before, [0.0, 0.5, -0.5])
    assert count.dtype == np.int64


def test_scan_lengths_and_directions():
    carry, ys = ws.scan(lambda c, _: (c * 2, c), 1.0, None, length=4)
    assert carry == 16.0 and ys.tolist() == [1.0, 2.0, 4.0, 8.0]
    carry, ys = ws.scan(lambda c, x: (c + x, c), 0.0, X, reverse=True)
    np.testing.assert_allclose(ys, [1.0, 2.0, 0.0])
    carry, ys = ws.scan(lambda c, x: (c + x, c), 0.0, np.zeros((0,)))
    assert carry == 0.0 and ys.shape == (0,)
    with pytest.raises(ws.errors.ShapeError):
        ws.scan(lambda c, x: (c, None), 0.0, (X, np.ones(4)))
    with pytest.raises(ws.errors.ShapeError):
        ws.scan(lambda c, x: (c, None), 0.0)


def test_scan_is_one_node_of_any_length():
    def f(x, n):
        return ws.scan(lambda c, _: (np.sin(c), None), x, None, length=n)[0]

    sizes = {len(ws.trace(ws.grad(lambda x, n=n: f(x, n)))(1.0).nodes) for n in (2, 2000)}
    assert len(sizes) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_number_that_a_loop_begins_with_promotes_as_in_a_loop_of_python(dtype):
    x = np.ones(3, dtype)

    def looped(x):
        return ws.scan(lambda c, row: ((c[0] + 1, c[1] + row, c[1]), row * c[0]), (0, 0, 0), x)

    def until(x):
        return ws.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x[c[0]] * c[0]), (0, 0))

    for run in (looped, ws.jit(looped)):
        (count, total, before), rows = run(x)
        assert (count, total, before) == (3, 3, 2) and count.dtype == np.int64
        assert total.dtype == before.dtype == rows.dtype == x.dtype
    for run in (until, ws.jit(until)):
        assert run(x) == (3, 3) and run(x)[1].dtype == x.dtype


def test_a_number_that_a_branch_returns_gives_way_to_the_arrays_of_the_others():
    def halves(x):
        return ws.cond(x.sum() > 0, lambda: x[0] / 2, lambda: 1), x * ws.cond(x.sum() > 0, lambda: 2, lambda: 3)

    for sign in (1, -1):
        x = np.full(3, sign, np.float32)
        half, many = ws.jit(halves)(x)
        assert half == (0.5 if sign > 0 else 1) and half.dtype == np.float32
        assert many.tolist() == (x * (2 if sign > 0 else 3)).tolist() and many.dtype == np.float32
    with pytest.raises(ws.errors.DtypeError, match=r"^cond: the branches return f32 and f64"):
        ws.jit(lambda x: ws.cond(x.sum() > 0, lambda: x[0], lambda: x[0].astype(float)))(x)


def test_cond_runs_one_branch():
    def f(x):
        return ws.cond(x.sum() > 0, lambda x: np.exp(x.sum()), lambda x: x.prod(), x)

    compiled = ws.jit(f)
    assert compiled(X) == np.exp(1.5) and compiled(-X) == 1.0
    np.testing.assert_allclose(ws.grad(compiled)(X), np.ones(3) * np.exp(1.5))
    rows = np.stack([X, -X])
    np.testing.assert_allclose(ws.vmap(f)(rows), [np.exp(1.5), 1.0])
    assert ws.cond(True, lambda: 1, lambda: 2) == 1


def test_branches_of_two_shapes_are_refused_by_their_shapes():
    with pytest.raises(ShapeError, match=r"cond: the branches return f64\[3\] and f64\[1\](.|\n)*one shape for both"):
        ws.jit(lambda x: ws.cond(x[0] > 0, lambda: x, lambda: x[:1]))(X)


WAVES = [np.exp, lambda x: x * x, lambda x: -x, lambda x: 2 * np.sin(x)]


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 3, 9])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_switch_runs_the_branch_of_an_index_or_the_nearest(index, dtype):
    if np.dtype(dtype).kind == "u" and index < 0:
        index = 255  # an unsigned index wraps around to the largest number
    wave, i = WAVES[min(max(index, 0), 3)], dtype(index)
    compiled = ws.jit(lambda i, x: ws.switch(i, WAVES, x))
    np.testing.assert_allclose(compiled(i, X), wave(X))
    np.testing.assert_allclose(ws.switch(i, WAVES, X), wave(X))
    slopes = ws.jit(lambda i, x: ws.grad(lambda x: np.sum(ws.switch(i, WAVES, x)))(x))
    np.testing.assert_allclose(slopes(i, X), ws.grad(lambda x: np.sum(wave(x)))(X))


def test_switch_of_many_indices_takes_each_row_through_its_own_branch():
    rows, indices = np.stack([X + k for k in range(6)]), np.array([-1, 0, 1, 2, 3, 4])
    f = ws.vmap(lambda i, x: ws.switch(i, WAVES, x))
    expected = [WAVES[min(max(i, 0), 3)](row) for i, row in zip(indices, rows, strict=True)]
    np.testing.assert_allclose(f(indices, rows), expected)
    np.testing.assert_allclose(ws.jit(f)(indices, rows), expected)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ws.switch(0, []), ws.errors.ParameterError, "no branch"),
        (lambda: ws.switch(0.5, WAVES, X), ws.errors.DtypeError, "not an integer"),
        (lambda: ws.switch(np.zeros(2, int), WAVES, X), ws.errors.ShapeError, "not a scalar"),
        (lambda: ws.jit(lambda i: ws.switch(i, [lambda: 1, lambda: 2.0]))(0), ws.errors.DtypeError, "switch: .*return"),
        (lambda: ws.jit(lambda i: ws.switch(i, [lambda: 1, lambda: (1,)]))(0), ws.errors.TreeError, "switch: .*return"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_while_loop():
    collatz = lambda n: ws.while_loop(  # noqa: E731
        lambda s: s[0] != 1, lambda s: (np.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
    )[1]
    assert collatz(27) == 111
    assert ws.vmap(collatz)(np.array([1, 6, 27])).tolist() == [0, 8, 111]
    assert ws.jit(collatz)(6) == 8
    value, tangent = ws.jvp(lambda x: ws.while_loop(lambda y: y < 100, lambda y: y * y, x), (2.0,), (1.0,))
    assert value == 256.0 and tangent == 8 * 2.0**7


def test_fori_loop():
    assert ws.fori_loop(1, 4, lambda i, x: x * i, 1.0) == 6.0
    assert ws.jit(lambda n: ws.fori_loop(0, n, lambda i, x: x + i, 0))(5) == 10
    np.testing.assert_allclose(ws.grad(lambda x: ws.fori_loop(0, 3, lambda i, y: y * x, 1.0))(2.0), 12.0)
    with pytest.raises(ws.errors.DtypeError):
        ws.fori_loop(0, 2.5, lambda i, x: x, 0)


@pytest.mark.parametrize(
    "copied",
    [
        lambda z: z.copy(),
        lambda z: np.array(z),
        lambda z: z.astype(z.dtype),
        lambda z: z[1:].copy(),
        lambda z: z.flatten(),
        lambda z: np.concatenate([z]),
        lambda z: np.roll(z, 0),
        lambda z: np.real(z).copy()[::-1],
    ],
)
def test_a_copy_of_an_array_outside_of_a_loop_is_written_inside_and_the_array_is_not(copied):
    def within(c, z):
        made = copied(z)
        made[0] = 5.0
        np.add.at(made, [1, 1], c)
        return np.sum(made * made) + z[0]

    def looped(z):
        return ws.fori_loop(0, 3, lambda i, c: 0.1 * within(c, z), 1.0) + z.sum()

    wanted = 1.0
    for _ in range(3):
        wanted = 0.1 * within(wanted, X)
    np.testing.assert_allclose(ws.jit(looped)(X), wanted + X.sum(), rtol=1e-14)
    ws.gradcheck(looped, X)


def test_an_array_made_in_a_loop_that_takes_a_whole_one_from_outside_is_written_again():
    def filled(z):
        def step(c, row):
            made = np.empty_like(z)
            made[:] = z
            made[0] = row
            return c + made, made[0] + z[0]

        return ws.scan(step, z, z)

    total, rows = ws.jit(filled)(X)
    np.testing.assert_allclose(total, [X[0] + X.sum(), *(4 * X[1:])])
    np.testing.assert_allclose(rows, X + X[0])


def test_vmap_axes_and_trees():
    f = lambda x, p: {"s": x.sum() * p["k"], "k": p["k"]}  # noqa: E731
    x = np.arange(6.0).reshape(2, 3)
    made = ws.vmap(f, in_axes=(1, {"k": None}), out_axes={"s": 0, "k": None})(x, {"k": 2.0})
    np.testing.assert_allclose(made["s"], 2 * x.sum(0))
    assert made["k"] == 2.0
    np.testing.assert_allclose(ws.vmap(lambda x: x * 2, in_axes=-1, out_axes=-1)(x), 2 * x)
    np.testing.assert_allclose(ws.vmap(lambda x, n: x[:n], in_axes=(0, None))(x, 2), x[:, :2])
    np.testing.assert_allclose(ws.vmap(ws.vmap(np.multiply, (None, 0)), (0, None))(X, X), np.outer(X, X))
    with pytest.raises(ws.errors.TreeError):
        ws.vmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(ws.errors.AxisError):
        ws.vmap(lambda x: x, in_axes=1)(X)


def test_collectives():
    rows = np.arange(6.0).reshape(2, 3)
    normal = ws.vmap(lambda x: (x - ws.pmean(x, "i")) / ws.psum(x, "i"), axis_name="i")
    np.testing.assert_allclose(normal(rows), (rows - rows.mean(0)) / rows.sum(0))
    both = ws.vmap(ws.vmap(lambda x: ws.psum(x, "i") + ws.psum(x, "j"), axis_name="j"), axis_name="i")
    np.testing.assert_allclose(both(rows), rows.sum(0) + rows.sum(1, keepdims=True))
    loss = lambda r: (normal(r) ** 2).sum()  # noqa: E731
    ws.gradcheck(loss, rows + 1.0)


def test_checkpoint_recomputes():
    def count(graph):
        inner = sum(count(g) for g in graph.subgraphs())
        return inner + sum(n.op.name == "sin" for n in graph.nodes)

    f = lambda x: np.sin(np.sin(np.sin(x)))  # noqa: E731
    plain, again = ws.trace(ws.value_and_grad(f))(1.0), ws.trace(ws.value_and_grad(ws.checkpoint(f)))(1.0)
    assert count(again) > count(plain)
    assert ws.grad(ws.checkpoint(f))(1.0) == ws.grad(f)(1.0)


def test_a_number_given_to_a_branch_gives_way_to_arrays():
    x = np.ones(3, np.float32)

    def f(x, p):
        return ws.cond(p, lambda x, s: x * s, lambda x, s: x - s, x, 0.5)

    assert ws.jit(f)(x, True).dtype == f(x, True).dtype == np.float32
    assert ws.jit(ws.grad(lambda x, p: f(x, p).sum()))(x, True).tolist() == [0.5] * 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_index_of_fori_loop_is_a_number_as_range_gives_it(dtype):
    x = np.ones(3, dtype)

    def looped(n):
        return lambda x: ws.fori_loop(0, n, lambda i, x: x * 2 + i, x)

    plain = x
    for i in range(3):
        plain = plain * 2 + i
    for run in (looped(3), ws.jit(looped(3)), ws.jit(lambda x, n=3: looped(n)(x)), ws.vmap(looped(3))):
        made = run(x)
        assert made.dtype == plain.dtype and np.array_equal(made, plain)
    made = ws.jit(lambda x, n: looped(n)(x))(x, 3)
    assert made.dtype == plain.dtype and np.array_equal(made, plain)
    with pytest.raises(ws.errors.DtypeError, match=r"^fori_loop: the carry begins as"):
        ws.fori_loop(0, 3, lambda i, x: x.astype(np.complex64), x)


@pytest.mark.parametrize(
    ("carry", "step", "words"),
    [
        ((1.0, 2.0), lambda c: (*c, 3.0), "carry: 2 items, then 3 items"),
        ({"a": (1.0,)}, lambda c: {"a": [1.0]}, "carry.a: a tuple, then a list"),
        ({"a": 1.0}, lambda c: {"b": 1.0}, "carry: the keys ['a'], then the keys ['b']"),
        ([1.0], lambda c: [None], "carry[0]: a leaf, then None"),
    ],
)
def test_a_carry_of_another_structure_is_told_by_its_first_difference(carry, step, words):
    loops = {
        "scan": lambda: ws.scan(lambda c, _: (step(c), None), carry, None, length=2),
        "fori_loop": lambda: ws.fori_loop(0, 2, lambda i, c: step(c), carry),
        "while_loop": lambda: ws.while_loop(lambda c: True, step, carry),
    }
    for name, loop in loops.items():
        with pytest.raises(ws.errors.TreeError) as refused:
            loop()
        assert str(refused.value).startswith(f"{name}: the step changes the structure of the carry: {words}")
