"""Elementwise primitives of lax: arithmetic, comparisons, bits and mathematical functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.custom import custom_vjp
from wholestep.frontend.derivatives import jvp
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.bits import reinterpreted
from wholestep.interop.handlers import Handlers
from wholestep.scipy import special

ELEMENTWISE = Handlers()
entry = ELEMENTWISE.entry


def plain(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that no parameter of the primitive changes."""
    return lambda *xs, **params: f(*xs)


def in_own_dtype(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes in at least single precision and returns numbers of the dtype that it is given."""
    return lambda *xs: f(*[x.astype(dtypes.compute_dtype(x.dtype)) for x in xs]).astype(xs[-1].dtype)


def is_whole(x: Any) -> bool:
    """Test whether an array holds integers."""
    return dtypes.is_integer(x.dtype)


def bits_or_truth(bits: Callable[..., Any], truth: Callable[..., Any]) -> Callable[..., Any]:
    """A handler for integers and for booleans."""
    return lambda *xs, **params: (truth if dtypes.is_bool(xs[0].dtype) else bits)(*xs)


def slope_in_order(a: Any, x: Any) -> Any:
    """The derivative of the lower incomplete gamma function in its order."""
    f: Callable[..., Any] = special.gammainc
    return jvp(lambda order: f(order, x), (a,), (wnp.ones_like(a),))[1]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": wnp.abs,
    "add": wnp.add,
    "add_any": wnp.add,
    "sub": wnp.subtract,
    "neg": wnp.negative,
    "sign": wnp.sign,
    "sqrt": wnp.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": wnp.cbrt,
    "square": wnp.square,
    "one_minus_square": lambda x: (1 - x) * (1 + x),
    "exp": wnp.exp,
    "exp2": wnp.exp2,
    "expm1": wnp.expm1,
    "log": wnp.log,
    "log1p": wnp.log1p,
    "log2": wnp.log2,
    "sin": wnp.sin,
    "cos": wnp.cos,
    "tan": wnp.tan,
    "asin": wnp.arcsin,
    "acos": wnp.arccos,
    "atan": wnp.arctan,
    "atan2": wnp.arctan2,
    "sinh": wnp.sinh,
    "cosh": wnp.cosh,
    "tanh": wnp.tanh,
    "asinh": wnp.arcsinh,
    "acosh": wnp.arccosh,
    "atanh": wnp.arctanh,
    "ceil": wnp.ceil,
    "floor": wnp.floor,
    "pow": lambda x, y: np.power(x, y.astype(x.dtype)),
    "max": wnp.maximum,
    "min": wnp.minimum,
    "nextafter": wnp.nextafter,
    "Ldexp": lambda x, n: [np.ldexp(x, n)],
    "Frexp": wnp.frexp,
    "eq": wnp.equal,
    "ne": wnp.not_equal,
    "lt": wnp.less,
    "le": wnp.less_equal,
    "gt": wnp.greater,
    "ge": wnp.greater_equal,
    "is_finite": wnp.isfinite,
    "real": wnp.real,
    "imag": wnp.imag,
    "conj": lambda x: np.conj(x) if dtypes.is_complex(x.dtype) else x + np.zeros((), dtypes.complex_of(x.dtype)),
    "complex": lambda re, im: re + im * np.asarray(1j, dtypes.complex_of(re.dtype)),
    "shift_left": lambda x, y: shifted(wnp.left_shift, x, y),
    "shift_right_logical": lambda x, y: as_signed(shifted(wnp.right_shift, as_unsigned(x), y), x.dtype),
    "shift_right_arithmetic": lambda x, y: np.right_shift(x, np.minimum(y, 8 * x.dtype.itemsize - 1)),
    "copy": lambda x: x,
    "stop_gradient": stop_gradient,
    "stage": lambda x: x,
    "name": lambda x: x,
    "pvary": lambda x: x,
    "sharding_constraint": lambda x: x,
    "layout_constraint": lambda x: x,
    "population_count": lambda x: bits_set(as_unsigned(x)).astype(x.dtype),
    "lt_to": lambda x, y: ordered(x) < ordered(y),
    "le_to": lambda x, y: ordered(x) <= ordered(y),
}
"""Functions of arrays for primitives without parameters that matter."""

SPECIAL: dict[str, Callable[..., Any]] = {
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.psi,
    "igamma": special.gammainc,
    "igammac": special.gammaincc,
    "igamma_grad_a": slope_in_order,
    "regularized_incomplete_beta": special.betainc,
    "zeta": special.zeta,
    "bessel_i0e": special.i0e,
    "bessel_i1e": special.i1e,
    "polygamma": special.polygamma,
}
"""SciPy's functions, of whose half precision float32 and float64 would come."""

ELEMENTWISE.update({name: plain(f) for name, f in FUNCTIONS.items()})
ELEMENTWISE.update({name: plain(in_own_dtype(f)) for name, f in SPECIAL.items()})
ELEMENTWISE.update(
    {
        "and": bits_or_truth(wnp.bitwise_and, wnp.logical_and),
        "or": bits_or_truth(wnp.bitwise_or, wnp.logical_or),
        "xor": bits_or_truth(wnp.bitwise_xor, wnp.logical_xor),
        "not": bits_or_truth(wnp.invert, wnp.logical_not),
        "optimization_barrier": lambda *xs, **params: list(xs),
        "device_put": lambda *xs, **params: list(xs),
        "dce_sink": lambda *xs, **params: [],
    }
)


def as_unsigned(x: Any) -> Any:
    """Integers as the unsigned ones of the same bits."""
    return reinterpreted(x, np.dtype(f"uint{8 * x.dtype.itemsize}")) if x.dtype.kind == "i" else x


def as_signed(x: Any, dtype: Any) -> Any:
    """Unsigned integers as a dtype of the same bits."""
    return x if x.dtype == dtype else reinterpreted(x, dtype)


def bits_set(word: Any) -> Any:
    """The number of bits of unsigned integers that are 1, added up in fields that double."""
    bits, width = 8 * word.dtype.itemsize, 1
    while width < bits:
        mask = word.dtype.type(sum(((1 << width) - 1) << i for i in range(0, bits, 2 * width)))
        word = (word & mask) + ((word >> word.dtype.type(width)) & mask)
        width *= 2
    return word


def ordered(x: Any) -> Any:
    """Integers in the total order of floats, in which -0 is below 0 and NaN at the ends; integers as they are."""
    if not dtypes.is_float(x.dtype):
        return x
    bits = np.dtype(f"int{8 * x.dtype.itemsize}")
    word = reinterpreted(x, bits)
    return wnp.where(word < 0, word ^ np.iinfo(bits).max, word)


def shifted(f: Callable[..., Any], x: Any, places: Any) -> Any:
    """A shift whose result is 0 for a distance of all bits or more."""
    bits = 8 * x.dtype.itemsize
    by = as_unsigned(places).astype(x.dtype)
    return wnp.where(by < bits, f(x, wnp.minimum(by, bits - 1)), np.zeros((), x.dtype))


@entry("logistic")
def logistic_function(x: Any, **params: Any) -> Any:
    return 1 / (1 + wnp.exp(-x)) if dtypes.is_complex(x.dtype) else in_own_dtype(special.expit)(x)


@entry("mul")
def mul(x: Any, y: Any, *, out_dtype: Any = None, **params: Any) -> Any:
    if out_dtype is not None and out_dtype != x.dtype:
        x, y = x.astype(out_dtype), y.astype(out_dtype)
    return wnp.logical_and(x, y) if dtypes.is_bool(x.dtype) else wnp.multiply(x, y)


def other_than_zero(y: Any) -> Any:
    """Divisors, with 1 in the place of 0, of which NumPy warns."""
    return wnp.where(y == 0, wnp.ones_like(y), y)


@entry("div")
def div(x: Any, y: Any, **params: Any) -> Any:
    if not is_whole(x):
        return wnp.divide(x, y)
    nothing, y = y == 0, other_than_zero(y)
    down, rest = wnp.floor_divide(x, y), wnp.remainder(x, y)
    cut = down if x.dtype.kind == "u" else down + ((rest != 0) & ((rest < 0) != (x < 0))).astype(x.dtype)
    return wnp.where(nothing, wnp.invert(wnp.zeros_like(x)), cut)  # XLA sets all bits of an integer over 0


@entry("rem")
def rem(x: Any, y: Any, **params: Any) -> Any:
    return wnp.where(y == 0, x, wnp.fmod(x, other_than_zero(y))) if is_whole(x) else wnp.fmod(x, y)


@entry("integer_pow")
def integer_pow(x: Any, *, y: int, **params: Any) -> Any:
    if y < 0:
        return wnp.power(x, y)  # the slope of a reciprocal of a power is one of its square, which is out of range early
    made, square = None, x
    while y:
        if y & 1:
            made = square if made is None else made * square
        y >>= 1
        square = square * square if y else square
    return wnp.ones_like(x) if made is None else made


@entry("polynomial")
def polynomial(x: Any, *coefficients: Any, **params: Any) -> Any:
    """Horner's rule; the coefficients begin with the constant."""
    made, *rest = reversed(coefficients)
    for c in rest:
        made = made * x + c
    return wnp.broadcast_to(made, np.broadcast_shapes(x.shape, made.shape))


@entry("mulhi")
def high_half(x: Any, y: Any, **params: Any) -> Any:
    """The upper half of the bits of a product of integers."""
    bits = 8 * x.dtype.itemsize
    if bits > 32:
        raise UnsupportedError(f"from_jax: mulhi of {x.dtype} is not covered", hint="of 32 bits or fewer it is")
    wide = np.dtype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")
    return ((x.astype(wide) * y.astype(wide)) >> bits).astype(x.dtype)


@entry("clamp")
def clamp(low: Any, x: Any, high: Any, **params: Any) -> Any:
    """A number, or the bound that it is strictly beyond, with its slope; neither has one where the two are equal."""
    if not dtypes.is_float(x.dtype):
        return wnp.minimum(wnp.maximum(x, low), high)
    below, above = x < low, x > high
    inside = wnp.where((x > low) & (x < high), x, stop_gradient(x))
    floor = wnp.where(below, low, stop_gradient(low))
    return wnp.minimum(wnp.maximum(inside, floor), wnp.where(above, high, stop_gradient(high)))


@entry("round")
def rounded(x: Any, *, rounding_method: Any = 0, **params: Any) -> Any:
    if int(rounding_method) == 1:
        return wnp.rint(x)
    half = wnp.trunc(x + wnp.copysign(np.asarray(0.5, x.dtype), x))
    whole = wnp.trunc(x)
    return wnp.where(wnp.abs(x - whole) < 0.5, whole, half)


@entry("select_n")
def select_n(which: Any, *cases: Any, **params: Any) -> Any:
    if len(cases) == 1:
        return cases[0]
    made = cases[0]
    for i, case in enumerate(cases[1:], 1):
        made = wnp.where(which if dtypes.is_bool(which.dtype) else which == i, case, made)
    return made


@entry("convert_element_type")
def convert_element_type(x: Any, *, new_dtype: Any, **params: Any) -> Any:
    dtype = dtypes.check(new_dtype)
    if dtypes.is_bool(dtype):
        return x != 0
    return (x.real if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype) else x).astype(dtype)


