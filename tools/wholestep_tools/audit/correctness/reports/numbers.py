"""Reports of rounding, remainders, signs of zero, overflow and NaN that come out other than they should."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep_tools.audit.correctness.reports.report import Report


def ceiling_of_quotient(a: Any) -> Any:
    """A quotient of integers that is rounded up, by a negation before and after one that is rounded down."""
    return -np.floor_divide(-a, np.int32(3))


def sign_of_remainder(a: Any, b: Any) -> Any:
    """The signs of remainders, where these are zero."""
    return np.copysign(1.0, np.remainder(a, b))


def log_of_draws(x: Any) -> Any:
    """The running logarithm of a sum of exponentials."""
    return np.logaddexp.accumulate(x)


def half_mean(x: Any) -> Any:
    """The mean of numbers of half precision whose sum is not one of them."""
    return np.mean(x.astype(np.float16))


NAN, INF = np.nan, np.inf
LOW = np.array([complex(-1.0, -0.0), complex(-2.0, -0.0), complex(-4.0, 0.0)])
ROUNDED = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
DIVIDENDS = np.array([5.5, -5.5, 0.0, 1e20, 2147483648.0, 7.0, 1.0, 4.0, 9.0], np.float32)
DIVISORS = np.array([INF, INF, INF, 3.0, 3.0, 0.5, 0.25, 1.0, 2.0], np.float32)
BYTES = np.array([5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80], np.int8)
FLAGS = np.array([True] * 3 + [False] + [True] * 20 + [False] * 9)
REPORTS = (
    Report(
        "pytorch #44858",
        "a quotient of integers is cut off instead of rounded down",
        np.floor_divide,
        (np.array([1, -1, -7, 7], np.int32), np.array([2, 2, 2, -2], np.int32)),
        np.array([0, -1, -4, -4], np.int32),
    ),
    Report(
        "onnx/tensorflow-onnx #2174",
        "a quotient that is rounded up by two negations is rounded down",
        ceiling_of_quotient,
        (np.array([3, 7, 10], np.int32),),
        np.array([1, 3, 4], np.int32),
    ),
    Report("mlx #640", "a remainder has the sign of the dividend", lambda x: x % 5, (-np.ones(3),), np.full(3, 4.0)),
    Report(
        "pytorch #1164",
        "remainders of integers are other than those of floating-point numbers",
        np.remainder,
        (np.array([[0, -1, -2], [1, 0, -1], [2, 1, 0]]), 3),
        np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0]]),
    ),
    Report(
        "jax #40028",
        "a remainder of zero has the sign of the dividend",
        sign_of_remainder,
        (np.array([-1.0, -4.0, 0.0, 4.0]), np.array([1.0, 2.0, -3.0, -2.0])),
        np.array([1.0, 1.0, -1.0, -1.0]),
    ),
    Report(
        "pytorch #198057",
        "remainders depend on the length: nan for infinite divisors, and zero for large quotients",
        np.remainder,
        (DIVIDENDS, DIVISORS),
        np.array([5.5, INF, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0], np.float32),
    ),
    Report(
        "numba #8574",
        "what is left of a division has the sign of the divisor where it should have that of the dividend",
        np.fmod,
        (np.array([-4, 4, -13]), np.array([10, -10, 10])),
        np.array([-4, 4, -3]),
    ),
    Report(
        "cupy #2276",
        "halves are rounded up instead of to even",
        np.around,
        (ROUNDED,),
        np.array([-2.0, -2.0, 0.0, 0.0, 2.0, 2.0, 4.0]),
    ),
    Report(
        "tinygrad #14380",
        "the sign of a negative zero is lost",
        np.copysign,
        (np.array([1.0, 2.0, 3.0]), np.array([-0.0, 0.0, -1.0])),
        np.array([-1.0, 2.0, -3.0]),
    ),
    Report(
        "jax #39110",
        "a complex root takes the other side of the negative axis",
        np.sqrt,
        (LOW,),
        np.array([complex(0.0, -1.0), complex(0.0, -np.sqrt(2.0)), complex(0.0, 2.0)]),
    ),
    Report(
        "tracel-ai/burn #4770",
        "a mean of half precision is infinite where the sum is",
        half_mean,
        (np.full(100, 60000.0, np.float32),),
        np.array(60000.0, np.float16),
    ),
    Report(
        "numpy #15785",
        "a sum of ones in half precision stops at 2048",
        ws.jit(lambda x: np.sum(x, axis=0)),
        (np.ones((3000, 3), np.float16),),
        np.full(3, 3000.0, np.float16),
    ),
    Report(
        "ggml-org/ggml #1515",
        "an exponential minus one is zero for small arguments",
        lambda x: np.expm1(x) / x,
        (np.array([1e-8, -1e-8, 1e-6], np.float32),),
        np.array([1.0, 1.0, 1.0000005], np.float32),
    ),
    Report(
        "tinygrad #13798",
        "the sum of two probabilities of zero, as logarithms, is nan",
        np.logaddexp,
        (np.array([-INF, -INF, 0.0]), np.array([-INF, 1.0, 0.0])),
        np.array([-INF, 1.0, np.log(2.0)]),
    ),
    Report(
        "tinygrad #17853",
        "running sums of probabilities, as logarithms, are nan as long as all are zero",
        log_of_draws,
        (np.array([-INF, -INF, 0.0, 0.0]),),
        np.array([-INF, -INF, 0.0, np.log(2.0)]),
    ),
    Report(
        "rmcgibbo/logsumexp #2",
        "the sum of probabilities that are all zero, as logarithms, is nan",
        nn.logsumexp,
        (np.array([[-INF, -INF], [0.0, -INF]], np.float32),),
        np.array([-INF, 0.0], np.float32),
    ),
    Report(
        "clab/dynet #1525",
        "a sigmoid of large arguments is nan, or a half",
        nn.sigmoid,
        (np.array([-1662.7, 3212.5, 91.4, 0.0], np.float32),),
        np.array([0.0, 1.0, 1.0, 0.5], np.float32),
    ),
    Report(
        "mlx #4274",
        "the place of the largest element is not that of a NaN",
        lambda x: (np.argmax(x), np.max(x), np.argmin(x)),
        (np.array([3.0, NAN, 1.0, 5.0]),),
        (1, NAN, 1),
    ),
    Report(
        "jax #4640",
        "the place of the largest element is outside where there is a NaN",
        lambda x: np.argmax(x, axis=1),
        (np.array([[0.0, 1.0, NAN], [NAN, 1.0, 2.0], [0.0, 4.0, 2.0]]),),
        np.array([2, 0, 1]),
    ),
    Report(
        "tinygrad #8108",
        "the place of the largest inverted integer is outside of the array",
        lambda x: np.argmax(~x),
        (np.array([2, 2], np.int32),),
        0,
    ),
    Report(
        "pytorch #184893",
        "the place of the first false element is another one where many are compared at once",
        lambda x: (np.argmin(x), np.argmax(x), np.argmax(~x)),
        (FLAGS,),
        (3, 0, 3),
    ),
    Report(
        "pytorch #191499",
        "a minimum of bytes is zero, which is not among them",
        lambda x: (np.min(x), np.max(-x), np.argmin(x)),
        (BYTES,),
        (1, -1, 1),
    ),
    Report(
        "jax #37991",
        "a running sum of truth values is computed of integers",
        lambda x: np.cumsum(x, dtype=bool),
        (np.array([-1, 1], np.int32),),
        np.array([True, True]),
    ),
    Report(
        "NVIDIA/cudf #2708",
        "a running count of truth values stays a truth value",
        np.cumsum,
        (np.array([False, True, False, True]),),
        np.array([0, 1, 1, 2]),
    ),
    Report(
        "numba #10156",
        "a NaN is inserted at the front in single precision",
        lambda bins, x: np.searchsorted(bins, x, side="right"),
        (np.array([-0.4, -0.39, -0.32], np.float32), np.array([0.1, NAN, -0.35], np.float32)),
        np.array([3, 3, 2]),
    ),
)
