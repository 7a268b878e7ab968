"""The same key gives the same bits plain, traced, compiled and in a batch; parameters are differentiable or refused."""

import doctest

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, random
from wholestep.errors import AxisError, DtypeError, ShapeError
from wholestep.random import circular, continuous, counts, derived, discrete, keys, parametric, rejection

KEY = random.key(3)
DRAWS = {
    "bits": lambda k: random.bits(k, (3, 5)),
    "bits u64": lambda k: random.bits(k, (7,), np.uint64),
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 2**40),
    "uniform": lambda k: random.uniform(k, (3, 5)),
    "uniform f32": lambda k: random.uniform(k, (3, 5), np.float32, -1, 2),
    "normal": lambda k: random.normal(k, (3, 5)),
    "normal c64": lambda k: random.normal(k, (3,), np.complex64),
    "normal scalar": lambda k: random.normal(k),
    "truncated_normal": lambda k: random.truncated_normal(k, np.array([-1.0, 2.0]), 3.0),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (9,)),
    "randint": lambda k: random.randint(k, (9,), -4, 90),
    "randint u1": lambda k: random.randint(k, (9,), 4, 90, np.uint8),
    "permutation": lambda k: random.permutation(k, 9),
    "permutation of an array": lambda k: random.permutation(k, np.arange(12.0).reshape(3, 4), 1),
    "independent": lambda k: random.permutation(k, np.arange(12.0).reshape(3, 4), 1, independent=True),
    "choice": lambda k: random.choice(k, 9, (4,)),
    "choice p": lambda k: random.choice(k, np.arange(3.0), (2, 4), p=[0.5, 0.0, 0.5]),
    "choice once": lambda k: random.choice(k, np.eye(3), (2,), False, [0.5, 0.0, 0.5], axis=1),
    "categorical": lambda k: random.categorical(k, np.zeros((2, 5)), axis=0),
    "gumbel": lambda k: random.gumbel(k, (5,), np.float16),
    "gamma": lambda k: random.gamma(k, np.array([0.1, 1.0, 30.0])),
    "loggamma": lambda k: random.loggamma(k, np.array([1e-3, 1.0, 30.0])),
    "gamma f32": lambda k: random.gamma(k, 0.5, (40,), np.float32),
    "beta": lambda k: random.beta(k, 0.5, 3.0, (5,)),
    "dirichlet": lambda k: random.dirichlet(k, np.ones(4)),
    "t": lambda k: random.t(k, 3.0, (5,)),
    "lognormal": lambda k: random.lognormal(k, 0.5, (5,)),
    "rayleigh": lambda k: random.rayleigh(k, np.array([1.0, 2.0])),
    "weibull_min": lambda k: random.weibull_min(k, 2.0, 1.5, (5,)),
    "pareto": lambda k: random.pareto(k, 3.0, (5,)),
    "triangular": lambda k: random.triangular(k, 0.0, np.array([0.5, 1.0]), 2.0),
    "maxwell": lambda k: random.maxwell(k, (5,)),
    "multivariate_normal": lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(2) + 0.5, (3,)),
    "binomial": lambda k: random.binomial(k, np.array([3, 40, 1000]), np.array([0.5, 0.9, 0.3])),
    "geometric": lambda k: random.geometric(k, np.array([0.1, 0.9])),
    "multinomial": lambda k: random.multinomial(k, np.array([3, 400]), [0.2, 0.0, 0.5, 0.3]),
    "generalized_normal": lambda k: random.generalized_normal(k, np.array([0.7, 3.0]), (5, 2)),
    "ball": lambda k: random.ball(k, 3, 1.5, (4,)),
    "orthogonal": lambda k: random.orthogonal(k, 3, (2,), np.float64),
    "f": lambda k: random.f(k, 3.0, np.array([4.0, 5.0])),
    "wald": lambda k: random.wald(k, np.array([0.5, 2.0, 30.0])),
    "double_sided_maxwell": lambda k: random.double_sided_maxwell(k, 1.0, 2.0, (5,)),
    "vonmises": lambda k: random.vonmises(k, np.array([0.0, 0.5, 30.0, 1e4])),
    "rademacher": lambda k: random.rademacher(k, (9,)),
    "poisson": lambda k: random.poisson(k, np.array([0.0, 0.5, 9.0, 30.0, 1e5])),
}


