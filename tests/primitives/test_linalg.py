"""Elimination: the facts about each factorisation that the laws on samples do not already state."""

import itertools

import numpy as np
import pytest
import scipy.linalg

from wholestep import dtypes
from wholestep.backends.reference import interpret
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.primitives import matrices
from wholestep.primitives.family import REGISTRY
from wholestep.primitives.linalg import adjugate, cholesky, det, lu, pinv, slogdet, solve, triangular_solve
from wholestep.primitives.matrices import lower_product, sample_matrices
from wholestep.testing import laws
from wholestep.transforms.forward import jvp
from wholestep.transforms.reverse import vjp


def graph_of(primitive, *arrays, **params):
    def call(*xs):
        out = primitive(*xs, **params)
        return out if primitive.multiple else (out,)

    return build(call, [array_type(x.shape, x.dtype) for x in arrays])[0]


def gradient(graph, *arrays):
    """The cotangents of all inputs for a cotangent of ones."""
    on, given = [True] * len(arrays), [t.inexact for t in graph.out_types]
    gys = [np.ones(t.shape, t.dtype) for t in graph.out_types if t.inexact]
    return interpret(vjp(graph, on, given), [*arrays, *gys])


def tangent_graph(graph):
    """The tangents of a graph of one input, as a graph of the input and a direction."""
    made, _ = jvp(graph, (True,), (True,) * len(graph.outputs))
    return made


def exact_adjugate(a):
    """Cofactors by the sum over permutations, in integers."""
    n = len(a)

    def minor(i, j):
        rows = [k for k in range(n) if k != i]
        columns = [k for k in range(n) if k != j]
        value = 0
        for order in itertools.permutations(range(n - 1)):
            swaps = sum(order[p] > order[q] for p in range(n - 1) for q in range(p + 1, n - 1))
            value += (-1) ** swaps * np.prod([a[r][columns[c]] for r, c in zip(rows, order, strict=True)], dtype=int)
        return (-1) ** (i + j) * value

    return np.array([[minor(j, i) for j in range(n)] for i in range(n)])


RANKS = [
    np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
    np.ones((3, 3), int),
    np.zeros((3, 3), int),
    np.array([[2, 1, 0, 0], [4, 2, 0, 0], [0, 0, 1, 3], [0, 0, 2, 6]]),
    np.array([[2, -1, 0], [1, 3, 1], [0, 2, 5]]),
    np.array([[0, 0], [0, 5]]),
]


@pytest.mark.parametrize("a", RANKS, ids=str)
def test_det_has_its_first_two_derivatives_at_any_rank(a):
    x = a.astype(float)
    expected = exact_adjugate(a)
    np.testing.assert_allclose(
        interpret(graph_of(adjugate, x), [x])[0], expected, atol=1e-12 * (1 + np.abs(a).max() ** 3)
    )
    graph = graph_of(det, x)
    np.testing.assert_allclose(gradient(graph, x)[0], expected.T, atol=1e-11)
    # det is linear in each element, so this second difference in integers is exact
    pull = vjp(graph, (True,), (True,))
    made, _ = jvp(pull, (True, False), (True,))
    direction = np.zeros_like(x)
    direction[0, 1] = 1.0
    step = a.copy()
    step[0, 1] += 1
    second = interpret(made, [x, np.float64(1.0), direction])[1]
    np.testing.assert_allclose(second, (exact_adjugate(step) - expected).T, atol=1e-11)


@pytest.mark.parametrize("a", [np.eye(3), np.ones((3, 3)), np.zeros((3, 3))], ids=["repeated", "rank 1", "rank 0"])
def test_det_has_a_third_derivative_at_singular_matrices_and_repeated_singular_values(rng, a):
    twice = tangent_graph(graph_of(det, a))
    args = [a, rng.normal(size=(3, 3))]
    made, _ = jvp(twice, (True, False), (True, True))
    laws.tangent(made, [*args, rng.normal(size=(3, 3))], rng)
    laws.adjoint(made, [*args, rng.normal(size=(3, 3))], rng)


