"""Eigenvalues, singular values and matrix functions: gauge, degenerate points, and functions without a derivative."""

import numpy as np
import pytest
import scipy.linalg

from wholestep.backends.reference import interpret
from wholestep.errors import DerivativeError, DtypeError
from wholestep.ir.build import build, inline
from wholestep.ir.types import array_type
from wholestep.primitives.matrices import block, mh, mm
from wholestep.primitives.matrix_functions import expm, solve_sylvester, sqrtm
from wholestep.primitives.spectral import eig, eigh, qr, svd, svdvals
from wholestep.testing import laws
from wholestep.transforms.forward import jvp
from wholestep.transforms.reverse import vjp


def graph_of(function, *arrays):
    def call(*xs):
        out = function(*xs)
        return out if isinstance(out, tuple) else (out,)

    return build(call, [array_type(x.shape, x.dtype) for x in arrays])[0]


def tangents(graph, *args):
    """The tangents of all outputs; the second half of the arguments are directions."""
    made, _ = jvp(graph, (True,) * len(graph.inputs), (True,) * len(graph.outputs))
    return interpret(made, args)[len(graph.outputs) :]


def gradient(graph, *arrays):
    gys = [np.ones(t.shape, t.dtype) for t in graph.out_types]
    return interpret(vjp(graph, (True,) * len(arrays), (True,) * len(gys)), [*arrays, *gys])


def cx(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.parametrize("lower", [True, False])
def test_eigh_sees_one_triangle(lower, rng):
    a = cx(rng, 4, 4)
    seen = np.tri(4, dtype=bool) if lower else np.tri(4, dtype=bool).T
    dirty = np.where(seen, a, 7.0)
    graph = graph_of(lambda x: eigh(x, lower=lower), a)
    for one, two in zip(interpret(graph, [a]), interpret(graph, [dirty]), strict=True):
        np.testing.assert_array_equal(one, two)
    (g,) = gradient(graph, dirty)
    assert (g[~seen] == 0).all() and (g.diagonal().imag == 0).all()


@pytest.mark.parametrize("n", [2, 7, 40])
@pytest.mark.parametrize("lower", [True, False])
def test_the_phase_of_complex_eigenvectors_is_lapacks(n, lower, rng):
    a, da = cx(rng, n, n), cx(rng, n, n)
    graph = graph_of(lambda x: eigh(x, lower=lower), a)
    _, v = interpret(graph, [a])
    _, dv = tangents(graph, a, da)
    at = 0 if lower else n - 1
    assert np.abs(v[at].imag).max() < 1e-14
    assert np.abs(dv[at].imag).max() < 1e-12 * np.abs(dv).max()


def test_a_component_that_is_almost_zero_does_not_set_the_phase(rng):
    """A projector does not depend on the phase: its derivative is as accurate where the gauge is ill-defined."""
    a = np.array([[5, 0, 1e-15], [0, 1, 2 - 1j], [1e-15, 2 + 1j, 3]], complex)
    da = cx(rng, 3, 3)
    assert (np.abs(np.linalg.eigh(a)[1][0]) < 1e-14).sum() == 2

    def projector(x):
        _, v = eigh(x, lower=True)
        first = block(v, (0, 3), (0, 1))
        return mm(first, mh(first))

    graph = graph_of(projector, a)
    (d,) = tangents(graph, a, da)
    slope = (
        8 * (interpret(graph, [a + 1e-3 * da])[0] - interpret(graph, [a - 1e-3 * da])[0])
        - (interpret(graph, [a + 2e-3 * da])[0] - interpret(graph, [a - 2e-3 * da])[0])
    ) / 12e-3
    np.testing.assert_allclose(d, slope, atol=1e-9)


def test_repeated_eigenvalues_give_finite_derivatives():
    for a in (np.eye(3), np.diag([1.0, 2.0, 1.0]), np.zeros((2, 2))):
        for graph in (
            graph_of(lambda x: eigh(x, lower=True), a),
            graph_of(eig, a),
            graph_of(lambda x: svd(x, full_matrices=False), a),
        ):
            assert all(np.isfinite(g).all() for g in gradient(graph, a))


def test_the_sum_of_eigenvalues_is_the_trace_at_repeated_ones(rng):
    da = rng.normal(size=(3, 3))
    dw, _ = tangents(graph_of(lambda x: eigh(x, lower=True), da), np.eye(3), da)
    np.testing.assert_allclose(dw.sum(), np.trace(da))


def test_eig_keeps_norm_and_phase(rng):
    for a in (rng.normal(size=(5, 5)), cx(rng, 5, 5)):
        da = (a[::-1] + 0.5).astype(a.dtype)
        graph = graph_of(eig, a)
        w, v = interpret(graph, [a])
        dw, dv = tangents(graph, a, da)
        assert w.dtype == v.dtype == np.complex128
        np.testing.assert_allclose(a @ dv + da @ v, dv * w + v * dw, atol=1e-11)
        np.testing.assert_allclose((v.conj() * dv).real.sum(0), 0, atol=1e-11)
        np.testing.assert_allclose(dv[np.abs(v).argmax(0), range(5)].imag, 0, atol=1e-11)


def test_the_derivative_of_an_eigenvector_can_be_taken_again(rng):
    a = np.diag([1.0, 3.0, -2.0]) + 0.3 * rng.normal(size=(3, 3))
    made, _ = jvp(graph_of(eig, a), (True,), (True, True))
    laws.tangent(made, [a, rng.normal(size=(3, 3))], rng)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (12, 3), (3, 5), (3, 12)])