THROUGH_FUNCTIONS = {
    *(
        "truncated_normal",
        "gamma",
        "gamma f32",
        "loggamma",
        "beta",
        "dirichlet",
        "t",
        "lognormal",
        "rayleigh",
        "weibull_min",
    ),
    *("generalized_normal", "ball", "orthogonal", "f", "wald", "double_sided_maxwell", "vonmises"),
    *("pareto", "triangular", "maxwell", "multivariate_normal"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_bits_are_the_same_everywhere(name):
    draw = DRAWS[name]
    many = random.split(KEY, 6)
    rows = [draw(k) for k in many]
    assert not hasattr(rows[0], "value")
    batch = ws.vmap(draw)(many)
    assert batch.dtype == rows[0].dtype
    assert np.array_equal(batch, np.stack(rows))
    assert np.array_equal(ws.vmap(ws.vmap(draw))(many.reshape(2, 3, 2)), batch.reshape(2, 3, *batch.shape[1:]))
    assert np.array_equal(ws.jit(draw, device="reference")(KEY), draw(KEY))
    assert np.array_equal(ws.jit(ws.vmap(draw), device="reference")(many), batch)
    # Compiled logarithms and similar functions may differ from NumPy's in the last digit; random bits do not.
    rtol = 0.0 if name not in THROUGH_FUNCTIONS else 1e-5 if batch.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(ws.jit(draw)(KEY), draw(KEY), rtol=rtol)
    np.testing.assert_allclose(ws.jit(ws.vmap(draw))(many), batch, rtol=rtol)
    _, inside = ws.value_and_grad(lambda x: (x * 1.0, draw(KEY)), has_aux=True)(2.0), None
    assert np.array_equal(_[0][1], draw(KEY)) and inside is None


def test_an_unmapped_key_is_shared_by_all_elements():
    x = ws.vmap(lambda mean: mean + random.normal(KEY, (3,)))(np.array([0.0, 1.0]))
    assert np.allclose(x[1] - x[0], 1.0)


def test_mapped_parameters_with_one_key_use_the_same_words():
    a = np.array([0.5, 2.0, 7.0])
    assert np.array_equal(ws.vmap(lambda a: random.gamma(KEY, a))(a), [random.gamma(KEY, x) for x in a])
    bounds = np.array([3, 10, 200])
    rows = [random.randint(KEY, (5,), 0, int(n)) for n in bounds]
    assert np.array_equal(ws.vmap(lambda n: random.randint(KEY, (5,), 0, n))(bounds), rows)


def test_a_loop_may_carry_its_key():
    def step(key, _):
        now, key = random.split(key)
        return key, random.normal(now)

    _, found = ws.scan(step, KEY, np.arange(4))
    key, expected = KEY, []
    for _ in range(4):
        now, key = random.split(key)
        expected.append(random.normal(now))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), 3, (2, 0), (2, 3), [4]])
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy"])
def test_shapes_and_dtypes(name, shape, dtype):
    x = getattr(random, name)(KEY, shape, dtype)
    assert x.dtype.name == dtype
    assert np.shape(x) == (tuple(shape) if isinstance(shape, tuple | list) else (shape,))
    assert np.isfinite(x.astype(float)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (1000.0, 1001.0), (1.0, 1.0)])
def test_uniform_keeps_its_ends(dtype, low, high):
    """A result rounded to the upper end would be found, since half precisions would have it in half the draws."""
    if dtype == "bfloat16" and low == 1000:
        high = 1004.0
    x = random.uniform(KEY, (200_000,), dtype, low, high).astype(float)
    assert x.min() >= low
    assert x.max() < high if low < high else (x == low).all()


def test_uniform_in_half_precision_meets_zero_and_never_one():
    for dtype, bits in (("float16", 11), ("bfloat16", 8)):
        x = random.uniform(KEY, (100_000,), dtype).astype(float)
        assert set(np.unique(x * 2**bits)) == set(range(2**bits))


