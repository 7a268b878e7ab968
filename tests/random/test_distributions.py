"""Each distribution against its distribution function in scipy.stats; a fixed seed, so a failure is a change.

A test fails for one seed in 10 000 that were drawn at random: p-values are compared with 1e-4.
"""

import numpy as np
import pytest
from scipy import stats

import wholestep as ws
from wholestep import random

ALARM = 1e-4
N = 20_000
KEY = random.key(2024)

COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])
"""A covariance for which the variance of x + 2 y is 8."""
CONTINUOUS = {
    "uniform": (lambda k, d: random.uniform(k, (N,), d), stats.uniform()),
    "uniform of an interval": (lambda k, d: random.uniform(k, (N,), d, -3, 5), stats.uniform(-3, 8)),
    "normal": (lambda k, d: random.normal(k, (N,), d), stats.norm()),
    "truncated_normal": (lambda k, d: random.truncated_normal(k, -1, 2, (N,), d), stats.truncnorm(-1, 2)),
    "right tail": (lambda k, d: random.truncated_normal(k, 4, 6, (N,), d), stats.truncnorm(4, 6)),
    "left tail": (lambda k, d: random.truncated_normal(k, -9, -4, (N,), d), stats.truncnorm(-9, -4)),
    "exponential": (lambda k, d: random.exponential(k, (N,), d), stats.expon()),
    "gumbel": (lambda k, d: random.gumbel(k, (N,), d), stats.gumbel_r()),
    "laplace": (lambda k, d: random.laplace(k, (N,), d), stats.laplace()),
    "logistic": (lambda k, d: random.logistic(k, (N,), d), stats.logistic()),
    "cauchy": (lambda k, d: random.cauchy(k, (N,), d), stats.cauchy()),
    "gamma 0.3": (lambda k, d: random.gamma(k, 0.3, (N,), d), stats.gamma(0.3)),
    "gamma 1": (lambda k, d: random.gamma(k, 1, (N,), d), stats.gamma(1)),
    "gamma 7.5": (lambda k, d: random.gamma(k, 7.5, (N,), d), stats.gamma(7.5)),
    "gamma 1000": (lambda k, d: random.gamma(k, 1000, (N,), d), stats.gamma(1000)),
    "loggamma 0.001": (lambda k, d: random.loggamma(k, 0.001, (N,), d), stats.loggamma(0.001)),
    "loggamma 0.3": (lambda k, d: random.loggamma(k, 0.3, (N,), d), stats.loggamma(0.3)),
    "loggamma 40": (lambda k, d: random.loggamma(k, 40, (N,), d), stats.loggamma(40)),
    "chisquare": (lambda k, d: random.chisquare(k, 3, (N,), d), stats.chi2(3)),
    "beta": (lambda k, d: random.beta(k, 0.5, 2, (N,), d), stats.beta(0.5, 2)),
    "t": (lambda k, d: random.t(k, 2.5, (N,), d), stats.t(2.5)),
    "lognormal": (lambda k, d: random.lognormal(k, 0.7, (N,), d), stats.lognorm(0.7)),
    "rayleigh": (lambda k, d: random.rayleigh(k, 2.0, (N,), d), stats.rayleigh(scale=2)),
    "weibull_min": (lambda k, d: random.weibull_min(k, 2.0, 1.5, (N,), d), stats.weibull_min(1.5, scale=2)),
    "pareto": (lambda k, d: random.pareto(k, 3.0, (N,), d), stats.pareto(3)),
    "triangular": (lambda k, d: random.triangular(k, -1.0, 0.5, 3.0, (N,), d), stats.triang(0.375, -1, 4)),
    "triangular falling": (lambda k, d: random.triangular(k, 0, 0, 2, (N,), d), stats.triang(0, 0, 2)),
    "generalized_normal": (lambda k, d: random.generalized_normal(k, 3.0, (N,), d), stats.gennorm(3.0)),
    "generalized_normal, nearly uniform": (
        lambda k, d: random.generalized_normal(k, 1e4, (N,), d),
        stats.uniform(-1, 2),
    ),
    "a coordinate of a disc": (
        lambda k, d: random.ball(k, 2, shape=(N,), dtype=d)[:, 0],
        stats.rdist(3),
    ),
    "a radius of a ball": (
        lambda k, d: abs(random.ball(k, 3, 1.0, (N,), d)).sum(axis=1) ** 3,
        stats.uniform(),
    ),
    "an element of orthogonal matrices": (
        lambda k, d: random.orthogonal(k, 4, (N,), d)[:, 1, 2],
        stats.rdist(3),
    ),
    "f": (lambda k, d: random.f(k, 3.0, 7.0, (N,), d), stats.f(3, 7)),
    "wald": (lambda k, d: random.wald(k, 2.0, (N,), d), stats.invgauss(2.0)),
    "wald of a large mean": (lambda k, d: random.wald(k, 50.0, (N,), d), stats.invgauss(50.0)),
    "double_sided_maxwell": (
        lambda k, d: abs(random.double_sided_maxwell(k, 1.0, 2.0, (N,), d) - 1),
        stats.maxwell(scale=2),
    ),
    "maxwell": (lambda k, d: random.maxwell(k, (N,), d), stats.maxwell()),
    "multivariate_normal": (
        lambda k, d: random.multivariate_normal(k, [1.0, -2.0], COVARIANCE, (N,), d) @ np.array([1, 2], d),
        stats.norm(-3, np.sqrt(8)),
    ),
    "dirichlet": (lambda k, d: random.dirichlet(k, [1.0, 2.0, 3.0], (N,), d)[:, 1], stats.beta(2, 4)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_function(name, dtype):
    draw, truth = CONTINUOUS[name]
    x = draw(random.fold_in(KEY, len(name)), dtype)
    assert x.dtype == dtype and x.shape == (N,)
    assert stats.kstest(x.astype(float), truth.cdf).pvalue > ALARM


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_moments_of_two_million_normal_numbers(dtype):
    """Each moment is within five standard errors, which fails for one seed in 870 000."""
    x = random.normal(KEY, (2_000_000,), dtype).astype(float)
    truth = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96), 6: (15, 10170)}
    for power, (mean, variance) in truth.items():
        assert abs((x**power).mean() - mean) < 5 * np.sqrt(variance / len(x))