@entry("bitcast_convert_type")
def bitcast_convert_type(x: Any, *, new_dtype: Any, **params: Any) -> Any:
    dtype = dtypes.check(new_dtype)
    if dtype.itemsize != x.dtype.itemsize:
        raise UnsupportedError(f"from_jax: bitcast_convert_type from {x.dtype} to {dtype} is not covered")
    return reinterpreted(x, dtype)


@entry("reduce_precision")
def reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int, **params: Any) -> Any:
    """x with fewer bits, and so is its cotangent, as in JAX."""
    limits = dtypes.limits(x.dtype)
    own_bits = 8 * x.dtype.itemsize - 1 - limits.nmant
    if mantissa_bits >= limits.nmant and exponent_bits >= own_bits:
        return x
    if x.dtype == np.float32 and (exponent_bits, mantissa_bits) == (8, 7):
        return x.astype(dtypes.check("bfloat16")).astype(x.dtype)
    reduced = functools.partial(reduced_number, bits=mantissa_bits, exponent_bits=exponent_bits)
    made = custom_vjp(reduced)
    made.defvjp(lambda x: (reduced(x), None), lambda kept, g: (reduced(g),))
    return made(x)


def reduced_number(x: Any, *, bits: int, exponent_bits: int) -> Any:
    """x rounded to so many bits behind the first; then infinity where it is too large, and 0 where it is too small."""
    limits = dtypes.limits(x.dtype)
    unit = wnp.maximum(wnp.frexp(x)[1] - 1, int(limits.minexp)) - bits
    rounded = wnp.ldexp(wnp.rint(wnp.ldexp(x, -unit)), unit)
    largest = 2 ** (exponent_bits - 1)
    if largest < limits.maxexp:
        size = wnp.abs(rounded)
        rounded = wnp.where(size < 2.0 ** (2 - largest), wnp.copysign(np.zeros((), x.dtype), x), rounded)
        rounded = wnp.where(size >= 2.0**largest, wnp.copysign(np.full((), np.inf, x.dtype), x), rounded)
    return wnp.where(wnp.isfinite(x), rounded, x)


@entry("clz")
def clz(x: Any, **params: Any) -> Any:
    word, bits = as_unsigned(x), 8 * x.dtype.itemsize
    shift = 1
    while shift < bits:
        word = word | (word >> np.asarray(shift, word.dtype))
        shift *= 2
    return (bits - bits_set(word)).astype(x.dtype)
