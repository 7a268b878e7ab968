"""Errors of scalar functions, in units in the last place: exact values in ball arithmetic, samples, and the distance
to the exact values."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flint
import numpy as np

from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY

arb = flint.arb
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


class Function(NamedTuple):
    """A function of one or two operands: its exact value, an interval of interesting operands, and its promised errors.

    `bounds` are those of float32 and of float64, in units in the last place.
    """

    exact: Callable[..., Any]
    interval: tuple[float, float]
    bounds: tuple[float, float]


def cube_root(x: Any) -> Any:
    return x.root(3) if x >= 0 else -((-x).root(3))


def area(x: Any) -> Any:
    return (-x / arb(2).sqrt()).erfc() / 2


def power(x: Any, y: Any) -> Any:
    return (y * x.log()).exp() if x > 0 else x**y


FUNCTIONS: dict[str, Function] = {
    "exp": Function(arb.exp, (-746, 710), (1.1, 1.1)),
    "exp2": Function(lambda x: (x * arb(2).log()).exp(), (-1075, 1024), (1.1, 1.2)),
    "expm1": Function(arb.expm1, (-40, 90), (1.7, 2.0)),
    "log": Function(arb.log, (0, 4), (1.0, 1.3)),
    "log2": Function(lambda x: x.log() / arb(2).log(), (0, 4), (1.1, 1.3)),
    "log10": Function(lambda x: x.log() / arb(10).log(), (0, 4), (1.4, 1.4)),
    "log1p": Function(arb.log1p, (-1, 4), (1.7, 2.0)),
    "sqrt": Function(arb.sqrt, (0, 4), (0.5, 0.5)),
    "cbrt": Function(cube_root, (-4, 4), (0.51, 0.51)),
    "sin": Function(arb.sin, (-100, 100), (1.7, 1.8)),
    "cos": Function(arb.cos, (-100, 100), (1.7, 1.8)),
    "tan": Function(arb.tan, (-100, 100), (1.7, 1.7)),
    "arcsin": Function(arb.asin, (-1, 1), (1.4, 1.5)),
    "arccos": Function(arb.acos, (-1, 1), (1.1, 1.3)),
    "arctan": Function(arb.atan, (-8, 8), (2.0, 2.0)),
    "sinh": Function(arb.sinh, (-12, 12), (1.6, 1.8)),
    "cosh": Function(arb.cosh, (-12, 12), (1.8, 1.8)),
    "tanh": Function(arb.tanh, (-10, 10), (2.0, 2.3)),
    "arcsinh": Function(arb.asinh, (-8, 8), (1.4, 1.8)),
    "arccosh": Function(arb.acosh, (1, 8), (1.2, 1.6)),
    "arctanh": Function(arb.atanh, (-1, 1), (1.3, 1.6)),
    "expit": Function(lambda x: 1 / (1 + (-x).exp()), (-40, 40), (2.0, 2.0)),
    "log_expit": Function(lambda x: -((-x).exp().log1p()), (-40, 40), (3.0, 3.0)),
    "erf": Function(arb.erf, (-6, 6), (1.3, 1.3)),
    "erfc": Function(arb.erfc, (-6, 27), (4.0, 4.0)),
    "erfcx": Function(lambda x: (x * x).exp() * x.erfc(), (-26, 50), (4.0, 4.0)),
    "ndtr": Function(area, (-38, 9), (4.0, 4.0)),
    "log_ndtr": Function(lambda x: area(x).log(), (-38, 9), (4.0, 4.0)),
    "pow": Function(power, (-4, 4), (1.5, 2.0)),
    "hypot": Function(lambda x, y: (x * x + y * y).sqrt(), (-4, 4), (1.0, 1.0)),
    "arctan2": Function(lambda y, x: arb.atan2(y, x), (-4, 4), (2.1, 2.1)),
}


HARD: dict[str, list[tuple[float, ...]]] = {
    "tan": [(77.75706329649006,), (-11.805629803496927,), (-3.9216487,)],
    "pow": [(1.3343647247122157, -2388.673083528756), (2.1949182e-16, 1.3731785)],
    "hypot": [(1.86578351878916e-308, -5.43111919452094e-309), (8.116597e-39, 4.398464e-39)],
    "arctan2": [(-0.003026810335376494, 0.0070523002797529466), (11.549413, 27.730284)],
}
"""Points where large errors were met before; searches begin there too."""


def primitive(name: str) -> Elementwise:
    """The primitive of a name."""
    found = REGISTRY[name]
    assert isinstance(found, Elementwise)
    return found


def ball(function: Callable[..., Any], point: Sequence[float]) -> Any:
    """The exact value to 80 bits or more; None where 6000 bits are not enough: at poles, outside the domain."""
    for bits in (200, 1200, 6000):
        flint.ctx.prec = bits
        found = function(*[arb(x) for x in point])
        if found.is_finite() and (found.is_exact() or found.rel_accuracy_bits() > 80):
            return found
    return None


def exactly(name: str, operands: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The exact values as sums of two float64; NaN where they are not known."""
    high, low = np.full(len(operands[0]), np.nan), np.zeros(len(operands[0]))
    for i, point in enumerate(zip(*[x.tolist() for x in operands], strict=True)):
        found = ball(FUNCTIONS[name].exact, point) if np.isfinite(point).all() else None
        if found is not None:
            high[i] = float(found)
            low[i] = float(found - high[i]) if np.isfinite(high[i]) else 0.0
    return high, low