@pytest.mark.parametrize("bound", [3.5, 4.0, 4.5])
def test_normal_tails_have_their_weight(bound):
    """The counts in both tails of eight million numbers are binomial, at a p-value above 1e-4."""
    x = random.normal(KEY, (8_000_000,), np.float32)
    for count in ((x > bound).sum(), (x < -bound).sum()):
        assert stats.binomtest(int(count), len(x), stats.norm.sf(bound)).pvalue > ALARM


def test_complex_normal_parts():
    x = random.normal(KEY, (N,), np.complex128)
    for part in (x.real, x.imag):
        assert stats.kstest(part, stats.norm(scale=np.sqrt(0.5)).cdf).pvalue > ALARM
    assert abs(np.corrcoef(x.real, x.imag)[0, 1]) * np.sqrt(N) < 4.5


def pvalue(counts, chances):
    """Chi-square, cells expected below five taken together."""
    counts, expected = np.asarray(counts, float), np.asarray(chances) * np.sum(counts)
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def pvalue_of_counts(x, truth):
    """Chi-square over at most 60 cells of about the same chance."""
    edges = np.unique(truth.ppf(np.linspace(0.001, 0.999, 60)))
    chances = np.diff([0, *truth.cdf(edges), 1])
    return pvalue(np.histogram(x, [-np.inf, *(edges + 0.5), np.inf])[0], chances)


@pytest.mark.parametrize("lam", [0.01, 0.7, 3.0, 9.99, 10.0, 25.5, 400.0, 1e6])
def test_poisson(lam):
    x = random.poisson(random.fold_in(KEY, int(lam * 100)), lam, (50_000,))
    assert pvalue_of_counts(x, stats.poisson(lam)) > ALARM


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.5), (5, 0.3), (1000, 0.005), (40, 0.25), (100, 0.5), (100, 0.93), (10**6, 0.3), (10**12, 0.25)]
)
def test_binomial(n, p):
    x = random.binomial(random.fold_in(KEY, n), n, p, (50_000,))
    assert x.min() >= 0 and x.max() <= n
    assert pvalue_of_counts(x, stats.binom(n, p)) > ALARM