def test_slogdet_is_det_and_its_complex_sign_turns(rng):
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    da = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    made = tangent_graph(graph_of(slogdet, a))
    sign, log, dsign, dlog = interpret(made, [a, da])
    change = np.trace(np.linalg.inv(a) @ da)
    np.testing.assert_allclose(sign * np.exp(log), np.linalg.det(a))
    np.testing.assert_allclose(dsign, sign * 1j * change.imag)
    np.testing.assert_allclose(dlog, change.real)
    on = jvp(graph_of(slogdet, a.real), (True,))[1]
    assert on == (False, True)


@pytest.mark.parametrize("dtype", ["f64", "c128"])
def test_cholesky_sees_one_triangle(dtype, rng):
    a = REGISTRY["cholesky"].samples(rng)
    (a,) = next(s.inputs for s in a if dtypes.short(s.inputs[0].dtype) == dtype)
    dirty = np.where(np.tri(len(a), dtype=bool), a, np.nan)
    whole = np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(a.diagonal().real)
    graph = graph_of(cholesky, a)
    np.testing.assert_array_equal(interpret(graph, [dirty])[0], np.linalg.cholesky(whole))
    (g,) = gradient(graph, dirty)
    assert np.isfinite(g).all() and (np.triu(g, 1) == 0).all() and (g.diagonal().imag == 0).all()


@pytest.mark.parametrize("dtype", ["f64", "c128"])
@pytest.mark.parametrize("n", [6, 7, 9])
def test_products_of_triangles_in_blocks_and_their_derivatives(n, dtype, rng, monkeypatch):
    monkeypatch.setattr(matrices, "LARGE_TRIANGLE", 6)
    x, y = (np.tril(sample_matrices(rng, (2, n, n), dtype, 2.0)) for _ in range(2))
    product, _ = build(lambda x, y: [lower_product(x, y)], [array_type(x.shape, x.dtype)] * 2)
    np.testing.assert_allclose(interpret(product, [x, y])[0], x @ y, atol=1e-14)
    a = sample_matrices(rng, (2, n, n), dtype, 3.0)
    graph = graph_of(cholesky, a)
    laws.tangent(graph, [a], rng)
    laws.adjoint(graph, [a], rng)
    laws.adjoint(tangent_graph(graph), [a, a], rng)


def test_the_gradient_of_a_large_cholesky_multiplies_triangles_by_blocks(rng):
    n = matrices.LARGE_TRIANGLE + 3
    a = sample_matrices(rng, (n, n), "f64", 2.0 * n, noise=1.0)
    graph = graph_of(cholesky, a)
    backward = vjp(graph, [True], [True])
    products = sum(node.op.flops(node) for node in backward.nodes if node.op.name == "contract")
    assert products < 2 * n**3 / 3
    gy = rng.normal(size=(n, n))
    factor = np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)
    middle = np.tril(factor.T @ np.tril(gy))
    middle[np.diag_indices(n)] /= 2
    half = scipy.linalg.solve_triangular(factor, middle, lower=True, trans=1)
    whole = scipy.linalg.solve_triangular(factor, half.T, lower=True, trans=1).T
    expected = np.tril(whole + whole.T)  # the source: Murray, "Differentiation of the Cholesky decomposition" (2016)
    expected[np.diag_indices(n)] /= 2
    np.testing.assert_allclose(interpret(backward, [a, gy])[-1], expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve_reads_its_triangle_only(trans, lower, unit, rng):
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) + 3 * np.eye(3)
    b = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))
    mask = np.tri(3, k=-1 if unit else 0, dtype=bool)
    mask = mask if lower else mask.T
    known = np.where(mask, a, 0) + (np.eye(3) if unit else 0)
    dirty = np.where(mask, a, np.nan)
    params = {"lower": lower, "unit": unit, "trans": trans}
    graph = graph_of(triangular_solve, a, b, **params)
    op = (known, known.T, known.conj().T)[trans]
    np.testing.assert_allclose(op @ interpret(graph, [dirty, b])[0], b, atol=1e-12)
    ga, gb = gradient(graph, dirty, b)
    assert (ga[~mask] == 0).all() and np.isfinite(gb).all()
    laws.tangent(graph, [a, b], rng)
    laws.adjoint(graph, [a, b], rng)
    laws.adjoint(tangent_graph_of_two(graph), [a, b, a, b], rng)


