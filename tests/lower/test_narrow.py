"""Kernels whose values are all of half precision or narrower are vectorized like others."""

import ml_dtypes
import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler import devices
from wholestep.kernel.lang import axes_of


def lanes(f, *args):
    """The lanes of each kernel of a compiled function."""
    program = devices.compile_for_device(ws.jit(f).lower(*args), (), "cpu")
    return [max(a.lanes for a in axes_of(kernel)) for kernel in program.kernels]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_half_precision_has_lanes(dtype):
    x, w = np.ones((64, 96), dtype), np.ones((96, 128), dtype)
    assert all(n > 1 for n in lanes(lambda x, w: x @ w, x, w))
    assert all(n > 1 for n in lanes(lambda x: x * x + x, x))
    np.testing.assert_array_equal(ws.jit(lambda x, w: x @ w)(x, w), np.full((64, 128), 96, dtype))
