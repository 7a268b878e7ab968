"""Functions of analysis: each with its value's definition and its derivative, on one line where one will do.

Derivatives: Abramowitz and Stegun, "Handbook of Mathematical Functions"; DLMF, dlmf.nist.gov.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wholestep.errors import DerivativeError
from wholestep.ir.graph import Value
from wholestep.kernel import maths
from wholestep.kernel.maths.zeta import TERMS, bernoulli_coefficients
from wholestep.primitives.elementwise import Elementwise, Partial
from wholestep.primitives.family import number_of, ones, zeros
from wholestep.primitives.logic import isfinite, select
from wholestep.primitives.precision import FOLLOWS

_LN2, _LN10 = math.log(2.0), math.log(10.0)
_2_SQRT_PI = 2.0 / math.sqrt(math.pi)
_SQRT_2, _SQRT_2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)
_POSITIVE, _UNIT = (0.2, 3.0), (-0.9, 0.9)


def unknown_derivative(name: str, operand: str, which: str = "its") -> Callable[..., Value]:
    """A partial derivative that is refused; `which` says that it is the second one."""

    def partial(y: Value, *operands: Value) -> Value:
        raise DerivativeError(
            f"{name}: {which} derivative with respect to {operand} is not known",
            where=y.node.where if y.node is not None else None,
            hint=f"keep {operand} out of what is differentiated (ws.stop_gradient), or use ws.custom_jvp",
        )

    return partial


class External(Elementwise):
    """A function of real numbers that scipy.special computes, under `symbol` where it has another name there.

    A text in the place of a partial derivative names the operand whose derivative is not known.
    """

    def __init__(
        self, name: str, *partials: Partial | str, symbol: str = "", domain: tuple[float, float] = (-3.0, 3.0)
    ) -> None:
        symbol = symbol or name
        rules = [unknown_derivative(name, p) if isinstance(p, str) else p for p in partials]
        super().__init__(name, symbol, *rules, code=maths.external(symbol), takes="f", domain=domain)


exp = Elementwise("exp", np.exp, lambda y, x: y, code=maths.exp)
exp2 = Elementwise("exp2", np.exp2, lambda y, x: y * _LN2, code=maths.exp2)
expm1 = Elementwise("expm1", np.expm1, lambda y, x: y + 1, code=maths.expm1)
log = Elementwise("log", np.log, lambda y, x: 1 / x, code=maths.log, domain=_POSITIVE)
log2 = Elementwise("log2", np.log2, lambda y, x: (1 / _LN2) / x, code=maths.log2, domain=_POSITIVE)
log10 = Elementwise("log10", np.log10, lambda y, x: (1 / _LN10) / x, code=maths.log10, domain=_POSITIVE)
log1p = Elementwise("log1p", np.log1p, lambda y, x: 1 / (x + 1), code=maths.log1p, domain=_UNIT)
sqrt = Elementwise("sqrt", np.sqrt, lambda y, x: 0.5 / y, code=maths.sqrt, domain=_POSITIVE)
cbrt = Elementwise("cbrt", np.cbrt, lambda y, x: (1 / y) * (1 / (3 * y)), code=maths.cbrt, takes="f", domain=_POSITIVE)

sin = Elementwise("sin", np.sin, lambda y, x: cos(x), code=maths.sin)
cos: Elementwise = Elementwise("cos", np.cos, lambda y, x: -sin(x), code=maths.cos)
tan = Elementwise("tan", np.tan, lambda y, x: 1 + y * y, code=maths.tan, domain=(-1.2, 1.2))
arcsin = Elementwise("arcsin", np.arcsin, lambda y, x: 1 / sqrt(1 - x * x), code=maths.arcsin, domain=_UNIT)
arccos = Elementwise("arccos", np.arccos, lambda y, x: -1 / sqrt(1 - x * x), code=maths.arccos, domain=_UNIT)
arctan = Elementwise("arctan", np.arctan, lambda y, x: 1 / (1 + x * x), code=maths.arctan, domain=_UNIT)
sinh = Elementwise("sinh", np.sinh, lambda y, x: cosh(x), code=maths.sinh)
cosh: Elementwise = Elementwise("cosh", np.cosh, lambda y, x: sinh(x), code=maths.cosh)
tanh = Elementwise("tanh", np.tanh, lambda y, x: 1 - y * y, code=maths.tanh, precision=FOLLOWS)
arcsinh = Elementwise("arcsinh", np.arcsinh, lambda y, x: 1 / sqrt(1 + x * x), code=maths.arcsinh, domain=_UNIT)
arccosh = Elementwise(
    "arccosh", np.arccosh, lambda y, x: (1 / sqrt(x - 1)) * (1 / sqrt(x + 1)), code=maths.arccosh, domain=(1.2, 4.0)
)
arctanh = Elementwise("arctanh", np.arctanh, lambda y, x: 1 / (1 - x * x), code=maths.arctanh, domain=_UNIT)
arctan2 = Elementwise(
    "arctan2",
    np.arctan2,
    lambda z, y, x: x / (x * x + y * y),
    lambda z, y, x: -y / (x * x + y * y),
    code=maths.arctan2,
    takes="f",
)


def _share(x: Value, z: Value) -> Value:
    """x / z, and 0 where both vanish: the derivative that a norm has at the origin."""
    nothing = z.equals(0)
    share: Value = select(nothing, zeros(z.type), x / select(nothing, ones(z.type), z))
    return share


hypot = Elementwise(
    "hypot", np.hypot, lambda z, x, y: _share(x, z), lambda z, x, y: _share(y, z), code=maths.hypot, takes="f"
)


logaddexp = Elementwise(
    "logaddexp",
    np.logaddexp,
    lambda z, x, y: expit(_gap(x, y)),
    lambda z, x, y: expit(_gap(y, x)),
    code=maths.logaddexp,
    takes="f",
)
logaddexp2 = Elementwise(
    "logaddexp2",
    np.logaddexp2,
    lambda z, x, y: expit(_gap(x, y) * _LN2),
    lambda z, x, y: expit(_gap(y, x) * _LN2),
    code=maths.logaddexp2,
    takes="f",
)


def _gap(x: Value, y: Value) -> Value:
    """x - y, and 0 where both are the same infinity; a finite tie keeps the derivative of x - y."""
    same = x.equals(y) & ~isfinite(x)
    gap: Value = select(same, zeros(x.type), x - y)
    return gap


def _power_of_base(z: Value, x: Value, y: Value) -> Value | float | None:
    """y * x**(y - 1), 0 where y is 0 and 1 / x not finite; a number for an exponent keeps the rule short."""
    number = number_of(y)
    if number is not None:
        if number in (0, 1):
            return number or None
        return x * 2 if number == 2 else pow(x, y._lift(number - 1)) * number
    nothing = y.equals(0) & ~isfinite(1 / x)
    slope: Value = select(nothing, zeros(y.type), y * pow(x, select(nothing, ones(y.type), y - 1)))
    return slope


def _power_of_exponent(z: Value, x: Value, y: Value) -> Value:
    """z * log(x), and 0 where x is 0: the limit for a positive exponent."""
    nothing = x.equals(0)
    slope: Value = select(nothing, zeros(x.type), z * log(select(nothing, ones(x.type), x)))
    return slope


pow = Elementwise("pow", np.power, _power_of_base, _power_of_exponent, code=maths.pow, takes="ifc", domain=(0.5, 2.5))


def _zeta_of_exponent(z: Value, s: Value, q: Value) -> Value:
    """The series of -log(q + k) (q + k)**-s, as far as the kernel's, and the Euler-Maclaurin formula for the rest.

    It has no digits to lose but where it changes its sign, for q below 1. A series that ends at once, as for an
    infinite q, has no slope.
    """
    usual = (s > 1) & (q > 0) & isfinite(s) & isfinite(q)
    safe = [select(usual, x, ones(x.type) * 2) for x in (s, q)]
    elsewhere = select(q < 0, ones(z.type) * math.nan, z * 0)
    slope: Value = select(usual, _zeta_slope(*safe), elsewhere)
    return slope


def _zeta_slope(s: Value, q: Value) -> Value:
    total, w = zeros(s.type), q
    for _ in range(TERMS):
        total, w = total - log(w) * pow(w, -s), w + 1
    logarithm, power = log(w), pow(w, -s)
    rest = power * w / (s - 1)
    total = total - rest * (logarithm + 1 / (s - 1)) - 0.5 * (logarithm * power)
    # The rising factors s (s + 1) ... over the powers of w, and their derivative beside the power's.
    term, slope = s * power / w, power / w
    for k, c in enumerate(bernoulli_coefficients()):
        total = total + c * (slope - logarithm * term)
        low, high = s + (2 * k + 1), s + (2 * k + 2)
        term, slope = term * (low * high) / (w * w), (slope * (low * high) + term * (low + high)) / (w * w)
    return total


# Functions of scipy.special, by the names they have there.
erf = Elementwise("erf", "erf", lambda y, x: _2_SQRT_PI * exp(-(x * x)), code=maths.erf, precision=FOLLOWS)
erfc = Elementwise("erfc", "erfc", lambda y, x: -_2_SQRT_PI * exp(-(x * x)), code=maths.erfc)


def _mills_rest(x: Value) -> Value:
    """q in erfcx(x) = 1 / (sqrt(pi) (x + q)), by the continued fraction of DLMF 7.9.3, for x from 5 on.

    All terms are positive: neither q nor its derivatives lose digits to cancellation. Sixteen levels leave a relative
    error below 1e-15 at 5 in q, and below 1e-14 in its second derivative.
    """
    below = x
    for k in range(16, 1, -1):
        below = x + (0.5 * k) / below
    return 0.5 / below


_TAIL = 5.0
"""The argument from which on `_mills_rest` is exact to rounding."""


def _erfcx_slope(y: Value, x: Value) -> Value:
    """2 x y - 2 / sqrt(pi), without the cancellation that this has for large x."""
    plain = 2 * x * y - _2_SQRT_PI
    if x.type.dtype.kind == "c":
        return plain
    far = x > _TAIL
    safe = select(far, x, ones(x.type) * _TAIL)
    rest = _mills_rest(safe)
    slope: Value = select(far, -_2_SQRT_PI * rest / (safe + rest), plain)
    return slope


def _log_ndtr_slope(y: Value, x: Value) -> Value:
    """The normal density over the distribution function; in the lower tail by its continued fraction."""
    far = x < -_TAIL * _SQRT_2
    tail = select(far, x, ones(x.type) * (-_TAIL * _SQRT_2))
    near = select(far, zeros(x.type), x)
    level = select(far, zeros(x.type), y)
    slope: Value = select(
        far,
        _SQRT_2 * _mills_rest(tail * -(0.5**0.5)) - tail,
        exp(-0.5 * (near * near) - level) * (1 / _SQRT_2PI),
    )
    return slope


erfcx = Elementwise("erfcx", "erfcx", _erfcx_slope, code=maths.erfcx)
erfinv = External("erfinv", lambda y, x: (1 / _2_SQRT_PI) * exp(y * y), domain=_UNIT)
erfcinv = External("erfcinv", lambda y, x: (-1 / _2_SQRT_PI) * exp(y * y), domain=(0.1, 1.9))
expit: Elementwise = Elementwise(
    "expit", "expit", lambda y, x: y * (1 - y), code=maths.expit, takes="f", precision=FOLLOWS
)
log_expit = Elementwise("log_expit", "log_expit", lambda y, x: expit(-x), code=maths.log_expit, takes="f")
logit = External("logit", lambda y, x: 1 / (x * (1 - x)), domain=(0.1, 0.9))
gammaln = External("gammaln", lambda y, x: digamma(x), domain=(0.3, 4.0))
digamma: Elementwise = External("digamma", lambda y, x: zeta(ones(x.type) * 2, x), symbol="psi", domain=(0.3, 4.0))
gamma = External("gamma", lambda y, x: y * digamma(x), domain=(0.3, 4.0))
zeta: Elementwise = Elementwise(
    "zeta",
    "zeta",
    _zeta_of_exponent,
    lambda z, s, q: -s * zeta(s + 1, q),
    code=maths.zeta,
    takes="f",
    domain=(1.5, 4.0),
)
ndtr = Elementwise("ndtr", "ndtr", lambda y, x: exp(-0.5 * (x * x)) * (1 / _SQRT_2PI), code=maths.ndtr, takes="f")
log_ndtr = Elementwise("log_ndtr", "log_ndtr", _log_ndtr_slope, code=maths.log_ndtr, takes="f")
ndtri = External("ndtri", lambda y, x: _SQRT_2PI * exp(0.5 * (y * y)), domain=(0.1, 0.9))
