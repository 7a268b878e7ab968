"""Measures of the laws: random directions, the real inner product, rounding bounds, numerical derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.compiler.rounding_bound import EPS
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.types import Type

DOUBLE = 2.0**-52
STEP = 4e-4
"""The step of the central differences: their truncation error is STEP**4, their rounding error EPS / STEP."""

Function = Callable[[Sequence[NDArray]], list[NDArray]]


def eps_of(types: Sequence[Type]) -> float:
    """The rounding error of the coarsest inexact dtype among these types."""
    return max([EPS[dtypes.short(t.dtype)] for t in types if t.inexact], default=2.0**-52)


def coarsest_eps(graph: Graph) -> float:
    """The rounding error of the coarsest inexact dtype anywhere in a graph, nested graphs included."""
    return eps_of([t for part in graph.family() for t in part.types()])


def random_direction(rng: np.random.Generator, type: Type) -> NDArray:
    """Numbers of a type with absolute values from 1/2 to 1 and random signs, so that no term of a sum is negligible."""

    def part() -> NDArray:
        return np.asarray(rng.uniform(0.5, 1.0, type.shape) * rng.choice([-1.0, 1.0], type.shape))

    return np.asarray(part() + 1j * part() if dtypes.is_complex(type.dtype) else part(), type.dtype)


def directions(rng: np.random.Generator, types: Sequence[Type], marks: Sequence[bool]) -> list[NDArray]:
    """A direction for each marked type."""
    return [random_direction(rng, t) for t, m in zip(types, marks, strict=True) if m]


def to_double(x: Any) -> NDArray:
    """The same numbers in float64 or complex128."""
    given = np.asarray(x)
    return np.asarray(given, np.complex128 if given.dtype.kind == "c" else np.float64)


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """Re<x, y> over all arrays, and the sum of absolute products, to which its rounding error is relative."""
    products = [np.real(np.conj(to_double(x)) * to_double(y)) for x, y in zip(xs, ys, strict=True)]
    value = math.fsum([float(t) for p in products for t in p.ravel()])
    sizes = [np.abs(to_double(x)) * np.abs(to_double(y)) for x, y in zip(xs, ys, strict=True)]
    return value, math.fsum([float(t) for s in sizes for t in s.ravel()])


def gap(found: Any, expected: Any) -> float:
    """The largest difference between two arrays; equal infinities and NaN in the same places differ by nothing."""
    a, b = to_double(found), to_double(expected)
    if a.shape != b.shape:
        return math.inf
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    worst = float(apart.max(initial=0.0))
    return math.inf if math.isnan(worst) else worst


def largest_magnitude(arrays: Sequence[Any]) -> float:
    """The largest finite absolute value among these arrays."""
    sizes = [np.abs(to_double(a)) for a in arrays]
    return max([float(s[np.isfinite(s)].max(initial=0.0)) for s in sizes], default=0.0)


def move_arguments(args: Sequence[NDArray], marks: Sequence[bool], dxs: Sequence[NDArray], t: Any) -> list[NDArray]:
    """The marked arguments moved by t times their direction."""
    rest = iter(dxs)
    return [np.asarray(x + t * next(rest)) if m else x for x, m in zip(args, marks, strict=True)]


def differences(
    function: Function, args: Sequence[NDArray], marks: Sequence[bool], dxs: Sequence[NDArray]
) -> list[NDArray]:
    """The directional derivative by central differences of fourth order."""

    def at(t: float) -> list[NDArray]:
        return [to_double(y) for y in function(move_arguments(args, marks, dxs, t * STEP))]

    near = zip(at(1.0), at(-1.0), at(2.0), at(-2.0), strict=True)
    return [(8.0 * (b - a) - (d - c)) / (12.0 * STEP) for b, a, d, c in near]


def as_complex(array: NDArray) -> NDArray:
    """A float64 array as complex128, so that a complex step can be taken from it."""
    return array.astype(np.complex128) if array.dtype == np.float64 else array
