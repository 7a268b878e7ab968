"""Forms of matrices: further derivatives, batches, and refused arguments."""

import numpy as np
import pytest
import scipy.linalg

import wholestep as ws
from wholestep.errors import ShapeError, UnsupportedError
from wholestep.scipy import linalg

RNG = np.random.default_rng(5)
A, WIDE = RNG.normal(size=(3, 3)), RNG.normal(size=(2, 4))
SPREAD = np.diag([1.0, 2.0, 4.0]) + 0.2 * RNG.normal(size=(3, 3))
TURNED = np.array([[1.0, -4.0, 0.3], [1.0, 1.2, 0.1], [0.2, -0.1, 3.0]])
MIX = RNG.normal(size=(3, 3))
FORMS = {
    "polar": (lambda a: np.sum(MIX * linalg.polar(a)[0]), A),
    "polar of a rotation": (lambda a: np.sum(MIX * linalg.polar(a, "left")[0]), scipy.linalg.qr(A)[0]),
    "polar, wide": (lambda a: np.sum(MIX[:2] @ MIX[:, :2] * linalg.polar(a, "left")[1]), WIDE),
    "hessenberg": (lambda a: np.sum(MIX * linalg.hessenberg(a)), A),
    "schur": (lambda a: np.sum(MIX * linalg.schur(a)[0]) + np.sum(MIX.T * linalg.schur(a)[1]), SPREAD),
    "schur of a pair": (lambda a: np.sum(MIX * linalg.schur(a)[0]) + np.sum(MIX.T * linalg.schur(a)[1]), TURNED),
    "schur, complex": (lambda a: np.sum(MIX * np.abs(linalg.schur(a + 0.3j * MIX)[1]) ** 2), SPREAD),
    "funm": (lambda a: np.sum(MIX * linalg.funm(a, lambda z: np.exp(0.3 * z))), SPREAD),
}


@pytest.mark.parametrize("name", FORMS)
def test_derivatives_to_second_order_compiled_and_in_a_batch(name):
    f, at = FORMS[name]
    ws.gradcheck(f, at)
    rows = np.stack([at, at + 0.01 * RNG.normal(size=at.shape)])
    by_loop = np.stack([ws.grad(f)(row) for row in rows])
    np.testing.assert_allclose(ws.vmap(ws.grad(f))(rows), by_loop, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ws.jit(ws.grad(f))(at), by_loop[0], rtol=1e-9, atol=1e-11)


def test_stacks_of_matrices():
    stack = RNG.normal(size=(4, 3, 3))
    h, q = ws.jit(lambda a: scipy.linalg.hessenberg(a, calc_q=True))(stack)
    np.testing.assert_allclose(q @ h @ np.swapaxes(q, -1, -2), stack, atol=1e-13)
    np.testing.assert_allclose(h[2], scipy.linalg.hessenberg(stack[2]), atol=1e-13)
    u, p = ws.jit(lambda a: scipy.linalg.polar(a))(stack)
    np.testing.assert_allclose(u @ p, stack, atol=1e-13)


def test_a_function_of_a_multiple_of_the_identity_moves_in_every_direction():
    """Eigenvectors of a multiple of the identity are arbitrary; still sin has the derivative cos(c) everywhere."""
    moved = ws.jvp(lambda a: linalg.funm(a, np.sin), (0.7 * np.eye(3),), (A,))[1]
    np.testing.assert_allclose(moved, np.cos(0.7) * A, rtol=1e-12)


def test_a_function_that_is_not_real_gives_nan():
    """A real matrix with a negative eigenvalue has no real root; as a complex matrix it has one."""
    root = ws.jit(lambda a: scipy.linalg.funm(a, np.sqrt))
    turned = np.diag([1.0, -4.0])
    assert np.isnan(root(turned)).all()
    np.testing.assert_allclose(root(turned + 0j), np.diag([1.0, 2.0j]), atol=1e-12)