def test_prefixes_agree():
    for draw in (random.normal, random.uniform, random.bits, random.exponential):
        assert np.array_equal(draw(KEY, (10,)), draw(KEY, (4, 5)).ravel()[:10])


def test_differentiable_parameters():
    u = random.uniform(KEY, (4,), np.float64)
    low, high = ws.grad(lambda a, b: random.uniform(KEY, (4,), np.float64, a, b).sum(), argnums=(0, 1))(1.0, 3.0)
    assert np.allclose([low, high], [(1 - u).sum(), u.sum()])
    a = np.array([3.0, 1.0, 2.0])
    g = ws.grad(lambda a: (random.permutation(KEY, a) * np.arange(3)).sum())(a)
    assert np.array_equal(random.permutation(KEY, g), np.arange(3))
    g = ws.grad(lambda a: random.choice(KEY, a, (9,)).sum())(a)
    assert np.array_equal(g, np.bincount(random.choice(KEY, 3, (9,)), minlength=3))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (2.0, 4.0), (-5.0, -3.0)])
def test_truncated_normal_moves_with_its_bounds(low, high):
    def total(bounds):
        return random.truncated_normal(KEY, bounds[0], bounds[1], (6,), np.float64).sum()

    at, h = np.array([low, high]), 1e-6
    slopes = [(total(at + h * e) - total(at - h * e)) / (2 * h) for e in np.eye(2)]
    assert np.allclose(ws.grad(total)(at), slopes, rtol=1e-6)


@pytest.mark.parametrize(("low", "high", "near"), [(39.0, 40.0, 39.0), (39.0, np.inf, 39.0), (-np.inf, -50.0, -50.0)])
def test_a_tail_beyond_the_distribution_function_is_its_nearer_bound(low, high, near):
    def draws(bounds):
        return random.truncated_normal(KEY, bounds[0], bounds[1], (3,), np.float64)

    at = np.array([low, high])
    assert draws(at).tolist() == ws.jit(draws)(at).tolist() == [near] * 3
    assert np.array_equal(ws.grad(lambda bounds: draws(bounds).sum())(at), np.where(at == near, 3.0, 0.0))


@pytest.mark.parametrize(("dtype", "end"), [("float16", 6e4), ("float32", 3e38), ("float64", 1.5e308)])
def test_uniform_numbers_of_a_range_wider_than_the_largest_number(dtype, end):
    drawn = random.uniform(KEY, (1000,), dtype, -end, end)
    traced = ws.jit(lambda end: random.uniform(KEY, (1000,), dtype, -end, end))
    assert np.array_equal(drawn, traced(drawn.dtype.type(end)))
    share = drawn.astype(np.float64) / end
    assert share.min() < -0.9 and share.max() > 0.9 and abs(share.mean()) < 0.1


