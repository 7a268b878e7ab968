"""Functions of `math` that are replaced by NumPy's of the same name keep the meaning of `math`, at any numbers."""

import math

import numpy as np
import pytest
import scipy.linalg

import wholestep as ws
from wholestep.frontend.source.python_calls import SAME


@pytest.mark.parametrize("name", SAME)
def test_the_same_name_means_the_same(name):
    ours, theirs = getattr(np, name), getattr(math, name)
    rng = np.random.default_rng(0)
    tried = 0
    for args in (scale * rng.normal(size=(300, ours.nin)) for scale in (0.5, 5.0)):
        for numbers in args.tolist():
            try:
                expected = theirs(*numbers)
            except ValueError:
                continue
            assert float(ours(*numbers)) == pytest.approx(expected, rel=1e-14, abs=1e-300)
            tried += 1
    assert tried >= 100


def remainder(x, y):
    return math.remainder(x, y)


def fraction(x):
    part, whole = math.modf(x)
    return part + whole * 0.0


@pytest.mark.parametrize("place", [0, 1])
def test_the_remainder_of_math_is_that_of_the_nearest_quotient(place):
    rng = np.random.default_rng(1)
    drawn = [(float(a), float(b)) for a, b in rng.normal(size=(20, 2)) * [50.0, 1.0]]
    ties = [(2.5, 1.0), (3.5, 1.0), (-2.5, 1.0), (1.5, -1.0), (-0.0, 2.0), (7.0, 3.5), (3.0, math.inf)]
    compiled = ws.jit(remainder)
    for x, y in drawn + ties:
        want = math.remainder(x, y)
        for got in (ws.value_and_grad(remainder)(x, y)[0], compiled(x, y)):
            assert got == want
            assert math.copysign(1.0, got) == math.copysign(1.0, want)
    for x, y in drawn:
        assert ws.grad(remainder, argnums=place)(x, y) == pytest.approx((1.0, -round(x / y))[place])
    with pytest.raises(ValueError, match="math domain"):
        ws.grad(remainder)(1.0, 0.0)


def test_the_fraction_has_the_sign_of_the_number():
    assert ws.value_and_grad(fraction)(-2.25) == (-0.25, 1.0)
    numbers = np.array([1.5, -2.25, 0.0, -0.0, -2.0, 3.0, np.inf, -np.inf, np.nan])
    for device in ("cpu", "reference"):
        for got, want in zip(ws.jit(np.modf, device=device)(numbers), np.modf(numbers), strict=True):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(("f", "x"), [(scipy.linalg.expm, np.eye(2)), (np.array, [1.0, 2.0]), (math.sin, 0.5)])
def test_a_function_of_a_library_is_transformed_as_it_stands(f, x):
    np.testing.assert_allclose(ws.jit(f)(x), f(x), rtol=1e-14)
    value, pullback = ws.vjp(f, np.asarray(x))
    assert np.shape(value) == np.shape(pullback(np.asarray(value))[0])