def nearly(name: str, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The values in float64 by NumPy or SciPy, exact enough to judge float32 by."""
    with np.errstate(all="ignore"):
        return np.asarray(primitive(name).function()(*[x.astype(np.float64) for x in operands]))


def unit(exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The unit in the last place of a dtype at exact values, which are first clipped to the dtype's normal range."""
    info = np.finfo(dtype)
    size = np.clip(np.abs(exact), float(info.tiny), float(info.max))
    return np.ldexp(1.0, np.frexp(size)[1] - 1 - info.nmant)


def errors(found: np.ndarray, high: np.ndarray, low: np.ndarray | float = 0.0) -> np.ndarray:
    """Errors in units in the last place; infinite for a wrong NaN, infinity or sign of zero."""
    dtype, info = found.dtype, np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        step = unit(high, dtype)
        plain = np.abs(found.astype(np.float64) / step - high / step - low / step)
        edge = float(info.max) / step + 0.5
        beyond = np.abs(high / step + low / step) >= edge
        endless = np.isinf(found) & (np.sign(found) == np.sign(high))
        plain = np.where(endless, np.where(beyond | np.isinf(high), 0.0, np.inf), plain)
        plain = np.where(np.isnan(found) & np.isnan(high), 0.0, plain)
        plain = np.where((high == 0) & (found == 0) & (np.signbit(found) != np.signbit(high)), np.inf, plain)
    return np.where(np.isnan(plain), np.inf, plain)


def sample(rng: np.random.Generator, dtype: np.dtype, interval: tuple[float, float], count: int) -> np.ndarray:
    """Numbers of every exponent, in the interval, near its middle and ends, and near small whole multiples of 1 / 4."""
    part = count // 4
    unsigned = np.dtype(f"u{dtype.itemsize}")
    info = np.finfo(dtype)
    words = rng.integers(0, int(np.array(info.max).view(unsigned)), part, dtype=unsigned, endpoint=True).view(dtype)
    low, high = interval
    inside = rng.uniform(low, high, part)
    small = rng.uniform(-1, 1, part) * np.exp2(rng.uniform(-30, 3, part))
    corners = (
        rng.integers(-16, 17, part) / 4 * (1 + rng.uniform(-1, 1, part) * np.exp2(rng.uniform(-info.nmant, 0, part)))
    )
    signs = np.where(rng.integers(0, 2, part) > 0, 1, -1).astype(dtype)
    return np.concatenate([words * signs, *[x.astype(dtype) for x in (inside, small, corners)]])
