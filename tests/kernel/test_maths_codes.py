"""Law: the scalar code of every elementwise primitive agrees with its reference, on every dtype that it takes."""

import itertools
from typing import Any

import numpy as np
import pytest
from tests.kernel.elementwise import evaluate

from wholestep import dtypes
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY
from wholestep.primitives.samples import dtype_kind, sample_dtypes

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 3.0, 1e-3, -1e-3, 7.25, 100.0, -100.0, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, -1, 2, -2, 3, 5, -7, 11, 100, -128, 127]
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 7.0, -20.0]

OWN = {"floor_divide", "nextafter"}
"""Functions whose value depends on the dtype, not only on the numbers."""

LOOSE = {
    "gammainc_order": (2e3, "its formula cancels, in the reference too"),
    "digamma": (2e3, "small beside its terms near its zero"),
    "log_ndtr": (200, "the reference loses digits on the right"),
    "pow": (400, "a complex power is as exact as its exponent times its logarithm is large"),
}
"""Larger tolerances, in units in the last place, each with the reason."""

LIMITS = {"zeta": "at an infinite exponent SciPy gives NaN, the code its limit"}

CASES = [
    (name, dtype) for name, p in REGISTRY.items() if isinstance(p, Elementwise) for dtype in sample_dtypes(p.takes)
]


def special(dtype: np.dtype) -> np.ndarray:
    """Numbers where functions have corners."""
    kind = dtype_kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind == "i":
        info = np.iinfo(dtype)
        return np.array([n for n in INTEGERS if info.min <= n <= info.max] + [info.min, info.max], dtype)
    if kind == "c":
        return np.array([complex(x, y) for x, y in itertools.product(PARTS, repeat=2)], dtype)
    return np.array(FLOATS).astype(dtype)


def operands(primitive: Elementwise, dtype: np.dtype) -> list[np.ndarray]:
    """Every pair of special numbers, and the samples of the primitive."""
    points = special(dtype)
    given = [points] * primitive.arity if primitive.arity > 2 else np.meshgrid(*[points] * primitive.arity)
    given = [np.ravel(a) for a in given]
    if dtype_kind(dtype) == "i" and primitive.name in ("left_shift", "right_shift", "pow"):
        given[1] = (given[1].astype(np.int64) % (8 * dtype.itemsize + 3)).astype(dtype)
    for sample in primitive.samples(np.random.default_rng(0)):
        if sample.inputs[0].dtype == dtype:
            given = [np.concatenate([a, x.ravel()]) for a, x in zip(given, sample.inputs, strict=True)]
    return given


def reference(primitive: Elementwise, given: list[np.ndarray]) -> np.ndarray:
    """The reference's values, computed in a wider dtype where there is one, so that its rounding does not matter."""
    dtype, plain = given[0].dtype, np.asarray(primitive.ref(*given))
    if dtype_kind(dtype) not in "fc" or plain.dtype == bool or primitive.name in OWN:
        return plain
    wide: Any = np.complex128 if dtype.kind == "c" else np.float64
    if dtype in (np.float64, np.complex128):
        wide = np.clongdouble if dtype.kind == "c" else np.longdouble
        if np.dtype(wide).char not in "".join(getattr(primitive.function(), "types", [])):
            return plain
    found = primitive.function()(*[a.astype(wide) for a in given])
    return np.asarray(found).astype(plain.dtype)


def agree(found: np.ndarray, expected: np.ndarray, units: float) -> np.ndarray:
    """A mask of the elements that agree within some units in the last place; NaN, infinities and zeros' signs count."""
    if dtype_kind(expected.dtype) not in "fc":
        return found == expected
    part = expected.dtype if expected.dtype.kind != "c" else dtypes.real_of(expected.dtype)
    eps = 2.0**-7 if part.name == "bfloat16" else float(np.finfo(part).eps)
    if expected.dtype.kind == "c":
        parts = np.maximum(finite(expected.real), finite(expected.imag))
        return within(found.real, expected.real, parts, units * eps) & within(
            found.imag, expected.imag, parts, units * eps
        )
    x, y = found.astype(np.float64), expected.astype(np.float64)
    near = within(x, y, np.maximum(finite(y), dtypes_tiny(part)), units * eps)
    return near & ((np.signbit(x) == np.signbit(y)) | np.isnan(y))