@pytest.mark.parametrize(
    ("draw", "at"),
    [
        (lambda a: random.lognormal(KEY, a, (4,), np.float64), 0.7),
        (lambda a: random.rayleigh(KEY, a, (4,), np.float64), 0.7),
        (lambda a: random.weibull_min(KEY, a[0], a[1], (4,), np.float64), np.array([2.0, 1.5])),
        (lambda a: random.pareto(KEY, a, (4,), np.float64), 3.0),
        (lambda a: random.triangular(KEY, a[0], a[1], a[2], (9,), np.float64), np.array([-1.0, 0.5, 3.0])),
        (lambda a: random.multivariate_normal(KEY, a[0], a[1:] @ a[1:].T, (4,), np.float64), np.eye(3, 2) + 0.5),
    ],
)
def test_numbers_by_inversion_move_with_their_parameters(draw, at):
    ws.gradcheck(lambda a: draw(a).sum(), at)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: random.uniform(KEY, (2,), np.float64, 2.0, 1.0), errors.ParameterError),
        (lambda: random.uniform(KEY, (2,), np.int32), DtypeError),
        (lambda: random.uniform(KEY, (2,), complex), DtypeError),
        (lambda: random.uniform(KEY, (2,), np.float64, np.zeros(3)), ShapeError),
        (lambda: random.uniform(KEY, (2,), np.float64, 1j), DtypeError),
        (lambda: random.truncated_normal(KEY, 1.0, 0.0), errors.ParameterError),
        (lambda: random.bernoulli(KEY, 1.5), errors.ParameterError),
        (lambda: random.randint(KEY, (), 3, 3), errors.ParameterError),
        (lambda: random.randint(KEY, (), 0, 0, np.uint8), errors.ParameterError),
        (lambda: random.randint(KEY, (), np.uint8(1), np.uint8(0), np.uint8), errors.ParameterError),
        (lambda: random.randint(KEY, (), 0, 300, np.uint8), OverflowError),
        (lambda: random.randint(KEY, (2,), 0, np.array([5, 300]), np.uint8), OverflowError),
        (lambda: random.randint(KEY, (), 0.5, 3), DtypeError),
        (lambda: random.randint(KEY, (), 0, 3, float), DtypeError),
        (lambda: random.permutation(KEY, -1), errors.ParameterError),
        (lambda: random.permutation(KEY, 2.5), ShapeError),
        (lambda: random.permutation(KEY, np.ones(3), 1), AxisError),
        (lambda: random.choice(KEY, 3, (4,), False), ShapeError),
        (lambda: random.choice(KEY, 3, p=[1.0, 2.0]), ShapeError),
        (lambda: random.choice(KEY, 2, p=[-1.0, 2.0]), errors.ParameterError),
        (lambda: random.choice(KEY, 2, p=[0.0, 0.0]), errors.ParameterError),
        (lambda: random.choice(KEY, 0, (1,)), errors.ParameterError),
        (lambda: random.categorical(KEY, np.zeros(3), axis=1), AxisError),
        (lambda: random.categorical(KEY, np.zeros((2, 3)), shape=(3,)), ShapeError),
        (lambda: random.gamma(KEY, 0.0), errors.ParameterError),
        (lambda: random.loggamma(KEY, 0.0), errors.ParameterError),
        (lambda: random.gamma(KEY, np.nan), errors.ParameterError),
        (lambda: random.dirichlet(KEY, 1.0), errors.ParameterError),
        (lambda: random.poisson(KEY, -1.0), errors.ParameterError),
        (lambda: random.poisson(KEY, 1.0, (), float), DtypeError),
        (lambda: random.binomial(KEY, -1, 0.5), errors.ParameterError),
        (lambda: random.binomial(KEY, 2.5, 0.5), errors.ParameterError),
        (lambda: random.binomial(KEY, 3, 1.5), errors.ParameterError),
        (lambda: random.binomial(KEY, 3, 0.5, (), float), DtypeError),
        (lambda: random.binomial(KEY, np.ones(2), np.full(3, 0.5)), ShapeError),
        (lambda: random.geometric(KEY, 0.0), errors.ParameterError),
        (lambda: random.rademacher(KEY, (2,), np.uint8), DtypeError),
        (lambda: random.lognormal(KEY, 0.0), errors.ParameterError),
        (lambda: random.pareto(KEY, np.inf), errors.ParameterError),
        (lambda: random.triangular(KEY, 0.0, 3.0, 2.0), errors.ParameterError),
        (lambda: random.triangular(KEY, 1.0, 1.0, 1.0), errors.ParameterError),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)), ShapeError),
        (lambda: random.multivariate_normal(KEY, 0.0, np.eye(1)), ShapeError),
        (lambda: random.multivariate_normal(KEY, np.zeros((4, 2)), np.eye(2), (3,)), ShapeError),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), 1j * np.eye(2)), DtypeError),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), -np.eye(2)), np.linalg.LinAlgError),
        (lambda: random.bits(KEY, (), np.int32), DtypeError),
    ],
)
def test_bad_parameters_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_a_compiled_gamma_of_a_bad_parameter_ends_and_is_nan():
    found = ws.jit(lambda a: random.gamma(KEY, a))(np.array([1.0, -1.0, np.nan]))
    assert np.array_equal(np.isnan(found), [False, True, True])