def tangent_graph_of_two(graph):
    return jvp(graph, (True, True), (True,))[0]


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3)])
def test_lu_is_what_lapack_makes(shape, rng):
    a = rng.normal(size=shape)
    packed, pivots, order = interpret(graph_of(lu, a), [a])
    for at in np.ndindex(*shape[:-2]):
        expected, places = scipy.linalg.lu_factor(a[at])
        np.testing.assert_array_equal(packed[at], expected)
        np.testing.assert_array_equal(pivots[at], places)
        k = min(shape[-2:])
        left = np.tril(expected[:, :k], -1) + np.eye(shape[-2], k)
        np.testing.assert_allclose(left @ np.triu(expected[:k]), a[at][order[at]], atol=1e-14)


def test_lu_of_a_singular_matrix_is_a_result():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    packed, _, order = interpret(graph_of(lu, a), [a])
    np.testing.assert_array_equal(packed, [[2.0, 4.0], [0.5, 0.0]])
    np.testing.assert_array_equal(order, [1, 0])
    with pytest.raises(np.linalg.LinAlgError):
        gradient(graph_of(lu, a), a)


def test_pinv_of_a_deficient_matrix_keeps_its_rank(rng):
    left, right = rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
    dleft, dright = rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
    graph = graph_of(pinv, left @ right, rcond=1e-10)
    (_, found) = interpret(tangent_graph(graph), [left @ right, dleft @ right + left @ dright])

    def at(t):
        return np.linalg.pinv((left + t * dleft) @ (right + t * dright), 1e-10)

    slope = (8 * (at(1e-3) - at(-1e-3)) - (at(2e-3) - at(-2e-3))) / 12e-3
    np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)


def test_a_singular_system_raises_numpys_error():
    a, b = np.ones((2, 2)), np.ones((2, 1))
    for graph, args in (
        (graph_of(solve, a, b), [a, b]),
        (graph_of(cholesky, -a), [-a]),
        (graph_of(triangular_solve, a, b, lower=True, unit=False, trans=0), [0 * a, b]),
    ):
        with pytest.raises(np.linalg.LinAlgError):
            interpret(graph, args)


SQUARE = ["adjugate", "cholesky", "det", "eig", "expm", "schur", "slogdet", "sqrtm"]
ANY = {"lu": {}, "pinv": {"rcond": 1e-10}, "qr": {"mode": "reduced"}, "svd": {"full_matrices": False}, "svdvals": {}}


@pytest.mark.parametrize("name", [*SQUARE, *ANY])
def test_refusals_name_the_operation_and_the_type(name):
    primitive, params = REGISTRY[name], ANY.get(name, {})
    for dtype in ("f16", "bf16", "i64", "bool"):
        with pytest.raises(DtypeError, match=f"^{name}: does not take {dtype}"):
            primitive.type(array_type((2, 2), dtypes.from_short(dtype)), **params)
    with pytest.raises(ShapeError, match=rf"^{name}: takes matrices \[..., m, n\]: f64\[3\]"):
        primitive.type(array_type((3,), np.dtype(float)), **params)
    if name in SQUARE:
        with pytest.raises(ShapeError, match=rf"^{name}: the matrix is not square: f64\[2, 3\]"):
            primitive.type(array_type((2, 3), np.dtype(float)), **params)


@pytest.mark.parametrize(("b", "error", "text"), [
    (array_type((3, 1), np.dtype(float)), ShapeError, r"solve: sizes differ: f64\[2, 2\], f64\[3, 1\]"),
    (array_type((2, 2, 1), np.dtype(float)), ShapeError, "solve: operands differ in their leading axes"),
    (array_type((2, 1), np.dtype("f4")), DtypeError, "solve: operands differ in dtype"),
])  # fmt: skip
def test_a_right_hand_side_must_fit(b, error, text):
    with pytest.raises(error, match=text):
        solve.type(array_type((2, 2), np.dtype(float)), b)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