def test_schur_forms_of_random_matrices_move_as_differences_say():
    """The directions keep LAPACK's order and signs, so that differences are defined."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a, d = rng.normal(size=(2, 5, 5))
        for here, by in ((a, d), (a + 1j * d.T, d + 1j * a.T)):
            (t, z), moved = ws.jvp(linalg.schur, (here,), (by,))
            np.testing.assert_allclose(z @ t @ z.conj().T, here, atol=1e-12)
            after, before = [ws.jit(linalg.schur)(here + h * by) for h in (1e-6, -1e-6)]
            for p, q, slope in zip(after, before, moved, strict=True):
                np.testing.assert_allclose((p - q) / 2e-6, slope, atol=1e-6)


def test_a_rotation_passes_nothing_within_its_block():
    turn = np.array([[0.0, -2.0], [2.0, 0.0]])
    t, z = ws.jvp(linalg.schur, (turn,), (np.diag([1.0, 3.0]),))[1]
    assert np.isfinite(t).all() and not z.any()
    np.testing.assert_allclose(np.trace(t), 4.0)


def test_logarithms_of_stacks_and_those_that_are_not_real():
    stack = np.stack([SPREAD, SPREAD @ SPREAD])
    expected = np.stack([scipy.linalg.logm(a) for a in stack])
    np.testing.assert_allclose(ws.jit(lambda a: scipy.linalg.logm(a))(stack), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ws.vmap(linalg.logm)(stack), expected, rtol=1e-10, atol=1e-12)
    turned = np.diag([1.0, -4.0])
    assert np.isnan(ws.jit(lambda a: scipy.linalg.logm(a))(turned)).all()
    found = ws.jit(lambda a: scipy.linalg.logm(a))(turned + 0j)
    np.testing.assert_allclose(found, scipy.linalg.logm(turned + 0j), atol=1e-12)
    assert np.isnan(ws.jit(lambda a: scipy.linalg.logm(a))(np.zeros((2, 2)))).all()


def test_each_matrix_of_a_stack_takes_its_own_roots_to_its_logarithm():
    middle = np.array([[2.0, 0.3], [0.1, 1.5]])
    stack = np.stack([middle, 0 * middle, 1e-9 * middle, 1e9 * middle])
    found = ws.jit(lambda a: scipy.linalg.logm(a))(stack)
    assert np.isnan(found[1]).all()
    for made, a in zip(found[[0, 2, 3]], stack[[0, 2, 3]], strict=True):
        np.testing.assert_allclose(made, scipy.linalg.logm(a), rtol=1e-13, atol=1e-13)


def test_a_power_is_differentiated_in_its_exponent():
    power = ws.grad(lambda t: np.sum(MIX * linalg.fractional_matrix_power(SPREAD, t)))(np.float64(0.4))
    found = scipy.linalg.logm(SPREAD) @ scipy.linalg.fractional_matrix_power(SPREAD, 0.4)
    np.testing.assert_allclose(power, np.sum(MIX * found), rtol=1e-10)


def test_what_is_refused():
    d, e = np.arange(3.0), np.ones(2)
    with pytest.raises(UnsupportedError, match="select='v'"):
        ws.jit(lambda d: scipy.linalg.eigh_tridiagonal(d, e, select="v", select_range=(0, 1)))(d)
    with pytest.raises(ShapeError, match=r"not f64\[3\] and f64\[3\]"):
        ws.jit(lambda d: scipy.linalg.eigh_tridiagonal(d, d))(d)
    with pytest.raises(ShapeError, match="square"):
        ws.jit(lambda a: scipy.linalg.hessenberg(a))(WIDE)
    with pytest.raises(UnsupportedError, match="disp=False"):
        ws.jit(lambda a: scipy.linalg.funm(a, np.exp, disp=False))(A)
    with pytest.raises(UnsupportedError, match="schur: sort= is not covered"):
        ws.jit(lambda a: linalg.schur(a, sort="lhp"))(A)
    for f in (scipy.linalg.logm, scipy.linalg.signm):
        with pytest.raises(UnsupportedError, match="disp=False"):
            ws.jit(lambda a, f=f: f(a, disp=False))(A)
    with pytest.raises(ValueError, match="'real', or 'complex'"):
        ws.jit(lambda a: linalg.schur(a, output="full"))(A)


@pytest.mark.parametrize("x", [np.inf, -np.inf, 2.0])
def test_the_exponential_of_a_matrix_of_one_element(x):
    a = np.array([[x]])
    np.testing.assert_array_equal(ws.jit(lambda a: linalg.expm(a))(a), linalg.expm(a))


def test_the_condition_of_an_empty_stack_of_matrices():
    assert ws.jit(lambda a: np.linalg.cond(a))(np.zeros((0, 3, 3))).shape == (0,)
    with pytest.raises(np.linalg.LinAlgError, match="empty arrays"):
        ws.jit(lambda a: np.linalg.cond(a))(np.zeros((2, 0, 0)))
