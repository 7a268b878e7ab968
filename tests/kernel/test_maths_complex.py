"""Complex functions against ball arithmetic: the error is small beside the modulus of the exact value."""

from collections.abc import Callable
from typing import Any

import flint
import numpy as np
import pytest
from tests.kernel.elementwise import evaluate

from wholestep.primitives.family import REGISTRY

acb = flint.acb
BALLS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "exp": (acb.exp, 4),
    "exp2": (lambda z: (z * acb(2).log()).exp(), 4),
    "expm1": (lambda z: z.exp() - 1, 4),
    "log": (acb.log, 4),
    "log2": (lambda z: z.log() / acb(2).log(), 4),
    "log10": (lambda z: z.log() / acb(10).log(), 4),
    "log1p": (lambda z: (1 + z).log(), 4),
    "sqrt": (acb.sqrt, 4),
    "sin": (acb.sin, 4),
    "cos": (acb.cos, 4),
    "tan": (acb.tan, 4),
    "sinh": (acb.sinh, 4),
    "cosh": (acb.cosh, 4),
    "tanh": (acb.tanh, 4),
    "arcsin": (acb.asin, 4),
    "arccos": (acb.acos, 4),
    "arctan": (acb.atan, 4),
    "arcsinh": (acb.asinh, 4),
    "arccosh": (acb.acosh, 4),
    "arctanh": (acb.atanh, 4),
    "erf": (acb.erf, 24),
    "erfc": (acb.erfc, 24),
    "erfcx": (lambda z: (z * z).exp() * z.erfc(), 24),
    "erfi": (acb.erfi, 24),
    "dawsn": (lambda z: acb.pi().sqrt() / 2 * (-z * z).exp() * z.erfi(), 24),
}
"""For each function: the exact value, and the bound of the error's modulus in units in the last place."""


def points(dtype: np.dtype) -> np.ndarray:
    """Numbers of many sizes and directions, off the axes, where branch cuts are; the axes are compared with NumPy."""
    rng = np.random.default_rng(5)
    size = np.exp2(rng.uniform(-12, 2.3, 3000))
    angle = np.concatenate([rng.uniform(-np.pi, np.pi, 2400), rng.integers(-4, 5, 600) * np.pi / 4 + 1e-4])
    return (size * np.exp(1j * angle)).astype(dtype)


@pytest.mark.parametrize("short", ["complex64", "complex128"])
@pytest.mark.parametrize("name", BALLS)
def test_error_beside_the_modulus(name: str, short: str) -> None:
    z = points(np.dtype(short))
    flint.ctx.prec = 200
    function, bound = BALLS[name]
    exact = [function(acb(complex(x))) for x in z]
    found = evaluate(REGISTRY[name].code, [z], z.dtype)
    errors = [float(abs(acb(complex(y)) - e) / abs(e)) for y, e in zip(found, exact, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound * np.finfo(short).eps, (z[worst], errors[worst] / np.finfo(short).eps)


ANGLES = (0.0, 1.0, 2.0, -2.0, 4.0, -10.0, 1e20)


@pytest.mark.parametrize("short", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["sin", "cos", "sinh", "cosh"])
def test_zeros_have_the_sign_of_the_product_that_makes_them(name: str, short: str) -> None:
    pairs = [(angle, zero) for angle in ANGLES for zero in (0.0, -0.0)]
    z = np.array([complex(*pair) if name in ("sin", "cos") else complex(*pair[::-1]) for pair in pairs], short)
    expected, found = getattr(np, name)(z), evaluate(REGISTRY[name].code, [z], z.dtype)
    assert np.array_equal(np.signbit(found.real), np.signbit(expected.real))
    assert np.array_equal(np.signbit(found.imag), np.signbit(expected.imag))


@pytest.mark.parametrize("short", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["arctan", "arctanh"])
def test_inverse_tangents_of_the_largest_numbers_and_of_infinity(name: str, short: str) -> None:
    most = np.finfo(short).max
    z = np.array([most, most * 1j, -most, np.inf, -np.inf, complex(0, np.inf), complex(most, -most)], short)
    found = evaluate(REGISTRY[name].code, [z], z.dtype)
    np.testing.assert_allclose(found, getattr(np, name)(z), rtol=1e-6)
    unknown = evaluate(REGISTRY[name].code, [np.array([complex(1, np.nan), complex(np.nan, 1)], short)], z.dtype)
    assert np.isnan(unknown).all()


@pytest.mark.parametrize("short", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["arctan", "arctanh"])
def test_inverse_tangents_beside_their_poles(name: str, short: str) -> None:
    distance = np.logspace(np.log10(float(np.finfo(short).tiny)) + 1, -2, 40)
    z = (1 + 1j * distance).astype(short) if name == "arctanh" else (distance + 1j).astype(short)
    found = evaluate(REGISTRY[name].code, [z], z.dtype)
    np.testing.assert_allclose(found, getattr(np, name)(z.astype(complex)), rtol=4 * np.finfo(short).eps)


@pytest.mark.parametrize("short", ["complex64", "complex128"])
def test_quotients_by_the_largest_numbers(short: str) -> None:
    most = float(np.finfo(short).max)
    x = np.array([most * (0.5 - 0.25j), most, 1 + 2j, most * (1 + 1j)], short)
    y = np.array([most * (0.5 + 0.5j), most * (0.75 - 0.3j), most * 1j, most * (1 - 1j)], short)
    exact = [complex(acb(complex(a)) / acb(complex(b))) for a, b in zip(x, y, strict=True)]
    found = evaluate(REGISTRY["div"].code, [x, y], x.dtype)
    assert np.all(np.abs(found - exact) <= 4 * np.finfo(short).eps * np.abs(exact) + np.finfo(short).tiny)
