"""Functions of scipy.special beyond the elementary and the incomplete ones, by the names they have there.

Derivatives: DLMF, dlmf.nist.gov, chapters 5 to 7, 9, 10, 13, 15 and 19. Where one is not known it is refused,
never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wholestep.ir.graph import Value
from wholestep.kernel import maths
from wholestep.primitives.creation import like
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import External, cos, digamma, erf, exp, gamma, sin
from wholestep.primitives.logic import floor, isfinite, rint, select, sign

_DEGREE = math.pi / 180
_2_SQRT_PI = 2.0 / math.sqrt(math.pi)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_POSITIVE, _SHARE = (0.3, 4.0), (0.1, 0.9)


# Gamma and its kin.

loggamma = External("loggamma", lambda y, x: digamma(x), domain=_POSITIVE)
gammasgn = External("gammasgn")


def half_turns(x: Value) -> tuple[Value, Value]:
    """sin(pi x) / pi, which is 0 at whole numbers, and cos(pi x)."""
    whole = rint(x)
    sign_of_both = 1 - 2 * (whole - 2 * floor(0.5 * whole))
    angle = math.pi * (x - whole)
    return sign_of_both * sin(angle) * (1 / math.pi), sign_of_both * cos(angle)


def _rgamma_slope(y: Value, x: Value) -> Value:
    """-y psi(x); below 1/2 the derivative of sin(pi x) Gamma(1 - x) / pi, which is finite where psi has its poles."""
    low = x < 0.5
    left, right = select(low, x, zeros(x.type)), select(low, ones(x.type), x)
    sine, cosine = half_turns(left)
    slope: Value = select(low, gamma(1 - left) * (cosine - sine * digamma(1 - left)), -y * digamma(right))
    return slope


rgamma = External("rgamma", _rgamma_slope, domain=_POSITIVE)
beta = External(
    "beta",
    lambda y, a, b: y * (digamma(a) - digamma(a + b)),
    lambda y, a, b: y * (digamma(b) - digamma(a + b)),
    domain=_POSITIVE,
)
betaln = External(
    "betaln", lambda y, a, b: digamma(a) - digamma(a + b), lambda y, a, b: digamma(b) - digamma(a + b), domain=_POSITIVE
)


def _is_pole(x: Value) -> Value:
    """A mask of whole numbers that are 0 or less, the poles of the gamma function."""
    found: Value = (x < 0.5) & x.equals(rint(x))
    return found


def _poch_slope(y: Value, z: Value, m: Value) -> Value:
    """y (psi(z + m) - psi(z)); at poles of psi(z) the derivative of Gamma(z + m) / Gamma(z) by its factors, or by
    reflection where both of them have one."""
    at_pole, one = _is_pole(z), ones(z.type)
    both = at_pole & _is_pole(z + m)
    single = at_pole & ~both
    plain = y * (digamma(select(both, 1 - z - m, z + m)) - digamma(select(at_pole, select(both, 1 - z, one), z)))
    first, upper = select(single, z, one), select(single, z + m, one)
    inverse = rgamma(first)
    slope: Value = select(single, gamma(upper) * (_rgamma_slope(inverse, first) + digamma(upper) * inverse), plain)
    return slope


poch = External("poch", _poch_slope, lambda y, z, m: y * digamma(z + m), domain=_POSITIVE)


def _is_zero(n: Value, past: Value) -> Value:
    """A mask of binomial coefficients whose k is this whole number past n; negative whole numbers n have no values."""
    found: Value = _is_pole(1 - past) & ~_is_pole(n + 1)
    return found


def _binom_zero(n: Value, k: Value, past: Value) -> tuple[Value, Value, Value]:
    """B(n + 1, past), and the derivatives of its logarithm in both, for past = k - n: the coefficient is this times
    sin(pi past) / pi, and 0 where past is a whole number from 1 on."""
    share = digamma(k + 1)
    return beta(n + 1, past), digamma(n + 1) - share, digamma(past) - share


def _binom_slope_of_n(y: Value, n: Value, k: Value) -> Value:
    zero, one = _is_zero(n, k - n), ones(n.type)
    n0, k0 = select(zero, n, one), select(zero, k, 2 * one)
    size, of_sum, of_past = _binom_zero(n0, k0, k0 - n0)
    sine, cosine = half_turns(k0 - n0)
    plain = y * (digamma(n + 1) - digamma(select(zero, one, n - k + 1)))
    slope: Value = select(zero, size * ((of_sum - of_past) * sine - cosine), plain)
    return slope


def _binom_slope_of_k(y: Value, n: Value, k: Value) -> Value:
    """Of k past n, and, since k and n - k count the same, of k below 0."""
    above, below, one = _is_zero(n, k - n), _is_zero(n, -k), ones(n.type)
    zero = above | below
    n0 = select(zero, n, one)
    past = select(above, k - n, select(below, -k, one))
    size, _, of_past = _binom_zero(n0, n0 + past, past)
    sine, cosine = half_turns(past)
    at_zero = size * (of_past * sine + cosine)
    plain = y * (digamma(select(above, one, n - k + 1)) - digamma(select(below, one, k + 1)))
    slope: Value = select(above, at_zero, select(below, -at_zero, plain))
    return slope


binom = External("binom", _binom_slope_of_n, _binom_slope_of_k, domain=(1.2, 1.9))

# Bessel functions.


def _bessel(name: str, slope: Callable[..., Value]) -> Elementwise:
    return External(name, "the order", slope, domain=(0.2, 3.0))


def _half(f: Elementwise, v: Value, x: Value, sign: int) -> Value:
    """Half the sum, or the difference, of the functions of the orders beside v."""
    below, above = f(v - 1, x), f(v + 1, x)
    return 0.5 * (below + above if sign > 0 else below - above)


def _scaled_second(y: Value, x: Value) -> Value:
    """The scaled function of order 2: by recurrence from y of order 1 far from 0, where SciPy's own ends in nan."""
    near = (x < 2.0) & (-x < 2.0)
    own = ive(like(x, 2), select(near, x, zeros(x.type)))
    made: Value = select(near, own, i0e(x) - 2.0 * y / select(near, ones(x.type), x))
    return made


