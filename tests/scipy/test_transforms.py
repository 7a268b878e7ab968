"""Second derivatives and batches of linear algebra, and results that depend on known values."""

import numpy as np
import pytest
import scipy.fft

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.scipy import linalg, special, stats

rng = np.random.default_rng(15)
A = rng.normal(size=(3, 3)) + 3 * np.eye(3)
P = A @ A.T + np.eye(3)
SPREAD = np.diag([1.0, 3.0, 6.0]) + 0.1 * (A + A.T)
STACK = np.stack([P, P + np.eye(3), SPREAD + 4 * np.eye(3)])
B = rng.normal(size=(3, 2))

FUNCTIONS = {
    "solve": lambda a: np.linalg.solve(a, B),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "cholesky": np.linalg.cholesky,
    "eigh": lambda a: np.abs(np.linalg.eigh(a)[1]) * np.linalg.eigh(a)[0],
    "qr": lambda a: np.linalg.qr(a)[1],
    "svd": lambda a: np.abs(np.linalg.svd(a)[0]),
    "pinv": np.linalg.pinv,
    "norm": lambda a: np.linalg.norm(a, 2) + np.linalg.norm(a, "nuc"),
    "einsum": lambda a: np.einsum("ii,ij->j", a, a),
    "fft": lambda a: np.abs(np.fft.fftn(a)),
    "expm": lambda a: linalg.expm(0.1 * a),
    "solve_triangular": lambda a: linalg.solve_triangular(a, B, lower=True),
    "lu_solve": lambda a: linalg.lu_solve(linalg.lu_factor(a), B),
    "eigvals": lambda a: np.linalg.eigvals(a + 0j).real,
    "logsumexp": lambda a: special.logsumexp(a, axis=0),
    "multivariate_normal": lambda a: stats.multivariate_normal.logpdf(B.T, np.zeros(3), a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_second_derivative_is_that_of_the_first(name):
    f = FUNCTIONS[name]
    shape = np.shape(f(P))
    weights, direction = rng.normal(size=shape), rng.normal(size=P.shape)
    gradient = ws.grad(lambda a: np.sum(weights * f(a)))
    found = ws.hvp(lambda a: np.sum(weights * f(a)), (P,), (direction,))
    numeric = (gradient(P + 1e-5 * direction) - gradient(P - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(found, numeric, atol=1e-6 * max(1, np.abs(numeric).max()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_is_a_loop(name):
    f = FUNCTIONS[name]
    found = ws.vmap(f)(STACK)
    np.testing.assert_allclose(found, [f(a) for a in STACK], rtol=1e-9, atol=1e-10)


def test_eigenvalues_known_to_be_real_are_real():
    assert ws.value_and_grad(lambda a: np.sum(np.linalg.eigvals(a)))(P)[0].dtype == np.float64
    assert ws.grad(lambda a: np.sum(np.linalg.eig(a).eigenvectors ** 2))(P).dtype == np.float64
    w, v = ws.jit(np.linalg.eig)(P)
    assert w.dtype == v.dtype == np.complex128


def test_the_residuals_of_a_known_rank_are_numpys():
    a, b = np.ones((4, 2)), rng.normal(size=4)
    found = ws.vjp(lambda b: np.linalg.lstsq(a, b)[1], b)[0]
    assert found.shape == np.linalg.lstsq(a, b)[1].shape == (0,)


def test_norms_have_derivative_zero_at_zero():
    for order in (None, 1, 2, 3, 0.5):
        np.testing.assert_array_equal(ws.grad(lambda x, o=order: np.linalg.norm(x, o))(np.zeros(3)), np.zeros(3))
    np.testing.assert_array_equal(ws.grad(np.linalg.norm)(np.zeros((2, 2))), np.zeros((2, 2)))


def test_lists_of_traced_values():
    found = ws.grad(lambda x: wnp.linalg.det([[x, 1.0], [2.0, x * x]]))(2.0)
    assert abs(found - 12.0) < 1e-12
    assert ws.grad(lambda x: wnp.einsum("i,i", [x, x], [3.0, x]))(2.0) == 7.0


def test_results_are_numpys_tuples():
    s = ws.vjp(np.linalg.slogdet, P)[0]
    assert type(s) is type(np.linalg.slogdet(P)) and s.logabsdet == s[1]
    assert type(ws.jit(np.linalg.svd)(P)) is type(np.linalg.svd(P))


def test_out_takes_the_result():
    def f(a):
        out = wnp.zeros((3, 3))
        np.matmul(a, a, out=out)
        np.dot(a, out, out=out)
        return np.einsum("ij->ji", out, out=out)

    np.testing.assert_allclose(ws.jit(f)(A), (A @ A @ A).T, rtol=1e-13)


def test_frozen_distributions():
    f = lambda m, s: stats.norm(m, scale=s).logpdf(0.7)  # noqa: E731
    np.testing.assert_allclose(ws.grad(f, (0, 1))(0.3, 1.4), (0.4 / 1.96, -1 / 1.4 + 0.16 / 1.4**3), rtol=1e-12)


def test_gradients_outside_a_support_are_zero():
    np.testing.assert_array_equal(ws.grad(lambda x: np.sum(stats.gamma.cdf(x, 2.0)))(np.array([-1.0, 0.0])), [0.0, 0.0])
    assert ws.grad(lambda a: stats.gamma.cdf(-1.0, a))(2.0) == 0.0
    assert np.isnan(ws.value_and_grad(lambda s: stats.norm.cdf(1.0, scale=s))(-1.0)[0])


def test_the_derivative_of_xlogy_at_zero_is_the_logarithm():
    np.testing.assert_allclose(ws.grad(lambda x: special.xlogy(x, 2.0))(0.0), np.log(2.0))
    np.testing.assert_allclose(ws.grad(lambda x: special.xlog1py(x, 2.0))(0.0), np.log(3.0))


def test_inverse_box_cox_at_zero_has_its_limit():
    np.testing.assert_allclose(ws.grad(lambda p: special.inv_boxcox(0.7, p))(0.0), -(0.7**2) / 2 * np.exp(0.7))
    np.testing.assert_allclose(ws.grad(lambda p: special.boxcox(0.7, p))(0.0), np.log(0.7) ** 2 / 2)


def test_an_operand_that_may_be_overwritten_stays():
    x = np.random.default_rng(0).normal(size=(3, 8)) + 1j
    before = x.copy()
    found = ws.jit(lambda x: scipy.fft.fft(x, overwrite_x=True))(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(found, np.fft.fft(x), rtol=1e-12)
