"""Arrays read between their elements: JAX's values and slopes, calls of SciPy's own name, and batches."""

import numpy as np
import pytest
import scipy.ndimage

import wholestep as ws

RNG = np.random.default_rng(53)
X, AT = RNG.normal(size=(4, 5)), RNG.uniform(-9, 9, size=(2, 60))
THEIRS = {
    "nearest": "nearest",
    "mirror": "mirror",
    "reflect": "reflect",
    "grid-wrap": "wrap",
    "grid-constant": "constant",
}


def score(x, at, mode):
    return np.sum(scipy.ndimage.map_coordinates(x, at, order=1, mode=mode, cval=0.5) ** 3)


@pytest.mark.parametrize("mode", THEIRS)
def test_values_and_slopes_are_those_of_jax(mode):
    jax = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")

    def theirs(x, at):
        return (jax.scipy.ndimage.map_coordinates(x, list(at), 1, THEIRS[mode], 0.5) ** 3).sum()

    with jax.enable_x64(True):
        expected, slopes = jax.value_and_grad(theirs, argnums=(0, 1))(jax.numpy.asarray(X), jax.numpy.asarray(AT))
    found, ours = ws.jit(ws.value_and_grad(lambda x, at: score(x, at, mode), argnums=(0, 1)))(X, AT)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for one, other in zip(ours, slopes, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_each_of_a_batch_is_read_at_places_of_its_own():
    xs, places = RNG.normal(size=(3, 4, 5)), RNG.uniform(-9, 9, size=(3, 2, 7))
    found = ws.vmap(lambda x, at: scipy.ndimage.map_coordinates(x, at, order=1, mode="wrap"))(xs, places)
    each = [scipy.ndimage.map_coordinates(x, at, order=1, mode="wrap") for x, at in zip(xs, places, strict=True)]
    np.testing.assert_allclose(found, each, atol=1e-14)


def test_the_nearest_element_has_no_slope_in_the_place():
    slope = ws.grad(lambda at: np.sum(scipy.ndimage.map_coordinates(X, at, order=0)))(AT)
    assert not slope.any()
