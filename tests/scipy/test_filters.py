"""Filters of scipy.ndimage: second derivatives, batches, wide Gaussians, and refusals that name a way out."""

import numpy as np
import pytest
import scipy.ndimage

import wholestep as ws
from wholestep.errors import UnsupportedError

RNG = np.random.default_rng(59)
X = RNG.normal(size=(6, 5))
STACK = RNG.normal(size=(3, 6, 5))
FUNCTIONS = {
    "gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x, 1.0, mode="mirror") ** 2,
    "uniform_filter": lambda x: scipy.ndimage.uniform_filter(x, 3, mode="wrap") ** 2,
    "convolve": lambda x: scipy.ndimage.convolve(x, [[1.0, 2.0], [0.5, -1.0]], mode="nearest") ** 2,
    "sobel": lambda x: np.hypot(scipy.ndimage.sobel(x, 0), scipy.ndimage.sobel(x, 1)),
    "laplace": lambda x: scipy.ndimage.laplace(x, mode="constant", cval=1.0) ** 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_second_derivative_is_that_of_the_first(name):
    f = FUNCTIONS[name]
    direction = RNG.normal(size=X.shape)
    gradient = ws.grad(lambda x: np.sum(f(x)))
    found = ws.hvp(lambda x: np.sum(f(x)), (X,), (direction,))
    numeric = (gradient(X + 1e-5 * direction) - gradient(X - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(found, numeric, atol=1e-6 * max(1, np.abs(numeric).max()))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_is_a_loop_and_compiled_code_agrees(name):
    f = FUNCTIONS[name]
    expected = [f(x) for x in STACK]
    np.testing.assert_allclose(ws.vmap(f)(STACK), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(ws.jit(f)(STACK[0]), expected[0], rtol=1e-12, atol=1e-13)


def test_a_wide_gaussian_is_no_larger_a_program_than_a_narrow_one():
    narrow, wide = [
        str(ws.trace(lambda x, s=sigma: scipy.ndimage.gaussian_filter(x, s))(X)).count("\n") for sigma in (0.5, 50.0)
    ]
    assert narrow == wide


@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "wrap", "constant"])
def test_windows_read_memory_in_its_order(mode):
    for axis in (0, 1):
        graph = ws.trace(lambda x, a=axis: scipy.ndimage.correlate1d(x, np.ones(3), a, mode=mode))(X)
        made = {v: node for node in graph.nodes for v in node.outputs}
        (read,) = [made[node.inputs[0]] for node in graph.nodes if node.op.name == "window"]
        assert read.op.name in ("concat", "pad")


def test_the_slope_in_a_known_sigma_is_that_of_differences():
    slope = ws.grad(lambda s: np.sum(scipy.ndimage.gaussian_filter(X, s) ** 2))(0.9)
    at = [np.sum(scipy.ndimage.gaussian_filter(X, s) ** 2) for s in (0.9 + 1e-6, 0.9 - 1e-6)]
    np.testing.assert_allclose(slope, (at[0] - at[1]) / 2e-6, rtol=1e-6)


def test_cut_off_sums_of_fractions_are_refused_with_a_way_out():
    image = np.full((4, 4), 7)
    with pytest.raises(UnsupportedError, match=r"output=np\.float64"):
        ws.jit(lambda x: scipy.ndimage.gaussian_filter(x, 1.0))(image)
    found = ws.jit(lambda x: scipy.ndimage.gaussian_filter(x, 1.0, output=np.float64))(image)
    np.testing.assert_allclose(found, 7.0, rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: scipy.ndimage.sobel(x, mode="edge"), RuntimeError, "boundary mode not supported"),
        (lambda x: scipy.ndimage.convolve(x, np.ones(3)), RuntimeError, "must match"),
        (lambda x: scipy.ndimage.correlate1d(x, [1.0, 2.0], origin=1), ValueError, "Invalid origin"),
        (lambda x: scipy.ndimage.uniform_filter(x, (3, 3, 3)), RuntimeError, "length equal to input rank"),
        (lambda x: scipy.ndimage.gaussian_filter1d(x, 1.0, radius=1.5), ValueError, "nonnegative integer"),
        (lambda x: scipy.ndimage.gaussian_filter1d(x, 1.0, order=-1), ValueError, "non-negative"),
        (lambda x: scipy.ndimage.laplace(x, axes=(0, 0)), ValueError, "unique"),
    ],
)
def test_errors_are_scipys(call, error, text):
    for f in (call, ws.jit(call)):
        with pytest.raises(error, match=text):
            f(X)
