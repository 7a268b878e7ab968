"""gaussian_kde beside SciPy's, its derivatives, and the numbers that it draws."""

import numpy as np
import pytest
import scipy.stats

import wholestep as ws
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.scipy.stats import gaussian_kde

RNG = np.random.default_rng(3)
DATA, WEIGHTS, POINTS = RNG.normal(size=(2, 30)), RNG.uniform(size=30), RNG.normal(size=(2, 5))
BANDWIDTHS = {"usual": None, "silverman": "silverman", "number": 0.3, "function": lambda kde: kde.neff**-0.2}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("bandwidth", BANDWIDTHS.values(), ids=BANDWIDTHS)
@pytest.mark.parametrize(
    ("data", "points"), [(DATA, POINTS), (DATA[0], POINTS[0]), (DATA, POINTS[:, 0])], ids=["plane", "line", "one point"]
)
def test_densities(data, points, bandwidth, weights):
    theirs = scipy.stats.gaussian_kde(data, bandwidth, weights)
    plain = gaussian_kde(data, bandwidth, weights)
    for method in ("logpdf", "pdf", "evaluate", "__call__"):
        expected = getattr(theirs, method)(points)
        np.testing.assert_allclose(getattr(plain, method)(points), expected, rtol=1e-11)

        def traced(data, points, method=method):
            return getattr(scipy.stats.gaussian_kde(data, bandwidth, weights), method)(points)

        np.testing.assert_allclose(ws.jit(traced)(data, points), expected, rtol=1e-11)
    np.testing.assert_allclose(plain.inv_cov, theirs.inv_cov, rtol=1e-11)


def test_integrals():
    (ours, others, wide), (theirs, their_others, their_wide) = [
        (make(DATA[0]), make(DATA[1], weights=WEIGHTS), make(DATA)) for make in (gaussian_kde, scipy.stats.gaussian_kde)
    ]
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11)  # noqa: E731
    close(ours.integrate_box_1d(-0.3, 1.0), theirs.integrate_box_1d(-0.3, 1.0))
    close(ours.integrate_kde(others), theirs.integrate_kde(their_others))
    close(wide.integrate_gaussian([0.1, 0.2], np.eye(2)), their_wide.integrate_gaussian([0.1, 0.2], np.eye(2)))
    close(wide.marginal(1).logpdf(POINTS[1]), their_wide.marginal(1).logpdf(POINTS[1]))
    ours.set_bandwidth(0.7)
    theirs.set_bandwidth(0.7)
    close(ours.logpdf(0.2), theirs.logpdf(0.2))


def test_derivatives():
    def score(data, weights, points):
        kde = gaussian_kde(data, weights=weights)
        return kde.logpdf(points).sum() + kde.integrate_gaussian(points[:, 0], np.eye(2))

    ws.gradcheck(score, DATA[:, :6], WEIGHTS[:6], POINTS)
    ws.gradcheck(lambda x: gaussian_kde(x).integrate_box_1d(x[0], 0.7), DATA[0, :6])
    rows = ws.vmap(ws.grad(lambda x: gaussian_kde(x).logpdf(0.1)[0]))(DATA)
    np.testing.assert_allclose(rows[1], ws.grad(lambda x: gaussian_kde(x).logpdf(0.1)[0])(DATA[1]), rtol=1e-12)


def test_drawn_points_have_the_density():
    kde, n = scipy.stats.gaussian_kde(DATA[0], weights=WEIGHTS), 20_000
    drawn = ws.jit(lambda x: scipy.stats.gaussian_kde(x, weights=WEIGHTS).resample(ws.random.key(1), n))(DATA[0])
    assert drawn.shape == (1, n)
    cdf = np.vectorize(lambda x: kde.integrate_box_1d(-np.inf, x))
    assert scipy.stats.kstest(drawn[0], cdf).pvalue > 1e-4
    plane = gaussian_kde(DATA).resample(ws.random.key(2), 40_000)
    expected = np.cov(DATA, bias=True) + scipy.stats.gaussian_kde(DATA).covariance
    np.testing.assert_allclose(np.cov(plane), expected, atol=0.05)
    np.testing.assert_allclose(plane.mean(1), DATA.mean(1), atol=0.05)


def test_what_is_refused():
    with pytest.raises(ParameterError, match="fewer than two"):
        gaussian_kde([1.0])
    with pytest.raises(ParameterError, match="bw_method is 'wide'"):
        gaussian_kde(DATA, "wide")
    with pytest.raises(ShapeError, match=r"weights of shape \(3,\)"):
        gaussian_kde(DATA, weights=np.ones(3))
    with pytest.raises(ShapeError, match=r"points of shape \(3, 2\)"):
        gaussian_kde(DATA).logpdf(np.ones((3, 2)))
    with pytest.raises(ShapeError, match="2 components, not one"):
        gaussian_kde(DATA).integrate_box_1d(0.0, 1.0)
    with pytest.raises(UnsupportedError, match="integrate_box: rng"):
        gaussian_kde(DATA).integrate_box([0.0, 0.0], [1.0, 1.0], rng=0)