def test_compiled_counts_of_bad_parameters_end_and_are_negative():
    n, p = np.array([5.0, -1.0, 2.5, 5.0, np.nan]), np.array([0.5, 0.5, 0.5, 2.0, 0.5])
    found = ws.jit(lambda n, p: random.binomial(KEY, n, p))(n, p)
    assert np.array_equal(found == -1, [False, True, True, True, True])
    assert np.array_equal(ws.jit(lambda p: random.geometric(KEY, p))(np.array([0.0, 2.0, 1.0])), [-1, -1, 1])


@pytest.mark.parametrize(
    ("draw", "bad"),
    [
        (lambda b: random.pareto(KEY, b), [-1.0, 0.0, np.inf, np.nan]),
        (lambda s: random.lognormal(KEY, s), [-1.0]),
        (lambda s: random.rayleigh(KEY, s), [-1.0]),
        (lambda s: random.weibull_min(KEY, s, 2.0), [-1.0]),
        (lambda c: random.weibull_min(KEY, 2.0, c), [-1.0]),
        (lambda c: random.triangular(KEY, 0.0, c, 3.0), [-1.0, 4.0]),
        (lambda s: random.double_sided_maxwell(KEY, 0.0, s), [-1.0]),
        (lambda low: random.uniform(KEY, low.shape, minval=low, maxval=3.0), [4.0, np.inf, -np.inf]),
        (lambda low: random.truncated_normal(KEY, low, 3.0), [4.0, 50.0]),
    ],
)
def test_compiled_draws_of_bad_parameters_and_their_slopes_are_nan(draw, bad):
    def total(x):
        return np.sum(draw(x))

    given = np.array([*bad, 2.0])
    for x in (ws.jit(draw)(given), ws.jit(ws.grad(total))(given)):
        assert np.array_equal(np.isnan(x), [True] * len(bad) + [False])
    assert draw(given[-1:]).dtype == np.float32


def test_compiled_choices_by_bad_weights_are_no_candidates():
    bad = [[-1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0.0, np.inf, 1.0], [np.nan, 1.0, 1.0]]
    for replace in (True, False):
        chosen = ws.jit(lambda p, replace=replace: random.choice(KEY, 3, (2,), replace, p))
        assert all(chosen(np.array(p)).tolist() == [3, 3] for p in bad)
        array = ws.jit(lambda a, p, replace=replace: random.choice(KEY, a, (2,), replace, p))
        with pytest.raises(errors.BoundsError, match="index 3 is out of bounds"):
            array(np.ones(3), np.array(bad[0]))


def test_draws_without_replacement_take_no_candidate_of_weight_zero():
    with pytest.raises(errors.ParameterError, match="2 draws without replacement, from fewer candidates of positive"):
        random.choice(KEY, 3, (2,), False, [0.0, 0.0, 1.0])
    found = ws.jit(lambda p: random.choice(KEY, 3, (2,), False, p))(np.array([0.0, 0.0, 1.0]))
    assert found.tolist() == [2, 3]


def test_bad_logits_give_no_category():
    bad = np.array([[0.0, np.nan, 1.0], [-np.inf] * 3, [0.0, np.inf, 1.0], [-np.inf, -np.inf, 1.0]])
    assert ws.jit(lambda x: random.categorical(KEY, x))(bad).tolist() == [3, 3, 3, 2]
    for row in bad[:3]:
        with pytest.raises(errors.ParameterError, match="logits are NaN, infinite, or -inf"):
            random.categorical(KEY, row)


def test_counts_above_a_small_dtype_are_its_largest_number():
    assert random.poisson(KEY, 300.0, (2,), np.uint8).tolist() == [255, 255]
    assert random.binomial(KEY, 500, 0.9, (2,), np.int8).tolist() == [127, 127]
    assert random.geometric(KEY, 1e-9, (2,), np.int16).tolist() == [32767, 32767]
    assert random.multinomial(KEY, 500, [0.9, 0.1], dtype=np.int8).tolist()[0] == 127


def test_a_compiled_empty_range_gives_its_beginning():
    found = ws.jit(lambda low, high: random.randint(KEY, (2,), low, high))(np.array([3, 3]), np.array([3, 1]))
    assert found.tolist() == [3, 3]


@pytest.mark.parametrize("module", [circular, keys, continuous, counts, derived, discrete, parametric, rejection])
def test_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
