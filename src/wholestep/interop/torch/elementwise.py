"""Elementwise operators of PyTorch: arithmetic, comparisons, logic and mathematical functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import dtypes, nn, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.bits import reinterpreted
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import alike, cast, common_dtype, inexact, kind_of
from wholestep.scipy import special

ELEMENTWISE = Handlers()
entry = ELEMENTWISE.entry


def binary(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of operands in their common dtype."""
    return lambda *xs: f(*alike(*xs))


def unary(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of operands that integers are made floating for."""
    return lambda *xs: f(*inexact(*xs))


def whole(f: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that leaves integers and booleans as they are."""
    return lambda x: x if kind_of(wnp.asarray(x).dtype) < 2 else f(x)


ELEMENTWISE.update(
    {
        "mul": lambda x, y: product(*alike(x, y)),
        "maximum": binary(wnp.maximum),
        "minimum": binary(wnp.minimum),
        "fmax": binary(wnp.fmax),
        "fmin": binary(wnp.fmin),
        "fmod": binary(wnp.fmod),
        "remainder": binary(wnp.remainder),
        "floor_divide": binary(wnp.floor_divide),
        "gcd": binary(wnp.gcd),
        "lcm": binary(wnp.lcm),
        "heaviside": binary(wnp.heaviside),
        "eq": binary(wnp.equal),
        "ne": binary(wnp.not_equal),
        "lt": binary(wnp.less),
        "le": binary(wnp.less_equal),
        "gt": binary(wnp.greater),
        "ge": binary(wnp.greater_equal),
        "bitwise_and": binary(wnp.bitwise_and),
        "bitwise_or": binary(wnp.bitwise_or),
        "bitwise_xor": binary(wnp.bitwise_xor),
        "bitwise_not": np.invert,
        **dict.fromkeys(("bitwise_left_shift", "__lshift__"), binary(wnp.left_shift)),
        **dict.fromkeys(("bitwise_right_shift", "__rshift__"), binary(wnp.right_shift)),
        "logical_and": wnp.logical_and,
        "logical_or": wnp.logical_or,
        "logical_xor": wnp.logical_xor,
        "logical_not": wnp.logical_not,
        "isnan": wnp.isnan,
        "isinf": wnp.isinf,
        "isfinite": wnp.isfinite,
        "isposinf": wnp.isposinf,
        "isneginf": wnp.isneginf,
        "signbit": wnp.signbit,
        "atan2": unary(wnp.arctan2),
        "hypot": binary(wnp.hypot),
        "copysign": unary(wnp.copysign),
        "nextafter": binary(wnp.nextafter),
        "logaddexp": binary(wnp.logaddexp),
        "logaddexp2": binary(wnp.logaddexp2),
        "xlogy": unary(special.xlogy),
        "special_xlog1py": unary(special.xlog1py),
        "special_zeta": unary(special.zeta),
        "igamma": unary(special.gammainc),
        "igammac": unary(special.gammaincc),
        "neg": lambda x: -x,
        "abs": wnp.abs,
        "sgn": lambda x: x if dtypes.is_bool(wnp.asarray(x).dtype) else np.sign(x),
        "square": wnp.square,
        "ceil": whole(wnp.ceil),
        "floor": whole(wnp.floor),
        "trunc": whole(wnp.trunc),
        "reciprocal": unary(lambda x: 1 / x),
        "sqrt": unary(wnp.sqrt),
        "rsqrt": unary(lambda x: 1 / np.sqrt(x)),
        "exp": unary(wnp.exp),
        "exp2": unary(wnp.exp2),
        "expm1": unary(wnp.expm1),
        "log": unary(wnp.log),
        "log2": unary(wnp.log2),
        "log10": unary(wnp.log10),
        "log1p": unary(wnp.log1p),
        "sin": unary(wnp.sin),
        "cos": unary(wnp.cos),
        "tan": unary(wnp.tan),
        "asin": unary(wnp.arcsin),
        "acos": unary(wnp.arccos),
        "atan": unary(wnp.arctan),
        "sinh": unary(wnp.sinh),
        "cosh": unary(wnp.cosh),
        "tanh": unary(wnp.tanh),
        "asinh": unary(wnp.arcsinh),
        "acosh": unary(wnp.arccosh),
        "atanh": unary(wnp.arctanh),
        "sinc": unary(wnp.sinc),
        "deg2rad": unary(wnp.deg2rad),
        "rad2deg": unary(wnp.rad2deg),
        "sigmoid": unary(special.expit),
        "erf": unary(special.erf),
        "erfc": unary(special.erfc),
        "erfinv": unary(special.erfinv),
        "special_erfcx": unary(special.erfcx),
        "special_ndtri": unary(special.ndtri),
        "special_log_ndtr": unary(special.log_ndtr),
        "lgamma": unary(special.gammaln),
        "digamma": unary(special.psi),
        "i0": unary(special.i0),
        "special_i0e": unary(special.i0e),
        "special_i1": unary(special.i1),
        "special_i1e": unary(special.i1e),
        "special_bessel_j0": unary(special.j0),
        "special_bessel_j1": unary(special.j1),
        "special_bessel_y0": unary(special.y0),
        "special_bessel_y1": unary(special.y1),
        "special_modified_bessel_i0": unary(special.i0),
        "special_modified_bessel_i1": unary(special.i1),
        "special_modified_bessel_k0": unary(special.k0),
        "special_modified_bessel_k1": unary(special.k1),
        "special_scaled_modified_bessel_k0": unary(special.k0e),
        "special_scaled_modified_bessel_k1": unary(special.k1e),
        "ldexp": unary(lambda x, y: x * np.exp2(y)),
        "real": wnp.real,
        "imag": wnp.imag,
        "angle": lambda x: wnp.angle(*inexact(x)),
        "_conj": wnp.conj,
        "_conj_physical": wnp.conj,
        "conj": wnp.conj,
        "conj_physical": wnp.conj,
        "resolve_conj": lambda x: x,
        "resolve_neg": lambda x: x,
        "relu": nn.relu,
        "relu6": nn.relu6,
        "silu": nn.silu,
        "mish": nn.mish,
        "celu": nn.celu,
        "hardswish": nn.hardswish,
        "hardsigmoid": nn.hardsigmoid,
        "softshrink": lambda x, bound=0.5: nn.softshrink(x, bound),
        "hardshrink": lambda x, bound=0.5: nn.hardshrink(x, bound),
        "detach": stop_gradient,
        "detach_copy": stop_gradient,
        "alias": lambda x: x,
        "alias_copy": lambda x: x,
        "lift_fresh_copy": lambda x: x,
        "view_as_real": lambda x: wnp.stack([x.real, x.imag], axis=-1),
        "view_as_complex": lambda x: x[..., 0] + x[..., 1] * np.asarray(1j, dtypes.complex_of(x.dtype)),
        "complex": lambda re, im: re + im * np.asarray(1j, dtypes.complex_of(re.dtype)),
        "polar": lambda size, angle: (
            np.cos(angle) * size + np.sin(angle) * size * np.asarray(1j, dtypes.complex_of(size.dtype))
        ),
    }
)


def product(x: Any, y: Any) -> Any:
    """The product of two arrays of one dtype, booleans among them."""
    return wnp.logical_and(x, y) if dtypes.is_bool(x.dtype) else x * y


@entry("sign")
def sign(x: Any) -> Any:
    a = wnp.asarray(x)
    if not dtypes.is_float(a.dtype):
        return a if dtypes.is_bool(a.dtype) else np.sign(a)
    return wnp.where(wnp.isnan(a), cast(0, a.dtype), np.sign(a))  # of nan it is 0 in PyTorch


@entry("add")
def add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    a, b = alike(x, y)
    if dtypes.is_bool(a.dtype):
        return wnp.logical_or(a, b)
    return a + b if alpha == 1 else a + b * cast(alpha, a.dtype)


@entry("sub")
def sub(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    a, b = alike(x, y)
    return a - b if alpha == 1 else a - b * cast(alpha, a.dtype)


@entry("rsub")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return sub(y, x, alpha=alpha)


@entry("div")
def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        a, b = inexact(x, y)
        return a / b
    a, b = alike(x, y)
    if rounding_mode == "floor":
        return wnp.floor_divide(a, b)
    if kind_of(a.dtype) >= 2:
        return wnp.trunc(a / b)
    down, rest = wnp.floor_divide(a, b), wnp.remainder(a, b)
    return down + ((rest != 0) & ((rest < 0) != (a < 0))).astype(a.dtype)


@entry("pow")
def power(x: Any, y: Any) -> Any:
    a, b = alike(x, y)
    if type(y) in (int, float) and y == 2:
        return a * a
    if type(y) in (int, float) and y == 0.5:
        return wnp.sqrt(a)
    return wnp.power(a, b)


@entry("where")
def where(condition: Any, x: Any, y: Any) -> Any:
    return wnp.where(condition, *alike(x, y))


@entry("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return wnp.where(mask, cast(value, x.dtype), x)


@entry("clamp", "clip")
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    dtype = common_dtype(x, low, high)
    bounds = [None if bound is None else cast(bound, dtype) for bound in (low, high)]
    return wnp.clip(cast(x, dtype), *bounds)


@entry("hardtanh")
def hardtanh(x: Any, low: float = -1, high: float = 1) -> Any:
    return nn.hardtanh(x, low, high)


@entry("clamp_min")
def clamp_min(x: Any, low: Any) -> Any:
    return clamp(x, low)


@entry("clamp_max")
def clamp_max(x: Any, high: Any) -> Any:
    return clamp(x, None, high)


@entry("round")
def rounded(x: Any, *, decimals: int = 0) -> Any:
    return x if kind_of(x.dtype) < 2 else wnp.round(x, decimals)


@entry("frac")
def frac(x: Any) -> Any:
    return x - wnp.trunc(x)


@entry("frexp")
def frexp(x: Any) -> Any:
    return wnp.frexp(x)


@entry("logit")
def logit(x: Any, eps: float | None = None) -> Any:
    (a,) = inexact(x)
    return special.logit(a if eps is None else clamp(a, eps, 1 - eps))


@entry("nan_to_num")
def nan_to_num(x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    return wnp.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@entry("polygamma")
def polygamma(n: int, x: Any) -> Any:
    (a,) = inexact(x)
    return special.polygamma(n, a).astype(a.dtype)


@entry("lerp")
def lerp(x: Any, y: Any, weight: Any) -> Any:
    return x + cast(weight, x.dtype) * (y - x)


@entry("addcmul")
def addcmul(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    return add(x, product(*alike(y, z)), alpha=value)


@entry("addcdiv")
def addcdiv(x: Any, y: Any, z: Any, *, value: Any = 1) -> Any:
    return add(x, div(y, z), alpha=value)


@entry("leaky_relu")
def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    return nn.leaky_relu(x, slope)


@entry("prelu", "_prelu_kernel")
def prelu(x: Any, slope: Any) -> Any:
    return wnp.where(x > 0, x, slope * x)


@entry("elu")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    below = wnp.expm1(wnp.where(x > 0, 0, x) * cast(input_scale, x.dtype)) * cast(alpha * scale, x.dtype)
    return wnp.where(x > 0, x * cast(scale, x.dtype), below)


@entry("gelu")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    return nn.gelu(x, approximate)


@entry("softplus")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    scaled = x * cast(beta, x.dtype)
    return wnp.where(scaled > cast(threshold, x.dtype), x, nn.softplus(x, float(beta)))


@entry("threshold")
def threshold(x: Any, bound: Any, value: Any) -> Any:
    return wnp.where(x > cast(bound, x.dtype), x, cast(value, x.dtype))


@entry("glu")
def glu(x: Any, axis: int = -1) -> Any:
    a, b = wnp.split(x, 2, axis=axis)
    return a * special.expit(b)


@entry("_to_copy", "_to_dtype", "to")
def to_copy(x: Any, *, dtype: Any = None, **where: Any) -> Any:
    return x if dtype is None else cast(x, dtype)


@entry("clone", "contiguous")
def clone(x: Any, **where: Any) -> Any:
    return x


@entry("copy")
def copied(x: Any, source: Any, non_blocking: bool = False) -> Any:
    return wnp.broadcast_to(cast(source, x.dtype), x.shape)


@entry("view.dtype")
def view_as_dtype(x: Any, dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    if x.dtype.itemsize != dtype.itemsize or x.dtype.kind == "c":
        raise UnsupportedError(f"from_torch_export: the bits of {x.dtype} read as {dtype} are not covered")
    return reinterpreted(x, dtype)


@entry("convert_element_type")
def convert_element_type(x: Any, dtype: Any) -> Any:
    return cast(x, dtype)