jv: Elementwise = _bessel("jv", lambda y, v, x: _half(jv, v, x, -1))
yv: Elementwise = _bessel("yv", lambda y, v, x: _half(yv, v, x, -1))
iv: Elementwise = _bessel("iv", lambda y, v, x: _half(iv, v, x, 1))
kv: Elementwise = _bessel("kv", lambda y, v, x: -_half(kv, v, x, 1))
ive: Elementwise = _bessel("ive", lambda y, v, x: _half(ive, v, x, 1) - sign(x) * y)
kve: Elementwise = _bessel("kve", lambda y, v, x: y - _half(kve, v, x, 1))
# The orders 0 and 2 have all derivatives at 0, where f(1, x) / x has none.
i0 = External("i0", lambda y, x: i1(x))
i1: Elementwise = External("i1", lambda y, x: 0.5 * (i0(x) + iv(like(x, 2), x)), domain=(0.2, 3.0))
i0e = External("i0e", lambda y, x: i1e(x) - sign(x) * y, domain=(0.2, 3.0))
i1e: Elementwise = External("i1e", lambda y, x: 0.5 * (i0e(x) + _scaled_second(y, x)) - sign(x) * y, domain=(0.2, 3.0))
j0 = External("j0", lambda y, x: -j1(x))
j1: Elementwise = External("j1", lambda y, x: 0.5 * (j0(x) - jv(like(x, 2), x)), domain=(0.2, 3.0))
y0 = External("y0", lambda y, x: -y1(x), domain=(0.2, 3.0))
y1: Elementwise = External("y1", lambda y, x: y0(x) - y / x, domain=(0.2, 3.0))
k0 = External("k0", lambda y, x: -k1(x), domain=(0.2, 3.0))
k1: Elementwise = External("k1", lambda y, x: -k0(x) - y / x, domain=(0.2, 3.0))
k0e = External("k0e", lambda y, x: y - k1e(x), domain=(0.2, 3.0))
k1e: Elementwise = External("k1e", lambda y, x: y - k0e(x) - y / x, domain=(0.2, 3.0))

