"""scipy.special: its ufuncs dispatch by themselves; here are its Python functions. Other names are SciPy's own."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy
import scipy.special

from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift, wrap
from wholestep.scipy.outside import fallback, np, special

BY_THEMSELVES = frozenset({"sinc", "softplus", "zeta"})
"""Python functions of scipy.special that only call ufuncs, and so take traced arrays as they are."""


def __getattr__(name: str) -> Any:
    found = getattr(scipy.special, name)
    return found if isinstance(found, numpy.ufunc) or name in BY_THEMSELVES else fallback(scipy.special, name)


def real_maximum(a: Any, axis: Any) -> Any:
    """The largest real part, to subtract before exponentials; 0 where it is not finite."""
    largest = np.max(stop_gradient(a).real, axis=axis, keepdims=True)
    return np.where(np.isfinite(largest), largest, 0)


def real_operand(name: str, a: Any) -> Any:
    """An inexact operand that is real."""
    x = inexact_array(a)
    if x.dtype.kind == "c":
        raise UnsupportedError(f"{name}: not covered for complex arrays such as {x.type}")
    return x


@covers(special.logsumexp)
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """scipy.special.logsumexp: log(sum(b * exp(a))) without overflow; for complex numbers the principal logarithm."""
    x = inexact_array(a)
    if x.dtype.kind == "c" and return_sign:
        raise UnsupportedError(f"logsumexp: return_sign= is not covered for complex arrays such as {x.type}")
    if b is not None:
        weights = real_operand("logsumexp", b)
        x, weights = np.broadcast_arrays(x, weights)
        x = np.where(weights == 0, -math.inf, x).astype(x.dtype)
    shift = real_maximum(x, axis)
    terms = np.exp(x - shift) if b is None else weights * np.exp(x - shift)
    total = np.sum(terms, axis=axis, keepdims=True)
    sign = np.sign(total)
    size = np.abs(total) if return_sign else total
    nothing = size == 0
    sums = np.log(np.where(nothing, 1, size)) + shift
    made = np.where(nothing, -math.inf, sums).astype(sums.dtype)
    if not keepdims:
        made, sign = [wrap(np.squeeze(x, axis=axis).value) for x in (made, sign)]
    return (made, sign) if return_sign else made


@covers(special.softmax)
def softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.softmax."""
    a = real_operand("softmax", x)
    powers = np.exp(a - np.max(stop_gradient(a), axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


@covers(special.log_softmax)
def log_softmax(x: Any, axis: Any = None) -> Any:
    """scipy.special.log_softmax."""
    a = real_operand("log_softmax", x)
    off = a - real_maximum(a, axis)
    return off - np.log(np.sum(np.exp(off), axis=axis, keepdims=True))


@covers(special.multigammaln)
def multigammaln(a: Any, d: Any) -> Any:
    """scipy.special.multigammaln."""
    if isinstance(d, Array) or not np.isscalar(d) or math.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    x = inexact_array(a)
    terms = [special.gammaln(x - 0.5 * j) for j in range(int(d))]
    return functools.reduce(np.add, terms) + d * (d - 1) * 0.25 * math.log(math.pi)


@covers(special.polygamma)
def polygamma(n: Any, x: Any) -> Any:
    """scipy.special.polygamma, the order a plain number or array."""
    if is_traced(n):
        raise UnsupportedError("polygamma: the order is traced", hint="make it a plain integer")
    order, z = np.asarray(n), inexact_array(x)
    factor = (-1.0) ** (order + 1) * special.gamma(order + 1.0)
    made = np.where(order == 0, special.psi(z), factor * special.zeta(np.maximum(order, 1) + 1.0, z))
    return wrap(lift(made).value)
