"""The scalar functions keep their promised errors: float32 against float64, float64 against ball arithmetic."""

import numpy as np
import pytest
from tests.kernel.accuracy import F32, F64, FUNCTIONS, errors, exactly, nearly, primitive, sample, unit
from tests.kernel.elementwise import evaluate, written

from wholestep.errors import ParameterError
from wholestep.kernel import maths
from wholestep.kernel.build import builder
from wholestep.kernel.lang import Var, walk
from wholestep.kernel.maths import powers


def operands(name: str, dtype: np.dtype, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    return [sample(rng, dtype, FUNCTIONS[name].interval, count) for _ in range(primitive(name).arity)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name: str) -> None:
    given = operands(name, F32, 100_000)
    found = errors(evaluate(primitive(name).code, given, F32), nearly(name, given))
    i = int(np.argmax(found))
    assert found[i] <= FUNCTIONS[name].bounds[0], (found[i], [x[i] for x in given])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64(name: str) -> None:
    given = operands(name, F64, 10_000)
    high, low = exactly(name, given)
    known = ~np.isnan(high)
    assert known.sum() > 2000
    given, high, low = [x[known] for x in given], high[known], low[known]
    found = errors(evaluate(primitive(name).code, given, F64), high, low)
    i = int(np.argmax(found))
    assert found[i] <= FUNCTIONS[name].bounds[1], (found[i], [x[i] for x in given])


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles_without_float64(name: str) -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(0, 0x7F800000, 100_000, np.uint32).view(F32)
    near = (rng.integers(1, 2**40, 20_000) * (np.pi / 2)).astype(F32)
    worst = np.array([16367173 * 2.0**72, np.inf, 40000.004, np.finfo(F32).max], F32)  # the first is nearest to a zero
    x = np.concatenate([x, -near, worst])
    code = primitive(name).code
    found = errors(evaluate(code, [x], F32, doubles=False), nearly(name, [x]))
    assert found.max() <= FUNCTIONS[name].bounds[0], x[np.argmax(found)]
    kernel = written(code, [F32], F32, 8, doubles=False)
    assert not [s for s in walk(kernel.body) if isinstance(s, Var) and s.dtype == F64]


@pytest.mark.parametrize("exponent", powers.SHORT)
@pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
def test_powers_with_a_known_exponent(exponent: float, dtype: np.dtype) -> None:
    ends = [0.0, -0.0, 1.0, -1.0, -2.5, np.inf, -np.inf, np.nan]
    x = np.concatenate([sample(np.random.default_rng(4), dtype, (-4, 4), 10_000), np.array(ends, dtype)])
    found = evaluate(lambda x: maths.pow(x, builder().constant(exponent, x.dtype)), [x], dtype)
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.longdouble), exponent)
        high = wide.astype(np.float64)
        normal = (np.abs(high) >= np.finfo(dtype).tiny) | (high == 0)
        worst = errors(found, high, np.where(np.isfinite(high), (wide - high).astype(np.float64), 0.0))[normal]
    assert worst.max() <= 2


def test_integer_powers_with_a_known_exponent() -> None:
    x = np.arange(-20, 20, dtype=np.int32)
    for n in (0, 1, 2, 5, 31):
        found = evaluate(lambda x, n=n: maths.pow(x, builder().constant(n, x.dtype)), [x], x.dtype)
        np.testing.assert_array_equal(found, x**n)
    with pytest.raises(ParameterError, match="negative integer powers"):
        evaluate(lambda x: maths.pow(x, builder().constant(-1, x.dtype)), [x], x.dtype)


@pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
def test_gelu(dtype: np.dtype) -> None:
    x = sample(np.random.default_rng(4), dtype, (-38, 9), 20_000)
    x = x[(x > -12) & (x < 40)] if dtype == F32 else x[(x > -37) & (x < 40)]
    area, rest = exactly("ndtr", [x.astype(np.float64)])
    exact = x.astype(np.longdouble) * (area.astype(np.longdouble) + rest)
    high = exact.astype(np.float64)
    found = errors(evaluate(maths.gelu, [x], dtype), high, (exact - high).astype(np.float64))
    assert found.max() <= 4, x[np.argmax(found)]


def test_gelu_at_the_ends() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    found = evaluate(maths.gelu, [x], F32)
    np.testing.assert_array_equal(found, [np.inf, -0.0, np.nan, 0.0, -0.0])
    assert np.signbit(found).tolist()[3:] == [False, True]


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
def test_remainders_are_exact(name: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(6)
    x, y = [rng.permutation(sample(rng, dtype, (-4, 4), 20_000)) for _ in range(2)]
    with np.errstate(all="ignore"):
        expected = primitive(name).function()(x, y)
    np.testing.assert_array_equal(evaluate(primitive(name).code, [x, y], dtype), expected)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
def test_sums_of_logarithms(name: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(7)
    x, y = [rng.permutation(sample(rng, dtype, (-40, 40), 20_000)) for _ in range(2)]
    found = evaluate(primitive(name).code, [x, y], dtype).astype(np.longdouble)
    exact = primitive(name).function()(x.astype(np.longdouble), y.astype(np.longdouble))
    step = unit(np.maximum(np.abs(exact), np.maximum(np.abs(x), np.abs(y))).astype(np.float64), dtype)
    assert (np.abs(found - exact) / step).max() <= 3


def test_an_error_is_measured_in_units_of_the_exact_value() -> None:
    one = np.array([1.0, 1 + 2**-23, 1.0, np.inf, np.nan, np.inf, -0.0], np.float32)
    exact = np.array([1.0, 1.0, 1 - 2**-25, 3.5e38, np.nan, 3.4e38, 0.0])
    np.testing.assert_array_equal(errors(one, exact), [0, 1, 0.5, 0, 0, np.inf, np.inf])
