"""Scalar mathematics written once in the kernel language, for every backend.

Each function takes values of one dtype, or `Complex` pairs of them where it is defined for complex numbers; half
precisions are passed as float32. A function of an external library is a `call`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.kernel.build import builder
from wholestep.kernel.lang import BOOL, DType, Var
from wholestep.kernel.maths import (
    arithmetic,
    complex,
    division,
    errors,
    exponentials,
    faddeeva,
    float_bits,
    incomplete,
    inverse_trigonometry,
    logarithms,
    powers,
    roots,
    trigonometry,
    zeta as zetas,
)
from wholestep.kernel.maths.coefficients import F64
from wholestep.kernel.maths.complex import Complex

Code = Callable[..., Any]


def either(real: Code, pairs: Code) -> Code:
    """A function of real values and of complex ones."""

    def code(x: Any, *more: Any) -> Any:
        return (pairs if isinstance(x, Complex) else real)(x, *more)

    return code


def operation(name: str) -> Code:
    """An operation of the kernel language."""
    return lambda *xs: builder().op(name, *xs)


def external(name: str) -> Code:
    """A function of scipy.special, called at each element in float64: `special.gammaln:dd`, the letters its types."""

    def code(*xs: Var) -> Var:
        b = builder()
        found = b.call(f"special.{name}:d{'d' * len(xs)}", *[b.convert(x, F64) for x in xs])
        return b.convert(found, xs[0].dtype)

    return code


def cast(x: Any, dtype: DType) -> Any:
    """The same number in another dtype; a number cast to float16 or bfloat16 is rounded to it and kept as float32."""
    b = builder()
    if dtypes.is_complex(dtype):
        part = dtypes.real_of(dtype)
        re, im = (x.re, x.im) if isinstance(x, Complex) else (x, b.constant(0, x.dtype))
        return Complex(b.convert(re, part), b.convert(im, part))
    if dtype == BOOL:
        pair = [x.re, x.im] if isinstance(x, Complex) else [x]
        truths = [p if p.dtype == BOOL else float_bits.differ(p, 0) for p in pair]
        return truths[0] if len(truths) == 1 else truths[0] | truths[1]
    return b.convert(b.convert(x, dtype), dtypes.compute_dtype(dtype))


def choose(condition: Var, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    return complex.choose(condition, x, y) if isinstance(x, Complex) else float_bits.select(condition, x, y)


add = either(arithmetic.add, lambda x, y: x + y)
sub, div, neg = operator.sub, operator.truediv, operator.neg
mul = either(arithmetic.mul, lambda x, y: x * y)
floor_divide, remainder, fmod = division.floor_divide, division.remainder, division.fmod
maximum, minimum, absolute = arithmetic.maximum, arithmetic.minimum, arithmetic.absolute
copysign, nextafter = float_bits.copysign, float_bits.nextafter
sign, wins, signbit = arithmetic.sign, arithmetic.wins, arithmetic.signbit
isfinite = either(float_bits.isfinite, complex.isfinite)
isnan = either(float_bits.isnan, complex.isnan)

equal = either(operation("eq"), complex.same)
not_equal = either(operation("ne"), complex.unlike)
less = either(operation("lt"), complex.less)
less_equal = either(operation("le"), complex.less_equal)
bitwise_and, bitwise_or, bitwise_xor = operation("and"), operation("or"), operation("xor")
bitwise_not, left_shift, right_shift = operation("not"), operation("shl"), operation("shr")
floor, ceil, trunc = operation("floor"), operation("ceil"), operation("trunc")
rint = either(operation("rint"), complex.rint)

exp = either(exponentials.exp, complex.exp)
exp2 = either(exponentials.exp2, complex.exp2)
expm1 = either(exponentials.expm1, complex.expm1)
log = either(logarithms.log, complex.log)
log2 = either(logarithms.log2, complex.log2)
log10 = either(logarithms.log10, complex.log10)
log1p = either(logarithms.log1p, complex.log1p)
sqrt = either(float_bits.root, complex.sqrt)
cbrt, hypot = roots.cbrt, roots.hypot
sin = either(trigonometry.sin, complex.sin)
cos = either(trigonometry.cos, complex.cos)
tan = either(trigonometry.tan, complex.tan)
arcsin = either(inverse_trigonometry.arcsin, complex.arcsin)
arccos = either(inverse_trigonometry.arccos, complex.arccos)
arctan = either(inverse_trigonometry.arctan, complex.arctan)
arctan2 = inverse_trigonometry.arctan2
sinh = either(exponentials.sinh, complex.sinh)
cosh = either(exponentials.cosh, complex.cosh)
tanh = either(exponentials.tanh, complex.tanh)
arcsinh = either(inverse_trigonometry.arcsinh, complex.arcsinh)
arccosh = either(inverse_trigonometry.arccosh, complex.arccosh)
arctanh = either(inverse_trigonometry.arctanh, complex.arctanh)
pow = either(powers.pow, complex.pow)
expit, log_expit = exponentials.expit, logarithms.log_expit
logaddexp, logaddexp2 = logarithms.logaddexp, logarithms.logaddexp2
ndtr, log_ndtr, gelu = errors.ndtr, errors.log_ndtr, errors.gelu
erf = either(errors.erf, faddeeva.erf)
erfc = either(errors.erfc, faddeeva.erfc)
erfcx = either(errors.erfcx, faddeeva.erfcx)
erfi = either(external("erfi"), faddeeva.erfi)
dawsn = either(external("dawsn"), faddeeva.dawsn)
zeta, gammainc_order = zetas.zeta, incomplete.gammainc_order
real, imag, conj = (lambda z: z.re), (lambda z: z.im), complex.conj
make_complex = Complex
