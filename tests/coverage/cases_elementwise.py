"""Elementwise calls that are not ufuncs, and comparisons of whole arrays, for the coverage tests."""

import numpy as np
from tests.coverage.cases import Case
from tests.coverage.cases_math import F2, F4, HOLES, I8, U1, A, C, M, S, comparisons, each, real, written

CASES = {
    "numpy.round": [
        *each(np.round, A, I8, F4, C, M, S),
        *[Case(lambda x, d=d: np.round(x, d), a, grad=False) for d in (2, -1) for a in (A * 30, I8, U1, F4)],
        Case(lambda x: x.round(1), A, grad=False),
        Case(lambda x: np.round(x, 1), np.array([1.26 - 2.54j, complex(np.inf, 0), -0.04 + 3j]), grad=False),
    ],
    "numpy.around": [Case(lambda x: np.around(x, 1), A, grad=False)],
    "numpy.fix": each(np.fix, A, S, F4),
    "numpy.sinc": [*each(np.sinc, A, F4, S, I8, C, np.array([0.0, 0.1, 0.16, -0.2])), Case(np.sinc, F2, rtol=4e-3)],
    "numpy.i0": each(np.i0, A, S, F4, I8),
    "numpy.angle": [*each(np.angle, C, A, S, I8, F4), Case(lambda x: np.angle(x, deg=True), C)],
    "numpy.real": [
        *each(np.real, C, A, S, np.complex128(1 + 2j)),
        Case(written(lambda y, v: np.real(y).__setitem__(Ellipsis, v)), C, real(2, 3)),
        Case(written(lambda y, v: y.real[0].__imul__(v)), C, S),
    ],
    "numpy.imag": [
        *each(np.imag, C, A, S, np.complex128(1 + 2j)),
        Case(written(lambda y, v: np.imag(y).__setitem__(Ellipsis, v)), C, real(2, 3)),
    ],
    "numpy.real_if_close": [
        *each(np.real_if_close, C, C.real + 1e-15j, known=True, grad=False),
        Case(np.real_if_close, A),
    ],
    "numpy.nan_to_num": [
        *each(np.nan_to_num, A, I8, S, C, F4),
        Case(np.nan_to_num, np.array([np.nan, np.inf, -np.inf, 1.0]), grad=False),
        Case(np.nan_to_num, np.array([np.nan, np.inf, -np.inf, 1.0], "f4"), grad=False),
        Case(lambda x: np.nan_to_num(x, nan=3, posinf=7, neginf=-7), np.array([np.nan, np.inf, -np.inf]), grad=False),
        Case(np.nan_to_num, np.array([complex(np.nan, np.inf), 1 + 2j]), grad=False),
        Case(written(lambda y: np.nan_to_num(y, copy=False)), HOLES, grad=False),
    ],
    "numpy.isclose": comparisons(np.isclose),
    "numpy.allclose": comparisons(np.allclose),
    "numpy.array_equal": [*comparisons(np.array_equal), Case(lambda x: np.array_equal(x, x[0]), A, types=False)],
    "numpy.array_equiv": [
        Case(lambda x: np.array_equiv(x, x[None]), A, types=False),
        Case(lambda x: np.array_equiv(x, x[:, :2]), A, types=False),
    ],
    "numpy.iscomplex": each(np.iscomplex, C, A, C.real + 0j),
    "numpy.isreal": each(np.isreal, C, A, C.real + 0j),
    "numpy.isposinf": each(np.isposinf, np.array([np.inf, -np.inf, np.nan, 1.0]), I8, grad=False),
    "numpy.isneginf": each(np.isneginf, np.array([np.inf, -np.inf, np.nan, 1.0]), I8, grad=False),
}
