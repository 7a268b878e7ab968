"""Iterative solvers: beside SciPy's and JAX's, and dense solutions, whose derivatives are theirs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from jax.scipy.sparse import linalg as of_jax

import wholestep as ws
from wholestep import tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError
from wholestep.scipy.sparse import linalg

RNG = np.random.default_rng(0)
SIZE = 12
REAL, IMAGINARY = RNG.normal(size=(2, SIZE, SIZE))
B, B_IMAGINARY, WEIGHTS = RNG.normal(size=(3, SIZE))
COMPLEX = REAL + 1j * IMAGINARY
SYMMETRIC = REAL @ REAL.T + SIZE * np.eye(SIZE)
HERMITIAN = COMPLEX @ COMPLEX.conj().T + SIZE * np.eye(SIZE)
CASES = {
    "cg": ("cg", SYMMETRIC, B),
    "cg of complex numbers": ("cg", HERMITIAN, B + 1j * B_IMAGINARY),
    "bicgstab": ("bicgstab", REAL + 6 * np.eye(SIZE), B),
    "bicgstab of complex numbers": ("bicgstab", COMPLEX + 8 * np.eye(SIZE), B + 1j * B_IMAGINARY),
    "gmres": ("gmres", REAL + 6 * np.eye(SIZE), B),
    "gmres of complex numbers": ("gmres", COMPLEX + 8 * np.eye(SIZE), B + 1j * B_IMAGINARY),
}
TIGHT = {"tol": 1e-13, "atol": 0.0}
CHAIN = scipy.sparse.diags([-1, 2.0, -1], [-1, 0, 1], shape=(60, 60)).tocsr()
LOAD = RNG.normal(size=60)


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


def weighed(x):
    return np.abs(x) ** 2 @ WEIGHTS


def dense(A, b):
    return weighed(np.linalg.solve(A, b))


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_solutions_and_gradients(case, preconditioned):
    name, A, b = CASES[case]
    solve, M = getattr(linalg, name), np.diag(1 / np.diag(A)) if preconditioned else None
    x, info = solve(A, b, M=M, **TIGHT)
    assert info == 0 and x.dtype == A.dtype
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-12)
    of_scipy, _ = getattr(scipy.sparse.linalg, name)(A, b, rtol=1e-13, atol=0.0, M=M)
    np.testing.assert_allclose(x, of_scipy, atol=1e-12)

    def loss(A, b):
        return weighed(solve(A, b, M=M, **TIGHT)[0])

    def loss_of_jax(A, b):
        return jnp.abs(getattr(of_jax, name)(A, b, M=M, **TIGHT)[0]) ** 2 @ WEIGHTS

    wanted = ws.grad(dense, (0, 1))(A, b)
    for run in (lambda f: f, ws.jit):
        for found, gradient in zip(run(ws.grad(loss, (0, 1)))(A, b), wanted, strict=True):
            np.testing.assert_allclose(found, gradient, atol=1e-13)
    for found, gradient in zip(jax.grad(loss_of_jax, (0, 1))(A, b), wanted, strict=True):
        np.testing.assert_allclose(np.conj(found), gradient, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_what_a_function_closes_over_is_differentiated(case):
    name, A, b = CASES[case]
    scales = np.array([0.8, 1.3, 2.0])

    def loss(scale):
        return weighed(getattr(linalg, name)(lambda x: scale * (A @ x), b, M=lambda x: x / scale, **TIGHT)[0])

    def plain(scale):
        return dense(scale * A, b)

    slopes, bends = [ws.grad(plain)(s) for s in scales], [ws.grad(ws.grad(plain))(s) for s in scales]
    np.testing.assert_allclose(ws.grad(loss)(1.3), slopes[1], rtol=1e-10)
    np.testing.assert_allclose(ws.jvp(loss, (1.3,), (1.0,))[1], slopes[1], rtol=1e-10)
    np.testing.assert_allclose(ws.grad(ws.grad(loss))(1.3), bends[1], rtol=1e-9)
    np.testing.assert_allclose(ws.jvp(ws.grad(loss), (1.3,), (1.0,))[1], bends[1], rtol=1e-9)
    np.testing.assert_allclose(ws.vmap(ws.grad(loss))(scales), slopes, rtol=1e-9)
    np.testing.assert_allclose(ws.grad(lambda s: ws.vmap(loss)(s).sum())(scales), slopes, rtol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_in_any_direction(case):
    """The matrix of conjugate gradients is Hermitian, but directions of its derivative need not be."""
    name, A, b = CASES[case]

    def loss(A):
        return weighed(getattr(linalg, name)(A, b, **TIGHT)[0])

    bends = [ws.jvp(ws.grad(f), (A,), (IMAGINARY.astype(A.dtype),))[1] for f in (loss, lambda A: dense(A, b))]
    np.testing.assert_allclose(*bends, atol=1e-12)


def test_integers_of_a_batch_are_the_functions_own():
    """All values that a product, a preconditioner or a guess reads are operands, so that no rule keeps one of them."""
    scales, orders = RNG.normal(size=(3, 4)), np.stack([RNG.permutation(4) for _ in range(3)])

    def loss(d, i):
        kept = linalg.bicgstab(lambda x: 3 * x + d * x[i], B[:4], x0=d, M=lambda v: v / (3 + d) + 0.001 * v[i], **TIGHT)
        return np.sum(kept[0] ** 2)

    def plain(d, i):
        return np.sum(np.linalg.solve(3 * np.eye(4) + d[:, None] * np.eye(4)[i], B[:4]) ** 2)

    wanted = [ws.grad(plain)(*each) for each in zip(scales, orders, strict=True)]
    for transform in (
        lambda d, i: ws.vmap(ws.grad(loss))(d, i),
        lambda d, i: ws.grad(lambda d: np.sum(ws.vmap(loss)(d, i)))(d),
    ):
        np.testing.assert_allclose(transform(scales, orders), wanted, atol=1e-11)
        np.testing.assert_allclose(ws.jit(transform)(scales, orders), wanted, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "options"),
    [("cg", {"maxiter": 10}), ("cg", {}), ("bicgstab", {"maxiter": 5}), ("gmres", {"restart": 5, "maxiter": 3})],
)
def test_steps_are_those_of_scipy(name, options):
    x, info = getattr(linalg, name)(CHAIN, LOAD, tol=1e-8, **options)
    of_scipy, code = getattr(scipy.sparse.linalg, name)(CHAIN, LOAD, rtol=1e-8, atol=0.0, **options)
    np.testing.assert_allclose(x, of_scipy, atol=1e-11)
    assert info == code


def test_calls_of_scipy_are_answered():
    def loss(b):
        x, _ = scipy.sparse.linalg.cg(CHAIN, b, rtol=1e-12)
        return np.sum(x**2)

    inverse = np.linalg.inv(CHAIN.toarray())
    np.testing.assert_allclose(ws.grad(loss)(LOAD), 2 * inverse @ inverse @ LOAD, rtol=1e-9)
    np.testing.assert_allclose(ws.jit(ws.grad(loss))(LOAD), 2 * inverse @ inverse @ LOAD, rtol=1e-9)


def test_unknowns_are_trees():
    def product(t):
        return {"u": 2 * t["u"] + 0.1 * t["v"][0], "v": [3 * t["v"][0] + 0.1 * np.sum(t["u"])]}

    b = {"u": np.ones((2, 3)), "v": [np.float64(2.0)]}
    found, wanted = linalg.cg(product, b, **TIGHT)[0], of_jax.cg(product_of_jax, b, **TIGHT)[0]
    assert tree.structure(found) == tree.structure(b)
    np.testing.assert_allclose(found["u"], wanted["u"], rtol=1e-12)
    np.testing.assert_allclose(found["v"][0], wanted["v"][0], rtol=1e-12)
    slope = ws.grad(lambda s: linalg.cg(lambda t: tree.map(lambda x: s * x, t), b, **TIGHT)[0]["u"].sum())(2.0)
    np.testing.assert_allclose(slope, -1.5, rtol=1e-12)


def product_of_jax(t):
    return {"u": 2 * t["u"] + 0.1 * t["v"][0], "v": [3 * t["v"][0] + 0.1 * jnp.sum(t["u"])]}


def test_small_slopes_are_not_within_the_tolerance():
    """`atol` is in units of b; the gradient of a loss may be far smaller."""
    loss = lambda b: 1e-6 * np.sum(linalg.cg(SYMMETRIC, b, tol=0.0, atol=1e-4)[0])  # noqa: E731
    wanted = 1e-6 * np.linalg.solve(SYMMETRIC, np.ones(SIZE))
    np.testing.assert_allclose(ws.grad(loss)(B), wanted, rtol=1e-3)


def test_a_guess_and_a_preconditioner_have_no_slope():
    assert not ws.grad(lambda x0: linalg.cg(CHAIN, LOAD, x0=x0)[0].sum())(LOAD).any()
    found = ws.grad(lambda d: linalg.gmres(CHAIN, LOAD, M=lambda v: v / d, tol=1e-10, restart=60)[0].sum())(2.1)
    assert found == 0


def test_the_guess_is_where_a_solver_begins():
    solved = np.linalg.solve(CHAIN.toarray(), LOAD)
    for name in ("cg", "bicgstab", "gmres"):
        assert linalg.__dict__[name](CHAIN, LOAD, x0=solved, tol=1e-8, maxiter=0)[1] == 0
        assert not np.any(linalg.__dict__[name](CHAIN, np.zeros(60), x0=solved)[0])


def test_dtypes():
    assert linalg.cg(np.eye(3, dtype=np.float32), np.ones(3, np.float32))[0].dtype == np.float32
    assert linalg.cg(np.eye(3, dtype=int), np.ones(3, int))[0].dtype == np.float64
    np.testing.assert_allclose(linalg.gmres(1j * np.eye(2), np.ones(2))[0], [-1j, -1j])
    np.testing.assert_allclose(linalg.bicgstab([[2.0, 1.0], [0.0, 4.0]], np.array([3, 4]))[0], [1, 1], rtol=1e-5)


def test_what_has_no_solution_ends():
    for A in (np.zeros((3, 3)), np.diag([1.0, 1.0, 0.0])):
        x, info = linalg.gmres(A, np.ones(3))
        assert info > 0 and np.isfinite(x).all() and np.abs(x).max() < 2
    turning = np.roll(np.eye(6), 1, 0)
    assert linalg.gmres(turning, np.eye(6)[0], restart=3)[1] == 1  # a cycle of 3 makes no progress
    np.testing.assert_allclose(linalg.gmres(turning, np.eye(6)[0])[0], np.eye(6)[5], atol=1e-12)
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert linalg.bicgstab(skew, np.ones(2))[1] == scipy.sparse.linalg.bicgstab(skew, np.ones(2))[1] == -11


EYE, ONES = np.eye(3), np.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linalg.cg(np.eye(2), ONES), ShapeError, r"cg: A has shape \(2, 2\), and there are 3 unknowns"),
        (lambda: linalg.cg(CHAIN, ONES), ShapeError, "cg: A has shape"),
        (lambda: linalg.cg(EYE, ONES, M=np.eye(2)), ShapeError, "cg: M has shape"),
        (lambda: linalg.gmres(lambda x: x[:2], ONES), ShapeError, "gmres: the result of A has shape"),
        (lambda: linalg.gmres(lambda x: 1j * x, ONES), DtypeError, r"gmres: A gives c128\[3\] for f64\[3\]"),
        (lambda: linalg.bicgstab(lambda x: (x, x), ONES), TreeError, "bicgstab: the result of A"),
        (lambda: linalg.cg(EYE, ONES, x0=np.ones(2)), ShapeError, "cg: x0 has shape"),
        (lambda: linalg.cg(EYE, ONES, x0=1j * ONES), DtypeError, "cg: x0 is c128"),
        (lambda: linalg.cg(EYE, ONES, x0=[ONES]), TreeError, "cg: x0 is"),
        (lambda: linalg.cg("matrix", ONES), DtypeError, "cg: A is a str"),
        (lambda: linalg.cg(scipy.sparse.linalg.aslinearoperator(EYE), ONES), DtypeError, "LinearOperator, not a"),
        (lambda: linalg.cg(EYE, "ones"), TreeError, "cg: b is an array"),
        (lambda: linalg.cg(EYE, ONES, callback=print), UnsupportedError, "cg: callback= is not covered"),
        (lambda: linalg.gmres(EYE, ONES, restart=0), ParameterError, "gmres: restart is 0"),
        (lambda: linalg.gmres(EYE, ONES, solve_method="qr"), ParameterError, "gmres: solve_method is 'qr'"),
        (lambda: ws.grad(lambda b: linalg.spsolve(CHAIN, b).sum())(LOAD), UnsupportedError, "spsolve: not covered"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
