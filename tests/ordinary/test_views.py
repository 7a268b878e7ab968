"""Views of an array that a traced function makes: they see what is stored into it, or the store is an error."""

import ctypes
from typing import Any

import numpy as np
import pytest
from scipy import spatial

import wholestep as ws
from wholestep.errors import UnsupportedError


def sum_by_pointer(z: Any) -> Any:
    pointer = z.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    pointer[1] = 3.0
    return pointer[0] + pointer[1]


@pytest.mark.parametrize(
    "view",
    [
        memoryview,
        lambda z: z.data,
        lambda z: z.view(np.recarray),
        lambda z: z.view(np.int64),
        lambda z: z.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        np.ctypeslib.as_ctypes,
        (ctypes.c_double * 3).from_buffer,
        lambda z: spatial.cKDTree(z[:, None]).data,
    ],
)
def test_an_array_that_is_read_by_a_view_which_cannot_follow_refuses_traced_values(view: Any) -> None:
    def f(x: Any) -> Any:
        z = np.zeros(3)
        seen = view(z)
        z[0] = x
        return seen[0] + x

    with pytest.raises(
        UnsupportedError, match=r"(memory of|view of) this array[^\n]*cannot follow a traced value\n.*z\[0\] = x"
    ):
        ws.grad(f)(2.0)


def test_a_pointer_that_is_out_of_use_lets_traced_values_be_stored() -> None:
    def f(x: Any) -> Any:
        z = np.ones(3)
        total = sum_by_pointer(z)
        z[0] = x
        return z * total

    assert ws.jacfwd(f)(2.0).tolist() == [4.0, 0.0, 0.0]
    assert ws.jit(f)(2.0).tolist() == [8.0, 12.0, 4.0]


def test_views_whose_elements_lie_in_the_same_memory_are_read_and_not_written() -> None:
    def f(x: Any) -> Any:
        z = np.arange(4.0)
        windows = np.lib.stride_tricks.as_strided(z, (3, 2), (8, 8))
        z[1] = x
        return windows if x > 2 else windows.fill(x)

    assert ws.jacfwd(f)(3.0).tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    with pytest.raises(UnsupportedError, match="one value would change several"):
        ws.grad(f)(1.0)


def test_a_traced_array_keeps_its_shape() -> None:
    def f(x: Any) -> Any:
        z = np.zeros(4)
        z[0] = x
        z.shape = (2, 2)
        return z.sum()

    with pytest.raises(UnsupportedError, match=r"keeps its shape\n.*z\.shape = \(2, 2\)\n.*x\.reshape"):
        ws.grad(f)(2.0)
