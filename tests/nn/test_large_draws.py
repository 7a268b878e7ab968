"""Large initial values: a compiled draw has the bits of the one that NumPy computes."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError
from wholestep.nn import init, large_draws

DRAWS = {
    "normal": lambda dtype: init.normal(3, (70, 50), std=0.02, mean=0.5, dtype=dtype),
    "truncated": lambda dtype: init.truncated_normal(3, (70, 50), std=2.0, low=-1.0, dtype=dtype),
    "uniform": lambda dtype: init.uniform(3, (7, 10, 50), -0.3, 0.1, dtype=dtype),
    "unit": lambda dtype: init.uniform(3, (3500,), dtype=dtype),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", DRAWS)
def test_compiled_draws_have_the_same_bits(name, dtype, monkeypatch):
    expected = DRAWS[name](dtype)
    monkeypatch.setattr(large_draws, "LARGE", 1000)
    compiled = large_draws.compiled_draw.cache_info().misses
    found = DRAWS[name](dtype)
    assert large_draws.compiled_draw.cache_info().misses == compiled + 1
    assert found.dtype == expected.dtype == np.dtype(dtype) and found.shape == expected.shape
    assert np.array_equal(found, expected)
    again = DRAWS[name](dtype)
    again += 1
    assert np.array_equal(DRAWS[name](dtype), expected), "an array that is drawn shares no memory with the next"


def test_large_draws_inside_of_a_program_are_a_part_of_it(monkeypatch):
    monkeypatch.setattr(large_draws, "LARGE", 10)
    drawn = ws.jit(lambda key, std: init.normal(key, (20,), std=std))(ws.random.key(1), 0.5)
    assert np.array_equal(drawn, init.normal(1, (20,), std=0.5))
    assert ws.grad(lambda std: init.normal(1, (20,), std=std).sum())(2.0) == pytest.approx(init.normal(1, (20,)).sum())


def test_bounds_are_checked_and_may_be_arrays(monkeypatch):
    bounds = np.zeros(5), np.arange(1.0, 6.0)
    expected = init.uniform(0, (4, 5), *bounds)
    monkeypatch.setattr(large_draws, "LARGE", 10)
    assert np.array_equal(init.uniform(0, (4, 5), *bounds), expected)
    for draw in (lambda: init.uniform(0, (20,), 3.0, 1.0), lambda: init.truncated_normal(0, (20,), low=2.0, high=1.0)):
        with pytest.raises(ParameterError):
            draw()


def test_a_spread_of_double_precision_leaves_the_dtype():
    assert init.normal(0, (2,), std=np.float64(0.1)).dtype == np.float32