def test_multinomial():
    p = np.array([0.2, 0.0, 0.45, 0.35])
    for n in (1, 6, 1000):
        x = random.multinomial(random.fold_in(KEY, n), n, p, (20_000,))
        assert (x.sum(1) == n).all() and (x >= 0).all() and not x[:, 1].any()
        for i in (0, 2, 3):
            assert pvalue_of_counts(x[:, i], stats.binom(n, p[i])) > ALARM
        covariance = np.cov(x.T)
        np.testing.assert_allclose(covariance, n * (np.diag(p) - np.outer(p, p)), atol=0.03 * n)
    found = random.multinomial(KEY, np.array([[0], [7]]), np.array([[1.0, 0.0], [0.0, 1.0]]), (2, 2))
    assert found.tolist() == [[[0, 0], [0, 0]], [[7, 0], [0, 7]]]
    for n, q in ((-1, p), (2.5, p), (3, [0.5, 0.6]), (3, [-0.5, 1.5])):
        with pytest.raises(ws.errors.ParameterError, match="multinomial"):
            random.multinomial(KEY, n, q)
        assert (ws.jit(random.multinomial)(KEY, n, np.array(q)) == -1).all()
    with pytest.raises(ws.errors.ShapeError, match="without an axis of categories"):
        random.multinomial(KEY, 3, 1.0)


def test_orthogonal_matrices_and_unitary_ones():
    for dtype in (np.float64, np.complex128):
        q = random.orthogonal(KEY, 3, (5,), dtype)
        np.testing.assert_allclose(q @ q.conj().swapaxes(-1, -2), np.broadcast_to(np.eye(3), (5, 3, 3)), atol=1e-12)
    signs = np.sign(np.linalg.det(random.orthogonal(KEY, 2, (N,), np.float64)))
    assert stats.binomtest(int((signs > 0).sum()), N).pvalue > ALARM


def test_binomial_of_certain_and_of_many_parameters_at_once():
    n, p = np.array([0, 7, 7, 30, 1000]), np.array([0.5, 0.0, 1.0, 0.2, 0.6])
    x = random.binomial(KEY, n, p, (20_000, 5))
    assert (x[:, :3] == [0, 0, 7]).all()
    assert np.all(np.abs(x.mean(0) - n * p) <= 5 * np.sqrt(n * p * (1 - p) / 20_000))


@pytest.mark.parametrize("p", [1e-6, 0.03, 0.5, 0.99])
def test_geometric(p):
    x = random.geometric(random.fold_in(KEY, int(p * 1e6)), p, (50_000,))
    assert x.min() >= 1
    assert pvalue_of_counts(x, stats.geom(p)) > ALARM


def test_geometric_of_certain_success_and_of_next_to_none():
    assert (random.geometric(KEY, 1.0, (100,)) == 1).all()
    assert (random.geometric(KEY, 1e-300, (100,)) == 2**62).all()


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32"])
def test_rademacher(dtype):
    x = random.rademacher(KEY, (N,), dtype)
    assert x.dtype == dtype and set(x.tolist()) == {-1, 1}
    assert stats.binomtest(int((x == 1).sum()), N).pvalue > ALARM


def test_multivariate_normal_of_many_matrices():
    mean, cov = np.array([[0.0, 1.0], [5.0, -1.0]]), np.stack([COVARIANCE, 4 * COVARIANCE])
    x = random.multivariate_normal(KEY, mean, cov, (N, 2), np.float64)
    assert x.shape == (N, 2, 2)
    for i in range(2):
        assert np.allclose(x[:, i].mean(0), mean[i], atol=5 * np.sqrt(8 / N))
        assert np.allclose(np.cov(x[:, i].T), cov[i], atol=5 * 12 / np.sqrt(N))