def test_the_phase_of_complex_singular_vectors_is_lapacks(shape, rng):
    a, da = cx(rng, *shape), cx(rng, *shape)
    graph = graph_of(lambda x: svd(x, full_matrices=False), a)
    u, s, vh = interpret(graph, [a])
    du, ds, dvh = tangents(graph, a, da)
    real, dreal = (vh[:, 0], dvh[:, 0]) if shape[0] >= shape[1] else (u[0], du[0])
    assert np.abs(real.imag).max() < 1e-14 and np.abs(dreal.imag).max() < 1e-12
    np.testing.assert_allclose((du * s) @ vh + (u * ds) @ vh + (u * s) @ dvh, da, atol=1e-11)
    laws.tangent(graph, [a], rng)


def test_the_polar_factor_of_a_degenerate_matrix_has_its_derivative(rng):
    """The derivative of u vh at the identity is the antisymmetric half of da, though all singular values are equal."""
    da = rng.normal(size=(3, 3))

    def polar(x):
        u, _, vh = svd(x, full_matrices=False)
        return mm(u, vh)

    (d,) = tangents(graph_of(polar, da), np.eye(3), da)
    np.testing.assert_allclose(d, (da - da.T) / 2, atol=1e-14)


def test_the_nuclear_norm_has_the_polar_factor_as_gradient(rng):
    for a in (rng.normal(size=(4, 3)), cx(rng, 2, 4), np.eye(3) * 2):
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        np.testing.assert_allclose(gradient(graph_of(svdvals, a), a)[0], u @ vh, atol=1e-13)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: svd(x, full_matrices=True), "svd: full_matrices=True has no derivative for f64"),
        (lambda x: qr(x, mode="complete"), "qr: mode='complete' has no derivative for f64"),
    ],
)
def test_vectors_that_are_not_determined_have_no_derivative(function, text, rng):
    a = rng.normal(size=(4, 2))
    graph = graph_of(function, a)
    assert interpret(graph, [a])[0].shape == (4, 4)
    with pytest.raises(DerivativeError, match=text):
        gradient(graph, a)
    gradient(graph_of(function, a[:2]), a[:2])


def test_expm_has_all_derivatives(rng):
    """Along a direction that commutes with a, the n-th derivative of exp(a + t b) is b^n exp(a)."""
    a = rng.normal(size=(3, 3))
    b = 0.5 * a @ a - a
    graph = graph_of(expm, a)
    args = [a]
    for order in range(1, 4):
        graph = along(graph)
        args = [*args, b]
        expected = np.linalg.matrix_power(b, order) @ scipy.linalg.expm(a)
        np.testing.assert_allclose(interpret(graph, args)[0], expected, rtol=1e-9, atol=1e-9)


def along(graph):
    """The derivative of a graph by its first input, along one more input."""
    made, _ = jvp(graph, tuple(i == 0 for i in range(len(graph.inputs))), (True,))
    return build(lambda *xs: inline(made, xs)[1:], made.in_types)[0]


def test_a_root_that_is_complex_is_an_error():
    a = np.diag([-1.0, 1.0])
    with pytest.raises(DtypeError, match=r"sqrtm: the root of a real matrix is complex: f64\[2, 2\]"):
        interpret(graph_of(sqrtm, a), [a])
    np.testing.assert_allclose(interpret(graph_of(sqrtm, a + 0j), [a + 0j])[0], np.diag([1j, 1.0]))


def test_sylvester_is_scipys_and_its_singular_case_an_error(rng):
    a, b, q = cx(rng, 3, 3), cx(rng, 2, 2), cx(rng, 3, 2)
    for args in ([a, b, q], [a.real, b.real, q.real]):
        x = interpret(graph_of(solve_sylvester, *args), args)[0]
        np.testing.assert_allclose(x, scipy.linalg.solve_sylvester(*args), atol=1e-12)
    args = [np.eye(2), -np.eye(2), np.ones((2, 2))]
    with pytest.raises(np.linalg.LinAlgError):
        interpret(graph_of(solve_sylvester, *args), args)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 3), (0, 2, 2), (2, 0, 3)])
def test_empty_matrices_have_empty_derivatives(shape):
    a = np.zeros(shape)
    functions = [lambda x: svd(x, full_matrices=False), lambda x: qr(x, mode="reduced"), svdvals]
    if shape[-1] == shape[-2]:
        functions += [eig, lambda x: eigh(x, lower=True), expm, sqrtm]
    for function in functions:
        (g,) = gradient(graph_of(function, a), a)
        assert g.shape == shape


@pytest.fixture
def rng():
    return np.random.default_rng(0)