def finite(x: np.ndarray) -> np.ndarray:
    """|x|, and 0 where it is not finite."""
    return np.where(np.isfinite(x), np.abs(x), 0)


def within(x: np.ndarray, y: np.ndarray, size: np.ndarray, share: float) -> np.ndarray:
    """A mask of the elements where x is y, or differs from it by at most a share of a size."""
    return (np.abs(x - y) <= share * size) | (x == y) | (np.isnan(x) & np.isnan(y))


def dtypes_tiny(part: np.dtype) -> float:
    """The least normal number."""
    return 2.0**-126 if part.name == "bfloat16" else float(np.finfo(part).tiny)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{name}-{dtypes.short(d)}" for name, d in CASES])
def test_code_means_what_the_reference_means(name: str, dtype: np.dtype) -> None:
    primitive = REGISTRY[name]
    given = operands(primitive, dtype)
    with np.errstate(all="ignore"):
        expected = reference(primitive, given)
        found = evaluate(primitive.code, given, expected.dtype, stored=primitive.stored)
        right = agree(found, expected, LOOSE.get(name, (16,))[0])
    if name in LIMITS:
        right |= np.isinf(given[0].astype(np.float64))
    if name == "pow" and dtype.kind == "c":
        right |= ~np.isfinite(expected)  # products overflow on the way, in NumPy too
    if name in ("maximum", "minimum", "nextafter"):
        right |= found == expected  # either of two equal zeros may be taken
    wrong = np.flatnonzero(~right)[:5]
    assert not wrong.size, [(*[a[i] for a in given], found[i], expected[i]) for i in wrong]


def test_every_elementwise_primitive_has_code() -> None:
    assert [
        p.name for p in REGISTRY.values() if p.kind == "elementwise" and not callable(getattr(p, "code", None))
    ] == []


CASTS = list(itertools.product(dtypes.SUPPORTED, repeat=2))


@pytest.mark.parametrize(("source", "target"), CASTS, ids=["-".join(pair) for pair in CASTS])
def test_casts(source: str, target: str) -> None:
    before, after = dtypes.from_short(source), dtypes.from_short(target)
    if before.kind == "c" and after.kind not in "cb":
        return
    points = special(before)
    if dtype_kind(after) == "i" and dtype_kind(before) != "b":  # conversions out of range are undefined
        with np.errstate(invalid="ignore"):
            whole = points.astype(np.float64)
        info = np.iinfo(after)
        points = (
            points[np.isfinite(whole) & (np.trunc(whole) >= info.min) & (whole <= info.max / 2)]
            if dtype_kind(before) == "f"
            else points
        )
    with np.errstate(all="ignore"):
        expected = points.astype(after)
        found = evaluate(REGISTRY["cast"].code, [points], after, dtype=after)
    np.testing.assert_array_equal(found.astype(np.complex128), expected.astype(np.complex128))


@pytest.mark.parametrize("short", ["f64", "f32", "i32", "c128", "bool"])
def test_select(short: str) -> None:
    points = special(dtypes.from_short(short))
    condition = np.arange(len(points)) % 2 == 0
    found = evaluate(REGISTRY["select"].code, [condition, points, points[::-1]], points.dtype)
    np.testing.assert_array_equal(found, np.where(condition, points, points[::-1]))


@pytest.mark.parametrize("short", ["c64", "c128"])
def test_parts_of_complex_numbers(short: str) -> None:
    z = special(dtypes.from_short(short))
    part = dtypes.real_of(z.dtype)
    np.testing.assert_array_equal(evaluate(REGISTRY["real"].code, [z], part), z.real)
    np.testing.assert_array_equal(evaluate(REGISTRY["imag"].code, [z], part), z.imag)
    np.testing.assert_array_equal(evaluate(REGISTRY["conj"].code, [z], z.dtype), np.conj(z))
    made = evaluate(REGISTRY["make_complex"].code, [z.real.copy(), z.imag.copy()], z.dtype)
    np.testing.assert_array_equal(made, z)
