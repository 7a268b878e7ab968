"""Roots and linear solutions are differentiated by their equations: beside unrolled loops, and NumPy's solver."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DerivativeError, DtypeError, EscapedError, ShapeError, TreeError

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 4)) * 0.2, RNG.normal(size=4)
M = np.eye(4) * 3 + A


def newton(g, x):
    def step(x):
        slope = ws.jacfwd(g)(x).reshape(x.size, x.size)
        return x - np.linalg.solve(slope, g(x).reshape(x.size)).reshape(x.shape)

    return ws.while_loop(lambda x: np.max(abs(g(x))) > 1e-13, step, x)


def relaxed(g, b):
    """The solution of g(x) = b by Richardson's iteration."""
    return ws.while_loop(lambda x: np.max(abs(g(x) - b)) > 1e-13, lambda x: x + 0.2 * (b - g(x)), np.zeros_like(b))


def equilibrium(a, b):
    args = {"a": a, "b": b, "count": np.arange(3)}
    return ws.custom_root(lambda x, p: x - np.tanh(p["a"] @ x + p["b"]), np.zeros(4), newton, args)


def unrolled(a, b):
    x = np.zeros(4)
    for _ in range(80):
        x = np.tanh(a @ x + b)
    return x


def solved(m, b):
    return ws.custom_linear_solve(lambda x, m: m @ x, b, relaxed, m, transpose_solve=relaxed)


PAIRS = {"root": (equilibrium, unrolled, A), "linear": (solved, np.linalg.solve, M)}


@pytest.mark.parametrize("name", PAIRS)
def test_values_gradients_and_second_derivatives(name):
    ours, plain, a = PAIRS[name]
    found, wanted = [lambda a, b, f=f: np.sum(f(a, b) ** 3) for f in (ours, plain)]
    np.testing.assert_allclose(ours(a, B), plain(a, B), atol=1e-12)
    for argnums in (0, 1):
        slope = ws.grad(wanted, argnums=argnums)(a, B)
        np.testing.assert_allclose(ws.grad(found, argnums=argnums)(a, B), slope, atol=1e-10)
        np.testing.assert_allclose(ws.jit(ws.grad(found, argnums=argnums))(a, B), slope, atol=1e-10)
        second = [ws.jacrev(ws.grad(f, argnums=argnums), argnums=argnums)(a, B) for f in (found, wanted)]
        np.testing.assert_allclose(*second, atol=1e-9)
    both = np.stack([B, -B, 2 * B])
    batch = ws.vmap(ws.grad(found, argnums=1), in_axes=(None, 0))(a, both)
    np.testing.assert_allclose(batch, [ws.grad(wanted, argnums=1)(a, b) for b in both], atol=1e-9)


def test_a_root_has_a_derivative_in_both_modes_and_of_any_shape():
    ws.gradcheck(lambda a, b: np.sum(equilibrium(a, b) ** 2), A, B)
    found = ws.jacfwd(equilibrium)(A, B)
    np.testing.assert_allclose(found, ws.jacfwd(unrolled)(A, B), atol=1e-10)

    def matrix_root(a):
        return ws.custom_root(lambda x, a: x @ x - a, np.eye(2), newton, a)

    square = np.array([[4.0, 1.0], [0.5, 9.0]])
    np.testing.assert_allclose(matrix_root(square) @ matrix_root(square), square, atol=1e-12)
    np.testing.assert_allclose(ws.jacfwd(matrix_root)(square), ws.jacrev(matrix_root)(square), atol=1e-12)


def test_a_symmetric_solve_needs_one_solver():
    spd = M @ M.T / 4

    def found(m, b):
        return np.sum(ws.custom_linear_solve(lambda x, m: (m + m.T) @ x / 2, b, relaxed, m) ** 3)

    def wanted(m, b):
        return np.sum(np.linalg.solve((m + m.T) / 2, b) ** 3)

    for argnums in (0, 1):
        slopes = [ws.grad(f, argnums=argnums)(spd, B) for f in (found, wanted)]
        np.testing.assert_allclose(*slopes, atol=1e-9)


def test_a_linear_equation_in_complex_numbers():
    m, b = M + 1j * A.T, B + 2j * B[::-1]

    def found(m, b):
        x = ws.custom_linear_solve(lambda x, m: m @ x, b, relaxed, m, transpose_solve=relaxed)
        return np.sum(np.abs(x) ** 3)

    def wanted(m, b):
        return np.sum(np.abs(np.linalg.solve(m, b)) ** 3)

    for argnums in (0, 1):
        slopes = [ws.grad(f, argnums=argnums)(m, b) for f in (found, wanted)]
        np.testing.assert_allclose(*slopes, atol=1e-9)
        np.testing.assert_allclose(ws.jit(ws.grad(found, argnums=argnums))(m, b), slopes[1], atol=1e-9)
    second = [ws.jacrev(ws.grad(lambda s, f=f: f(s * m, b)))(1.5) for f in (found, wanted)]
    np.testing.assert_allclose(*second, atol=1e-8)
    hermitian = np.eye(4) * 3 + (A + 1j * A[::-1]) / 2 + np.conj((A + 1j * A[::-1]).T) / 2
    one = lambda b: np.sum(np.abs(ws.custom_linear_solve(lambda x: hermitian @ x, b, relaxed)) ** 3)  # noqa: E731
    slopes = [ws.grad(f)(b) for f in (one, lambda b: wanted(hermitian, b))]
    np.testing.assert_allclose(*slopes, atol=1e-9)