# Hypergeometric functions and those whose derivatives they are.

hyp0f1: Elementwise = External("hyp0f1", "its parameter", lambda y, v, z: hyp0f1(v + 1, z) / v, domain=_POSITIVE)
hyp1f1: Elementwise = External(
    "hyp1f1", "the parameter a", "the parameter b", lambda y, a, b, z: a / b * hyp1f1(a + 1, b + 1, z), domain=_POSITIVE
)
hyp2f1: Elementwise = External(
    "hyp2f1",
    "the parameter a",
    "the parameter b",
    "the parameter c",
    lambda y, a, b, c, z: a * b / c * hyp2f1(a + 1, b + 1, c + 1, z),
    domain=_SHARE,
)
exprel = External("exprel", lambda y, x: 0.5 * hyp1f1(like(x, 2), like(x, 3), x))
spence = External("spence", lambda y, x: -hyp2f1(like(x, 1), like(x, 1), like(x, 2), 1 - x), domain=_POSITIVE)
ellipk = External(
    "ellipk",
    lambda y, m: (math.pi / 8) * hyp2f1(like(m, 1.5), like(m, 1.5), like(m, 2), m),
    domain=(-0.9, 0.9),
)
ellipe = External(
    "ellipe",
    lambda y, m: (-math.pi / 8) * hyp2f1(like(m, 0.5), like(m, 1.5), like(m, 2), m),
    domain=(-0.9, 0.9),
)

# Error functions, exponential integrals, angles in degrees.

erfi = Elementwise("erfi", "erfi", lambda y, x: _2_SQRT_PI * exp(x * x), code=maths.erfi, domain=(-1.0, 1.0))


def _dawsn_slope(y: Value, x: Value) -> Value:
    """1 - 2 x y, for |x| above 8 by the asymptotic series of DLMF 7.12, where the difference would cancel."""
    plain = 1 - 2 * x * y
    if x.type.dtype.kind == "c":
        return plain
    far = x * x > 64
    ratio = 0.5 / select(far, x * x, ones(x.type) * 64)
    series = ones(x.type)
    for k in range(41, 1, -2):
        series = 1 + k * ratio * series
    slope: Value = select(far, -ratio * series, plain)
    return slope


dawsn = Elementwise("dawsn", "dawsn", _dawsn_slope, code=maths.dawsn)
ndtri_exp = External("ndtri_exp", lambda y, x: _SQRT_2PI * exp(x + 0.5 * (y * y)), domain=(-3.0, -0.1))


def _owens_t_slope_of_h(y: Value, h: Value, a: Value) -> Value:
    wide, beyond = ~isfinite(a), ~isfinite(h)
    none = zeros(a.type)
    near, some = select(beyond, none, h), select(wide, none, a)
    share = select(wide, sign(a) * sign(h), erf(some * near * math.sqrt(0.5)))
    slope: Value = select(beyond, none, share * exp(-0.5 * (near * near)) * (-0.5 / _SQRT_2PI))
    return slope


def _owens_t_slope_of_a(y: Value, h: Value, a: Value) -> Value:
    finite = isfinite(a) & isfinite(h)
    h, a = [select(finite, x, zeros(x.type)) for x in (h, a)]
    ah = a * h
    slope: Value = select(finite, exp(-0.5 * (h * h + ah * ah)) / (1 + a * a) * (0.5 / math.pi), zeros(a.type))
    return slope


owens_t = External("owens_t", _owens_t_slope_of_h, _owens_t_slope_of_a)
expi = External("expi", lambda y, x: exp(x) / x, domain=_POSITIVE)
exp1 = External("exp1", lambda y, x: -exp(-x) / x, domain=_POSITIVE)
cosm1 = External("cosm1", lambda y, x: -sin(x))
sindg = External("sindg", lambda y, x: _DEGREE * cosdg(x))
cosdg: Elementwise = External("cosdg", lambda y, x: -_DEGREE * sindg(x))
tandg = External("tandg", lambda y, x: _DEGREE * (1 + y * y))
cotdg = External("cotdg", lambda y, x: -_DEGREE * (1 + y * y), domain=(20.0, 70.0))
