"""The von Mises distribution of angles: by rejection from a wrapped Cauchy, and moved along by its parameter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.frontend.custom import custom_jvp
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import lift, wrap
from wholestep.ir.graph import NDArray, Value
from wholestep.primitives.creation import like
from wholestep.primitives.functions import arctan, cos, hypot, log, sin, sqrt, tan
from wholestep.primitives.logic import isfinite, select
from wholestep.primitives.marks import stop_gradient as stop_value
from wholestep.primitives.special import i0e, i1e
from wholestep.random.continuous import standard_exponential
from wholestep.random.keys import (
    VONMISES,
    broadcast_parameters,
    float_of,
    key_of,
    normal_tail,
    random_words,
    require_known,
    run_in_trace,
    words_per_number,
)
from wholestep.random.rejection import until_accepted

LARGE = 500.0
"""The concentration from which on the series of 1 - I1 / I0 in its reciprocal has all digits."""
FAR = 40.0
"""The exponent beyond which a density adds nothing to an integral in double precision."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)


@run_in_trace
def vonmises(key: Any, kappa: Any, shape: Any = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Draw angles in [-pi, pi] of mean 0 whose density is proportional to exp(kappa cos(x)); add a mean for another.

    Shapes: key u32[2]; `kappa`, 0 or more, broadcasts to `shape`, by default its own; floats of `dtype`, differentiable
    in kappa: an angle moves so that the share of the distribution below it stays.
    Raises: ParameterError for a kappa known to be negative or not finite, DtypeError or ShapeError for a bad key, dtype
    or shape.
    Source: Best and Fisher, "Efficient simulation of the von Mises distribution", 1979; Figurnov, Mohamed and Mnih,
    "Implicit reparameterization gradients", 2018.

    >>> import numpy as np, wholestep as ws
    >>> abs(float(ws.random.vonmises(ws.random.key(0), 4.0))) <= np.pi
    True
    """
    wanted, k = float_of("vonmises", dtype), key_of("vonmises", key)
    _, (value,) = broadcast_parameters("vonmises", shape, dtypes.compute_dtype(wanted), kappa)
    require_known("vonmises", "kappa is negative or not finite", lambda x: (x >= 0) & np.isfinite(x), value)
    drawn: Any = wrap(accepted_angles(k, stop_value(value)))
    moved: NDArray = moved_angles(drawn, wrap(value)).astype(wanted)
    return moved


def accepted_angles(key: Value, kappa: Value) -> Value:
    """Angles by Best and Fisher's rejection, written without differences of near numbers; NaN where kappa is invalid.

    A proposal is 2 arctan(b tan(u / 2)) of an even angle u: their arccos((1 + s z) / (s + z)) with its sign.
    """
    shape, dtype = kappa.shape, kappa.dtype
    valid = (kappa >= 0) & isfinite(kappa * 8)
    kappa = select(valid, kappa, like(kappa, 1))
    q = hypot(like(kappa, 1), kappa * 2)
    root = sqrt(q + 1)
    part = root / (root + math.sqrt(2))
    rho = 2 * kappa / (q + 1) * part
    wide = select(kappa > 1, kappa, like(kappa, 1))
    gap = select(kappa > 1, (math.sqrt(2) * root - 1 - 1 / (q + 2 * wide)) / (2 * wide), 1 - rho)
    ratio = gap / (1 + rho)
    height = (q + 1) / (4 * part) * gap * gap
    count = words_per_number(dtype)

    def propose(turn: Value, key: Value, ratio: Value, height: Value) -> tuple[Value, Value]:
        parts = random_words(key, shape, 2 * count, stream=VONMISES, data=turn)
        tail, e = normal_tail(parts[:count], dtype), standard_exponential(normal_tail(parts[count:], dtype))
        half = tail.p * math.pi
        c = height / (cos(half) * cos(half) + ratio * ratio * sin(half) * sin(half))
        return c - 1 - log(c) <= e, tail.signed(2 * arctan(ratio * tan(half)))

    return until_accepted(propose, [key, ratio, height], ~valid, like(kappa, np.nan))


@custom_jvp
def moved_angles(x: Any, kappa: Any) -> Any:
    """Angles as they were drawn, whose derivative in kappa keeps the probability below each of them."""
    return x


def angle_tangents(primals: Any, tangents: Any) -> Any:
    """The derivative of `moved_angles`, which may itself be differentiated."""
    (x, kappa), (dx, dkappa) = primals, tangents
    angles = moved_angles(x, kappa)
    slope = angle_slope(angles.astype(np.float64), kappa.astype(np.float64))
    return angles, dx + (slope * dkappa).astype(x.dtype)


moved_angles.defjvp(angle_tangents)


def angle_slope(x: Any, kappa: Any) -> Any:
    """dx / dkappa at a constant probability of the angles below x, in double precision.

    -(dF / dkappa) / (dF / dx) is the integral of (cos t - I1 / I0) exp(kappa (cos t - cos x)) from x to pi, or that
    from 0 to x with the other sign: near 0 the second has no cancellation, elsewhere the first one's exponent falls.
    """
    y = abs(x)
    near = (kappa * y * y < 1) & (y < math.pi / 2)
    end = np.sin(y / 2) ** 2 + FAR / 2 / np.maximum(kappa, FAR / 2)
    end = stop_gradient(2 * np.arcsin(np.sqrt(np.minimum(end, 1.0))))
    nodes, weights = (NODES + 1) / 2, WEIGHTS / 2
    width = np.where(near, y, end - y)
    behind = width[..., None] * np.where(near[..., None], nodes - 1, nodes)
    t = y[..., None] + behind
    growth = np.exp(-2 * kappa[..., None] * np.sin(t - behind / 2) * np.sin(behind / 2))
    terms = weights * (mean_gap(kappa)[..., None] - 2 * np.sin(t / 2) ** 2) * growth
    return np.sign(x) * np.where(near, -width, width) * np.sum(terms, axis=-1)


def mean_gap(kappa: Any) -> Any:
    """1 - I1(kappa) / I0(kappa), by its series in 1 / kappa where it is small."""
    large = kappa > LARGE
    r = 1 / np.where(large, kappa, 1.0)
    series = r * (1 / 2 + r * (1 / 8 + r * (1 / 8 + r * (25 / 128 + r * 13 / 32))))
    middle = lift(np.where(large, 1.0, kappa)).value
    return np.where(large, series, 1 - wrap(i1e(middle) / i0e(middle)))
