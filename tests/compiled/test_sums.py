"""Sums of many equal numbers, whose roundings all go the same way: as close to float64 as NumPy's pairwise sums are, to
a small factor, for every layout, dtype and number of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler import devices
from wholestep.compiler.rounding_bound import allowance, error
from wholestep.dims import Dim

SHAPES = [(33,), (1000,), (32767,), (70000,), (4099, 7), (7, 4099), (64, 500), (2, 34, 7), (40, 50, 3), (3000, 5, 3)]

SUMS: dict[str, Callable[[Any], Any]] = {
    "contiguous": np.sum,
    "transposed": lambda x: np.sum(x.T),
    "strided": lambda x: np.sum(x[tuple([slice(None, None, 2)] * x.ndim)]),
    "reversed": lambda x: np.sum(x[::-1]),
    "first axis": lambda x: np.sum(x, axis=0),
    "last axis": lambda x: np.sum(x, axis=-1),
    "mean of a function": lambda x: np.mean(np.abs(x) * x),
    "real part": lambda x: np.sum((x * (1 + 1j)).real),
    "complex": lambda x: np.sum(x * (1 + 1j)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SUMS)
def test_equal_numbers_are_added_up_as_closely_as_numpy_adds_them(name: str, dtype: str) -> None:
    f = SUMS[name]
    off = []
    for shape in SHAPES:
        compiled = ws.jit(f)
        for number in (1.1, 1.3, 1.7) if dtype == "float32" else (1.3,):
            x = np.full(shape, number, dtype)
            exact = np.asarray(f(x.astype(np.longdouble)))
            found, plain = np.asarray(compiled(x)), np.asarray(f(x))
            exact = exact.astype(np.complex128 if exact.dtype.kind == "c" else np.float64)
            if not error(found, exact) <= allowance(plain, exact):
                off.append((shape, number, error(found, exact), allowance(plain, exact)))
    assert not off


@pytest.mark.parametrize("shape", [(Dim("n"),), (Dim("n"), 3), (3, Dim("n"))], ids=str)
def test_sums_over_an_axis_of_any_size_are_as_close(shape: tuple[Any, ...]) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * 1.5)

    program = devices.compile_for_device(ws.trace(f)(ws.ShapeDtype(shape, "float32")), (), "cpu")
    for n in (1, 31, 33, 1024, 1025, 20_011):
        x = np.full([n if isinstance(size, Dim) else size for size in shape], 1.3, "float32")
        (found,), exact = program([x]), np.asarray(f(x.astype("float64")))
        assert error(np.asarray(found), exact) <= allowance(np.asarray(f(x)), exact), n
