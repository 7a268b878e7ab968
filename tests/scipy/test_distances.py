"""Distances: derivatives at distance 0, SciPy's own names in functions, batches, and refused arguments."""

import numpy as np
import pytest
import scipy.spatial.distance as theirs

import wholestep as ws
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.scipy.spatial import distance

RNG = np.random.default_rng(11)
X, SPREAD = RNG.normal(size=(5, 3)), np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.7]])
OPTIONS = {"minkowski": {"p": 1.5}, "mahalanobis": {"VI": SPREAD}, "seuclidean": {"V": np.ones(3)}}


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "sqeuclidean", "cosine", *OPTIONS])
def test_the_derivative_at_distance_0_is_0(metric):
    options = OPTIONS.get(metric, {})
    same = np.ones(3)
    assert theirs.cdist(same[None], same[None], metric, **options)[0, 0] == 0
    for f in (lambda u, v: distance.cdist(u[None], v[None], metric, **options)[0, 0],):
        for transform in (ws.grad, lambda f, argnums: ws.jit(ws.grad(f, argnums))):
            np.testing.assert_allclose(transform(f, argnums=(0, 1))(same, same), 0, atol=1e-15)
        assert np.isfinite(ws.hessian(f)(same, same)).all()
    whole = ws.jacfwd(lambda x: distance.cdist(x, x, metric, **options))(X)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(whole[np.arange(5), np.arange(5)], 0, atol=1e-15)


def test_the_names_of_scipy_in_functions():
    def energy(x):
        return (
            np.sum(np.exp(-(theirs.pdist(x) ** 2))) + theirs.cdist(x, X[:2], "cityblock").sum() + theirs.cosine(*x[:2])
        )

    away = X + 0.1
    np.testing.assert_allclose(ws.jit(energy)(away), energy(away), rtol=1e-14)
    ws.gradcheck(energy, away)
    batch = np.stack([away, 2 * away])
    slopes = ws.vmap(ws.grad(energy))(batch)
    np.testing.assert_allclose(slopes, [ws.grad(energy)(x) for x in batch], rtol=1e-12)


def test_a_metric_of_the_users_is_called_for_vectors():
    def bent(u, v, scale=1.0):
        assert u.shape == v.shape == (3,)
        return scale * np.sum(np.abs(u - v) ** 3)

    for f in (lambda x: theirs.cdist(x, X, bent, scale=2.0), lambda x: theirs.pdist(x, bent)):
        np.testing.assert_allclose(ws.jit(f)(X + 0.1), f(X + 0.1), rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: distance.cdist(x, x, "jaccard"), UnsupportedError, "cdist: the metric 'jaccard' is not covered"),
        (lambda x: distance.pdist(x, 3), ParameterError, "pdist: the metric is 3"),
        (lambda x: distance.cdist(x, x[:, :2]), ShapeError, "cdist: takes matrices of rows of one length"),
        (lambda x: distance.cdist(x * 1j, x), UnsupportedError, "cdist: not covered for complex arrays"),
        (lambda x: distance.pdist(x[:3], "mahalanobis"), ShapeError, "pdist: too few rows for a covariance"),
        (lambda x: distance.cdist(x, x, "minkowski", p=0), ParameterError, "minkowski: p is 0"),
        (lambda x: distance.euclidean(x, x), ShapeError, "euclidean: takes vectors"),
        (lambda x: distance.squareform(x), ShapeError, "squareform: the matrix must be square"),
        (lambda x: distance.squareform(x[:2, 0]), ShapeError, "squareform: .* has not the size of a triangle"),
        (lambda x: distance.squareform(x[0], "tovector"), ParameterError, "squareform: force='tovector'"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        ws.jit(call)(X)