def counted(solve):
    """A solver with an auxiliary result, its number of steps."""

    def solver(g, x):
        def step(carry):
            x, k = carry
            return x + 0.2 * (given - g(x)), k + 1

        given = x if solve == "linear" else np.zeros_like(x)
        start = (np.zeros_like(x) if solve == "linear" else x, 0)
        x, k = ws.while_loop(lambda carry: np.max(abs(g(carry[0]) - given)) > 1e-13, step, start)
        return x, {"steps": k, "last": g(x)}

    return solver


def test_a_solver_may_say_how_it_went():
    def linear(m, b):
        return ws.custom_linear_solve(
            lambda x, m: m @ x, b, counted("linear"), m, transpose_solve=counted("linear"), has_aux=True
        )

    def root(a):
        return ws.custom_root(lambda x, a: x - np.cos(a * x), np.ones(4), counted("root"), a, has_aux=True)

    def plain_root(a):
        return ws.custom_root(lambda x, a: x - np.cos(a * x), np.ones(4), newton, a)

    for f, plain in (
        (lambda b: linear(M, b), lambda b: np.linalg.solve(M, b)),
        (root, plain_root),
    ):
        x, aux = f(B)
        assert 10 < aux["steps"] < 1000 and aux["last"].shape == (4,)
        np.testing.assert_allclose(x, plain(B), atol=1e-12)
        wanted = ws.grad(lambda b, plain=plain: np.sum(plain(b) ** 3))(B)
        loss = lambda b, f=f: np.sum(f(b)[0] ** 3) + np.sum(f(b)[1]["last"]) + f(b)[1]["steps"]  # noqa: E731
        np.testing.assert_allclose(ws.grad(loss)(B), wanted, atol=1e-10)
        np.testing.assert_allclose(ws.vmap(ws.grad(loss))(np.stack([B, B]))[1], wanted, atol=1e-10)
        np.testing.assert_allclose(ws.jvp(loss, (B,), (B,))[1], wanted @ B, atol=1e-10)
    with pytest.raises(TreeError, match=r"custom_root: with has_aux the solver returns \(x, aux\)"):
        ws.custom_root(lambda x: x, B, newton, has_aux=True)


def test_the_loop_of_a_solver_is_not_differentiated():
    """A while_loop has no derivative in reverse mode, but a root has one although its solver is such a loop."""
    step = ws.compile(lambda p, b: np.sum(equilibrium(p, b) ** 2), A, optimizer=ws.optim.sgd(0.1), batch=B)
    first = step(B).loss
    assert [step(B).loss for _ in range(20)][-1] < first


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: ws.grad(lambda a: ws.custom_root(lambda x: x**2 - a, 1.0, newton1))(9.0),
            DerivativeError,
            "closes over",
        ),
        (
            lambda: ws.grad(lambda a: ws.custom_linear_solve(lambda x: a * x, B, lambda g, b: b / 2).sum())(2.0),
            DerivativeError,
            "closes over",
        ),
        (
            lambda: ws.grad(
                lambda a: ws.vmap(lambda b: ws.custom_root(lambda x, a: x - a * b, 1.0, newton1, a))(B).sum()
            )(2.0),
            EscapedError,
            r"(?s)reads a traced array that is not among its arguments, inside of ws.vmap.*\*args",
        ),
        (lambda: ws.custom_root(lambda x: x, np.arange(3), newton), DtypeError, "custom_root: the guess is i64"),
        (lambda: ws.custom_linear_solve(lambda x: x, 1, relaxed), DtypeError, "custom_linear_solve: b is i64"),
        (lambda: ws.custom_root(lambda x: x[:2], B, lambda g, x: x), ShapeError, "custom_root: f gives"),
        (lambda: ws.custom_root(lambda x: x, B, lambda g, x: x[:2]), ShapeError, "custom_root: the solver gives"),
        (lambda: ws.custom_linear_solve(lambda x: M[:2] @ x, B, lambda g, b: b), ShapeError, "matvec gives"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def newton1(g, x):
    return ws.while_loop(lambda x: abs(g(x)) > 1e-12, lambda x: x - g(x) / ws.grad(g)(x), x)