def test_poisson_of_zero_and_of_many_means_at_once():
    lam = np.array([0.0, 5.0, 50.0])
    x = random.poisson(KEY, lam, (20_000, 3))
    assert (x[:, 0] == 0).all()
    assert np.all(np.abs(x.mean(0) - lam) <= 5 * np.sqrt(lam / 20_000))


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bernoulli(p, dtype):
    x = random.bernoulli(KEY, np.dtype(dtype).type(p), (N,))
    assert x.dtype == bool
    assert stats.binomtest(int(x.sum()), N, float(np.dtype(dtype).type(p))).pvalue > ALARM


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 7, "i8"), (-3, 10, "i4"), (250, 256, "u1"), (-128, 128, "i1"), (0, 3 * 2**62, "u8"), (-(2**63), 2**63, "i8")],
)
def test_randint_is_even(low, high, dtype):
    x = random.randint(KEY, (50_000,), low, high, dtype)
    assert x.dtype == np.dtype(dtype)
    assert int(x.min()) >= low and int(x.max()) < high
    cells = min(high - low, 24)
    index = [(int(v) - low) * cells // (high - low) for v in x]
    sizes = np.bincount([i * cells // (high - low) for i in range(high - low)]) if high - low < 1000 else np.ones(cells)
    assert pvalue(np.bincount(index, minlength=cells), sizes / sizes.sum()) > ALARM


def test_randint_multiplies_without_error():
    """Against Python integers: the offset is floor(r span / 2**128) or / 2**64 of the words drawn."""
    for dtype, count, low, high in (("u8", 4, 5, 2**63 + 12345), ("i4", 2, -(2**31), 2**31), ("i8", 4, -7, 3)):
        found = random.randint(KEY, (200,), low, high, dtype)
        words = random.bits(KEY, (200, count)).astype(object)
        r = sum(words[:, i] << 32 * i for i in range(count))
        assert [int(v) for v in found] == [low + (x * (high - low) >> 32 * count) for x in r]


@pytest.mark.parametrize("replace", [True, False])
def test_choice_with_weights(replace):
    p = np.array([0.1, 0.0, 0.4, 0.2, 0.3])
    keys = random.split(KEY, N)
    x = ws.vmap(lambda k: random.choice(k, 5, (2,), replace, p))(keys)
    pairs = np.bincount(x[:, 0] * 5 + x[:, 1], minlength=25)
    rest = np.ones(5) if replace else 1 / (1 - p)
    chances = p[:, None] * p * rest[:, None]
    if not replace:
        np.fill_diagonal(chances, 0)
    assert pairs[chances.ravel() == 0].sum() == 0
    assert pvalue(pairs, chances.ravel()) > ALARM


@pytest.mark.parametrize("replace", [True, False])
def test_choice_without_weights(replace):
    x = ws.vmap(lambda k: random.choice(k, 4, (2,), replace))(random.split(KEY, N))
    chances = np.ones((4, 4)) if replace else 1 - np.eye(4)
    assert pvalue(np.bincount(x[:, 0] * 4 + x[:, 1], minlength=16), chances.ravel() / chances.sum()) > ALARM


def test_weights_need_not_sum_to_one_and_zero_is_never_drawn():
    x = random.choice(KEY, 6, (100_000,), p=[0.0, 0.0, 5.0, 0.0, 5.0, 0.0])
    assert set(x.tolist()) == {2, 4}


def test_permutations_are_equally_likely():
    x = ws.vmap(lambda k: random.permutation(k, 4))(random.split(KEY, N))
    _, counts = np.unique(x, axis=0, return_counts=True)
    assert len(counts) == 24
    assert pvalue(counts, np.full(24, 1 / 24)) > ALARM


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_categorical(dtype):
    logits = np.array([0.5, -np.inf, -1.0, 2.0], dtype)
    x = random.categorical(KEY, logits, shape=(N,))
    chances = np.exp(logits.astype(float))
    assert pvalue(np.bincount(x, minlength=4), chances / chances.sum()) > ALARM


def test_dirichlet_lies_in_the_simplex():
    x = random.dirichlet(KEY, np.array([[1e-3, 1e-3], [5.0, 1.0]]), (1000, 2))
    assert x.shape == (1000, 2, 2)
    assert np.allclose(x.sum(-1), 1) and (x >= 0).all() and np.isfinite(x).all()


def test_beta_of_small_parameters_is_finite():
    x = random.beta(KEY, 1e-4, 1e-4, (10_000,))
    assert np.isfinite(x).all()
    assert stats.binomtest(int((x > 0.5).sum()), len(x), 0.5).pvalue > ALARM


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_f_of_few_degrees_of_freedom_is_a_number(dtype):
    x = random.f(KEY, 0.002, 0.002, (N,), dtype)
    assert not np.isnan(x).any() and stats.binomtest(int(np.sum(x > 1)), N).pvalue > ALARM
