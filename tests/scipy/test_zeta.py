"""The derivative of Hurwitz's zeta function in its exponent, beside ball arithmetic."""

import flint
import numpy as np
import pytest
import scipy.special

import wholestep as ws

RNG = np.random.default_rng(0)
SLOPE = ws.elementwise_grad(lambda s, q: scipy.special.zeta(s, q))
REGIONS = {
    "near the pole": ((1.001, 1.5), (1.0, 2.0)),
    "far along": ((1.001, 1.5), (50.0, 1e4)),
    "usual": ((1.5, 20.0), (1.0, 50.0)),
    "large exponents": ((20.0, 100.0), (1.0, 50.0)),
    "far along with large exponents": ((20.0, 60.0), (50.0, 1e4)),
}


def drawn(region, dtype=np.float64):
    (low, high), (first, last) = REGIONS[region]
    s, q = RNG.uniform(low, high, 60), np.exp(RNG.uniform(np.log(first), np.log(last), 60))
    return s.astype(dtype), q.astype(dtype)


def in_balls(s, q, order=1):
    """The derivative by differences in numbers of 700 bits."""
    before, flint.ctx.prec = flint.ctx.prec, 700
    try:
        h = flint.arb(2) ** -120
        found = []
        for a, b in zip(s.tolist(), q.tolist(), strict=True):
            below, at, above = [flint.arb(a) + k * h for k in (-1, 0, 1)]
            low, middle, high = [x.zeta(flint.arb(b)) for x in (below, at, above)]
            found.append(float((high - low) / (2 * h) if order == 1 else (high - 2 * middle + low) / (h * h)))
    finally:
        flint.ctx.prec = before
    return np.array(found)


@pytest.mark.parametrize("region", REGIONS)
def test_it_is_right_to_rounding(region):
    s, q = drawn(region)
    wanted = in_balls(s, q)
    np.testing.assert_allclose(SLOPE(s, q), wanted, rtol=1e-14)
    np.testing.assert_allclose(ws.jit(SLOPE)(s, q), wanted, rtol=1e-14)
    np.testing.assert_allclose(ws.elementwise_grad(SLOPE)(s, q), in_balls(s, q, 2), rtol=1e-14)


@pytest.mark.parametrize("region", ["near the pole", "far along", "usual"])
def test_it_is_right_in_single_precision(region):
    s, q = drawn(region, np.float32)
    found, wanted = SLOPE(s, q), in_balls(s.astype(float), q.astype(float))
    normal = np.abs(wanted) > 1e-30
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[normal], wanted[normal], rtol=2e-6)


def test_it_changes_its_sign_below_one():
    """For q below 1 the first term, -log(q) q**-s, is positive: errors are relative to the sizes of both terms."""
    s, q = RNG.uniform(1.1, 5.0, 60), RNG.uniform(0.01, 1.0, 60)
    size = np.abs(np.log(q)) * q**-s + scipy.special.zeta(s, q + 1)
    assert np.max(np.abs(SLOPE(s, q) - in_balls(s, q)) / size) < 1e-14


def test_where_the_function_ends():
    with np.errstate(all="ignore"):
        assert SLOPE(2.0, np.inf) == 0 and SLOPE(3.0, 1e300) == 0
        assert np.isnan([SLOPE(0.5, 2.0), SLOPE(1.0, 2.0), SLOPE(3.0, -1.5), SLOPE(np.nan, 1.0)]).all()


def test_both_operands_and_a_second_order_across_them():
    def f(s, q):
        return scipy.special.zeta(s, q)

    both = ws.hessian(lambda x: f(x[0], x[1]))(np.array([2.5, 1.3]))
    across = -f(3.5, 1.3) - 2.5 * SLOPE(3.5, 1.3)  # the derivative in q is -s zeta(s + 1, q)
    np.testing.assert_allclose([both[0, 1], both[1, 0]], across, rtol=1e-12)
    ws.gradcheck(f, 2.3, 1.7)
